import ast

import pytest

from demur.guards.skill.parsing import parse_leniently


def test_a_good_file_is_parsed_whole() -> None:
    parsed = parse_leniently("import os\nos.getcwd()\n")

    assert parsed.trouble is None
    assert len(parsed.tree.body) == 2


def test_statements_around_a_broken_one_are_parsed_at_their_lines() -> None:
    parsed = parse_leniently(
        "print 'old'\n\n@decorated\n@twice\ndef kept():\n    return 1\nx = 2\n"
    )

    assert parsed.trouble is not None
    assert parsed.trouble.line == 1
    assert [(type(part).__name__, part.lineno) for part in parsed.tree.body] == [
        ("FunctionDef", 5),
        ("Assign", 7),
    ]


def test_syntax_of_a_later_python_hides_nothing_else() -> None:
    parsed = parse_leniently("type Pair = tuple[int, int]\nother = t'{x}'\nimport ctypes\n")

    assert any(isinstance(part, ast.Import) for part in parsed.tree.body)


@pytest.mark.parametrize(
    "text", ["x = 1\0", "(" * 300 + ")" * 300, "-" * 100_000 + "1", "\ud800 = 1", "", "if"]
)
def test_nothing_that_is_no_python_raises(text: str) -> None:
    parse_leniently(text)


def test_a_files_own_warnings_are_not_ours() -> None:
    assert parse_leniently("x = '\\d'\nassert (1, 'x')\n").trouble is None
