"""Types that readers and checks share: locations, located hits, the walker, the settings."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from demur.guards.code_execution.call import Arg, CommandHit, ProgramCall, Taint, Value
from demur.guards.code_execution.effects import FileEffect
from demur.guards.code_execution.event import CommandConfig
from demur.guards.code_execution.paths import PathKind, WorkspaceBounds, classify_path

MAX_DEPTH = 12
# The rules on running text of an origin.
ORIGIN_RULES = {Taint.DOWNLOAD: "DOWNLOAD_RUN", Taint.DECODED: "DECODED_RUN"}


class SourceMap(NamedTuple):
    """Maps positions in a nested text to the original text.

    With an `offset`, the nested text stands there character for character. Without one it was
    decoded or assembled, and every position maps to the whole of `start` to `end`.
    """

    offset: int | None
    start: int
    end: int

    def to_original(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original text of a span in this one."""
        if self.offset is None:
            return self.start, self.end
        first = min(self.offset + start, self.end)
        return first, max(first, min(self.offset + end, self.end))

    def map_arg(self, arg: Arg) -> "SourceMap":
        """Return the map for the text of an argument."""
        start, end = self.to_original(arg.start, arg.end)
        if self.offset is None or arg.offset is None:
            return SourceMap(None, start, end)
        return SourceMap(self.offset + arg.offset, start, end)


class Location(NamedTuple):
    """The current position of the walk: text, depth, and the programs that wrap it."""

    source: SourceMap
    depth: int = 0
    via: tuple[str, ...] = ()
    in_container: bool = False
    captured: bool = False
    pipe_start: int = -1
    guessed: bool = False

    def enter(self, arg: Arg) -> "Location":
        """Return the location inside the text of an argument."""
        source = self.source.map_arg(arg)
        return self._replace(source=source, depth=self.depth + 1, pipe_start=-1)


class LocatedHit(NamedTuple):
    """A hit with its span in the original text."""

    hit: CommandHit
    start: int
    end: int
    verb: str
    via: tuple[str, ...] = ()
    in_container: bool = False
    guessed: bool = False


class Walker(Protocol):
    """The walk as the readers of other languages use it: to report hits and to run shell text."""

    config: CommandConfig
    bounds: WorkspaceBounds

    @property
    def cwd(self) -> str:
        """The folder in which the next command would run."""

    def report(self, hit: CommandHit, start: int, end: int, verb: str, location: Location) -> None:
        """Report a hit at a span of the text of `location`."""

    def report_effect(
        self, effect: FileEffect, start: int, end: int, verb: str, location: Location
    ) -> None:
        """Report the rules that an effect on a file matches."""

    def walk_shell(self, arg: Arg, location: Location, stdin: Value = ...) -> Value:
        """Walk through a text as a shell would, and return its output."""

    def record_write(self, path: str, value: Value) -> None:
        """Record the new content of a file."""

    def read_written(self, path: str) -> Value:
        """Return the content of a file that an earlier command wrote, or nothing."""

    def judge_program(self, call: ProgramCall, start: int, end: int, location: Location) -> Value:
        """Judge a program that is started directly, and return its output."""


class CommandContext(NamedTuple):
    """The settings and bounds for a call, and the files that earlier commands wrote."""

    config: CommandConfig
    bounds: WorkspaceBounds
    files: Mapping[str, Value] = {}

    def is_own_path(self, arg: Arg, cwd: str) -> bool:
        """Whether a path lies in the workspace or in scratch."""
        return classify_path(arg.text, cwd, self.bounds) in _OWN


_OWN = frozenset({PathKind.INSIDE, PathKind.WORKSPACE_ITSELF, PathKind.SCRATCH, PathKind.STREAM})
CommandCheck: TypeAlias = Callable[[ProgramCall, CommandContext], Iterator[CommandHit]]
