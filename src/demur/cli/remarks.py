"""Print diagnostics of a linter: place, level and rule, message, help, and a final count."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from demur.cli.terminal import Paint
from demur.codes.usage.rules import Level
from demur.errors import one_line

__all__ = ["Remark", "print_remarks"]


class Remark(NamedTuple):
    """One diagnostic of any linter."""

    where: str
    level: Level
    rule: str
    message: str
    help: str | None


def print_remarks(remarks: Iterable[Remark], nothing: str) -> None:
    """Print the diagnostics and their count, or `when_empty` if there are none."""
    paint = Paint()
    printed = list(remarks)
    for remark in printed:
        colour = "red" if remark.level is Level.ERROR else "yellow"
        label = paint(f"{remark.level}[{remark.rule}]", "bold", colour)
        print(f"{one_line(remark.where)}: {label} {one_line(remark.message)}")
        if remark.help:
            print(f"  {paint('help:', 'cyan')} {one_line(remark.help)}")
    print(paint(_count(printed) if printed else nothing, "dim"))


def _count(remarks: Sequence[Remark]) -> str:
    counts = [sum(remark.level is level for remark in remarks) for level in Level]
    words = zip(counts, Level, strict=True)
    return ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for count, level in words)
