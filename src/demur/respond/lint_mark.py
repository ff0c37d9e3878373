"""A mark: a wording that gives away a part of a refusal or a fault in it.

Each mark carries `hit` and `miss` rows that show what it means; `failing_rows` runs them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from demur.respond.lint_report import RefusalPart
from demur.respond.lint_rules import LINT_RULES
from demur.respond.lint_text import LintText, prepare_text

__all__ = ["MEANINGS", "FailingRow", "Mark", "Marks", "failing_rows"]

# An apology is no fault and a help line no part, but the linter counts both.
MEANINGS = (*RefusalPart, *LINT_RULES, "apology", "resource")


class Mark(NamedTuple):
    """One mark.

    `opens`: it counts only at the start of a sentence. `weak`: it does not make a text a
    refusal, and shows its part only if no stronger mark does, like a reason that a boundary
    implies. `outside_crisis`: it does not count in a crisis, where the words are right.
    """

    id: str
    means: str
    pattern: Any
    unless: Any
    opens: bool
    weak: bool
    outside_crisis: bool
    hit: tuple[str, ...]
    miss: tuple[str, ...]
    where: str

    def find_places(self, text: LintText) -> Iterator[tuple[int, int]]:
        """Yield the spans of the mark in a text."""
        found = [match.span() for match in self.pattern.finditer(text.folded)]
        if self.opens and found:
            begins = {sentence.start for sentence in text.sentences}
            found = [place for place in found if place[0] in begins]
        if self.unless is not None and found:
            spared = [match.span() for match in self.unless.finditer(text.folded)]
            found = list(_outside_spans(found, spared))
        yield from (place for place in found if place[0] < place[1])


class Marks(NamedTuple):
    """The marks of a language.

    `words` identify the language; `names` are its names of requirements.
    """

    locale: str
    words: frozenset[str]
    names: Mapping[str, tuple[str, ...]]
    marks: tuple[Mark, ...]


def _outside_spans(
    places: Iterable[tuple[int, int]], others: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the places that touch none of the others; both are in order, and disjoint."""
    at = 0
    for start, end in places:
        while at < len(others) and others[at][1] <= start:
            at += 1
        if at == len(others) or others[at][0] >= end:
            yield start, end


class FailingRow(NamedTuple):
    """A row that its mark fails."""

    mark: str
    where: str
    row: str
    kind: str


def failing_rows(marks: Marks) -> Iterator[FailingRow]:
    """Yield each `hit` row that is missed and each `miss` row that is hit."""
    for mark in marks.marks:
        for kind, rows in (("hit", mark.hit), ("miss", mark.miss)):
            for row in rows:
                found = any(True for _ in mark.find_places(prepare_text(row)))
                if found != (kind == "hit"):
                    yield FailingRow(mark.id, mark.where, row, kind)
