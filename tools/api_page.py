"""The reference pages of the Python names, read from the sources themselves.

There is a page for the root and one for each public package. The pages are a snapshot of the
API: a changed signature is a changed page.
"""

import ast
import copy
import inspect
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

NOTICE = "<!-- Generated from the sources; do not edit. -->"
HEAD = f"""{NOTICE}

# Python API

The names on this page are imported from `demur`, all others from the packages in the table.
Names are loaded when first used. Errors are `DemurError`s: they carry `where`, `problem` and
`help`. Arguments of the wrong type raise one that is also a `TypeError`.
"""
ENUMS = {"StrEnum"}
PUBLIC = (
    *("audit", "codes", "detect", "emit", "enforce", "evals", "gate", "grants", "guards"),
    *("memory", "model", "observe", "policy", "providers", "respond", "scorers", "store"),
    *("testing", "triage"),
)
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.AnnAssign | ast.Assign


def api_pages(source: Path) -> Iterator[tuple[str, str]]:
    """Yield path and content of each page for the package at `source`."""
    packages = [f"demur.{name}" for name in PUBLIC if _file(source, f"demur.{name}")]
    for folder in sorted((source / "integrations").glob("[a-z]*")):
        module = f"demur.integrations.{folder.stem}"
        if _file(source, module) and _public_names(_parse(_file(source, module))):
            packages.append(module)
    rows = (f"| [`{name}`](api/{name}.md) | {_summary(source, name)} |" for name in packages)
    table = "\n".join(("| Package | Holds |", "| --- | --- |", *rows))
    root = "\n".join(_entries(source, "demur"))
    yield "docs/reference/api.md", f"{HEAD}\n{table}\n\n{root}"
    for name in packages:
        head = f"{NOTICE}\n\n# {name}\n\n{_summary(source, name)}\n"
        yield f"docs/reference/api/{name}.md", "\n".join((head, *_entries(source, name)))


def _file(source: Path, module: str) -> Path | None:
    path = source.parent / module.replace(".", "/")
    found = (file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file())
    return next(found, None)


# The docstrings that stand below definitions of values.
_value_words: dict[ast.stmt, str] = {}


@cache
def _parse(path: Path | None) -> ast.Module:
    tree = ast.parse("" if path is None else path.read_text(encoding="utf-8"))
    for node, after in pairwise(tree.body):
        match after:
            case ast.Expr(value=ast.Constant(value=str(text))):
                _value_words[node] = inspect.cleandoc(text)
            case _:
                pass
    return tree


def _public_names(tree: ast.Module) -> list[str]:
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AugAssign) and ast.unparse(node).startswith(
            "__all__ "
        ):
            names += ast.literal_eval(node.value)
    return sorted(names)


def _summary(source: Path, module: str) -> str:
    docstring = ast.get_docstring(_parse(_file(source, module)))
    return (docstring or "").partition("\n\n")[0].replace("\n", " ")


def _entries(source: Path, module: str) -> Iterator[str]:
    for name in _public_names(_parse(_file(source, module))):
        node = _find(source, module, name)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"## `{name}`\n\n```text\n{_signature(node)}\n```\n\n{_words(node)}\n"
        elif isinstance(node, ast.ClassDef):
            yield f"## `{name}`\n\n{_words(node)}\n"
            yield from _class(node)
        else:
            shown = node.annotation if isinstance(node, ast.AnnAssign) else node.value
            yield f"## `{name}`\n\n`{_short(ast.unparse(shown))}`\n"
            if node in _value_words:
                yield f"{_value_words[node]}\n"


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."


def _find(source: Path, module: str, name: str) -> _Definition:
    """Return the definition of a name, through tables of homes and imports."""
    tree = _parse(_file(source, module))
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(home), names=names):
                if any((alias.asname or alias.name) == name for alias in names):
                    original = next(a.name for a in names if (a.asname or a.name) == name)
                    return _find(source, home, original)
            case _:
                pass
    for node in tree.body:
        match node:
            case (
                ast.FunctionDef(name=found)
                | ast.AsyncFunctionDef(name=found)
                | ast.ClassDef(name=found)
            ) if found == name:
                return node
            case ast.AnnAssign(target=target) if ast.unparse(target) == name:
                return node
            case ast.Assign(targets=[target]) if ast.unparse(target) == name:
                return node
            case _:
                pass
    message = f"`{name}` is not in `{module}`"
    raise LookupError(message)


def _words(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """Return the docstring as Markdown: the errors it raises become a list."""
    words, raises, errors = (ast.get_docstring(node) or "").partition("Raises:\n")
    items = [f"- {line.strip()}" for line in errors.splitlines()]
    return words + ("Raises:\n\n" + "\n".join(items) if raises else "")


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the signature on one line, or one argument a line if that would be long."""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{node.name}({ast.unparse(node.args)}){returns}"
    if len(line) <= 100:
        return line
    body = ast.unparse(node.args).replace(", ", ",\n    ")
    # A comma inside brackets does not part two arguments.
    while (joined := re.sub(r"(\[[^\[\]\n]*),\n    ", r"\1, ", body)) != body:
        body = joined
    return f"{node.name}(\n    {body},\n){returns}"


def _class(node: ast.ClassDef) -> Iterator[str]:
    if ENUMS & {ast.unparse(base) for base in node.bases}:
        values = [ast.unparse(n.value) for n in node.body if isinstance(n, ast.Assign)]
        if len(values) < 20:
            yield f"Values: {', '.join(f'`{value}`' for value in values)}.\n"
        return
    fields = [n for n in node.body if isinstance(n, ast.AnnAssign)]
    methods = [
        n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")
    ]
    if fields or methods:
        yield "```text"
        yield from (ast.unparse(field) for field in fields)
        yield from (f"{_decorator(method)}{_signature(method)}" for method in methods)
        yield from _step_forms(node, {method.name: method for method in methods})
        yield "```\n"


def _step_forms(node: ast.ClassDef, methods: dict[str, ast.FunctionDef]) -> Iterator[str]:
    """Yield the sync and async forms of methods that return steps: `check = _sync(steps)`."""
    for assigned in node.body:
        match assigned:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Name(id="_sync" | "_async" as form), args=[ast.Name(id=of)]
                ),
            ):
                method = copy.copy(methods[of])
                method.name, method.returns = name, ast.Name("CheckResult")
                yield f"{'async ' * (form == '_async')}{_signature(method)}"
            case _:
                pass


def _decorator(method: ast.FunctionDef) -> str:
    return "".join(f"@{ast.unparse(decorator)} " for decorator in method.decorator_list)
