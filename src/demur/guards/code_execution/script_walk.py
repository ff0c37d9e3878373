"""Walk through a script in the order in which it would run, and judge each program.

The walk follows variables, functions, aliases, the current folder, written files and the origins of
data, so that it recognises `X=rm; $X -rf /`, `curl -o f URL; sh f` and `env | curl -d @- URL`.
Every branch counts; nothing is run. The number of commands, characters and levels is bounded.
"""

import fnmatch
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from demur.guards.code_execution.call import (
    EMPTY,
    UNKNOWN,
    Arg,
    CommandHit,
    ProgramCall,
    Taint,
    Value,
    WrittenFile,
    join_values,
    program_name,
)
from demur.guards.code_execution.carriers import InnerCommand, unwrap_command
from demur.guards.code_execution.command_rules import check_command
from demur.guards.code_execution.context import (
    MAX_DEPTH,
    ORIGIN_RULES,
    CommandContext,
    LocatedHit,
    Location,
    Walker,
)
from demur.guards.code_execution.effects import (
    EffectKind,
    FileEffect,
    find_effects,
    rules_for_effect,
    sets_plain_variables,
)
from demur.guards.code_execution.event import CommandConfig
from demur.guards.code_execution.expand import ShellState, expand_unsplit, expand_word
from demur.guards.code_execution.launchers import CodeLanguage, CodeToRun, find_code
from demur.guards.code_execution.other_languages import read_other, read_prompt
from demur.guards.code_execution.outputs import predict_output, written_files
from demur.guards.code_execution.paths import (
    HOME,
    PathKind,
    WorkspaceBounds,
    canonical_path,
    classify_path,
    read_rule,
)
from demur.guards.code_execution.powershell import read_powershell
from demur.guards.code_execution.python_code import read_python
from demur.guards.code_execution.rules import COMMAND_RULES
from demur.guards.static.shell_script import read_script
from demur.guards.static.shell_words import (
    CommandGroup,
    ForLoop,
    OrList,
    PieceKind,
    ShellNode,
    ShellPipeline,
    ShellRedirect,
    ShellScript,
    ShellWord,
    SimpleCommand,
    WordPiece,
)
from demur.model.finding import Action

_MAX_STEPS = 2_000
_MAX_CHARACTERS = 400_000
_FLOWS = frozenset({"SECRET_SENT", "DATA_SENT", "WORK_SENT"})
_OWN_KINDS = frozenset({PathKind.INSIDE, PathKind.WORKSPACE_ITSELF, PathKind.STREAM})
_SOCKETS = ("/dev/tcp/", "/dev/udp/")
_MAX_TURNS = 8
_MAX_CHUNKS = 300
_CHUNK = re.compile(r"[^\n;|&()`{}]+")
_DECLARING = frozenset({"export", "declare", "local", "typeset", "readonly"})
_OWN_STATE = _DECLARING | {"cd", "pushd", "alias", "unset", "read"}
_OUTPUTS = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
_ADDING = frozenset({">>", "&>>"})
_CODE_READERS = {
    CodeLanguage.PYTHON: read_python,
    CodeLanguage.POWERSHELL: read_powershell,
    CodeLanguage.CMD: read_prompt,
    CodeLanguage.OTHER: read_other,
}


def read_code(language: CodeLanguage, arg: Arg, walker: Walker, location: Location) -> None:
    """Judge `arg` as code in `language`."""
    if location.depth >= MAX_DEPTH:
        walker.report(CommandHit("NESTED_TOO_DEEP"), arg.start, arg.end, "", location)
    elif language is CodeLanguage.SHELL:
        walker.walk_shell(arg, location)
    else:
        _CODE_READERS[language](arg, walker, location)


