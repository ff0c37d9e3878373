"""What a Python file calls the things it imports from demur, through every alias."""

import ast
from collections.abc import Iterable

__all__ = ["DemurImports"]

_ROOT = "demur"
_INSIDE = f"{_ROOT}."
# The names bound by `from demur import *` that take a reason code.
_STAR_NAMES = frozenset(
    {
        "Decision",
        "Grant",
        "ReasonCode",
        "Refusal",
        "classify",
        "conclude",
        "explain",
        "format_refusal",
        "sign_grant",
    }
)


class DemurImports:
    """The names in one file that refer to something of demur."""

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        self._known: dict[str, str] = {}
        self._everything = False
        for node in nodes:
            if isinstance(node, ast.Import):
                self._bind_module(node)
            elif isinstance(node, ast.ImportFrom):
                self._bind_members(node)

    def _bind_module(self, node: ast.Import) -> None:
        for alias in node.names:
            if f"{alias.name}.".startswith(_INSIDE):
                # `import demur.codes` binds `demur`; with `as` it binds the whole path.
                bound = (alias.asname, alias.name) if alias.asname else (_ROOT, _ROOT)
                self._known[bound[0]] = bound[1]

    def _bind_members(self, node: ast.ImportFrom) -> None:
        if node.level or not f"{node.module}.".startswith(_INSIDE):
            return
        for alias in node.names:
            if alias.name == "*":
                self._everything = True
            else:
                self._known[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def resolve_path(self, node: ast.expr) -> str | None:
        """Return the dotted path below demur that `node` names, or None if it is not demur's."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        root = self._known.get(node.id)
        if root is None and self._everything and node.id in _STAR_NAMES:
            root = f"{_INSIDE}{node.id}"
        return None if root is None else ".".join([root, *reversed(parts)])
