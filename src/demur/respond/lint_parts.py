"""Find the five parts of a refusal: a sentence is cut where one part's mark follows another's."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from demur.respond.lint_mark import Mark
from demur.respond.lint_report import RefusalPart
from demur.respond.lint_text import TextSentence, LintText

__all__ = ["MarkHit", "PartStretch", "find_mark_hits", "find_part_stretches"]

_PART_ORDER: Sequence[str] = tuple(RefusalPart)
_REASON_FIRST = (_PART_ORDER.index(RefusalPart.BOUNDARY), _PART_ORDER.index(RefusalPart.REASON))


class MarkHit(NamedTuple):
    """A mark at its place in the folded text."""

    start: int
    end: int
    mark: Mark


class PartStretch(NamedTuple):
    """The text from one part's mark to the next one's, or to the end of the sentence."""

    part: RefusalPart
    start: int
    end: int
    sentence: int
    weak: bool


def find_mark_hits(text: LintText, marks: Iterable[Mark]) -> list[MarkHit]:
    """Return every mark that stands in the text outside quotations, in order."""
    found = [
        MarkHit(start, end, mark)
        for mark in marks
        for start, end in mark.find_places(text)
        if not text.is_quoted(start)
    ]
    return sorted(found, key=lambda hit: (hit.start, -hit.end, hit.mark.id))


def find_part_stretches(text: LintText, found: Sequence[MarkHit]) -> list[PartStretch]:
    """Return the stretches of the text that belong to a part, in order.

    A list belongs to the part of the sentence that introduces it. Weak marks count only
    for the parts that no other mark shows.
    """
    ours = [hit for hit in found if hit.mark.means in _PART_ORDER]
    shown = {one.part for one in _iter_stretches(text, [hit for hit in ours if not hit.mark.weak])}
    return list(
        _iter_stretches(text, [h for h in ours if not h.mark.weak or h.mark.means not in shown])
    )


def _iter_stretches(text: LintText, found: Sequence[MarkHit]) -> Iterator[PartStretch]:
    lead: RefusalPart | None = None
    at = 0
    for number, sentence in enumerate(text.sentences):
        first = at
        while at < len(found) and found[at].start < sentence.end:
            at += 1
        if sentence.item and lead is not None:
            yield PartStretch(lead, sentence.start, sentence.end, number, weak=False)
            continue
        here = list(_cut_sentence(text, number, sentence, found[first:at]))
        yield from here
        leads = text.folded[sentence.start : sentence.end].rstrip("*_ ").endswith(":")
        lead = here[-1].part if leads and here else None


def _cut_sentence(
    text: LintText, number: int, sentence: TextSentence, found: Sequence[MarkHit]
) -> Iterator[PartStretch]:
    """Yield the stretches of one sentence; marks at one place share a stretch."""
    groups: list[list[MarkHit]] = []
    for hit in found:
        if groups and hit.start == groups[-1][0].start:
            groups[-1].append(hit)
        elif not groups or _begins_later_part(hit, groups[-1]):
            groups.append([hit])
    starts = [sentence.start, *(group[0].start for group in groups[1:]), sentence.end]
    for group, (start, end) in zip(groups, pairwise(starts), strict=bool(groups)):
        said = text.folded[start:end].rstrip(" \t\n,;、")
        for part in dict.fromkeys(RefusalPart(hit.mark.means) for hit in group):
            weak = all(hit.mark.weak for hit in group if hit.mark.means == part)
            yield PartStretch(part, start, start + len(said), number, weak)


def _begins_later_part(hit: MarkHit, group: Sequence[MarkHit]) -> bool:
    """Return whether a mark lies behind those of a stretch, and begins a later part.

    A mark of an earlier part inside a later one does not count, except that a reason may come
    before its boundary.
    """
    before = max(_PART_ORDER.index(other.mark.means) for other in group)
    now = _PART_ORDER.index(hit.mark.means)
    later = now > before or (now, before) == _REASON_FIRST
    return later and hit.start >= max(other.end for other in group)
