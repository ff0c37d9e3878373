"""The reference page of the Python names, read from the sources themselves.

It doubles as a snapshot of the API: a changed signature is a changed page.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["api_page"]

HEAD = """<!-- Generated from the sources; do not edit. -->

# Python API

Everything here is imported from `demur`. Names are loaded when first used. Errors are
`DemurError`s: they carry `where`, `problem` and `help`. Arguments of the wrong type raise one
that is also a `TypeError`.
"""
ENUMS = {"StrEnum"}


def api_page(source: Path) -> str:
    """Return the page for the public names of the package at `source`."""
    root = ast.parse((source / "__init__.py").read_text(encoding="utf-8"))
    parts = [HEAD]
    for module, names in _homes(root):
        path = source.parent / f"{module.replace('.', '/')}.py"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        parts.append(f"## {module.removeprefix('demur.')}\n\n{_first(ast.get_docstring(tree))}\n")
        parts += [_entry(name, tree) for name in names]
    return "\n".join(parts)


def _homes(root: ast.Module) -> list[tuple[str, tuple[str, ...]]]:
    """Return the modules that public names live in, as the package's own table says."""
    for node in root.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            homes: dict[str, tuple[str, ...]] = ast.literal_eval(node.value)
            return sorted(homes.items())
    message = "the package has no table of names"
    raise LookupError(message)


def _first(docstring: str | None) -> str:
    return (docstring or "").partition("\n\n")[0].replace("\n", " ")


def _entry(name: str, tree: ast.Module) -> str:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return f"### `{name}`\n\n```text\n{_signature(node)}\n```\n\n{_words(node)}\n"
        if isinstance(node, ast.ClassDef) and node.name == name:
            return "\n".join([f"### `{name}`\n\n{_words(node)}\n", *_class(node)])
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            return f"### `{name}`\n\n`{ast.unparse(node.annotation)}`\n"
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return f"### `{name}`\n\n`{ast.unparse(node.value)}`\n"
    message = f"`{name}` is not where the package says"
    raise LookupError(message)


def _words(node: ast.FunctionDef | ast.ClassDef) -> str:
    """Return the docstring as Markdown: the errors it raises become a list."""
    words, raises, errors = (ast.get_docstring(node) or "").partition("Raises:\n")
    items = [f"- {line.strip()}" for line in errors.splitlines()]
    return words + ("Raises:\n\n" + "\n".join(items) if raises else "")


def _signature(node: ast.FunctionDef) -> str:
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
        yield "```\n"


def _decorator(method: ast.FunctionDef) -> str:
    return "".join(f"@{ast.unparse(decorator)} " for decorator in method.decorator_list)
