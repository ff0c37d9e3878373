"""Find secrets by their name (`db_password = "..."`) or randomness. Code: SECRET_LEAK.

A value that looks random is blocked; a password that a person may have chosen for an example is
only recorded. Placeholders, variables, calls and paths pass. Random words without a name are
recorded only; hashes, UUIDs, paths, data addresses and integrity values pass. Limits: a value
is one word of ASCII; passphrases of words look like prose.
"""

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import re2

from demur.codes.reason_code import ReasonCode
from demur.guards.text_search import (
    NO_MATCHES,
    SearchStep,
    TextMatch,
    TextSearch,
    has_long_word,
    search_as_ascii,
)
from demur.model.finding import Action

_LOWER = re.compile(r"[a-z]")
_UPPER = re.compile(r"[A-Z]")
_DIGIT = re.compile(r"[0-9]")
_OTHER = re.compile(r"[^A-Za-z0-9]")
_WORD_START = re.compile(r"[A-Z](?=[a-z])")
_KINDS = (_LOWER, _UPPER, _DIGIT, _OTHER)
_HEX = re.compile(r"[0-9a-fA-F]+")
# A random word of letters and digits changes the kind of character at half of its places, one
# without capitals at 40 %; names with a number in them stay below 25 %.
_MIN_MIXING = 0.25
_MIN_RANDOM = 16
_MIN_RANDOM_HEX = 32
_MIN_BITS = 3.4
_MIN_BITS_HEX = 3.0


def bits_per_character(text: str) -> float:
    """Return the Shannon entropy of the characters of `text`."""
    shares = (count / len(text) for count in Counter(text).values())
    return -sum(share * math.log2(share) for share in shares) if text else 0.0


def count_classes(text: str) -> int:
    """Return how many of lower case, upper case, digits and other characters occur."""
    return sum(1 for kind in _KINDS if kind.search(text))


def mixing_share(text: str) -> float:
    """Return the share of inner places at which `text` changes its kind of character.

    A capital at the start of a word is no change, so names in camel case are not mixed.
    """
    plain = _WORD_START.sub("a", _OTHER.sub("", text))
    kinds = _LOWER.sub("a", _UPPER.sub("A", _DIGIT.sub("0", plain)))
    changes = sum(before != after for before, after in pairwise(kinds))
    return changes / (len(kinds) - 1) if len(kinds) > 1 else 0.0


def is_random(text: str) -> bool:
    """Return whether `text` looks random: long, even, letters and digits mixed."""
    if len(text) < _MIN_RANDOM or not _DIGIT.search(text):
        return False
    if _HEX.fullmatch(text):
        return len(text) >= _MIN_RANDOM_HEX and bits_per_character(text) >= _MIN_BITS_HEX
    return mixing_share(text) >= _MIN_MIXING and bits_per_character(text) >= _MIN_BITS


# Linear and fast: hostile text is full of candidates, and each is searched for these words.
_PLACEHOLDER_WORDS = re2.compile(
    r"(?i)example|sample|placeholder|change[ _-]?me|change[ _-]?this|your|insert|replace|redact"
    r"|dummy|fake|todo|foobar|demo|mock|lorem|goes[ _-]?here|[_-]here|super[ _-]?secret"
    r"|my[ _-]?(?:secret|api|token|key|pass)|pass[ _-]?w[o0]rd|passwort|letmein|qwerty|hunter2"
    r"|s3cr3t"
    r"|(?:^|[^a-z])(?:secret|test|none|null|undefined|true|false|value|string|token|key)(?:[^a-z]|$)"
    r"|12345|abcdef|98765|deadbeef"
)
# Brackets and variables refer to a value elsewhere; runs of one character mask it.
_STANDS_FOR = re.compile(r"[<>{}]|\$[A-Za-z_({]|%[A-Za-z_(]|\[[A-Z_ ]+\]|(.)\1{3}|\.\.\.|…")


def is_placeholder(value: str) -> bool:
    """Return whether `value` stands in for a secret rather than being one."""
    return bool(_STANDS_FOR.search(value) or _PLACEHOLDER_WORDS.search(value))


_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHECK_SIZE = 6


def base62_crc32(text: str) -> str:
    """Return the CRC-32 of ASCII `text` as six base 62 digits, as token issuers append it."""
    number = zlib.crc32(text.encode("ascii"))
    digits = ""
    while number:
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits.rjust(_CHECK_SIZE, "0")


def ends_in_crc32(token: str) -> bool:
    """Return whether what follows the prefix of `token` (up to its last `_`) checks out."""
    body = token.rpartition("_")[2]
    return base62_crc32(body[:-_CHECK_SIZE]) == body[-_CHECK_SIZE:]


