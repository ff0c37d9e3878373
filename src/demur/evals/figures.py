"""Format numbers for people, the same in text, HTML and SVG."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from demur.errors import one_line, shorten
from demur.evals.rates import Rate

NO_VALUE = "-"


class PaintText(Protocol):
    """Styles a text for a terminal."""

    def __call__(self, text: str, *styles: str) -> str:
        """Return the text in these styles."""


def without_style(text: str, *styles: str) -> str:
    """Return the text unchanged."""
    del styles
    return text


def format_percent(value: float | None) -> str:
    """Return a share as `95.2 %`; rounding never yields 0 % or 100 % of anything else."""
    if value is None:
        return NO_VALUE
    shown = f"{100 * value:.1f}"
    if shown == "100.0" and value < 1:
        shown = "99.9"
    elif shown == "0.0" and value > 0:
        shown = "0.1"
    return f"{shown} %"


def format_share(rate: Rate) -> str:
    """Return a rate as `160/168`."""
    return f"{rate.hits}/{rate.of}" if rate.of else NO_VALUE


def format_interval(rate: Rate) -> str:
    """Return the interval of a rate as `90.9 to 97.6 %`."""
    if rate.low is None or rate.high is None:
        return NO_VALUE
    return f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %"


def format_difference(difference: float) -> str:
    """Return a difference of two shares in percentage points, with its sign."""
    return f"{100 * difference:+.1f}" if round(difference, 3) else "0.0"


def format_p_value(p: float) -> str:
    """Return a p value with three digits."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def format_count(number: int, word: str) -> str:
    """Return `1 row`, `2 rows`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def make_excerpt(text: str, max_length: int = 160) -> str:
    """Return the beginning of a text on one line, with terminal control characters escaped."""
    return shorten(one_line(" ".join(text.split())), max_length)


def align_columns(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    paint: PaintText = without_style,
    *,
    left: int = 1,
) -> list[str]:
    """Return lines of aligned columns under a dimmed head; the first `left` are left-aligned."""
    lines = [tuple(head), *(tuple(one_line(cell) for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = [
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return [paint(shown[0], "dim"), *shown[1:]]
