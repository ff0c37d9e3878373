"""Texts with what is known of them."""

from demur.guards.code_execution.value import (
    MAX_VALUE_LENGTH,
    UNKNOWN,
    CommandArg,
    Taint,
    TextValue,
    join_values,
)


def test_joining_keeps_origins_and_doubts() -> None:
    secret = TextValue("b", taints=frozenset({Taint.SECRET}))

    assert join_values([TextValue("a"), secret], "-") == TextValue(
        "a-b", taints=frozenset({Taint.SECRET})
    )
    assert not join_values([TextValue("a"), UNKNOWN]).known


def test_what_is_not_known_does_not_vanish() -> None:
    assert join_values([UNKNOWN, TextValue("/*")]).text == "$unknown/*"


def test_nothing_grows_for_ever() -> None:
    long = join_values([TextValue("a" * MAX_VALUE_LENGTH), TextValue("b")])

    assert (len(long.text), long.known) == (MAX_VALUE_LENGTH, False)


def test_an_argument_is_a_value_with_a_place() -> None:
    assert CommandArg("a", 1, 2, known=False).value == TextValue("a", known=False)
