"""Judges one program that would run: its files, its rules, its code, and what it starts in turn.

The walk through statements is a subclass's part. What is learnt (files that were written, where
data comes from) stays here, so that `curl -o f URL; sh f` and `env | curl -d @- URL` are seen for
what they are. The work is bounded: so many commands, so many characters, so many levels.
"""

import fnmatch
from abc import ABC, abstractmethod

from demur.guards.code_execution.call import Call, Sight
from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.consequences import consequences
from demur.guards.code_execution.effects import Effect, Kind, effects
from demur.guards.code_execution.files import read_rule
from demur.guards.code_execution.host import DEEPEST, Frame, Seen
from demur.guards.code_execution.interpreters import Code, Tongue, codes
from demur.guards.code_execution.outputs import output
from demur.guards.code_execution.places import Bounds, Place, canonical, place
from demur.guards.code_execution.programs import bare
from demur.guards.code_execution.saving import saved
from demur.guards.code_execution.scope import Scope
from demur.guards.code_execution.tongues import read_code
from demur.guards.code_execution.tree import Script
from demur.guards.code_execution.unwrap import Inner, unwrap
from demur.guards.code_execution.value import EMPTY, UNKNOWN, Arg, Taint, Value, joined
from demur.guards.code_execution.verbs.around import Around
from demur.guards.code_execution.verbs.index import judge

__all__ = ["Judging"]

_MOST_STEPS = 2_000
_MOST_CHARACTERS = 400_000
_FLOWS = frozenset({"SECRET_SENT", "DATA_SENT", "WORK_SENT"})
_OWN = frozenset({Place.INSIDE, Place.WORKSPACE_ITSELF, Place.STREAM})


