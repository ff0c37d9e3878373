"""Options: bundles, values, and where they end."""

from demur.guards.code_execution.call import ProgramCall, ParsedOptions, parse_options
from demur.guards.code_execution.value import CommandArg


def sorted_out(text: str, *valued: str) -> ParsedOptions:
    return parse_options([CommandArg(word, 0, 0) for word in text.split()], frozenset(valued))


def test_bundles_and_long_options_are_names() -> None:
    given = sorted_out("-rf --force x")

    assert given.names == {"-r", "-f", "--force"}
    assert [arg.text for arg in given.operands] == ["x"]
    assert given.has_any("-x", "-r")
    assert not given.has_any("-x")


def test_values_come_glued_or_next() -> None:
    given = sorted_out("-o a -obb --out=c --out2 d -xo e -in f", "-o", "--out2", "-in")

    assert {name: arg.text for name, arg in given.values.items()} == {
        "-o": "e",
        "--out": "c",
        "--out2": "d",
        "-in": "f",
    }
    assert given.operands == ()


def test_two_dashes_end_the_options() -> None:
    given = sorted_out("-a -- -b -", "-z")

    assert given.names == {"-a"}
    assert [arg.text for arg in given.operands] == ["-b", "-"]


def test_a_value_that_is_missing_is_none() -> None:
    assert sorted_out("-o", "-o").values == {}
    assert sorted_out("--out", "--out").values == {}
    assert sorted_out("-xo", "-o").values == {}


def test_a_call_knows_its_arguments() -> None:
    call = ProgramCall("a", CommandArg("a", 0, 1), (CommandArg("b", 2, 3),))

    assert call.texts == ["b"]
    assert call.has_arg("b")
    assert not call.has_arg("c")
