"""Words: quotes, escapes, variables and substitutions, with the place of each part."""

import pytest

from demur.guards.static.shell_script import read_script
from demur.guards.static.shell_words import (
    PieceKind,
    ShellWord,
    SimpleCommand,
    WordPiece,
    decode_ansi_c,
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("plain", "plain"),
        ("\\x72\\x6d", "rm"),
        ("\\162\\155", "rm"),
        ("\\0162", "r"),
        ("\\u0072\\U0000006d", "rm"),
        ("a\\nb\\tc", "a\nb\tc"),
        ("\\\\", "\\"),
        ("\\q", "q"),
        ("\\x", "x"),
        ("\\0", ""),
        ("\\UFFFFFFFF", ""),
        ("end\\", "end\\"),
    ],
)
def test_escapes_are_undone(text: str, want: str) -> None:
    assert decode_ansi_c(text) == want


def word(text: str) -> ShellWord:
    [node] = read_script(f"x {text}").nodes
    assert isinstance(node, SimpleCommand)
    return node.words[1]


def parts(text: str) -> list[tuple[str, str]]:
    return [(piece.kind.value, piece.text) for piece in word(text).pieces]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("abc", [("text", "abc")]),
        ("'a b'", [("quoted", "a b")]),
        ("''", [("quoted", "")]),
        ('""', [("quoted", "")]),
        ("\\a", [("quoted", "a")]),
        ("a\\\nb", [("text", "a"), ("text", "b")]),
        ('"a\\"b\\n"', [("quoted", "a"), ("quoted", '"'), ("quoted", "b"), ("quoted", "\\n")]),
        ('"a\\\nb"', [("quoted", "a"), ("quoted", "b")]),
        ("$'a\\tb'", [("quoted", "a\tb")]),
        ("$'it\\'s'", [("quoted", "it's")]),
        ('$"a"', [("quoted", "a")]),
        ("$x", [("variable", "x")]),
        ("${x}", [("variable", "x")]),
        ("$1$@", [("variable", "1"), ("variable", "@")]),
        ("$", [("quoted", "$")]),
        ('"$"', [("quoted", "$")]),
        ("${", [("quoted", "${")]),
        ("a$x'b'", [("text", "a"), ("variable", "x"), ("quoted", "b")]),
        ("\\", [("quoted", "\\")]),
        ('"a}"', [("quoted", "a}")]),
        ("{a}", [("text", "{a}")]),
    ],
)
def test_a_word_has_its_parts(text: str, want: list[tuple[str, str]]) -> None:
    assert parts(text) == want


@pytest.mark.parametrize(
    ("text", "operator", "operand"),
    [
        ("${x:-a b}", ":-", "a b"),
        ("${x//a/b}", "//", "a/b"),
        ("${x#a}", "#", "a"),
        ("${x%%a}", "%%", "a"),
        ("${x^^}", "^^", ""),
        ("${x:1:2}", ":", "1:2"),
        ("${x[1]}", "", ""),
        ("${#x}", "", ""),
        ("${!x}", "", ""),
        ("${x:-}", ":-", ""),
    ],
)
def test_an_expansion_keeps_its_operator(text: str, operator: str, operand: str) -> None:
    [piece] = word(text).pieces

    assert (piece.text, piece.operator) == ("x", operator)
    assert piece.operand is not None
    assert "".join(inner.text for inner in piece.operand.pieces) == operand


def test_a_variable_keeps_its_prefix_and_its_subscript() -> None:
    pieces = [word(text).pieces[0] for text in ("${#x[@]}", "${!x}", "${x[$i]:1}", "${#}")]

    assert [(piece.text, piece.prefix, piece.subscript) for piece in pieces] == [
        ("x", "#", "@"),
        ("x", "!", ""),
        ("x", "", "$i"),
        ("#", "", ""),
    ]


def test_a_quoted_piece_is_not_split() -> None:
    loose, tight = word('$x"$y"').pieces

    assert (loose.unsplit, tight.unsplit) == (False, True)


def test_a_backtick_with_escapes_is_to_be_read_anew() -> None:
    [piece] = word("`a \\`b\\``").pieces

    assert (piece.kind, piece.text, piece.script) == (PieceKind.COMMAND, "a `b`", None)


def test_a_backtick_inside_quotes_inside_backticks_ends_the_inner_text() -> None:
    [piece] = word('`a "b`').pieces

    assert piece.script is not None


def test_a_process_has_a_direction() -> None:
    assert parts("<(a)") == [("process", "<")]
    assert parts(">(a)") == [("process", ">")]


def test_offsets_lead_to_the_text_itself() -> None:
    text = "x ab'cd'\"ef\"$'gh'"
    [node] = read_script(text).nodes
    assert isinstance(node, SimpleCommand)

    for piece in node.words[1].pieces:
        assert text[piece.start : piece.start + len(piece.text)] == piece.text


def test_a_plain_word_is_one_part() -> None:
    assert word("abc") == ShellWord((WordPiece(PieceKind.TEXT, "abc", 2),), 2, 5)