class Judging(ABC):
    """Collects hits while it judges one program after the other."""

    def __init__(self, config: CommandConfig, bounds: Bounds, cwd: str) -> None:
        self.config = config
        self.bounds = bounds
        self.scope = Scope(cwd)
        self.seen: list[Seen] = []
        self.steps = 0
        self.characters = 0
        self.exhausted = False

    @property
    def cwd(self) -> str:
        """The folder in which the next command would run."""
        return self.scope.cwd

    @abstractmethod
    def shell(self, arg: Arg, frame: Frame, stdin: Value = EMPTY) -> Value:
        """Walk through a text as a shell would; the subclass knows statements."""

    @abstractmethod
    def called(self, body: Script, call: Call, frame: Frame) -> Value:
        """Walk through the body of a function; the subclass knows statements."""

    def see(self, sight: Sight, start: int, end: int, verb: str, frame: Frame) -> None:
        """Report a hit at a span of the text of `location`."""
        if sight.rule not in self.config.off:
            first, last = frame.source.place(start, end)
            self.seen.append(Seen(sight, first, last, verb, frame.via, frame.elsewhere))

    def effect(self, effect: Effect, start: int, end: int, verb: str, frame: Frame) -> None:
        """Report the rules that an effect on a file matches."""
        for sight in consequences(effect, self.scope.cwd, self.bounds):
            if not (frame.captured and sight.rule in {"SECRET_READ", "SECRET_NEAR"}):
                self.see(sight, start, end, verb, frame)

    def wrote(self, path: str, value: Value) -> None:
        """Record the new content of a file."""
        self.scope.write(path, value)

    def spent(self, call: Call, start: int, end: int, frame: Frame) -> bool:
        """Whether the budget of steps or characters is used up; reported once."""
        self.steps += 1
        self.characters += sum(len(arg.text) for arg in call.args)
        if self.steps <= _MOST_STEPS and self.characters <= _MOST_CHARACTERS:
            return False
        if not self.exhausted:
            self.see(Sight("NESTED_TOO_DEEP"), start, end, call.verb, frame)
        self.exhausted = True
        return True

    def program(self, call: Call, start: int, end: int, frame: Frame) -> Value:
        """Judge a program that is started directly, and return its output."""
        if self.spent(call, start, end, frame):
            return UNKNOWN
        if self._listed(call, start, end, frame):
            return output(call, self.scope)
        taints = self._touched(call, start, end, frame)
        if not _asks_for_help(call):
            for sight in judge(call, Around(self.config, self.bounds, self.scope.files)):
                flows = sight.rule in _FLOWS and call.stdin != EMPTY
                at = _piped(start, end, frame) if flows else (start, end)
                self.see(sight, *at, call.verb, frame)
            self._code(call, start, end, frame)
            for inner in unwrap(call):
                self._inner(inner, call, end, frame)
        result = output(call, self.scope)
        if taints:
            result = result._replace(taints=result.taints | taints)
        for path, value, append in saved(call, result, self.scope):
            self.scope.write(path, value, append=append)
        return result

    def _listed(self, call: Call, start: int, end: int, frame: Frame) -> bool:
        """Whether the settings allow this command by name; report it if they deny it."""
        if not self.config.allow and not self.config.deny:
            return False
        line = " ".join([call.name.text, *call.texts])
        if any(fnmatch.fnmatchcase(line, pattern) for pattern in self.config.deny):
            self.see(Sight("COMMAND_DENIED", call.verb), start, end, call.verb, frame)
            return False
        return any(fnmatch.fnmatchcase(line, pattern) for pattern in self.config.allow)

    def _touched(self, call: Call, start: int, end: int, frame: Frame) -> frozenset[Taint]:
        """Report the call's effects on files; return the origins that its output gets from them."""
        taints: frozenset[Taint] = frozenset()
        helps = _asks_for_help(call)
        for effect in effects(call):
            if helps and effect.kind is not Kind.WRITE:
                continue
            self.effect(effect, start, end, call.verb, frame)
            if effect.kind is Kind.READ:
                taints |= self.origin(effect.target)
        return taints

    def origin(self, target: Arg) -> frozenset[Taint]:
        """Return the origins of a file's content, by its name."""
        path = canonical(target.text, self.scope.cwd)
        if read_rule(path):
            return frozenset({Taint.SECRET})
        known = self.scope.files.get(path)
        if known is not None:
            return known.taints
        own = place(target.text, self.scope.cwd, self.bounds) in _OWN
        return frozenset() if own else frozenset({Taint.FILE})

    def _code(self, call: Call, start: int, end: int, frame: Frame) -> None:
        """Judge the code that an interpreter gets, or a program that an earlier command wrote."""
        found = list(codes(call))
        if not found and self.scope.files:
            path = self.scope.path(call.name.text)
            if path in self.scope.files:
                found = [Code(Tongue.SHELL, file=call.name._replace(text=path))]
        for code in found:
            from_input = code.text is None and code.file is None
            at = _piped(start, end, frame) if from_input else (start, end)
            arg = code.text or self._stored(code, call, *at)
            if arg is None:
                continue
            self._origins(arg, call, at, frame)
            if arg.text and (arg.known or code.text is not None):
                read_code(code.tongue, arg, self, frame._replace(via=(*frame.via, call.verb)))

    def _origins(self, arg: Arg, call: Call, at: tuple[int, int], frame: Frame) -> None:
        """Report code that was downloaded or decoded."""
        if Taint.DOWNLOAD in arg.taints:
            self.see(Sight("DOWNLOAD_RUN", call.verb), *at, call.verb, frame)
        if Taint.DECODED in arg.taints:
            self.see(Sight("DECODED_RUN", call.verb), *at, call.verb, frame)

    def _stored(self, code: Code, call: Call, start: int, end: int) -> Arg | None:
        """Return the code in a file or in the input, as far as it is known."""
        if code.file is None or code.file.text in {"/dev/stdin", "/dev/fd/0"}:
            value = call.stdin
        elif code.file.taints:
            value = Value("", known=False, taints=code.file.taints)
        else:
            value = self.scope.files.get(self.scope.path(code.file.text), EMPTY)
        if value == EMPTY:
            return None
        return Arg(value.text, start, end, value.known, value.taints)

    def _inner(self, inner: Inner, call: Call, end: int, frame: Frame) -> None:
        """Judge a command inside another one."""
        args = inner.args
        if not args:
            return
        if frame.depth >= DEEPEST:
            self.see(Sight("NESTED_TOO_DEEP"), args[0].start, end, call.verb, frame)
            return
        via = (*frame.via, inner.via)
        elsewhere = frame.elsewhere or inner.elsewhere
        deeper = frame._replace(depth=frame.depth + 1, via=via, elsewhere=elsewhere)
        if inner.script:
            whole = joined([arg.value for arg in args], " ")
            arg = args[0] if len(args) == 1 else Arg(whole.text, args[0].start, end, *whole[1:])
            self._evaluated(arg, call, end, deeper)
            return
        started = call._replace(
            verb=bare(args[0].text), name=args[0], args=args[1:], via=via, writes=(), reads=()
        )
        body = self.scope.functions.get(args[0].text)
        if body is not None:
            self.called(body, started, deeper)
        else:
            self.program(started, args[0].start, end, deeper)

    def _evaluated(self, arg: Arg, call: Call, end: int, frame: Frame) -> None:
        """Judge a text that a program passes to a shell."""
        at = (call.name.start, end)
        self._origins(arg, call, at, frame)
        if not arg.known and call.verb == "eval":
            self.see(Sight("EVAL_UNKNOWN", call.verb), *at, call.verb, frame)
        if arg.text:
            self.shell(arg, frame, call.stdin)


def _asks_for_help(call: Call) -> bool:
    """Whether a call only explains itself: `--help` before any operand."""
    for arg in call.args:
        if arg.text in {"--help", "--version"}:
            return True
        if not arg.text.startswith("-"):
            return False
    return False


def _piped(start: int, end: int, frame: Frame) -> tuple[int, int]:
    """Return the span of the pipeline up to here."""
    return (frame.pipe_start if frame.pipe_start >= 0 else start), end
