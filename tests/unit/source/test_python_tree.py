import ast
from collections.abc import Iterator
from typing import Any

import pytest

from demur.guards.static.python_syntax import parse_python
from demur.source.python_tree import parse_tree


@pytest.fixture
def miscounting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let the first attempt to parse fail as CPython 3.11.7 does; yield what was parsed."""
    parsed: list[str] = []
    parse = ast.parse

    def fail_once(source: Any) -> ast.Module:
        parsed.append(source)
        if len(parsed) == 1:
            raise SystemError("AST constructor recursion depth mismatch (before=141, after=197)")
        tree: ast.Module = parse(source)
        return tree

    monkeypatch.setattr(ast, "parse", fail_once)
    yield parsed
    assert len(parsed) == 2


@pytest.mark.usefixtures("miscounting")
def test_a_miscount_is_tried_again() -> None:
    assert ast.unparse(parse_tree("a = 1")) == "a = 1"


@pytest.mark.usefixtures("miscounting")
def test_a_guard_reads_code_in_spite_of_a_miscount() -> None:
    tree = parse_python("a = 1")

    assert tree is not None
    assert ast.unparse(tree) == "a = 1"


def test_what_is_no_python_is_an_error() -> None:
    with pytest.raises(SyntaxError):
        parse_tree("a =")
