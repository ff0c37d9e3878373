import ast

import pytest

from demur.codes.usage.imports import DemurImports


def path(imports: str, name: str) -> str | None:
    nodes = list(ast.walk(ast.parse(imports)))
    return DemurImports(nodes).resolve_path(ast.parse(name, mode="eval").body)


@pytest.mark.parametrize(
    ("imports", "name", "expected"),
    [
        ("import demur", "demur.explain", "demur.explain"),
        ("import demur as d", "d.Refusal.of", "demur.Refusal.from_code"),
        (
            "import demur.codes.line",
            "demur.codes.line.REFUSAL_PREFIX",
            "demur.codes.line.REFUSAL_PREFIX",
        ),
        ("import demur.codes.line as line", "line.PREFIX", "demur.codes.line.REFUSAL_PREFIX"),
        ("from demur import format_refusal as fr", "fr", "demur.format_refusal"),
        ("from demur.codes import line", "line.PREFIX", "demur.codes.line.REFUSAL_PREFIX"),
        ("def f():\n  from demur import explain", "explain", "demur.explain"),
        ("from demur import *", "explain", "demur.explain"),
    ],
)
def test_an_alias_is_followed_to_its_home(imports: str, name: str, expected: str) -> None:
    assert path(imports, name) == expected


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("import demurrage", "demurrage.explain"),
        ("import os, demur", "os.path"),
        ("from demurrage import explain", "explain"),
        ("from .demur import explain", "explain"),
        ("from . import explain", "explain"),
        ("from demur import *", "print"),
        ("import demur", "demur().explain"),
        ("import demur", "explain"),
    ],
)
def test_what_is_not_demurs_has_no_path(imports: str, name: str) -> None:
    assert path(imports, name) is None
