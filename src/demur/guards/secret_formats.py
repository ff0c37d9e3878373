"""Find credentials by their format, and private keys in PEM armour. Code: SECRET_LEAK.

A format is found by a fixed text in it (its anchor), then by its whole form, then by a check: a
checksum where the issuer has one, else that the value is no placeholder. A value that fails a
checksum is most likely made up and is only recorded. PEM armour alone at the end of a text
counts, because a key would follow; a text that only speaks of the armour passes.

Full-width letters and invisible characters do not hide a credential. Limits: one with anything
visible inserted into it, split over lines or encoded once more is not found.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from itertools import groupby
from typing import Any, NamedTuple

import re2

from demur.guards.secret_values import (
    ASSIGNMENT_FORM,
    bits_per_character,
    ends_in_crc32,
    is_placeholder,
    secret_match,
)
from demur.guards.text_search import SearchStep, TextMatch, TextSearch, search_as_ascii
from demur.model.finding import Action

# A random key has more bits than this: `aaaaaaaabbbbbbbb` is no key.
_MIN_BITS = 2.5
# Example tokens of the standard's own web page all carry this subject.
_EXAMPLE_SUBJECT = "1234567890"
_TEST_HOSTS = re.compile(
    r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\]|(?:[\w-]+\.)*example(?:\.\w+)?"
    # Addresses and names that are set aside for documents.
    r"|192\.0\.2\.\d+|198\.51\.100\.\d+|203\.0\.113\.\d+|\[2001:db8:[0-9a-f:]*\]"
    r"|(?:[\w-]+\.)+(?:test|invalid|localhost))(?![\w-]|\.\w)",
    re.IGNORECASE,
)
_WEAK = frozenset(["admin", "pass", "pwd", "root", "secret", "guest", "user", "test", "postgres"])


def check_random(anchor: str, match: re.Match[str]) -> Action | None:
    """Block a random value, and pass a made-up one."""
    body = match["secret"].removeprefix(anchor)
    made_up = bits_per_character(body) < _MIN_BITS or is_placeholder(body)
    return None if made_up else Action.BLOCK


def check_test_key(anchor: str, match: re.Match[str]) -> Action | None:
    """Record a key of a test environment: it opens nothing of value."""
    return check_random(anchor, match) and Action.WARN


def check_checksum(anchor: str, match: re.Match[str]) -> Action | None:
    """Block a token with a valid checksum, and record one with a wrong checksum."""
    secret = match["secret"]
    if len(secret) == len(anchor) + 36:
        return Action.BLOCK if ends_in_crc32(secret) else check_test_key(anchor, match)
    return check_random(anchor, match)


def check_web_token(_anchor: str, match: re.Match[str]) -> Action | None:
    """Block a token whose header names an algorithm, unless it is the standard's own example."""
    header, payload, _ = match["secret"].split(".")
    if "alg" not in _decode_json(header):
        return None
    return None if _decode_json(payload).get("sub") == _EXAMPLE_SUBJECT else Action.BLOCK


def _decode_json(part: str) -> dict[str, object]:
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def check_url_password(_anchor: str, match: re.Match[str]) -> Action | None:
    """Block a password in a URL, unless the password or the host is one for tests."""
    password = match["secret"]
    if password.lower() in _WEAK or password == match["user"] or is_placeholder(password):
        return None
    return Action.WARN if _TEST_HOSTS.match(match["host"]) else Action.BLOCK


SecretCheck = Callable[[str, re.Match[str]], Action | None]


class SecretFormat(NamedTuple):
    """One kind of credential: where it is found, its whole form, and the check."""

    kind: str
    anchor: str
    pattern: re.Pattern[str]
    # The maximum length of the form.
    width: int
    check: SecretCheck
    # The part of the form before the anchor, if it does not begin with it.
    lead: re.Pattern[str] | None = None


_CHECKS: dict[str, SecretCheck] = {
    "random": check_random,
    "test_key": check_test_key,
    "checksum": check_checksum,
    "web_token": check_web_token,
    "url_password": check_url_password,
}


