"""A table of comparisons that is printed row by row, and what it takes to fill one fairly."""

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

__all__ = ["Samples", "Table", "amount", "interleaved", "per_call"]

_WIDTH = 66
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


class Samples(NamedTuple):
    """Seconds a call, one sample a round."""

    taken: tuple[float, ...]

    @property
    def median(self) -> float:
        """What a round usually shows."""
        return statistics.median(self.taken)

    @property
    def mean(self) -> float:
        """What counts over time: rare waits, as for the disk, are in it."""
        return statistics.fmean(self.taken)


def interleaved(sides: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Samples]:
    """Return the samples of each side, taken in turns so that a busy machine slows all alike."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, sample in sides.items():
            taken[name].append(sample())
    return {name: Samples(tuple(samples)) for name, samples in taken.items()}


def per_call(call: Callable[[Any], object], arguments: Iterable[Any]) -> float:
    """Return the seconds that a call takes, over all arguments; they are made beforehand."""
    prepared = list(arguments)
    start = time.perf_counter()
    for argument in prepared:
        call(argument)
    return (time.perf_counter() - start) / len(prepared)


def amount(seconds: float) -> str:
    """Return a time as people read it."""
    size, unit = next((pair for pair in _UNITS if seconds >= pair[0]), _UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


class Table:
    """Prints rows as they come, and counts the aims that were not met."""

    def __init__(self, what: str, demur: str, other: str) -> None:
        self.missed = 0
        self._print(what, demur, other, "ratio", "aim", "met?")

    def row(
        self,
        what: str,
        ours: str,
        theirs: str = "",
        *,
        ratio: float | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """Print a row; the aim is for the ratio."""
        aim = met = ""
        if ratio is not None and at_least is not None:
            aim, met = f">= {at_least:g}", self._judged(met=ratio >= at_least)
        elif ratio is not None and at_most is not None:
            aim, met = f"<= {at_most:g}", self._judged(met=ratio <= at_most)
        self._print(what, ours, theirs, "" if ratio is None else f"{ratio:.3g}", aim, met)

    def _judged(self, *, met: bool) -> str:
        self.missed += not met
        return "yes" if met else "NO"

    @staticmethod
    def _print(*cells: str) -> None:
        what, ours, theirs, ratio, aim, met = cells
        print(f"{what:{_WIDTH}}{ours:>12}{theirs:>12}{ratio:>9}  {aim:9}{met}".rstrip(), flush=True)
