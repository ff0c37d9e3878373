"""Expansion: what a word becomes once variables, braces and tildes are done."""

import pytest

from demur.guards.code_execution.call import Taint, Value
from demur.guards.code_execution.expand import expand_braces, expand_unsplit, expand_word
from demur.guards.code_execution.shell_state import ShellState
from demur.guards.static.shell_script import read_script
from demur.guards.static.shell_words import ShellWord, SimpleCommand, WordPiece


def run(_: WordPiece) -> tuple[Value, ...]:
    """Pretend that every substitution prints two words."""
    return (Value("one two\n", taints=frozenset({Taint.DOWNLOAD})),)


def scope() -> ShellState:
    known = ShellState("/desk")
    known.assign("x", Value("abc"))
    known.assign("two", Value(" a b "))
    known.assign("name", Value("x"))
    known.assign("either", Value("a"), Value("b"))
    known.assign_readings("list", ((Value("l 0"), Value("l1"), Value("l2")),))
    known.assign_item("map", "key", (Value("v"),))
    known.positional = ((Value("p1"), Value("p2")),)
    return known


def word(text: str) -> ShellWord:
    [node] = read_script(f"cmd {text}").nodes
    assert isinstance(node, SimpleCommand)
    return node.words[1]


def texts(text: str) -> list[str]:
    [args] = expand_word(word(text), scope(), run)
    return [arg.text for arg in args]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("abc", ["abc"]),
        ("$x", ["abc"]),
        ("$unknown", ["$unknown"]),
        ('"$two"', [" a b "]),
        ("$two", ["a", "b"]),
        ("-$two-", ["-", "a", "b", "-"]),
        ("pre${x}post", ["preabcpost"]),
        ("$(cmd)", ["one", "two"]),
        ('"$(cmd)"', ["one two"]),
        ("~", ["/~"]),
        ("~/x", ["/~/x"]),
        ("~ann/x", ["/home/ann/x"]),
        ("~+/x", ["/~/x"]),
        ("~1", ["~1"]),
        ("'~'", ["~"]),
        ("a~", ["a~"]),
        ("{a,b}c", ["ac", "bc"]),
        ("{~,b}/c", ["/~/c", "b/c"]),
        ("$1", ["p1"]),
        ("$9", []),
        ('"$9"', [""]),
        ('"$@"', ["p1", "p2"]),
        ('a"$@"b', ["ap1", "p2b"]),
        ('"$*"', ["p1 p2"]),
        ("$#", ["2"]),
        ('"${@:2}"', ["p2"]),
        ('"${list[@]}"', ["l 0", "l1", "l2"]),
        ("${list[@]}", ["l", "0", "l1", "l2"]),
        ('"${list[@]:1:1}"', ["l1"]),
        ("${list[1]}", ["l1"]),
        ("${list[-1]}", ["l2"]),
        ("${#list[@]}", ["3"]),
        ("${!list[@]}", ["0", "1", "2"]),
        ("${map[key]}", ["v"]),
        ("${#x}", ["3"]),
        ("${!name}", ["abc"]),
        ("${x##*b}", ["c"]),
        ("${x%%b*}", ["a"]),
        ("${x@U}", ["ABC"]),
        ("$@", ["p1", "p2"]),
        ("$PWD/y", ["/desk/y"]),
        ("$HOME", ["/~"]),
        ("$((1 + (2 * 3)))", ["7"]),
        ("$((y+1))", ["0"]),
        ("${x:-d}", ["abc"]),
        ("${u:-d}", ["d"]),
        ("${u:-'d e'}", ["d", "e"]),
        ('${u:-"d"}', ["d"]),
        ("${u-d}", ["d"]),
        ("${x:+d}", ["d"]),
        ("${x:1}", ["bc"]),
        ("${x:0:2}", ["ab"]),
        ("${x:y}", ["abc"]),
        ("${x/b/Z}", ["aZc"]),
        ("${x//b/}", ["ac"]),
        ("${x/b*/}", ["a"]),
        ("${x#a}", ["bc"]),
        ("${x%c}", ["ab"]),
        ("${x^}", ["Abc"]),
        ("${x^^}", ["ABC"]),
        ("${x,}", ["abc"]),
        ("${x,,}", ["abc"]),
        ("${x?no}", ["abc"]),
    ],
)
def test_a_word_becomes_its_arguments(text: str, want: list[str]) -> None:
    assert texts(text) == want


@pytest.mark.parametrize("text", ["$unknown", "${!x}", "$((y + 1))", "${x:y}", "${x@A}"])
def test_a_word_that_cannot_be_expanded_is_unknown(text: str) -> None:
    [[arg]] = expand_word(word(text), scope(), run)

    assert not arg.known


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("$either", [["a"], ["b"]]),
        ("x$either$either", [["xaa"], ["xab"], ["xba"], ["xbb"]]),
        ("${u:+d}", [[], ["d"]]),
    ],
)
def test_a_value_with_readings_gives_the_word_readings(text: str, want: list[list[str]]) -> None:
    readings = expand_word(word(text), scope(), run)

    assert [[arg.text for arg in args] for args in readings] == want


def test_a_variable_that_the_script_does_not_set_may_vanish_at_the_start_of_a_command() -> None:
    readings = expand_word(word("$u"), scope(), run, starts=True)

    assert [[arg.text for arg in args] for args in readings] == [["$u"], []]


def test_more_readings_than_the_bound_become_an_unknown_one() -> None:
    *_, [last] = expand_word(word("$either$either$either$either"), scope(), run)

    assert not last.known


def test_words_are_split_by_the_separators_that_the_script_sets() -> None:
    state = scope()
    state.assign("IFS", Value(","))
    state.assign("csv", Value("a,b c"))
    [args] = expand_word(word("$csv"), state, run)

    assert [arg.text for arg in args] == ["a", "b c"]


def test_origins_stay_with_the_text() -> None:
    [[arg]] = expand_word(word('a"$(cmd)"b'), scope(), run)

    assert arg.taints == {Taint.DOWNLOAD}


def test_only_literal_text_has_an_offset() -> None:
    words = [expand_word(word(text), scope(), run) for text in ("ab", "'ab'", "$x", "~")]

    assert [readings[0][0].offset for readings in words] == [4, 5, None, None]


def test_a_whole_word_is_never_split() -> None:
    words = [word("$two"), word("~/x"), word("'~'"), ShellWord((), 0, 0)]
    found = [expand_unsplit(each, scope(), run) for each in words]

    assert [arg.text for [arg] in found] == [" a b ", "/~/x", "~", ""]


def test_no_positional_arguments_are_something_unknown() -> None:
    [[arg]] = expand_word(word("$@"), ShellState("/desk"), run)

    assert (arg.text, arg.known) == ("$@", False)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("{a,b}", ["a", "b"]),
        ("{a,{b,c}}d", ["ad", "bd", "cd"]),
        ("{1..3}", ["1", "2", "3"]),
        ("{c..a}", ["c", "b", "a"]),
        ("{1..a}", []),
        ("{a}", ["{a}"]),
        ("{{path}}", ["{{path}}"]),
        ("{a", ["{a"]),
        ("a,b", ["a,b"]),
        ("{,x}y", ["y", "xy"]),
    ],
)
def test_braces_are_expanded(text: str, want: list[str]) -> None:
    assert expand_braces(text) == want


def test_braces_are_bounded() -> None:
    assert len(expand_braces("{a,b}" * 20)) <= 64
    assert len(expand_braces("{1..999999999}")) <= 64
    assert expand_braces("{" * 99) == ["{" * 99]
