import io
from typing import Any

import pytest
from eval_rows import a_row

from demur.evals.answer import TargetAnswer, error_answer
from demur.evals.run_progress import BarProgress, LineProgress, ProgressTally, make_progress

REFUSAL = "I'm sorry, but I can't help with that."


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Return that it is one."""
        return True


def said(number: int, text: str = "Sure.", **more: Any) -> tuple[Any, TargetAnswer]:
    return a_row(number), TargetAnswer(row_id=f"r{number}", text=text, **more)


def test_speed_time_left_rates_and_errors_are_told() -> None:
    clock = Clock()
    tally = ProgressTally(clock)
    tally.begin(10, 2)
    assert tally.summary == ""
    for row, answer in (said(1, REFUSAL), said(2), said(3), said(4, REFUSAL)):
        clock.now += 0.5
        tally.add_answer(row, answer)

    assert tally.summary == "2/s, 2 s left, refused: harmful 50 %, legitimate 50 %"
    tally.add_answer(a_row(5), error_answer("r5", "http", "broken"))
    assert tally.summary.endswith(", 1 error")
    tally.add_answer(a_row(6), error_answer("r6", "http", "broken"))
    assert tally.summary.endswith(", 2 errors")
    assert (tally.done, tally.errors) == (8, 2)


def test_a_providers_own_word_counts_as_a_refusal() -> None:
    tally = ProgressTally(Clock())
    message = {"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}
    tally.add_answer(*said(1, "", native=message))

    assert "harmful 100 %" in tally.summary


def test_judging_does_not_slow_a_fast_run_down() -> None:
    clock = Clock()
    tally = ProgressTally(clock)
    tally.begin(1000, 0)
    for number in range(1000):
        clock.now += 0.0001
        tally.add_answer(*said(number))

    assert sum(judged for _, judged in tally._judged.values()) <= 21


@pytest.mark.parametrize(("left", "words"), [(50, "50 s"), (600, "10 min"), (36_000, "10.0 h")])
def test_long_times_are_told_roughly(left: int, words: str) -> None:
    clock = Clock()
    tally = ProgressTally(clock)
    tally.begin(left + 1, 0)
    clock.now += 1
    tally.add_answer(*said(0))

    assert f"{words} left" in tally.summary


def test_on_a_terminal_a_bar_is_drawn_over_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    clock, terminal = Clock(), Terminal()
    bar = BarProgress(terminal, clock)
    bar.begin(4, 1)
    clock.now += 1
    bar.add_answer(*said(1))
    bar.add_answer(*said(2))
    bar.end()
    drawn = terminal.getvalue().split("\r\x1b[K")

    assert drawn[1] == "█████░░░░░░░░░░░░░░░ 1/4 (25%)  "
    assert drawn[2].startswith("██████████░░░░░░░░░░ 2/4 (50%)  1/s, 2 s left")
    assert len(drawn) == 4
    assert drawn[3].endswith("\n")
    assert max(map(len, drawn)) <= 60


def test_a_run_without_rows_draws_an_empty_bar() -> None:
    terminal = Terminal()
    BarProgress(terminal, Clock()).begin(0, 0)

    assert "0/0 (0%)" in terminal.getvalue()


def test_elsewhere_a_line_comes_now_and_then() -> None:
    clock, log = Clock(), io.StringIO()
    lines = LineProgress(log, clock)
    lines.begin(4, 1)
    lines.add_answer(*said(1))
    clock.now += 10
    lines.add_answer(*said(2))
    lines.end()

    assert log.getvalue().splitlines() == [
        "resuming: 1 of 4 rows are answered",
        "3 of 4 answered, 0.2/s, 5 s left, refused: harmful 0 %, legitimate 0 %",
    ]
    quiet = io.StringIO()
    LineProgress(quiet, clock).begin(4, 0)
    assert quiet.getvalue() == ""


def test_the_stream_decides_which_it_is() -> None:
    assert isinstance(make_progress(Terminal()), BarProgress)
    assert isinstance(make_progress(io.StringIO()), LineProgress)
