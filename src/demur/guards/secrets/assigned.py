"""Find values that a name calls secret: `db_password = "…"`, `api_key: …`. Code: SECRET_LEAK.

A value that looks drawn by a machine is blocked; a password that a person may have chosen
for an example only goes on record. Placeholders, variables, calls and paths pass.
Limits: a value is one word of ASCII; passphrases of words are not told from prose.
"""

import re

from demur.guards.secrets.ascii_view import search_as_ascii
from demur.guards.secrets.entropy import count_classes, is_random, mixing_share
from demur.guards.secrets.masking import secret_match
from demur.guards.secrets.placeholders import is_placeholder
from demur.guards.text_rules.seeking import TextSearch, TextMatch, SearchStep
from demur.model.finding import Action

__all__ = ["ASSIGNED_SECRETS"]

_REACH = 64
_MAX_VALUE = 200
_OPERATOR = re.compile(r"[=:]")
_PROSE = " is "
_NAMES = (
    *("password", "passwd", "passphrase", "passcode", "pwd", "secret", "token", "authorization"),
    *("credential", "credentials", "connectionstring"),
    *(f"{word}key" for word in ("api", "access", "secret", "private", "signing", "encryption")),
    *(f"{word}key" for word in ("account", "auth", "master")),
)
_NAME_WIDTH = 32
_JOINT = " _-\\\"'`]*\t"
_JOINTS = str.maketrans("", "", _JOINT)
_LAST_LETTERS = frozenset(name[-1] for name in _NAMES)
# Names that end alike and hold nothing secret.
_OPEN_NAME = re.compile(
    r"(?:public|csrf|xsrf|page|next|previous|cursor|continuation|hash|hashed|digest|etag|request"
    r"|idempotency|cache|sync|primary|foreign|partition|sort|encrypted|no|forgot|reset|stop|special)"
    r"[ _-]?\w{0,12}[ _-]?\w{0,12}[\"'`\]* \t]{0,4}\Z",
    re.ASCII,
)
_AWS_NAME = re.compile(r"secret[ _-]?access[ _-]?key\W{0,8}\Z", re.IGNORECASE | re.ASCII)
_AWS_EXAMPLE = ("EXAMPLEKEY", "EXAMPLE")
_AWS_VALUE = re.compile(r"[A-Za-z0-9/+]{40}")
_VALUE = re.compile(
    r"(?:is |:=|=>|=(?![=~])|:(?![:/]))[*_]{0,2}[ \t]{0,4}(?P<quote>\\?[\"'`]?)"
    r"(?:(?i:bearer|basic|token)[ ]{1,2})?(?P<value>[!-~]{0,200})"
)
_CLOSING = re.compile(r"[\"'`,;<>)\]}|]|\\[\"nr]")
_MIN_VALUE = 8
# Expressions and references, which are no values themselves.
_CODE = re.compile(
    r"[(\[{$]|::|\A(?:https?|data|arn|file|env|vault|op|ssm|aws):|\A[./~]|\A[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z"
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def _search_assigned(text: str, begin: int, final: bool) -> SearchStep:  # noqa: FBT001 - the signature of all searches
    seen: list[TextMatch] = []
    size = len(text)
    for place in _find_operators(text, begin):
        if place < begin or not _names_a_secret(text, place):
            continue
        value = _VALUE.match(text, place)
        if not final and _is_open_value(value, size):
            return SearchStep(tuple(seen), place)
        found = _judge_value(text, value) if value else None
        if found:
            seen.append(found)
            begin = found.end
    return SearchStep(tuple(seen), size if final else max(begin, size - len(" is")))


def _find_operators(text: str, begin: int) -> list[int]:
    """Return the places where a name may be assigned a value."""
    places = [match.start() for match in _OPERATOR.finditer(text, begin)]
    place = text.find(_PROSE, max(0, begin - 1))
    while place >= 0:
        places.append(place + 1)
        place = text.find(_PROSE, place + 1)
    return sorted(places)


def _names_a_secret(text: str, place: int) -> bool:
    name = text[max(0, place - _NAME_WIDTH) : place].rstrip(_JOINT).lower()
    if name[-1:] not in _LAST_LETTERS or not name.translate(_JOINTS).endswith(_NAMES):
        return False
    # Only the last characters are read: a longer name is judged by its end.
    return not _OPEN_NAME.search(text[max(0, place - _REACH) : place].lower())


def _is_open_value(value: re.Match[str] | None, size: int) -> bool:
    return value is not None and value.end() == size and len(value["value"]) < _MAX_VALUE


def _judge_value(text: str, value: re.Match[str]) -> TextMatch | None:
    secret = _cut_value(value)
    place = value.start()
    if _AWS_VALUE.fullmatch(secret) and _AWS_NAME.search(text, max(0, place - _REACH), place):
        # The keys in the provider's documentation end in EXAMPLE.
        asked = Action.WARN if secret.endswith(_AWS_EXAMPLE) else Action.BLOCK
        return secret_match("aws secret key", secret, value.start("value"), asked)
    if len(secret) < _MIN_VALUE or _CODE.search(secret) or is_placeholder(secret):
        return None
    action = _grade_secret(secret, prose=value[0].startswith("is "))
    if action is None:
        return None
    return secret_match("assigned secret", secret, value.start("value"), action)


def _cut_value(value: re.Match[str]) -> str:
    quote = value["quote"].removeprefix("\\")
    whole = value["value"]
    if quote:
        inside, closed, _ = whole.partition(quote)
        return inside.removesuffix("\\") if closed else whole
    closing = _CLOSING.search(whole)
    return (whole[: closing.start()] if closing else whole).rstrip(".:!?*_")


def _grade_secret(secret: str, *, prose: bool) -> Action | None:
    if _UUID.fullmatch(secret):
        return Action.WARN
    if is_random(secret):
        return Action.WARN if prose else Action.BLOCK
    chosen = (
        count_classes(secret) > 2 and mixing_share(secret) > 0 and any(map(str.isdigit, secret))
    )
    return Action.WARN if chosen else None


ASSIGNED_SECRETS = search_as_ascii(TextSearch(_search_assigned, reach=_REACH + 2))
