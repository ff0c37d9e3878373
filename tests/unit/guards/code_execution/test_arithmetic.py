"""Arithmetic: numbers that are known, and those that are not."""

import pytest

from demur.guards.code_execution.arithmetic import evaluate_arithmetic
from demur.guards.code_execution.call import Arg, Value
from demur.guards.code_execution.shell_state import ShellState


def evaluate(text: str, *, known: bool = True) -> Value:
    state = ShellState("/desk")
    state.assign("x", Value("4"))
    return evaluate_arithmetic(Arg(text, 0, 0, known), state)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1 + (2 * 3)", "7"),
        ("7 / 2", "3"),
        ("7 % 4", "3"),
        ("-3 - 1", "-4"),
        ("x + 1", "5"),
        ("$x * 2", "8"),
        ("010 + 1", "9"),
        ("6 & 3 | 8", "10"),
    ],
)
def test_known_numbers_are_computed(text: str, want: str) -> None:
    assert evaluate(text) == Value(want)


@pytest.mark.parametrize("text", ["y + 1", "1 / 0", "x = 3", "9 ** 99", "1 +", "a[0]"])
def test_other_arithmetic_is_not_known(text: str) -> None:
    assert not evaluate(text).known


def test_an_unknown_text_is_not_known_and_a_huge_number_neither() -> None:
    assert not evaluate("1", known=False).known
    assert not evaluate("9" * 30 + " * " + "9" * 30).known
