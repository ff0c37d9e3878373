"""Walks through the statements of a script in the order in which they would run.

Variables, functions, aliases and the current folder are followed, so that `X=rm; $X -rf /` and
`cd / && rm -rf *` are seen for what they are. Every branch counts; nothing is run.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from demur.guards.code_execution.call import ProgramCall, CommandHit, WrittenFile
from demur.guards.code_execution.effects import FileEffect, EffectKind
from demur.guards.code_execution.expand import expand_word, expand_unsplit
from demur.guards.code_execution.host import MAX_DEPTH, CodeLocation
from demur.guards.code_execution.judging import CommandJudge
from demur.guards.code_execution.places import HOME, canonical_path
from demur.guards.code_execution.programs import program_name
from demur.guards.code_execution.shell import read_script
from demur.guards.code_execution.tree import (
    OrList,
    ShellFunction,
    CommandGroup,
    ForLoop,
    ShellNode,
    WordPiece,
    PieceKind,
    ShellPipeline,
    ShellRedirect,
    ShellScript,
    SimpleCommand,
    ShellWord,
)
from demur.guards.code_execution.value import EMPTY, UNKNOWN, CommandArg, TextValue, join_values

__all__ = ["ScriptWalk"]

_MAX_TURNS = 8
_MAX_CHUNKS = 300
_CHUNK = re.compile(r"[^\n;|&()`{}]+")
_DECLARING = frozenset({"export", "declare", "local", "typeset", "readonly"})
_OWN_STATE = _DECLARING | {"cd", "pushd", "alias", "unset", "read"}
_OUTPUTS = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
_ADDING = frozenset({">>", "&>>"})


class ScriptWalk(CommandJudge):
    """One walk through one event; it collects the hits."""

    def walk_shell(
        self, arg: CommandArg, location: CodeLocation, stdin: TextValue = EMPTY
    ) -> TextValue:
        """Walk through a text as a shell would, and return its output."""
        if location.depth >= MAX_DEPTH:
            self.report(CommandHit("NESTED_TOO_DEEP"), arg.start, arg.end, "", location)
            return UNKNOWN
        script = read_script(arg.text)
        inner = location._replace(
            source=location.source.map_arg(arg), depth=location.depth + 1, pipe_start=-1
        )
        if script.problem and not script.nodes:
            self._judge_flat_text(arg.text, inner)
        elif script.problem and location.depth == 0:
            self.report(CommandHit("UNREADABLE", script.problem), 0, len(arg.text), "", inner)
        return self.walk_script(script, inner, stdin)

    def _judge_flat_text(self, text: str, location: CodeLocation) -> None:
        """Judge a text that nests too deep as flat words, cut wherever a command could end."""
        self.report(CommandHit("NESTED_TOO_DEEP"), 0, len(text), "", location)
        for number, chunk in enumerate(_CHUNK.finditer(text)):
            words = chunk[0].replace('"', " ").replace("'", " ").replace("$", " ").split()
            if number >= _MAX_CHUNKS:
                break
            if words:
                at = (chunk.start(), chunk.end())
                args = [CommandArg(word, *at) for word in words]
                self.judge_program(self._bare_call(args, location), *at, location)

    def _bare_call(self, args: list[CommandArg], location: CodeLocation) -> ProgramCall:
        rest = tuple(args[1:])
        return ProgramCall(
            program_name(args[0].text), args[0], rest, via=location.via, cwd=self.state.cwd
        )

    def walk_script(
        self, script: ShellScript, location: CodeLocation, stdin: TextValue = EMPTY
    ) -> TextValue:
        """Walk through `walk_script`, and return its whole output."""
        results = [self._walk_node(node, location, stdin) for node in script.nodes]
        written = [result for result in results if result != EMPTY]
        return join_values(written, "\n") if written else EMPTY

    def _walk_node(self, node: ShellNode, location: CodeLocation, stdin: TextValue) -> TextValue:
        if isinstance(node, SimpleCommand):
            return self._walk_simple(node, location, stdin)
        if isinstance(node, ShellPipeline):
            return self._walk_pipeline(node, location, stdin)
        if isinstance(node, CommandGroup):
            result = self.walk_script(
                node.body, location, self._redirected_input(node, location, stdin)
            )
            return self._write_redirected(result, node, location)
        if isinstance(node, ForLoop):
            return self._walk_loop(node, location, stdin)
        if isinstance(node, OrList):
            results = [self._walk_node(choice, location, stdin) for choice in node.choices]
            known = (value for value in results if value.text and value.known)
            return next(known, join_values(results, "\n"))
        return self._define_function(node, location)

    def _walk_pipeline(
        self, node: ShellPipeline, location: CodeLocation, flow: TextValue
    ) -> TextValue:
        piped = location._replace(pipe_start=node.start)
        for stage in node.stages:
            flow = self._walk_node(stage, piped, flow)
        return flow

    def _define_function(self, node: ShellFunction, location: CodeLocation) -> TextValue:
        self.state.functions[node.name] = node.body
        if any(_calls_itself_twice(inner, node.name) for inner in node.body.nodes):
            self.report(
                CommandHit("FORK_BOMB", node.name), node.start, node.end, node.name, location
            )
        return EMPTY

    def _walk_loop(self, node: ForLoop, location: CodeLocation, stdin: TextValue) -> TextValue:
        values = [arg.value for arg in self._expand_args(node.words, location)]
        result = EMPTY
        for value in values[:_MAX_TURNS] or [UNKNOWN._replace(text=f"${node.name}")]:
            self.state.assign(node.name, value)
            result = self.walk_script(
                node.body, location, self._redirected_input(node, location, stdin)
            )
        return self._write_redirected(result, node, location)

    def _walk_simple(
        self, node: SimpleCommand, location: CodeLocation, stdin: TextValue
    ) -> TextValue:
        if self.exhausted:
            return UNKNOWN
        environment = list(self._expand_assignments(node, location))
        args = self._expand_args(node.words, location)
        if not args:
            for name, value in environment:
                self.state.assign(name, value)
        elif args[0].text in self.state.aliases:
            args[:1] = _expand_alias(self.state.aliases[args[0].text], args[0])
        call = self._build_call(node, args, environment, location, stdin)
        body = self.state.functions.get(call.name.text)
        if body is not None and args:
            return self.walk_function(body, call, location)
        if call.verb in _OWN_STATE:
            self._apply_builtin(call)
        return self.judge_program(call, node.start, node.end, location)

    def _expand_args(self, words: Iterable[ShellWord], location: CodeLocation) -> list[CommandArg]:
        run = self._substitution_runner(location)
        return [arg for word in words for arg in expand_word(word, self.state, run)]

    def _expand_assignments(
        self, node: SimpleCommand, location: CodeLocation
    ) -> Iterator[tuple[str, TextValue]]:
        """Yield the variables that a command assigns, before it or alone."""
        for assignment in node.assignments:
            value = expand_unsplit(
                assignment.value, self.state, self._substitution_runner(location)
            ).value
            old = self.state.variable_value(assignment.name) if assignment.append else None
            yield assignment.name, join_values([old, value]) if old else value

    def _build_call(
        self,
        node: SimpleCommand,
        args: list[CommandArg],
        environment: list[tuple[str, TextValue]],
        location: CodeLocation,
        stdin: TextValue,
    ) -> ProgramCall:
        name = args[0] if args else CommandArg("", node.start, node.start)
        writes, reads = (
            self._redirected_files(node.redirects, location) if node.redirects else ((), ())
        )
        return ProgramCall(
            verb=program_name(name.text),
            name=name,
            args=tuple(args[1:]),
            via=location.via,
            stdin=self._redirected_input(node, location, stdin) if node.redirects else stdin,
            piped=location.pipe_start >= 0,
            writes=writes,
            reads=reads,
            environment=tuple(environment),
            cwd=self.state.cwd,
        )

    def walk_function(
        self, body: ShellScript, call: ProgramCall, location: CodeLocation
    ) -> TextValue:
        """Walk through the body of a function with the arguments of a call."""
        at = (call.name.start, call.name.end)
        if self.budget_exceeded(call, *at, location):
            return UNKNOWN
        if location.depth >= MAX_DEPTH:
            self.report(CommandHit("NESTED_TOO_DEEP"), *at, call.verb, location)
            return UNKNOWN
        before = self.state.positional
        self.state.positional = tuple(arg.value for arg in call.args)
        result = self.walk_script(body, location._replace(depth=location.depth + 1), call.stdin)
        self.state.positional = before
        return result

    def _apply_builtin(self, call: ProgramCall) -> None:
        """Apply `cd`, `export`, `alias`, `read` and `unset` to the state of the shell."""
        if call.verb in {"cd", "pushd"}:
            self._change_folder(call)
            return
        for arg in call.args:
            name, equals, value = arg.text.partition("=")
            if call.verb == "unset":
                self.state.variables.pop(name, None)
            elif call.verb == "read":
                text = call.stdin.text or f"${name}"
                self.state.assign(name, call.stdin._replace(text=text, known=False))
            elif equals and call.verb == "alias":
                self.state.aliases[name] = value
            elif equals:
                self.state.assign(name, TextValue(value, arg.known, arg.taints))

    def _change_folder(self, call: ProgramCall) -> None:
        operands = [arg.text for arg in call.args if not arg.text.startswith("-")]
        target = operands[0] if operands else HOME
        if not target.startswith("$"):
            self.state.cwd = canonical_path(target, self.state.cwd)

    # Redirections.

    def _redirected_input(
        self, node: CommandGroup | ForLoop | SimpleCommand, location: CodeLocation, stdin: TextValue
    ) -> TextValue:
        """Return the input of a command, after its redirections."""
        for redirect in node.redirects:
            if redirect.operator in {"<<", "<<-", "<<<"}:
                stdin = self._redirect_target(redirect, location).value
            elif redirect.operator == "<":
                target = self._redirect_target(redirect, location)
                if not isinstance(node, SimpleCommand):
                    self.report_effect(
                        FileEffect(EffectKind.READ, target), node.start, node.end, "<", location
                    )
                known = self.state.files.get(self.state.resolve_path(target.text))
                unknown = TextValue(
                    "", known=False, taints=target.taints | self.file_origins(target)
                )
                stdin = unknown if known is None else known
        return stdin

    def _redirect_target(self, redirect: ShellRedirect, location: CodeLocation) -> CommandArg:
        return expand_unsplit(redirect.target, self.state, self._substitution_runner(location))

    def _write_redirected(
        self, value: TextValue, node: CommandGroup | ForLoop, location: CodeLocation
    ) -> TextValue:
        """Write the output of a compound command to its redirection."""
        for redirect in node.redirects:
            if redirect.operator in _OUTPUTS:
                target = self._redirect_target(redirect, location)
                append = redirect.operator in _ADDING
                effect = FileEffect(EffectKind.WRITE, target, adds=append)
                self.report_effect(effect, node.start, node.end, ">", location)
                self.state.write_file(target.text, value, append=append)
                return EMPTY
        return value

    def _redirected_files(
        self, redirects: Iterable[ShellRedirect], location: CodeLocation
    ) -> tuple[tuple[WrittenFile, ...], tuple[CommandArg, ...]]:
        """Return the files that redirections write and read."""
        writes: list[WrittenFile] = []
        reads: list[CommandArg] = []
        for redirect in redirects:
            if redirect.operator.startswith("<<"):
                continue
            target = self._redirect_target(redirect, location)
            if redirect.operator in {"<", "<>"}:
                reads.append(target)
            if redirect.operator in _OUTPUTS and not (target.text.isdigit() or target.text == "-"):
                writes.append(WrittenFile(target, redirect.operator in _ADDING))
        return tuple(writes), tuple(reads)

    # Substitutions.

    def _substitution_runner(self, location: CodeLocation) -> Callable[[WordPiece], TextValue]:
        return lambda piece: self._run_substitution(piece, location)

    def _run_substitution(self, piece: WordPiece, location: CodeLocation) -> TextValue:
        """Walk through a substitution, and return its value."""
        end = piece.start + len(piece.text)
        if location.depth >= MAX_DEPTH:
            self.report(CommandHit("NESTED_TOO_DEEP"), piece.start, end, "", location)
            return UNKNOWN
        captured = location._replace(captured=True, pipe_start=-1)
        if piece.script is None:
            return self.walk_shell(CommandArg(piece.text, piece.start, end), captured)
        stdin = UNKNOWN if piece.kind is PieceKind.PROCESS else EMPTY
        return self.walk_script(piece.script, captured._replace(depth=location.depth + 1), stdin)


def _expand_alias(text: str, arg: CommandArg) -> list[CommandArg]:
    return [arg._replace(text=word, offset=None) for word in text.split()[:20]]


def _calls_itself_twice(node: ShellNode, name: str) -> bool:
    """Whether a function pipes itself into itself."""
    if isinstance(node, CommandGroup):
        return any(_calls_itself_twice(inner, name) for inner in node.body.nodes)
    if not isinstance(node, ShellPipeline):
        return False
    return sum(_program_word(stage) == name for stage in node.stages) > 1


def _program_word(node: ShellNode) -> str:
    """Return the literal first word of a simple command."""
    pieces = node.words[0].pieces if isinstance(node, SimpleCommand) and node.words else ()
    return pieces[0].text if pieces else ""
