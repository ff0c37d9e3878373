import io

import pytest

from demur.cli.terminal import Paint, class_colour, format_table, terminal_width, wrap_text
from demur.codes.vocabulary import RefusalClass


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


RED = "\x1b[31mno\x1b[0m"


def test_only_a_terminal_gets_colour() -> None:
    assert Paint(Terminal())("no", "red") == RED
    assert Paint(io.StringIO())("no", "red") == "no"


def test_standard_output_is_the_stream_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Terminal())

    assert Paint()("no", "red") == RED


def test_colour_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert Paint(io.StringIO())("no", "red") == RED


def test_the_wish_for_no_colour_beats_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")

    assert Paint(Terminal())("no", "red") == "no"


def test_an_empty_wish_for_no_colour_is_no_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")

    assert Paint(Terminal())("no", "red") == RED


def test_styles_add_up_and_none_leaves_the_text_alone() -> None:
    paint = Paint(Terminal())

    assert paint("no", "bold", "red") == "\x1b[1;31mno\x1b[0m"
    assert paint("no") == "no"


def test_each_class_has_a_colour_of_its_own() -> None:
    colours = [class_colour(refusal_class) for refusal_class in (*RefusalClass, None)]

    assert colours == ["red", "yellow", "cyan", "green"]
    assert all(Paint(Terminal())("x", colour) != "x" for colour in colours)


@pytest.mark.parametrize(("columns", "used"), [("40", 40), ("100", 100), ("500", 100)])
def test_text_is_as_wide_as_the_terminal_within_reason(
    columns: str, used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    assert terminal_width() == used


def test_text_is_wrapped_behind_its_indent_and_words_stay_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "12")

    assert wrap_text("one two-three REFUND_OVER_ESCALATION_LIMIT", "  ") == (
        "  one\n  two-three\n  REFUND_OVER_ESCALATION_LIMIT"
    )
    assert wrap_text("short") == "short"


def test_a_table_is_aligned_under_a_dimmed_head() -> None:
    rows = [("RCE_RISK", "red"), ("OK", "")]

    assert format_table(rows, ("CODE", "HUE"), Paint(io.StringIO())).splitlines() == [
        "CODE      HUE",
        "RCE_RISK  red",
        "OK",
    ]
    assert format_table([], ("CODE", "HUE"), Paint(Terminal())) == "\x1b[2mCODE  HUE\x1b[0m"


def test_a_cell_cannot_reach_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    assert "\x1b" not in format_table([["\x1b[31mred"]], ["HEAD"], Paint())


def test_a_dumb_terminal_gets_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")

    assert Paint()("x", "red") == "x"
