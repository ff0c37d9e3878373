"""Walks through the statements of a script in the order in which they would run.

Variables, functions, aliases and the current folder are followed, so that `X=rm; $X -rf /` and
`cd / && rm -rf *` are seen for what they are. Every branch counts; nothing is run.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from demur.guards.code_execution.call import Call, Sight, Written
from demur.guards.code_execution.effects import Effect, Kind
from demur.guards.code_execution.expand import expand, expand_whole
from demur.guards.code_execution.host import DEEPEST, Frame
from demur.guards.code_execution.judging import Judging
from demur.guards.code_execution.places import HOME, canonical
from demur.guards.code_execution.programs import bare
from demur.guards.code_execution.shell import read_script
from demur.guards.code_execution.tree import (
    Either,
    Function,
    Group,
    Loop,
    Node,
    Piece,
    PieceKind,
    Pipeline,
    Redirect,
    Script,
    Simple,
    Word,
)
from demur.guards.code_execution.value import EMPTY, UNKNOWN, Arg, Value, joined

__all__ = ["Walk"]

_MOST_TURNS = 8
_MOST_CHUNKS = 300
_CHUNK = re.compile(r"[^\n;|&()`{}]+")
_DECLARING = frozenset({"export", "declare", "local", "typeset", "readonly"})
_OWN_STATE = _DECLARING | {"cd", "pushd", "alias", "unset", "read"}
_OUTPUTS = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
_ADDING = frozenset({">>", "&>>"})


class Walk(Judging):
    """One walk through one event; it collects the hits."""

    def shell(self, arg: Arg, frame: Frame, stdin: Value = EMPTY) -> Value:
        """Walk through a text as a shell would, and return its output."""
        if frame.depth >= DEEPEST:
            self.see(Sight("NESTED_TOO_DEEP"), arg.start, arg.end, "", frame)
            return UNKNOWN
        script = read_script(arg.text)
        inner = frame._replace(source=frame.source.inner(arg), depth=frame.depth + 1, pipe_start=-1)
        if script.problem and not script.nodes:
            self._flat(arg.text, inner)
        elif script.problem and frame.depth == 0:
            self.see(Sight("UNREADABLE", script.problem), 0, len(arg.text), "", inner)
        return self.script(script, inner, stdin)

    def _flat(self, text: str, frame: Frame) -> None:
        """Judge a text that nests too deep as flat words, cut wherever a command could end."""
        self.see(Sight("NESTED_TOO_DEEP"), 0, len(text), "", frame)
        for number, chunk in enumerate(_CHUNK.finditer(text)):
            words = chunk[0].replace('"', " ").replace("'", " ").replace("$", " ").split()
            if number >= _MOST_CHUNKS:
                break
            if words:
                at = (chunk.start(), chunk.end())
                args = [Arg(word, *at) for word in words]
                self.program(self._bare_call(args, frame), *at, frame)

    def _bare_call(self, args: list[Arg], frame: Frame) -> Call:
        rest = tuple(args[1:])
        return Call(bare(args[0].text), args[0], rest, via=frame.via, cwd=self.scope.cwd)

    def script(self, script: Script, frame: Frame, stdin: Value = EMPTY) -> Value:
        """Walk through `script`, and return its whole output."""
        results = [self._node(node, frame, stdin) for node in script.nodes]
        written = [result for result in results if result != EMPTY]
        return joined(written, "\n") if written else EMPTY

    def _node(self, node: Node, frame: Frame, stdin: Value) -> Value:
        if isinstance(node, Simple):
            return self._simple(node, frame, stdin)
        if isinstance(node, Pipeline):
            return self._pipeline(node, frame, stdin)
        if isinstance(node, Group):
            result = self.script(node.body, frame, self._input(node, frame, stdin))
            return self._redirected(result, node, frame)
        if isinstance(node, Loop):
            return self._loop(node, frame, stdin)
        if isinstance(node, Either):
            results = [self._node(choice, frame, stdin) for choice in node.choices]
            known = (value for value in results if value.text and value.known)
            return next(known, joined(results, "\n"))
        return self._function(node, frame)

    def _pipeline(self, node: Pipeline, frame: Frame, flow: Value) -> Value:
        piped = frame._replace(pipe_start=node.start)
        for stage in node.stages:
            flow = self._node(stage, piped, flow)
        return flow

    def _function(self, node: Function, frame: Frame) -> Value:
        self.scope.functions[node.name] = node.body
        if any(_calls_itself_twice(inner, node.name) for inner in node.body.nodes):
            self.see(Sight("FORK_BOMB", node.name), node.start, node.end, node.name, frame)
        return EMPTY

    def _loop(self, node: Loop, frame: Frame, stdin: Value) -> Value:
        values = [arg.value for arg in self._args(node.words, frame)]
        result = EMPTY
        for value in values[:_MOST_TURNS] or [UNKNOWN._replace(text=f"${node.name}")]:
            self.scope.assign(node.name, value)
            result = self.script(node.body, frame, self._input(node, frame, stdin))
        return self._redirected(result, node, frame)

    def _simple(self, node: Simple, frame: Frame, stdin: Value) -> Value:
        if self.exhausted:
            return UNKNOWN
        environment = list(self._assigned(node, frame))
        args = self._args(node.words, frame)
        if not args:
            for name, value in environment:
                self.scope.assign(name, value)
        elif args[0].text in self.scope.aliases:
            args[:1] = _alias(self.scope.aliases[args[0].text], args[0])
        call = self._call(node, args, environment, frame, stdin)
        body = self.scope.functions.get(call.name.text)
        if body is not None and args:
            return self.called(body, call, frame)
        if call.verb in _OWN_STATE:
            self._builtin(call)
        return self.program(call, node.start, node.end, frame)

    def _args(self, words: Iterable[Word], frame: Frame) -> list[Arg]:
        run = self._run(frame)
        return [arg for word in words for arg in expand(word, self.scope, run)]

    def _assigned(self, node: Simple, frame: Frame) -> Iterator[tuple[str, Value]]:
        """Yield the variables that a command assigns, before it or alone."""
        for assignment in node.assignments:
            value = expand_whole(assignment.value, self.scope, self._run(frame)).value
            old = self.scope.variable(assignment.name) if assignment.append else None
            yield assignment.name, joined([old, value]) if old else value

    def _call(
        self,
        node: Simple,
        args: list[Arg],
        environment: list[tuple[str, Value]],
        frame: Frame,
        stdin: Value,
    ) -> Call:
        name = args[0] if args else Arg("", node.start, node.start)
        writes, reads = self._files(node.redirects, frame) if node.redirects else ((), ())
        return Call(
            verb=bare(name.text),
            name=name,
            args=tuple(args[1:]),
            via=frame.via,
            stdin=self._input(node, frame, stdin) if node.redirects else stdin,
            piped=frame.pipe_start >= 0,
            writes=writes,
            reads=reads,
            environment=tuple(environment),
            cwd=self.scope.cwd,
        )

    def called(self, body: Script, call: Call, frame: Frame) -> Value:
        """Walk through the body of a function with the arguments of a call."""
        at = (call.name.start, call.name.end)
        if self.spent(call, *at, frame):
            return UNKNOWN
        if frame.depth >= DEEPEST:
            self.see(Sight("NESTED_TOO_DEEP"), *at, call.verb, frame)
            return UNKNOWN
        before = self.scope.positional
        self.scope.positional = tuple(arg.value for arg in call.args)
        result = self.script(body, frame._replace(depth=frame.depth + 1), call.stdin)
        self.scope.positional = before
        return result

    def _builtin(self, call: Call) -> None:
        """Apply `cd`, `export`, `alias`, `read` and `unset` to the state of the shell."""
        if call.verb in {"cd", "pushd"}:
            self._change_folder(call)
            return
        for arg in call.args:
            name, equals, value = arg.text.partition("=")
            if call.verb == "unset":
                self.scope.variables.pop(name, None)
            elif call.verb == "read":
                text = call.stdin.text or f"${name}"
                self.scope.assign(name, call.stdin._replace(text=text, known=False))
            elif equals and call.verb == "alias":
                self.scope.aliases[name] = value
            elif equals:
                self.scope.assign(name, Value(value, arg.known, arg.taints))

    def _change_folder(self, call: Call) -> None:
        operands = [arg.text for arg in call.args if not arg.text.startswith("-")]
        target = operands[0] if operands else HOME
        if not target.startswith("$"):
            self.scope.cwd = canonical(target, self.scope.cwd)

    # Redirections.

    def _input(self, node: Group | Loop | Simple, frame: Frame, stdin: Value) -> Value:
        """Return the input of a command, after its redirections."""
        for redirect in node.redirects:
            if redirect.operator in {"<<", "<<-", "<<<"}:
                stdin = self._target(redirect, frame).value
            elif redirect.operator == "<":
                target = self._target(redirect, frame)
                if not isinstance(node, Simple):
                    self.effect(Effect(Kind.READ, target), node.start, node.end, "<", frame)
                known = self.scope.files.get(self.scope.path(target.text))
                unknown = Value("", known=False, taints=target.taints | self.origin(target))
                stdin = unknown if known is None else known
        return stdin

    def _target(self, redirect: Redirect, frame: Frame) -> Arg:
        return expand_whole(redirect.target, self.scope, self._run(frame))

    def _redirected(self, value: Value, node: Group | Loop, frame: Frame) -> Value:
        """Write the output of a compound command to its redirection."""
        for redirect in node.redirects:
            if redirect.operator in _OUTPUTS:
                target = self._target(redirect, frame)
                append = redirect.operator in _ADDING
                effect = Effect(Kind.WRITE, target, adds=append)
                self.effect(effect, node.start, node.end, ">", frame)
                self.scope.write(target.text, value, append=append)
                return EMPTY
        return value

    def _files(
        self, redirects: Iterable[Redirect], frame: Frame
    ) -> tuple[tuple[Written, ...], tuple[Arg, ...]]:
        """Return the files that redirections write and read."""
        writes: list[Written] = []
        reads: list[Arg] = []
        for redirect in redirects:
            if redirect.operator.startswith("<<"):
                continue
            target = self._target(redirect, frame)
            if redirect.operator in {"<", "<>"}:
                reads.append(target)
            if redirect.operator in _OUTPUTS and not (target.text.isdigit() or target.text == "-"):
                writes.append(Written(target, redirect.operator in _ADDING))
        return tuple(writes), tuple(reads)

    # Substitutions.

    def _run(self, frame: Frame) -> Callable[[Piece], Value]:
        return lambda piece: self._substituted(piece, frame)

    def _substituted(self, piece: Piece, frame: Frame) -> Value:
        """Walk through a substitution, and return its value."""
        end = piece.start + len(piece.text)
        if frame.depth >= DEEPEST:
            self.see(Sight("NESTED_TOO_DEEP"), piece.start, end, "", frame)
            return UNKNOWN
        captured = frame._replace(captured=True, pipe_start=-1)
        if piece.script is None:
            return self.shell(Arg(piece.text, piece.start, end), captured)
        stdin = UNKNOWN if piece.kind is PieceKind.PROCESS else EMPTY
        return self.script(piece.script, captured._replace(depth=frame.depth + 1), stdin)


def _alias(text: str, arg: Arg) -> list[Arg]:
    return [arg._replace(text=word, offset=None) for word in text.split()[:20]]


def _calls_itself_twice(node: Node, name: str) -> bool:
    """Whether a function pipes itself into itself."""
    if isinstance(node, Group):
        return any(_calls_itself_twice(inner, name) for inner in node.body.nodes)
    if not isinstance(node, Pipeline):
        return False
    return sum(_named(stage) == name for stage in node.stages) > 1


def _named(node: Node) -> str:
    """Return the literal first word of a simple command."""
    pieces = node.words[0].pieces if isinstance(node, Simple) and node.words else ()
    return pieces[0].text if pieces else ""
