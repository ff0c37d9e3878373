"""A Python file, parsed once: what all checks of it share."""

import ast
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from demur.guards.skill.bundle import SkillConfig
from demur.guards.skill.document import SourceText
from demur.guards.skill.flow import PythonDataFlow
from demur.guards.skill.names import PythonNames, collect_names
from demur.guards.skill.parsing import ParsedPython, parse_leniently
from demur.guards.skill.sighting import SkillHit
from demur.model.finding import Action

__all__ = ["PythonCheck", "PythonSource"]

_MAX_QUOTE_LENGTH = 60


class PythonSource:
    """One file's tree, its names, and the flow of its values."""

    def __init__(self, document: SourceText, config: SkillConfig) -> None:
        self.document = document
        self.config = config
        parsed: ParsedPython = parse_leniently(document.text)
        self.tree = parsed.tree
        self.trouble = parsed.trouble
        self.nodes = tuple(ast.walk(parsed.tree))

    @cached_property
    def names(self) -> PythonNames:
        """The dotted names that names of the file stand for."""
        return collect_names(self.tree, self.nodes)

    @cached_property
    def flow(self) -> PythonDataFlow:
        """The origins of the file's values; computed on first use."""
        return PythonDataFlow(self.tree, self.names)

    @cached_property
    def calls(self) -> tuple[tuple[ast.Call, str | None], ...]:
        """Every call with the dotted name of its function, in the order of the file."""
        found = [node for node in self.nodes if isinstance(node, ast.Call)]
        found.sort(key=lambda node: (node.lineno, node.col_offset))
        return tuple((node, self.names.dotted_path(node.func)) for node in found)

    def make_hit(
        self, rule: str, node: ast.AST, detail: str, action: Action | None = None, **evidence: Any
    ) -> SkillHit:
        """Return a hit of a rule at `node`."""
        start = self.document.to_offset(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))
        last = getattr(node, "end_lineno", None)
        end = start if last is None else self.document.to_offset(last, node.end_col_offset)  # type: ignore[attr-defined]
        return SkillHit(rule, start, max(start, end), detail, evidence, action=action)

    def constant_text(self, node: ast.expr | None) -> str | None:
        """Return the constant text of `node`, or None."""
        folded = self.names.fold(node)
        return folded.value if folded and isinstance(folded.value, str) else None

    def quote_source(self, node: ast.AST) -> str:
        """Return the start of the node's source on one line, for a detail."""
        seen = self.make_hit("", node, "")
        text = " ".join(self.document.text[seen.start : seen.end][:200].split())
        return text if len(text) <= _MAX_QUOTE_LENGTH else f"{text[:_MAX_QUOTE_LENGTH]}…"


PythonCheck = Callable[[PythonSource], Iterator[SkillHit]]