def luhn_holds(digits: str) -> bool:
    """Return whether the last of `digits` is the Luhn check digit of the others."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) << (place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def mod97_holds(account: str) -> bool:
    """Return whether an account number of capitals and digits satisfies ISO 7064 mod 97-10."""
    turned = account[4:] + account[:4]
    return int("".join(str(int(character, 36)) for character in turned)) % 97 == 1


_SHOWN_CHARACTERS = 4
# Four characters would reveal too much of a shorter secret.
_MIN_SHOWN_LENGTH = 16


def mask_secret(secret: str) -> str:
    """Return the start of `secret` and its length; never more than a quarter is shown."""
    head = secret[:_SHOWN_CHARACTERS] if len(secret) >= _MIN_SHOWN_LENGTH else ""
    return f"{head}… ({len(secret)} characters)"


def secret_match(kind: str, secret: str, start: int, action: Action) -> TextMatch:
    """Return the match of a credential that begins at `start`."""
    end = start + len(secret)
    detail = f"{kind} {mask_secret(secret)}"
    return TextMatch(start, end, ReasonCode.SECRET_LEAK, action, detail, {"kind": kind})


_REACH = 64
_MAX_VALUE = 200
_OPERATOR = re.compile(r"[=:]")
_PROSE = " is "
_NAMES = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "token",
    "authorization",
    "credential",
    "credentials",
    "connectionstring",
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
# Any spelling of a name that `_names_a_secret` accepts, and the operator after it.
_BETWEEN = f"[{re.escape(_JOINT)}]*"
ASSIGNMENT_FORM = (
    f"(?i)(?:{'|'.join(_BETWEEN.join(name) for name in _NAMES)}){_BETWEEN}(?:[=:]|is )"
)
_ASSIGNMENT = re2.compile(ASSIGNMENT_FORM)
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
    matches: list[TextMatch] = []
    size = len(text)
    for place in _find_operators(text, begin):
        if place < begin or not _names_a_secret(text, place):
            continue
        if (value := _VALUE.match(text, place)) is None:
            continue
        if not final and value.end() == size and len(value["value"]) < _MAX_VALUE:
            return SearchStep(tuple(matches), place)
        if found := _judge_value(text, value):
            matches.append(found)
            begin = found.end
    return SearchStep(tuple(matches), size if final else max(begin, size - len(" is")))


def find_assignments(text: str) -> Iterator[int]:
    """Yield the places where a name that marks a secret is assigned a value, and perhaps more."""
    if "=" in text or ":" in text or "is " in text:
        for match in _ASSIGNMENT.finditer(text):
            yield match.end()


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


def _judge_value(text: str, value: re.Match[str]) -> TextMatch | None:
    secret, place, start = _cut_value(value), value.start(), value.start("value")
    if _AWS_VALUE.fullmatch(secret) and _AWS_NAME.search(text, max(0, place - _REACH), place):
        # The keys in the provider's documentation end in EXAMPLE.
        asked = Action.WARN if secret.endswith(_AWS_EXAMPLE) else Action.BLOCK
        return secret_match("aws secret key", secret, start, asked)
    if len(secret) < _MIN_VALUE or _CODE.search(secret) or is_placeholder(secret):
        return None
    action = _grade_secret(secret, prose=value[0].startswith("is "))
    return None if action is None else secret_match("assigned secret", secret, start, action)


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
    mixed = count_classes(secret) > 2 and mixing_share(secret) > 0
    return Action.WARN if mixed and any(map(str.isdigit, secret)) else None


ASSIGNED_SECRETS = search_as_ascii(TextSearch(_search_assigned, reach=_REACH + 2))


_LOOSE_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=-.:,;#%&?@~"
_MIN_LOOSE = 32
_MAX_LOOSE = 128
_LOOSE_WORD = re.compile(
    r"(?<![\w+/=.:,;#%&?@~-])(?=[A-Za-z0-9_-]*[A-Z])[A-Za-z0-9][A-Za-z0-9_+/-]{31,127}={0,2}"
    r"(?![\w+/=:#%&?@~-])",
    re.ASCII,
)
_MIN_LOOSE_BITS = 4.2
_MIN_LOOSE_MIXING = 0.35
_DIGEST = re.compile(r"(?:sha\d+|md5)-")


def _search_loose(text: str, begin: int, final: bool) -> SearchStep:  # noqa: FBT001 - the signature of all searches
    size = len(text)
    decided = size
    if not final:
        last = text[max(begin, size - _MAX_LOOSE - 8) :]
        decided = size - (len(last) - len(last.rstrip(_LOOSE_ALPHABET)))
    matches: list[TextMatch] = []
    if not has_long_word(text, begin, _MIN_LOOSE):
        return SearchStep(NO_MATCHES, max(begin, decided))
    for word in _LOOSE_WORD.finditer(text, begin):
        if word.start() >= decided:
            break
        if _is_loose(word[0]):
            matches.append(secret_match("random word", word[0], word.start(), Action.WARN))
    return SearchStep(tuple(matches), max(begin, decided))


def _is_loose(word: str) -> bool:
    return (
        word.count("/") <= 2
        and mixing_share(word) >= _MIN_LOOSE_MIXING
        and bits_per_character(word) >= _MIN_LOOSE_BITS
        and any(map(str.isdigit, word))
        and not _DIGEST.match(word)
        and not is_placeholder(word)
    )


LOOSE_SECRETS = search_as_ascii(TextSearch(_search_loose, reach=1))
