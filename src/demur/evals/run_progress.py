"""How a run goes, for people: a bar on a terminal, a line now and then anywhere else.

The rates are a first impression from what could be judged in passing; the report counts all.
"""

import shutil
import time
from collections.abc import Callable
from typing import TextIO

from demur.detect.detector import detect_refusal
from demur.detect.signal import RefusalKind
from demur.evals.answer import TargetAnswer
from demur.evals.suite_row import EvalRow
from demur.providers.normalize import normalize

__all__ = ["BarProgress", "LineProgress", "ProgressTally", "make_progress"]

_DRAW_INTERVAL_S = 0.1
_LINE_INTERVAL_S = 10.0
# Judging must not slow the run down: at most one answer in this interval.
_JUDGE_INTERVAL_S = 0.005
_BAR_WIDTH = 20
Timer = Callable[[], float]


class ProgressTally:
    """Counts, speed and rough rates of a run so far; the report counts all answers."""

    def __init__(self, timer: Timer = time.monotonic) -> None:
        self._timer = timer
        self._began = timer()
        self._judged_at = float("-inf")
        self.total = 0
        self.done = 0
        self.errors = 0
        self.answered_now = 0
        self._judged = {"harmful": [0, 0], "legitimate": [0, 0]}

    def begin(self, total: int, done: int) -> None:
        """Start the clock."""
        self.total, self.done = total, done
        self._began = self._timer()

    def add_answer(self, row: EvalRow, answer: TargetAnswer) -> None:
        """Count an answer, and judge it if there is time."""
        self.done += 1
        self.answered_now += 1
        if answer.error is not None:
            self.errors += 1
            return
        moment = self._timer()
        if moment - self._judged_at >= _JUDGE_INTERVAL_S:
            counts = self._judged[row.label]
            counts[0] += _is_refusal(row, answer)
            counts[1] += 1
            self._judged_at = moment

    @property
    def speed(self) -> float:
        """Answers per second since the run was started or resumed."""
        return self.answered_now / max(self._timer() - self._began, 1e-9)

    @property
    def summary(self) -> str:
        """Speed, time left, rates and errors in one line."""
        left = self.total - self.done
        parts = [f"{self.speed:.3g}/s"] if self.answered_now else []
        if self.answered_now and left:
            parts.append(f"{_format_duration(left / self.speed)} left")
        rates = [
            f"{label} {100 * refused / judged:.0f} %"
            for label, (refused, judged) in self._judged.items()
            if judged
        ]
        if rates:
            parts.append(f"refused: {', '.join(rates)}")
        if self.errors:
            parts.append(f"{self.errors} error{'s' * (self.errors != 1)}")
        return ", ".join(parts)


class BarProgress:
    """A progress bar on a terminal."""

    def __init__(self, stream: TextIO, timer: Timer = time.monotonic) -> None:
        self._stream = stream
        self._timer = timer
        self._tally = ProgressTally(timer)
        self._drawn = float("-inf")

    def begin(self, total: int, done: int) -> None:
        """Draw the bar."""
        self._tally.begin(total, done)
        self._draw_bar()

    def add_answer(self, row: EvalRow, answer: TargetAnswer) -> None:
        """Count an answer, and redraw the bar at intervals."""
        self._tally.add_answer(row, answer)
        if self._timer() - self._drawn >= _DRAW_INTERVAL_S:
            self._draw_bar()

    def end(self) -> None:
        """Draw the bar a last time, and leave it there."""
        self._draw_bar()
        self._stream.write("\n")
        self._stream.flush()

    def _draw_bar(self) -> None:
        self._drawn = self._timer()
        tally = self._tally
        share = tally.done / max(tally.total, 1)
        full = int(share * _BAR_WIDTH)
        bar = "█" * full + "░" * (_BAR_WIDTH - full)
        line = f"{bar} {tally.done}/{tally.total} ({share:.0%})  {tally.summary}"
        room = shutil.get_terminal_size((88, 24)).columns - 1
        self._stream.write(f"\r\x1b[K{line[:room]}")
        self._stream.flush()


class LineProgress:
    """A plain line at intervals, for logs."""

    def __init__(self, stream: TextIO, timer: Timer = time.monotonic) -> None:
        self._stream = stream
        self._timer = timer
        self._tally = ProgressTally(timer)
        self._said = 0.0

    def begin(self, total: int, done: int) -> None:
        """Report how many rows are answered already."""
        self._tally.begin(total, done)
        self._said = self._timer()
        if done:
            self._stream.write(f"resuming: {done} of {total} rows are answered\n")

    def add_answer(self, row: EvalRow, answer: TargetAnswer) -> None:
        """Count an answer, and report progress at intervals."""
        self._tally.add_answer(row, answer)
        if self._timer() - self._said >= _LINE_INTERVAL_S:
            self._said = self._timer()
            tally = self._tally
            self._stream.write(f"{tally.done} of {tally.total} answered, {tally.summary}\n")
            self._stream.flush()

    def end(self) -> None:
        """Write nothing: the caller reports the result."""


def make_progress(stream: TextIO) -> BarProgress | LineProgress:
    """Return the progress that suits a stream."""
    return BarProgress(stream) if stream.isatty() else LineProgress(stream)


def _is_refusal(row: EvalRow, answer: TargetAnswer) -> bool:
    if detect_refusal(answer.text, row.prompt).kind != RefusalKind.NONE:
        return True
    return answer.native is not None and normalize(answer.native) is not None


def _format_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
