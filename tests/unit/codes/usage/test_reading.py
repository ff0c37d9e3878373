import ast

import pytest

from demur.codes.usage.reading import find_read_only


def quiet(source: str) -> bool:
    """Return whether the text `"X"` in `source` is only read against."""
    nodes = list(ast.walk(ast.parse(source)))
    [text] = [node for node in nodes if isinstance(node, ast.Constant) and node.value == "X"]
    return id(text) in find_read_only(nodes)


@pytest.mark.parametrize(
    "source",
    [
        'assert line == "X"',
        'if line in ("a", "X"): ...',
        'if line == "X" + code: ...',
        'line.startswith(("X", "Y"))',
        're.compile("X")',
        'parse_refusal("X")',
        'demur.find_refusals(text="X")',
        'self.assertEqual(line, "X")',
        'assert_line("X")',
        'table["X"]',
        '{"X": 1}',
        'match line:\n case "X": ...',
        'print(f"parse({"X"!r})")'.replace('"X"', "'X'"),
    ],
)
def test_a_text_that_is_compared_searched_or_looked_up_is_read(source: str) -> None:
    assert quiet(source)


@pytest.mark.parametrize(
    "source",
    [
        'print("X")',
        'return_value = "X"',
        'assert print("X") == 1',
        'x = {1: "X", **more}',
        'line.replace("a", "X")',
        '(f or g)("X")',
        "print(f\"{'X'}\")",
    ],
)
def test_a_text_that_goes_elsewhere_is_written(source: str) -> None:
    assert not quiet(source)


@pytest.mark.parametrize(
    "source",
    [
        'line = "X"\nparse_refusal(line)',
        'line: str = "X"\nparse_refusal(line)',
        'line = "X"\nother = line\nassert found == other',
        'for line in ["X", "Y"]:\n  parse_refusal(line)',
        '[parse_refusal(line) for line in ("X", "Y")]',
        'LINES = ["X"]\nfor line in LINES:\n  parse_refusal(line)\n  print(f"{line!r}")',
    ],
)
def test_a_name_that_is_only_read_carries_on(source: str) -> None:
    assert quiet(source)


@pytest.mark.parametrize(
    "source",
    [
        'line = "X"\nparse_refusal(line)\nprint(line)',
        'line = "X"\nline += "Y"\nparse_refusal(line)',
        'line = other = "X"\nparse_refusal(line)\nprint(other)',
        'line = self.line = "X"\nparse_refusal(line)',
        'self.line = "X"\nparse_refusal(self.line)',
        'LINES = ["X"]\nfor line in LINES:\n  parse_refusal(line)\n  print(line)',
        'line: str\nline = "X"',
    ],
)
def test_one_use_that_writes_is_enough(source: str) -> None:
    assert not quiet(source)
