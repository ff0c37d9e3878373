import ast

import pytest

from demur.guards.static.source_text import LineColumn, SourceText, decode_bytes, split_names


def test_lines_end_as_those_of_python_do() -> None:
    document = SourceText("a", "one\r\ntwo\rthree\nfour")

    assert [
        document.line_column(document.text.index(word)) for word in ("two", "three", "four")
    ] == [
        LineColumn(2, 1),
        LineColumn(3, 1),
        LineColumn(4, 1),
    ]
    assert document.line_text(2) == "two\r"
    assert document.line_text(4) == "four"
    assert document.line_text(9) == ""


def test_columns_of_a_syntax_tree_become_offsets() -> None:
    text = "a = 1\nb = 'größe'; target = 2\n"
    node = ast.parse(text).body[2]
    document = SourceText("a", text)

    start = document.to_offset(node.lineno, node.col_offset)
    assert text[start:].startswith("target = 2")


def test_a_place_past_the_end_is_the_end() -> None:
    assert SourceText("a", "x").to_offset(9, 9) == 1
    assert SourceText("a", "ö").to_offset(1, 99) == 1


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbfabc", "abc"),
        (b"a\xffb", "a\ufffdb"),
        ("abc".encode("utf-16"), "abc"),
        (b"\xff\xfe\x00\xd8", "\ufffd"),
    ],
)
def test_every_content_is_some_text(data: bytes, text: str) -> None:
    assert decode_bytes(data) == text


def test_places_count_characters_not_bytes() -> None:
    text = "é = 1; f('ü')\r\ng('x')"
    lines = SourceText("a", text)
    first, second = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))

    assert [text[slice(*lines.node_span(node))] for node in (first, second)] == ["f('ü')", "g('x')"]


def test_the_offset_of_a_plain_string_is_after_its_quotes() -> None:
    text = "f('ab', r'cd', '''ef''', 'g\\n')"
    lines = SourceText("a", text)
    [call] = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    inside = [lines.string_offset(arg, str(ast.literal_eval(arg))) for arg in call.args]

    assert inside == [3, 10, 18, None]


def test_names_are_words() -> None:
    assert split_names(" a b\n  c ") == ("a", "b", "c")
