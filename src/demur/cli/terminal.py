"""Terminal output: colours, wrapped text, tables."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from demur.codes.vocabulary import RefusalClass
from demur.errors import Problem, one_line

if TYPE_CHECKING:
    # Every command imports this module, and help must not wait for the model.
    from demur.model.decision import Outcome

__all__ = ["Paint", "class_colour", "format_table", "paint_outcome", "wrap_text"]

_COLOURS = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}
_MAX_WIDTH = 100


class Paint:
    """Colours text for one stream if that stream supports it.

    `NO_COLOR` switches colour off and `FORCE_COLOR` on; by default only terminals get it.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stdout if stream is None else stream
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            self._on = False
        else:
            self._on = bool(os.environ.get("FORCE_COLOR")) or self.stream.isatty()

    def __call__(self, text: str, *styles: str) -> str:
        """Return `text` in the named styles."""
        if not self._on or not styles:
            return text
        return f"\x1b[{';'.join(_COLOURS[style] for style in styles)}m{text}\x1b[0m"


def print_problem(
    paint: Paint, where: str | None, label: str, message: str, help_text: str | None
) -> None:
    """Print a problem with its place, and its help below; to the stream of `paint`."""
    place = f"{one_line(where)}: " if where else ""
    print(f"{place}{label} {one_line(message)}", file=paint.stream)
    if help_text:
        print(f"  {paint('help:', 'cyan')} {one_line(help_text)}", file=paint.stream)


def print_error(paint: Paint, problem: Problem) -> None:
    """Print a problem as an error."""
    label = paint("error:", "bold", "red")
    print_problem(paint, problem.where, label, problem.problem, problem.help)


def class_colour(refusal_class: str | None) -> str:
    """Return the colour of a refusal class; green for None."""
    colours: dict[str | None, str] = {
        RefusalClass.HARD_BLOCK: "red",
        RefusalClass.WORKFLOW_BLOCK: "yellow",
        RefusalClass.SOFT_BLOCK: "cyan",
    }
    return colours.get(refusal_class, "green")


_OUTCOME_COLOURS = {
    "allowed": "green",
    "allowed_with_limits": "cyan",
    "needs_something": "yellow",
    "refused": "red",
    "could_not_judge": "yellow",
}


def paint_outcome(outcome: "Outcome", paint: Paint) -> str:
    """Return the outcome in words and in its colour."""
    return paint(outcome.label, "bold", _OUTCOME_COLOURS[outcome])


def terminal_width() -> int:
    """Return the columns to write to: the terminal's, at most 100."""
    return min(shutil.get_terminal_size((88, 24)).columns, _MAX_WIDTH)


def wrap_text(text: str, indent: str = "") -> str:
    """Return `text` wrapped to the terminal, each line indented by `indent`."""
    return textwrap.fill(
        text,
        width=terminal_width(),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def format_table(rows: Iterable[Sequence[str]], head: Sequence[str], paint: Paint) -> str:
    """Return the rows as aligned columns under a dimmed head."""
    lines = [tuple(head), *(tuple(one_line(cell) for cell in row) for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    shown = [
        "  ".join(cell.ljust(space) for cell, space in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([paint(shown[0], "dim"), *shown[1:]])
