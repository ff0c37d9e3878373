"""Options: bundles, values, and where they end."""

import pytest

from demur.guards.code_execution.call import (
    MAX_VALUE_LENGTH,
    UNKNOWN,
    Arg,
    ParsedOptions,
    ProgramCall,
    Taint,
    Value,
    find_targets,
    join_values,
    parse_options,
    program_name,
)


def sorted_out(text: str, *valued: str) -> ParsedOptions:
    return parse_options([Arg(word, 0, 0) for word in text.split()], frozenset(valued))


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
    call = ProgramCall("a", Arg("a", 0, 1), (Arg("b", 2, 3),))

    assert call.texts == ["b"]
    assert call.has_arg("b")
    assert not call.has_arg("c")


def test_joining_keeps_origins_and_doubts() -> None:
    secret = Value("b", taints=frozenset({Taint.SECRET}))

    assert join_values([Value("a"), secret], "-") == Value("a-b", taints=frozenset({Taint.SECRET}))
    assert not join_values([Value("a"), UNKNOWN]).known


def test_an_unknown_value_stays_in_a_joined_text() -> None:
    assert join_values([UNKNOWN, Value("/*")]).text == "$unknown/*"


def test_nothing_grows_for_ever() -> None:
    long = join_values([Value("a" * MAX_VALUE_LENGTH), Value("b")])

    assert (len(long.text), long.known) == (MAX_VALUE_LENGTH, False)


def test_an_argument_is_a_value_with_a_place() -> None:
    assert Arg("a", 1, 2, known=False).value == Value("a", known=False)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("rm", "rm"),
        ("/bin/rm", "rm"),
        ("./x.sh", "x.sh"),
        ("C:\\Windows\\Reg.EXE", "reg"),
        ("mkfs.ext4", "mkfs.ext4"),
        ("", ""),
        ("/", "/"),
        (".exe", ".exe"),
    ],
)
def test_a_program_has_a_bare_name(name: str, want: str) -> None:
    assert program_name(name) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("find", ["./*"]),
        ("find .", ["./*"]),
        ("find / -name x*", ["/x*"]),
        ("find a b -type f", ["a/*", "b/*"]),
        ("find a b -type l", ["a/*.*?", "b/*.*?"]),
        ("find a b -type f -empty", ["a/*.*?", "b/*.*?"]),
        ("find a -path */b/c", ["a/c"]),
        ("find a -name", ["a/*"]),
    ],
)
def test_a_search_finds_patterns_below_its_folders(text: str, want: list[str]) -> None:
    verb, *rest = text.split()
    call = ProgramCall(verb, Arg(verb, 0, 0), tuple(Arg(word, 0, 0) for word in rest))

    assert [arg.text for arg in find_targets(call)] == want
