"""Texts with what is known of them."""

from demur.guards.code_execution.value import LONGEST, UNKNOWN, Arg, Taint, Value, joined


def test_joining_keeps_origins_and_doubts() -> None:
    secret = Value("b", taints=frozenset({Taint.SECRET}))

    assert joined([Value("a"), secret], "-") == Value("a-b", taints=frozenset({Taint.SECRET}))
    assert not joined([Value("a"), UNKNOWN]).known


def test_what_is_not_known_does_not_vanish() -> None:
    assert joined([UNKNOWN, Value("/*")]).text == "$unknown/*"


def test_nothing_grows_for_ever() -> None:
    long = joined([Value("a" * LONGEST), Value("b")])

    assert (len(long.text), long.known) == (LONGEST, False)


def test_an_argument_is_a_value_with_a_place() -> None:
    assert Arg("a", 1, 2, known=False).value == Value("a", known=False)
