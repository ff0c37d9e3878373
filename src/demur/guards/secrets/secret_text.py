"""Find credentials by their format. Code: SECRET_LEAK.

Full-width letters and invisible characters between them do not hide a credential. Limits: one
with anything visible inserted into it, split over lines or encoded once more is not found.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import re2

from demur.guards.secrets.ascii_view import search_as_ascii
from demur.guards.secrets.formats import FORMATS, MAX_ANCHOR_LENGTH, SecretFormat
from demur.guards.secrets.masking import secret_match
from demur.guards.text_rules.seeking import TextSearch, TextMatch, SearchStep

__all__ = ["FORMATTED_SECRETS"]

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
    seen: list[TextMatch] = []
    taken = begin
    for start, formats in groupby(
        _find_candidates(text, begin), key=lambda candidate: candidate[0]
    ):
        if start < taken:
            continue
        tried = [FORMATS[number] for _, number in formats]
        if not final and _is_open_candidate(text, start, tried):
            return SearchStep(tuple(seen), start)
        found = next(filter(None, (_judge_candidate(text, start, each) for each in tried)), None)
        if found:
            seen.append(found)
            taken = found.end
    return SearchStep(tuple(seen), len(text) if final else max(taken, len(text) - _TAIL))


def _find_candidates(text: str, begin: int) -> list[tuple[int, int]]:
    """Return where a credential may begin, and the numbers of the formats it may have."""
    present = _ANCHORS.Match(text[begin:].encode("utf-8", "surrogatepass"))
    if not present:
        return []
    return sorted(
        (start, number)
        for number in present
        for start in _find_starts(text, FORMATS[number], begin)
    )


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