def _read_formats() -> Iterator[SecretFormat]:
    """Yield the formats of `data/secret_formats.json`, one for each anchor."""
    source = files("demur.guards") / "data" / "secret_formats.json"
    for row in json.loads(source.read_bytes())["formats"]:
        form, lead = row["form"], row.get("lead")
        body = form if "(?P<secret>" in form else f"(?P<secret>{form})"
        pattern = re.compile(rf"(?<![A-Za-z0-9_]){body}(?![A-Za-z0-9_])", re.ASCII)
        edge = re.compile(rf"(?<![A-Za-z0-9_])(?:{lead})\Z", re.ASCII) if lead else None
        check = _CHECKS[row.get("check", "random")]
        for anchor in row["anchors"]:
            yield SecretFormat(row["kind"], anchor, pattern, row["width"], check, edge)


FORMATS = tuple(_read_formats())
MAX_ANCHOR_LENGTH = max(len(format_.anchor) for format_ in FORMATS)


_MAX_LEAD = 26
# A candidate that begins before this tail shows its whole anchor.
_TAIL = _MAX_LEAD + MAX_ANCHOR_LENGTH
_RUN = re.compile(r"[!-~]*")


def _build_anchor_set() -> Any:
    """Return a set that finds all anchors in one pass, numbered like the formats."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.literal = True
    anchors = re2.Set.SearchSet(options)
    for each in FORMATS:
        anchors.Add(each.anchor.encode())
    anchors.Compile()
    return anchors


_ANCHORS = _build_anchor_set()


def _search_formats(text: str, begin: int, final: bool) -> SearchStep:  # noqa: FBT001 - the signature of all searches
    matches: list[TextMatch] = []
    taken = begin
    for start, formats in groupby(_find_candidates(text, begin), key=lambda each: each[0]):
        if start < taken:
            continue
        tried = [FORMATS[number] for _, number in formats]
        if not final and _is_open_candidate(text, start, tried):
            return SearchStep(tuple(matches), start)
        found = next(filter(None, (_judge_candidate(text, start, each) for each in tried)), None)
        if found:
            matches.append(found)
            taken = found.end
    return SearchStep(tuple(matches), len(text) if final else max(taken, len(text) - _TAIL))


_ADDRESS = "://"


def count_candidates(text: str) -> int:
    """Return how often the fixed text of a format occurs: what a search for them all costs.

    An address counts little: ordinary text holds many, and they are cheap to judge. Without any,
    the text holds no credential of a known format, and no private key.
    """
    armours = text.count(_ANCHOR)
    present = _ANCHORS.Match(text.encode("utf-8", "surrogatepass"))
    if not present:
        return armours
    anchors = {FORMATS[number].anchor for number in present} - {_ADDRESS}
    return sum(map(text.count, anchors)) + armours + math.ceil(text.count(_ADDRESS) / 20)


def _find_candidates(text: str, begin: int) -> list[tuple[int, int]]:
    """Return where a credential may begin, and the numbers of the formats it may have."""
    present = _ANCHORS.Match(text[begin:].encode("utf-8", "surrogatepass"))
    if not present:
        return []
    starts = ((_find_starts(text, FORMATS[number], begin), number) for number in present)
    return sorted((start, number) for found, number in starts for start in found)


def _find_starts(text: str, secret_format: SecretFormat, begin: int) -> Iterator[int]:
    place = text.find(secret_format.anchor, begin)
    while place >= 0:
        if secret_format.lead is None:
            yield place
        elif lead := secret_format.lead.search(text, max(0, place - _MAX_LEAD - 1), place):
            yield lead.start()
        place = text.find(secret_format.anchor, place + 1)


def _is_open_candidate(text: str, start: int, formats: list[SecretFormat]) -> bool:
    """Return whether more text could still change what begins here."""
    width = max(each.width for each in formats)
    run = _RUN.match(text, start, start + width + 1)
    return run is not None and run.end() == len(text) and len(text) <= start + width


def _judge_candidate(text: str, start: int, secret_format: SecretFormat) -> TextMatch | None:
    match = secret_format.pattern.match(text, start)
    action = secret_format.check(secret_format.anchor, match) if match else None
    if match is None or action is None:
        return None
    return secret_match(secret_format.kind, match["secret"], match.start("secret"), action)


FORMATTED_SECRETS = search_as_ascii(TextSearch(_search_formats, reach=_MAX_LEAD + 2))


_ANCHOR = "-----BEGIN "
_HEAD = re.compile(r"-----BEGIN (?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_HEAD_WIDTH = 80
_GAP = re.compile(r"(?:\s|\\[nr]){0,64}")
# Either base 64 or a header field of the armour, such as `Proc-Type:`.
_FIRST_WORD = re.compile(r"[A-Za-z0-9+/=-]{0,80}:?")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{24,}")
_BODY = re.compile(r"(?:[A-Za-z0-9+/=:,.()\s-]|\\[nr])*")
_END = re.compile(r"-----END [A-Z0-9 ]{2,48}-----")
# Real keys may hold long runs of one character, so only these texts show that it is none.
_STANDS_FOR = re.compile(r"\.\.\.|EXAMPLE|REDACTED|PLACEHOLDER")
_MAX_KEY_LENGTH = 8192


def _search_keys(text: str, begin: int, final: bool) -> SearchStep:  # noqa: FBT001 - the signature of all searches
    matches: list[TextMatch] = []
    place = text.find(_ANCHOR, begin)
    while place >= 0:
        end = _key_end(text, place, final)
        if end is None:
            return SearchStep(tuple(matches), place)
        if end > place:
            key = text[place:end]
            matches.append(secret_match("private key", key, place, Action.BLOCK))
        begin = max(end, place + 1)
        place = text.find(_ANCHOR, begin)
    return SearchStep(tuple(matches), len(text) if final else max(begin, len(text) - len(_ANCHOR)))


def _key_end(text: str, place: int, final: bool) -> int | None:  # noqa: FBT001 - passed on
    """Return where the key that may begin here ends; its own place if there is none.

    Returns None as long as more text could change the answer.
    """
    size = len(text)
    if not final and size < place + _HEAD_WIDTH:
        return None
    head = _HEAD.match(text, place)
    if head is None:
        return place
    gap = _GAP.match(text, head.end())
    assert gap is not None
    first = _FIRST_WORD.match(text, gap.end())
    assert first is not None
    if first.end() == size:
        if not final:
            return None
        return size if gap.end() == size or _KEY_LINE.match(first[0]) else place
    if not _KEY_LINE.match(first[0]) and not first[0].endswith(":"):
        return place
    return _body_end(text, head, final)


def _body_end(text: str, head: re.Match[str], final: bool) -> int | None:  # noqa: FBT001 - passed on
    limit = head.end() + _MAX_KEY_LENGTH
    body = _BODY.match(text, head.end(), limit)
    assert body is not None
    stop = _END.search(text, head.end(), min(body.end(), limit))
    if stop is None and not final and body.end() == len(text) < limit:
        return None
    end = stop.end() if stop else body.end()
    inner = text[head.end() : stop.start() if stop else end]
    return head.start() if not _KEY_LINE.search(inner) or _STANDS_FOR.search(inner) else end


PRIVATE_KEYS = search_as_ascii(TextSearch(_search_keys, reach=0))


def _build_mark_set() -> Any:
    """Return a set that finds the mark of any secret: an anchor, armour, or a name and operator."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    marks = re2.Set.SearchSet(options)
    for text in {_ANCHOR, *(each.anchor for each in FORMATS)}:
        marks.Add(re2.escape(text).encode())
    marks.Add(ASSIGNMENT_FORM.encode())
    marks.Compile()
    return marks


_MARKS = _build_mark_set()


def may_hold_secrets(raw: bytes) -> bool:
    """Return whether a search of the texts in this JSON could find a secret.

    A quote ends a name, and a colon follows it, so that the members of objects show as well.
    """
    # INVARIANT: no search finds a secret in the texts of a JSON document that shows no mark.
    return not raw.isascii() or b"\\" in raw or bool(_MARKS.Match(raw))