class ScriptWalk:
    """One walk through one event: it judges each program and collects the hits."""

    def __init__(self, config: CommandConfig, bounds: WorkspaceBounds, cwd: str) -> None:
        self.config = config
        self.bounds = bounds
        self.state = ShellState(cwd)
        self.hits: list[LocatedHit] = []
        self.steps = 0
        self.characters = 0
        self.exhausted = False

    @property
    def cwd(self) -> str:
        """The folder in which the next command would run."""
        return self.state.cwd

    def report(self, hit: CommandHit, start: int, end: int, verb: str, location: Location) -> None:
        """Report a hit at a span of the text of `location`."""
        is_note = location.guessed and COMMAND_RULES[hit.rule].action is Action.WARN
        if hit.rule not in self.config.off and not is_note:
            first, last = location.source.to_original(start, end)
            _, _, via, container, *_ = location
            self.hits.append(LocatedHit(hit, first, last, verb, via, container, location.guessed))

    def report_effect(
        self, effect: FileEffect, start: int, end: int, verb: str, location: Location
    ) -> None:
        """Report the rules that an effect on a file matches."""
        for hit in rules_for_effect(effect, self.state.cwd, self.bounds):
            if not (location.captured and hit.rule in {"SECRET_READ", "SECRET_NEAR"}):
                self.report(hit, start, end, verb, location)

    def record_write(self, path: str, value: Value) -> None:
        """Record the new content of a file."""
        self.state.write_file(path, value)

    def budget_exceeded(self, call: ProgramCall, start: int, end: int, location: Location) -> bool:
        """Whether the budget of steps or characters is used up; reported once."""
        self.steps += 1
        self.characters += sum(len(arg.text) for arg in call.args)
        if self.steps <= _MAX_STEPS and self.characters <= _MAX_CHARACTERS:
            return False
        if not self.exhausted:
            self.report(CommandHit("NESTED_TOO_DEEP"), start, end, call.verb, location)
        self.exhausted = True
        return True

    def judge_program(self, call: ProgramCall, start: int, end: int, location: Location) -> Value:
        """Judge a program that is started directly, and return its output."""
        if self.budget_exceeded(call, start, end, location):
            return UNKNOWN
        if self._is_allowed(call, start, end, location):
            return predict_output(call, self.state)
        taints = self._report_effects(call, start, end, location)
        if not _asks_for_help(call):
            context = CommandContext(self.config, self.bounds, self.state.files)
            for hit in check_command(call, context):
                flows = hit.rule in _FLOWS and call.stdin != EMPTY
                span = _pipeline_span(start, end, location) if flows else (start, end)
                self.report(hit, *span, call.verb, location)
            self._judge_code(call, start, end, location)
            for inner in unwrap_command(call, self.state.files):
                self._judge_inner(inner, call, end, location)
        result = predict_output(call, self.state)
        if taints:
            result = result._replace(taints=result.taints | taints)
        for path, value, append in written_files(call, result, self.state):
            self.state.write_file(path, value, append=append)
        return result

    def _is_allowed(self, call: ProgramCall, start: int, end: int, location: Location) -> bool:
        """Whether the settings allow this command by name; report it if they deny it."""
        if not self.config.allow and not self.config.deny:
            return False
        line = " ".join([call.name.text, *call.texts])
        if any(fnmatch.fnmatchcase(line, pattern) for pattern in self.config.deny):
            self.report(CommandHit("COMMAND_DENIED", call.verb), start, end, call.verb, location)
            return False
        return any(fnmatch.fnmatchcase(line, pattern) for pattern in self.config.allow)

    def _report_effects(
        self, call: ProgramCall, start: int, end: int, location: Location
    ) -> frozenset[Taint]:
        """Report the call's effects on files; return the origins that its output gets from them."""
        taints: frozenset[Taint] = frozenset()
        helps = _asks_for_help(call)
        for effect in find_effects(call):
            if helps and effect.kind is not EffectKind.WRITE:
                continue
            added = predict_output(call, self.state) if effect.append else UNKNOWN
            empty = effect.empty or (added.known and sets_plain_variables(added.text))
            self.report_effect(effect._replace(empty=empty), start, end, call.verb, location)
            if effect.kind is EffectKind.READ:
                taints |= self.file_origins(effect.target)
        return taints

    def file_origins(self, target: Arg) -> frozenset[Taint]:
        """Return the origins of a file's content, by its name."""
        path = canonical_path(target.text, self.state.cwd)
        if path.startswith(_SOCKETS):
            return frozenset({Taint.DOWNLOAD})
        if read_rule(path):
            return frozenset({Taint.SECRET})
        if path in self.state.files:
            return self.state.files[path].taints
        own = classify_path(target.text, self.state.cwd, self.bounds) in _OWN_KINDS
        return frozenset() if own else frozenset({Taint.FILE})

    def _judge_code(self, call: ProgramCall, start: int, end: int, location: Location) -> None:
        """Judge the code that an interpreter gets, or a program that an earlier command wrote."""
        found = list(find_code(call))
        if not found and self.state.files:
            path = self.state.resolve_path(call.name.text)
            if path in self.state.files:
                found = [CodeToRun(CodeLanguage.SHELL, file=call.name._replace(text=path))]
        for code in found:
            from_input = code.text is None and code.file is None
            span = _pipeline_span(start, end, location) if from_input else (start, end)
            arg = code.text or self._stored_code(code, call, *span)
            if arg is None:
                continue
            self._report_origin(arg, call.verb, span, location)
            if arg.text and (arg.known or code.text is not None):
                inner = location._replace(via=(*location.via, call.verb))
                with self._positional(code.operands):
                    read_code(code.language, arg, self, inner)

    @contextmanager
    def _positional(self, operands: tuple[Arg, ...]) -> Iterator[None]:
        """Set `$0`, `$1` and so on, as `sh -c TEXT OPERANDS` does."""
        if not operands:
            yield
            return
        before, variables = self.state.positional, self.state.variables
        self.state.positional = tuple(arg.value for arg in operands[1:])
        self.state.variables = {**variables, "0": operands[0].value}
        yield
        self.state.positional, self.state.variables = before, variables

    def _report_origin(
        self, arg: Arg, verb: str, span: tuple[int, int], location: Location
    ) -> None:
        """Report code that was downloaded or decoded."""
        for taint, rule in ORIGIN_RULES.items() if arg.taints else ():
            if taint in arg.taints:
                self.report(CommandHit(rule, verb), *span, verb, location)

    def _stored_code(self, code: CodeToRun, call: ProgramCall, start: int, end: int) -> Arg | None:
        """Return the code in a file or in the input, as far as it is known."""
        if code.file is None or code.file.text in {"/dev/stdin", "/dev/fd/0"}:
            value = call.stdin
        elif code.file.taints or code.file.text.startswith(_SOCKETS):
            taints = code.file.taints | self.file_origins(code.file)
            value = Value("", known=False, taints=taints)
        else:
            value = self.state.files.get(self.state.resolve_path(code.file.text), EMPTY)
        return None if value == EMPTY else Arg(value.text, start, end, value.known, value.taints)

    def _judge_inner(
        self, inner: InnerCommand, call: ProgramCall, end: int, location: Location
    ) -> None:
        """Judge a command inside another one."""
        args = inner.args
        if not args:
            return
        if location.depth >= MAX_DEPTH:
            self.report(CommandHit("NESTED_TOO_DEEP"), args[0].start, end, call.verb, location)
            return
        via = (*location.via, inner.via)
        in_container = location.in_container or inner.in_container
        deeper = location._replace(depth=location.depth + 1, via=via, in_container=in_container)
        deeper = deeper._replace(guessed=location.guessed or inner.guessed)
        if inner.script:
            whole = join_values([arg.value for arg in args], " ")
            arg = args[0] if len(args) == 1 else Arg(whole.text, args[0].start, end, *whole[1:])
            if inner.language is CodeLanguage.SHELL:
                self._judge_evaluated(arg, call, end, deeper)
            else:
                read_code(inner.language, arg, self, deeper)
            return
        verb, name = program_name(args[0].text), args[0]
        started = call._replace(
            verb=verb, name=name, args=args[1:], via=via, writes=(), reads=(), environment=()
        )
        if name.text in self.state.functions:
            self.walk_function(self.state.functions[name.text], started, deeper)
        else:
            self.judge_program(started, name.start, end, deeper)

    def _judge_evaluated(self, arg: Arg, call: ProgramCall, end: int, location: Location) -> None:
        """Judge a text that a program passes to a shell."""
        span = (call.name.start, end)
        self._report_origin(arg, call.verb, span, location)
        if not arg.known and call.verb == "eval":
            self.report(CommandHit("EVAL_UNKNOWN", call.verb), *span, call.verb, location)
        if arg.text:
            self.walk_shell(arg, location, call.stdin)

    # Statements.

    def walk_shell(self, arg: Arg, location: Location, stdin: Value = EMPTY) -> Value:
        """Walk through a text as a shell would, and return its output."""
        if location.depth >= MAX_DEPTH:
            self.report(CommandHit("NESTED_TOO_DEEP"), arg.start, arg.end, "", location)
            return UNKNOWN
        script = read_script(arg.text)
        inner = location.enter(arg)
        if script.problem and not script.nodes:
            self._judge_flat_text(arg.text, inner)
        elif script.problem and location.depth == 0:
            self.report(CommandHit("UNREADABLE", script.problem), 0, len(arg.text), "", inner)
        return self.walk_script(script, inner, stdin)

    def _judge_flat_text(self, text: str, location: Location) -> None:
        """Judge a text that nests too deep as flat words, cut wherever a command could end."""
        self.report(CommandHit("NESTED_TOO_DEEP"), 0, len(text), "", location)
        for number, chunk in enumerate(_CHUNK.finditer(text)):
            words = chunk[0].replace('"', " ").replace("'", " ").replace("$", " ").split()
            if number >= _MAX_CHUNKS:
                break
            if words:
                span = (chunk.start(), chunk.end())
                name, *args = (Arg(word, *span) for word in words)
                verb, cwd = program_name(name.text), self.state.cwd
                call = ProgramCall(verb, name, tuple(args), via=location.via, cwd=cwd)
                self.judge_program(call, *span, location)

    def walk_script(self, script: ShellScript, location: Location, stdin: Value = EMPTY) -> Value:
        """Walk through `script`, and return its whole output."""
        results = [self._walk_node(node, location, stdin) for node in script.nodes]
        written = [result for result in results if result != EMPTY]
        return join_values(written, "\n") if written else EMPTY

    def _walk_node(self, node: ShellNode, location: Location, stdin: Value) -> Value:
        if isinstance(node, SimpleCommand):
            return self._walk_simple(node, location, stdin)
        if isinstance(node, ShellPipeline):
            for stage in node.stages:
                stdin = self._walk_node(stage, location._replace(pipe_start=node.start), stdin)
            return stdin
        if isinstance(node, CommandGroup):
            stdin = self._redirected_input(node, location, stdin)
            result = self.walk_script(node.body, location, stdin)
            return self._write_out(result, node, location)
        if isinstance(node, ForLoop):
            return self._walk_loop(node, location, stdin)
        if isinstance(node, OrList):
            results = [self._walk_node(choice, location, stdin) for choice in node.choices]
            known = (value for value in results if value.text and value.known)
            return next(known, join_values(results, "\n"))
        self.state.functions[node.name] = node.body
        if any(_calls_itself_twice(inner, node.name) for inner in node.body.nodes):
            hit = CommandHit("FORK_BOMB", node.name)
            self.report(hit, node.start, node.end, node.name, location)
        return EMPTY

    def _walk_loop(self, node: ForLoop, location: Location, stdin: Value) -> Value:
        values = [arg.value for arg in self._expand_args(node.words, location)]
        result = EMPTY
        for value in values[:_MAX_TURNS] or [UNKNOWN._replace(text=f"${node.name}")]:
            self.state.assign(node.name, value)
            inner = self._redirected_input(node, location, stdin)
            result = self.walk_script(node.body, location, inner)
        return self._write_out(result, node, location)

    def _walk_simple(self, node: SimpleCommand, location: Location, stdin: Value) -> Value:
        if self.exhausted:
            return UNKNOWN
        environment = tuple(self._assignments(node, location))
        args = self._expand_args(node.words, location)
        if not args:
            for variable, value in environment:
                self.state.assign(variable, value)
        elif args[0].text in self.state.aliases:
            words = self.state.aliases[args[0].text].split()[:20]
            args[:1] = [args[0]._replace(text=word, offset=None) for word in words]
        name = args[0] if args else Arg("", node.start, node.start)
        writes, reads = self._redirected_files(node.redirects, location)
        call = ProgramCall(
            verb=program_name(name.text),
            name=name,
            args=tuple(args[1:]),
            via=location.via,
            stdin=self._redirected_input(node, location, stdin),
            piped=location.pipe_start >= 0,
            writes=writes,
            reads=reads,
            environment=environment,
            cwd=self.state.cwd,
        )
        if args and name.text in self.state.functions:
            return self.walk_function(self.state.functions[name.text], call, location)
        if call.verb in _OWN_STATE:
            self._apply_builtin(call)
        return self.judge_program(call, node.start, node.end, location)

    def _expand_args(self, words: Iterable[ShellWord], location: Location) -> list[Arg]:
        run = partial(self._run_substitution, location)
        return [arg for word in words for arg in expand_word(word, self.state, run)]

    def _expand_unsplit(self, word: ShellWord, location: Location) -> Arg:
        return expand_unsplit(word, self.state, partial(self._run_substitution, location))

    def _assignments(self, node: SimpleCommand, location: Location) -> Iterator[tuple[str, Value]]:
        """Yield the variables that a command assigns, before it or alone."""
        for name, word, append in node.assignments:
            value = self._expand_unsplit(word, location).value
            old = self.state.variable_value(name) if append else None
            yield name, join_values([old, value]) if old else value

    def walk_function(self, body: ShellScript, call: ProgramCall, location: Location) -> Value:
        """Walk through the body of a function with the arguments of a call."""
        span = (call.name.start, call.name.end)
        if self.budget_exceeded(call, *span, location):
            return UNKNOWN
        if location.depth >= MAX_DEPTH:
            self.report(CommandHit("NESTED_TOO_DEEP"), *span, call.verb, location)
            return UNKNOWN
        before = self.state.positional
        self.state.positional = tuple(arg.value for arg in call.args)
        result = self.walk_script(body, location._replace(depth=location.depth + 1), call.stdin)
        self.state.positional = before
        return result

    def _apply_builtin(self, call: ProgramCall) -> None:
        """Apply `cd`, `export`, `alias`, `read` and `unset` to the state of the shell."""
        if call.verb in {"cd", "pushd"}:
            operands = (arg.text for arg in call.args if not arg.text.startswith("-"))
            target = next(operands, HOME)
            if not target.startswith("$"):
                self.state.cwd = canonical_path(target, self.state.cwd)
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
                self.state.assign(name, Value(value, arg.known, arg.taints))

    # Redirections.

    def _redirected_input(
        self, node: CommandGroup | ForLoop | SimpleCommand, location: Location, stdin: Value
    ) -> Value:
        """Return the input of a command, after its redirections."""
        for redirect in node.redirects:
            if redirect.operator in {"<<", "<<-", "<<<"}:
                stdin = self._expand_unsplit(redirect.target, location).value
            elif redirect.operator in {"<", "<>", ">", ">&", "&>"}:
                target = self._expand_unsplit(redirect.target, location)
                simple, socket = isinstance(node, SimpleCommand), target.text.startswith(_SOCKETS)
                if redirect.operator != "<" and (simple or not socket):
                    continue
                if not isinstance(node, SimpleCommand):
                    effect = FileEffect(EffectKind.READ, target)
                    self.report_effect(effect, node.start, node.end, "<", location)
                unknown = Value("", known=False, taints=target.taints | self.file_origins(target))
                stdin = self.state.files.get(self.state.resolve_path(target.text), unknown)
        return stdin

    def _write_out(self, value: Value, node: CommandGroup | ForLoop, location: Location) -> Value:
        """Write the output of a compound command to its redirection."""
        for redirect in node.redirects:
            if redirect.operator in _OUTPUTS:
                target = self._expand_unsplit(redirect.target, location)
                append = redirect.operator in _ADDING
                effect = FileEffect(EffectKind.WRITE, target, append=append)
                self.report_effect(effect, node.start, node.end, ">", location)
                self.state.write_file(target.text, value, append=append)
                return EMPTY
        return value

    def _redirected_files(
        self, redirects: Iterable[ShellRedirect], location: Location
    ) -> tuple[tuple[WrittenFile, ...], tuple[Arg, ...]]:
        """Return the files that redirections write and read."""
        writes: list[WrittenFile] = []
        reads: list[Arg] = []
        for operator, word, _ in redirects:
            if operator.startswith("<<"):
                continue
            target = self._expand_unsplit(word, location)
            if operator in {"<", "<>"}:
                reads.append(target)
            if operator in _OUTPUTS and not (target.text.isdigit() or target.text == "-"):
                writes.append(WrittenFile(target, operator in _ADDING))
        return tuple(writes), tuple(reads)

    # Substitutions.

    def _run_substitution(self, location: Location, piece: WordPiece) -> Value:
        """Walk through a substitution, and return its value."""
        end = piece.start + len(piece.text)
        if location.depth >= MAX_DEPTH:
            self.report(CommandHit("NESTED_TOO_DEEP"), piece.start, end, "", location)
            return UNKNOWN
        captured = location._replace(captured=True, pipe_start=-1)
        if piece.script is None:
            return self.walk_shell(Arg(piece.text, piece.start, end), captured)
        stdin = UNKNOWN if piece.kind is PieceKind.PROCESS else EMPTY
        return self.walk_script(piece.script, captured._replace(depth=location.depth + 1), stdin)


def _asks_for_help(call: ProgramCall) -> bool:
    """Whether a call only explains itself: `--help` before any operand."""
    for arg in call.args:
        if not arg.text.startswith("-") or arg.text in {"--help", "--version"}:
            return arg.text.startswith("-")
    return False


def _pipeline_span(start: int, end: int, location: Location) -> tuple[int, int]:
    """Return the span of the pipeline up to here."""
    return (location.pipe_start if location.pipe_start >= 0 else start), end


def _calls_itself_twice(node: ShellNode, name: str) -> bool:
    """Whether a function pipes itself into itself."""
    if isinstance(node, CommandGroup):
        return any(_calls_itself_twice(inner, name) for inner in node.body.nodes)
    if not isinstance(node, ShellPipeline):
        return False
    stages = (stage for stage in node.stages if isinstance(stage, SimpleCommand) and stage.words)
    firsts = (stage.words[0].pieces for stage in stages)
    return sum((pieces[0].text if pieces else "") == name for pieces in firsts) > 1
