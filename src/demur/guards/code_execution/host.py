"""What the readers of other languages ask of the walk that came across them."""

from typing import NamedTuple, Protocol

from demur.guards.code_execution.call import Call, Sight
from demur.guards.code_execution.config import CommandConfig
from demur.guards.code_execution.effects import Effect
from demur.guards.code_execution.places import Bounds
from demur.guards.code_execution.value import Arg, Value

__all__ = ["DEEPEST", "Frame", "Host", "Seen", "Source"]

DEEPEST = 12


class Source(NamedTuple):
    """Maps positions in a nested text to the original text.

    With an `offset`, the nested text stands there character for character. Without one it was
    decoded or assembled, and every position maps to the whole of `start` to `end`.
    """

    offset: int | None
    start: int
    end: int

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original text of a span in this one."""
        if self.offset is None:
            return self.start, self.end
        first = min(self.offset + start, self.end)
        return first, max(first, min(self.offset + end, self.end))

    def inner(self, arg: Arg) -> "Source":
        """Return the map for the text of an argument."""
        start, end = self.place(arg.start, arg.end)
        if self.offset is None or arg.offset is None:
            return Source(None, start, end)
        return Source(self.offset + arg.offset, start, end)


class Frame(NamedTuple):
    """The current position of the walk: text, depth, and the programs that wrap it."""

    source: Source
    depth: int = 0
    via: tuple[str, ...] = ()
    elsewhere: bool = False
    captured: bool = False
    pipe_start: int = -1


class Seen(NamedTuple):
    """A hit with its span in the original text."""

    sight: Sight
    start: int
    end: int
    verb: str
    via: tuple[str, ...] = ()
    elsewhere: bool = False


class Host(Protocol):
    """The walk as the readers of other languages use it: to report hits and to run shell text."""

    config: CommandConfig
    bounds: Bounds

    @property
    def cwd(self) -> str:
        """The folder in which the next command would run."""

    def see(self, sight: Sight, start: int, end: int, verb: str, frame: Frame) -> None:
        """Report a hit at a span of the text of `location`."""

    def effect(self, effect: Effect, start: int, end: int, verb: str, frame: Frame) -> None:
        """Report the rules that an effect on a file matches."""

    def shell(self, arg: Arg, frame: Frame, stdin: Value = ...) -> Value:
        """Walk through a text as a shell would, and return its output."""

    def wrote(self, path: str, value: Value) -> None:
        """Record the new content of a file."""

    def program(self, call: Call, start: int, end: int, frame: Frame) -> Value:
        """Judge a program that is started directly, and return its output."""
