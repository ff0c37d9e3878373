"""Find private keys in PEM armour. Code: SECRET_LEAK.

The armour alone at the end of a text counts: what follows would be the key. A text that
only speaks of the armour, or shows dots where a key would stand, passes.
"""

import re

from demur.guards.secrets.ascii_view import search_as_ascii
from demur.guards.secrets.masking import secret_match
from demur.guards.text_rules.seeking import TextSearch, TextMatch, SearchStep
from demur.model.finding import Action

__all__ = ["PRIVATE_KEYS"]

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
    seen: list[TextMatch] = []
    place = text.find(_ANCHOR, begin)
    while place >= 0:
        end = _key_end(text, place, final)
        if end is None:
            return SearchStep(tuple(seen), place)
        if end > place:
            key = text[place:end]
            seen.append(secret_match("private key", key, place, Action.BLOCK))
        begin = max(end, place + 1)
        place = text.find(_ANCHOR, begin)
    return SearchStep(tuple(seen), len(text) if final else max(begin, len(text) - len(_ANCHOR)))


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
