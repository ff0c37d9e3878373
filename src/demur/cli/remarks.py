"""Print diagnostics of a linter: place, level and rule, message, help, and a final count."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from demur.cli.terminal import Paint
from demur.codes.usage.rules import LintLevel
from demur.errors import one_line

__all__ = ["LintDiagnostic", "print_diagnostics"]


class LintDiagnostic(NamedTuple):
    """One diagnostic of any linter."""

    where: str
    level: LintLevel
    rule: str
    message: str
    help: str | None


def print_diagnostics(diagnostics: Iterable[LintDiagnostic], when_empty: str) -> None:
    """Print the diagnostics and their count, or `when_empty` if there are none."""
    paint = Paint()
    printed = list(diagnostics)
    for remark in printed:
        colour = "red" if remark.level is LintLevel.ERROR else "yellow"
        label = paint(f"{remark.level}[{remark.rule}]", "bold", colour)
        print(f"{one_line(remark.where)}: {label} {one_line(remark.message)}")
        if remark.help:
            print(f"  {paint('help:', 'cyan')} {one_line(remark.help)}")
    print(paint(_count_levels(printed) if printed else when_empty, "dim"))


def _count_levels(remarks: Sequence[LintDiagnostic]) -> str:
    counts = [sum(remark.level is level for remark in remarks) for level in LintLevel]
    words = zip(counts, LintLevel, strict=True)
    return ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for count, level in words)
