"""What import-linter does not see: imports of a package from inside it, and deferred ones."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from demur.source.python_tree import parse_tree

SRC = Path(__file__).parents[2] / "src"
MODULES = sorted((SRC / "demur").rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_no_module_imports_a_package_it_is_inside(path: Path) -> None:
    parts = module_name(path).split(".")
    above = {".".join(parts[:length]) for length in range(1, len(parts))}

    # The root's own table of names is for type checkers and stands in the root itself.
    assert not above & set(imported(parse_tree(path.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_no_function_imports_from_demur(path: Path) -> None:
    tree = parse_tree(path.read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]

    assert not [
        name for function in functions for name in imported(function) if name.startswith("demur")
    ]
