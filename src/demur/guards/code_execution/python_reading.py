"""One reading of one Python module: what names stand for, and where to report."""

import ast
from collections.abc import Callable

from demur.guards.code_execution.call import ProgramCall, CommandHit
from demur.guards.code_execution.effects import FileEffect, EffectKind
from demur.guards.code_execution.host import CodeLocation, Walker
from demur.guards.code_execution.programs import program_name
from demur.guards.code_execution.python_lines import NodePlaces
from demur.guards.code_execution.python_values import PythonValues
from demur.guards.code_execution.value import (
    UNKNOWN_PLACEHOLDER,
    UNKNOWN,
    CommandArg,
    Taint,
    TextValue,
)
from demur.guards.code_execution.verbs.around import CommandContext

__all__ = ["OPENERS", "PythonWalk"]

OPENERS = frozenset({"open", "io.open", "codecs.open"})


class PythonWalk:
    """The state that call handlers share. `read_nested` reads code inside the code."""

    def __init__(
        self,
        text: str,
        walker: Walker,
        location: CodeLocation,
        read_nested: Callable[[CommandArg, CodeLocation], None],
    ) -> None:
        self.walker = walker
        self.location = location
        self.read_nested = read_nested
        self.names = PythonValues(walker.cwd)
        self.context = CommandContext(walker.config, walker.bounds)
        self.lines = NodePlaces(text)
        self.open_files: dict[str, TextValue] = {}
        self.called_modules: set[str] = set()
        self.unclear_modules: set[str] = set()

    def report(self, rule: str, node: ast.expr | ast.stmt, target: str = "") -> None:
        """Report a rule at `node`."""
        start, end = self.lines.node_span(node)
        self.walker.report(CommandHit(rule, target), start, end, "python", self.location)

    def first_arg(self, node: ast.Call, *keywords: str) -> TextValue:
        """Return the first argument of a call, or one of these keywords."""
        if node.args:
            return self.names.evaluate_node(node.args[0])
        given = (keyword.value for keyword in node.keywords if keyword.arg in keywords)
        found = next(given, None)
        return self.names.evaluate_node(found) if found is not None else UNKNOWN

    def located_arg(self, value: TextValue, node: ast.expr) -> CommandArg:
        """Return `evaluate_node` with its span."""
        start, end = self.lines.node_span(node)
        offset = self.lines.string_offset(node, value.text)
        return CommandArg(value.text, start, end, value.known, value.taints, offset)

    def report_origins(self, value: TextValue, node: ast.Call, name: str) -> None:
        """Report code that was downloaded or decoded."""
        if Taint.DOWNLOAD in value.taints:
            self.report("DOWNLOAD_RUN", node, name)
        elif Taint.DECODED in value.taints:
            self.report("DECODED_RUN", node, name)

    def report_effect(
        self,
        node: ast.Call,
        path: TextValue,
        kind: EffectKind,
        *,
        tree: bool = False,
        adds: bool = False,
    ) -> None:
        """Report an effect on a file."""
        if path.text:
            start, end = self.lines.node_span(node)
            target = CommandArg(path.text, start, end, path.known, path.taints)
            effect = FileEffect(kind, target, tree=tree, adds=adds)
            self.walker.report_effect(effect, start, end, "python", self.location)

    def judge_program(self, items: list[ast.expr], node: ast.Call, name: str) -> None:
        """Judge a program that a call starts with a list of words."""
        args = [self.located_arg(self.names.evaluate_node(item), item) for item in items]
        if any(not arg.known for arg in args):
            self.unclear_modules.add(name.partition(".")[0])
        if not args:
            return
        start, end = self.lines.node_span(node)
        words = tuple(arg if arg.text else arg._replace(text=UNKNOWN_PLACEHOLDER) for arg in args)
        via, cwd = (*self.location.via, "python"), self.walker.cwd
        call = ProgramCall(program_name(words[0].text), words[0], words[1:], via=via, cwd=cwd)
        self.walker.judge_program(call, start, end, self.location._replace(via=via))

    def opened_path(self, node: ast.expr) -> TextValue:
        """Return the path that an expression opens, if it opens one."""
        if isinstance(node, ast.Name):
            return self.open_files.get(node.id, UNKNOWN)
        opens = isinstance(node, ast.Call) and self.names.dotted_name(node.func) in OPENERS
        if isinstance(node, ast.Call) and opens and node.args:
            return self.names.evaluate_node(node.args[0])
        return UNKNOWN

    def record_write(self, path: TextValue, node: ast.Call) -> None:
        """Record the content that a call writes to a file."""
        if path.text and node.args:
            self.walker.record_write(path.text, self.names.evaluate_node(node.args[0]))
