"""Expansion: what a word becomes once variables, braces and tildes are done."""

import pytest

from demur.guards.code_execution.call import Taint, Value
from demur.guards.code_execution.expand import (
    ShellState,
    expand_braces,
    expand_unsplit,
    expand_word,
)
from demur.guards.static.shell_script import read_script
from demur.guards.static.shell_words import ShellWord, SimpleCommand, WordPiece


def run(_: WordPiece) -> Value:
    """Pretend that every substitution prints two words."""
    return Value("one two\n", taints=frozenset({Taint.DOWNLOAD}))


def scope() -> ShellState:
    known = ShellState("/desk")
    known.assign("x", Value("abc"))
    known.assign("two", Value(" a b "))
    known.positional = (Value("p1"), Value("p2"))
    return known


def word(text: str) -> ShellWord:
    [node] = read_script(f"cmd {text}").nodes
    assert isinstance(node, SimpleCommand)
    return node.words[1]


def texts(text: str) -> list[str]:
    return [arg.text for arg in expand_word(word(text), scope(), run)]


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
        ("<(cmd)", ["/dev/fd/63"]),
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
        ("$9", ["$9"]),
        ("$@", ["p1", "p2"]),
        ("$PWD/y", ["/desk/y"]),
        ("$HOME", ["/~"]),
        ("$((1+2))", ["0"]),
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
        ("${x/*/}", ["abc"]),
        ("${x#a}", ["bc"]),
        ("${x%c}", ["ab"]),
        ("${x^}", ["Abc"]),
        ("${x^^}", ["ABC"]),
        ("${x,}", ["abc"]),
        ("${x,,}", ["abc"]),
        ("${!x}", ["abc"]),
        ("${x?no}", ["abc"]),
    ],
)
def test_a_word_becomes_its_arguments(text: str, want: list[str]) -> None:
    assert texts(text) == want


@pytest.mark.parametrize("text", ["$unknown", "${u:+d}", "${x/*/}", "${x?no}", "<(cmd)", "${x:y}"])
def test_a_word_that_cannot_be_expanded_is_unknown(text: str) -> None:
    [arg] = expand_word(word(text), scope(), run)

    assert not arg.known


def test_origins_stay_with_the_text() -> None:
    [arg] = expand_word(word('a"$(cmd)"b'), scope(), run)

    assert arg.taints == {Taint.DOWNLOAD}


def test_only_literal_text_has_an_offset() -> None:
    assert [next(expand_word(word(t), scope(), run)).offset for t in ("ab", "'ab'", "$x", "~")] == [
        4,
        5,
        None,
        None,
    ]


def test_a_whole_word_is_never_split() -> None:
    assert expand_unsplit(word("$two"), scope(), run).text == " a b "
    assert expand_unsplit(word("~/x"), scope(), run).text == "/~/x"
    assert expand_unsplit(word("'~'"), scope(), run).text == "~"
    assert expand_unsplit(ShellWord((), 0, 0), scope(), run).text == ""


def test_no_positional_arguments_are_something_unknown() -> None:
    [arg] = expand_word(word("$@"), ShellState("/desk"), run)

    assert (arg.text, arg.known) == ("", False)


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


def test_variables_positions_and_what_every_shell_sets() -> None:
    scope = ShellState("/desk")
    scope.assign("x", Value("1"))
    scope.positional = (Value("a"),)

    assert scope.variable_value("x") == Value("1")
    assert scope.variable_value("1") == Value("a")
    assert scope.variable_value("2") is None
    assert scope.variable_value("PWD") == Value("/desk")
    assert scope.variable_value("HOME") == Value("/~")
    assert scope.variable_value("0") == Value("sh")
    assert scope.variable_value("y") is None


def test_files_keep_content_and_origin() -> None:
    scope = ShellState("/desk")
    scope.write_file("x", Value("a"))
    scope.write_file("./x", Value("b", taints=frozenset({Taint.SECRET})), append=True)

    assert scope.files["/desk/x"] == Value("ab", taints=frozenset({Taint.SECRET}))
    assert scope.resolve_path("") == "/desk"
