"""Find credentials by their format. Code: SECRET_LEAK.

Full-width letters and invisible characters between them do not hide a credential. Limits: one
with anything visible inserted into it, split over lines or encoded once more is not found.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import re2

from demur.guards.secrets.ascii_view import read_as_ascii
from demur.guards.secrets.formats import FORMATS, LONGEST_ANCHOR, Format
from demur.guards.secrets.masking import secret_seen
from demur.guards.text_rules.seeking import Seeker, Seen, Sought

__all__ = ["FORMATTED_SECRETS"]

_LONGEST_LEAD = 26
# A candidate that begins before this tail shows its whole anchor.
_TAIL = _LONGEST_LEAD + LONGEST_ANCHOR
_RUN = re.compile(r"[!-~]*")


def _anchor_set() -> Any:
    """Return a set that finds all anchors in one pass, numbered like the formats."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.literal = True
    anchors = re2.Set.SearchSet(options)
    for each in FORMATS:
        anchors.Add(each.anchor.encode())
    anchors.Compile()
    return anchors


_ANCHORS = _anchor_set()


def _seek(text: str, begin: int, final: bool) -> Sought:  # noqa: FBT001 - the signature of all searches
    seen: list[Seen] = []
    taken = begin
    for start, formats in groupby(_candidates(text, begin), key=lambda candidate: candidate[0]):
        if start < taken:
            continue
        tried = [FORMATS[number] for _, number in formats]
        if not final and _is_open(text, start, tried):
            return Sought(tuple(seen), start)
        found = next(filter(None, (_judge(text, start, each) for each in tried)), None)
        if found:
            seen.append(found)
            taken = found.end
    return Sought(tuple(seen), len(text) if final else max(taken, len(text) - _TAIL))


def _candidates(text: str, begin: int) -> list[tuple[int, int]]:
    """Return where a credential may begin, and the numbers of the formats it may have."""
    present = _ANCHORS.Match(text[begin:].encode("utf-8", "surrogatepass"))
    if not present:
        return []
    return sorted(
        (start, number) for number in present for start in _starts(text, FORMATS[number], begin)
    )


def _starts(text: str, wanted: Format, begin: int) -> Iterator[int]:
    place = text.find(wanted.anchor, begin)
    while place >= 0:
        if wanted.lead is None:
            yield place
        elif lead := wanted.lead.search(text, max(0, place - _LONGEST_LEAD - 1), place):
            yield lead.start()
        place = text.find(wanted.anchor, place + 1)


def _is_open(text: str, start: int, formats: list[Format]) -> bool:
    """Return whether more text could still change what begins here."""
    width = max(each.width for each in formats)
    run = _RUN.match(text, start, start + width + 1)
    return run is not None and run.end() == len(text) and len(text) <= start + width


def _judge(text: str, start: int, wanted: Format) -> Seen | None:
    match = wanted.pattern.match(text, start)
    action = wanted.check(wanted.anchor, match) if match else None
    if match is None or action is None:
        return None
    return secret_seen(wanted.kind, match["secret"], match.start("secret"), action)


FORMATTED_SECRETS = read_as_ascii(Seeker(_seek, reach=_LONGEST_LEAD + 2))
