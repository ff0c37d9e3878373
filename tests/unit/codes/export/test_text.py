import json

from hypothesis import given
from hypothesis import strategies as st

from demur.codes.export.text import as_json, single_line


@given(st.text())
def test_a_plain_line_is_printable_words_with_single_spaces(text: str) -> None:
    line = single_line(text)

    assert line.isprintable()
    assert line == " ".join(line.split())


def test_a_plain_line_keeps_the_words() -> None:
    assert single_line("  two\nlines\tand\x1b a\u200bcolour ") == "two lines and acolour"


def test_json_keeps_accents_readable_and_ends_its_last_line() -> None:
    assert as_json({"a": "é"}) == '{\n  "a": "é"\n}\n'
    assert json.loads(as_json([1])) == [1]
