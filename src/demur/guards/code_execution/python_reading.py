"""One reading of one Python module: what names stand for, and where to report."""

import ast
from collections.abc import Callable

from demur.guards.code_execution.call import Call, Sight
from demur.guards.code_execution.effects import Effect, Kind
from demur.guards.code_execution.host import Frame, Host
from demur.guards.code_execution.programs import bare
from demur.guards.code_execution.python_lines import Lines
from demur.guards.code_execution.python_values import Names
from demur.guards.code_execution.value import HOLE, UNKNOWN, Arg, Taint, Value
from demur.guards.code_execution.verbs.around import Around

__all__ = ["OPENERS", "Reading"]

OPENERS = frozenset({"open", "io.open", "codecs.open"})


class Reading:
    """The state that call handlers share. `read_nested` reads code inside the code."""

    def __init__(
        self, text: str, host: Host, frame: Frame, again: Callable[[Arg, Frame], None]
    ) -> None:
        self.host = host
        self.frame = frame
        self.again = again
        self.names = Names(host.cwd)
        self.around = Around(host.config, host.bounds)
        self.lines = Lines(text)
        self.opened: dict[str, Value] = {}
        self.called: set[str] = set()
        self.unseen: set[str] = set()

    def see(self, rule: str, node: ast.expr | ast.stmt, target: str = "") -> None:
        """Report a rule at `node`."""
        start, end = self.lines.place(node)
        self.host.see(Sight(rule, target), start, end, "python", self.frame)

    def first(self, node: ast.Call, *keywords: str) -> Value:
        """Return the first argument of a call, or one of these keywords."""
        if node.args:
            return self.names.value(node.args[0])
        given = (keyword.value for keyword in node.keywords if keyword.arg in keywords)
        found = next(given, None)
        return self.names.value(found) if found is not None else UNKNOWN

    def arg(self, value: Value, node: ast.expr) -> Arg:
        """Return `value` with its span."""
        start, end = self.lines.place(node)
        offset = self.lines.inside(node, value.text)
        return Arg(value.text, start, end, value.known, value.taints, offset)

    def origins(self, value: Value, node: ast.Call, name: str) -> None:
        """Report code that was downloaded or decoded."""
        if Taint.DOWNLOAD in value.taints:
            self.see("DOWNLOAD_RUN", node, name)
        elif Taint.DECODED in value.taints:
            self.see("DECODED_RUN", node, name)

    def touch(
        self, node: ast.Call, path: Value, kind: Kind, *, tree: bool = False, adds: bool = False
    ) -> None:
        """Report an effect on a file."""
        if path.text:
            start, end = self.lines.place(node)
            target = Arg(path.text, start, end, path.known, path.taints)
            effect = Effect(kind, target, tree=tree, adds=adds)
            self.host.effect(effect, start, end, "python", self.frame)

    def start(self, items: list[ast.expr], node: ast.Call, name: str) -> None:
        """Judge a program that a call starts with a list of words."""
        args = [self.arg(self.names.value(item), item) for item in items]
        if any(not arg.known for arg in args):
            self.unseen.add(name.partition(".")[0])
        if not args:
            return
        start, end = self.lines.place(node)
        words = tuple(arg if arg.text else arg._replace(text=HOLE) for arg in args)
        via, cwd = (*self.frame.via, "python"), self.host.cwd
        call = Call(bare(words[0].text), words[0], words[1:], via=via, cwd=cwd)
        self.host.program(call, start, end, self.frame._replace(via=via))

    def opened_by(self, node: ast.expr) -> Value:
        """Return the path that an expression opens, if it opens one."""
        if isinstance(node, ast.Name):
            return self.opened.get(node.id, UNKNOWN)
        opens = isinstance(node, ast.Call) and self.names.dotted(node.func) in OPENERS
        if isinstance(node, ast.Call) and opens and node.args:
            return self.names.value(node.args[0])
        return UNKNOWN

    def keep(self, path: Value, node: ast.Call) -> None:
        """Record the content that a call writes to a file."""
        if path.text and node.args:
            self.host.wrote(path.text, self.names.value(node.args[0]))
