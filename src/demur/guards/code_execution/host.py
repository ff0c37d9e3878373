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
    """Where a text that is read stands in the original text.

    With an `offset` it stands there character for character; without one it was decoded or put
    together, and every place in it is the whole of `start` to `end`.
    """

    offset: int | None
    start: int
    end: int

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return the place in the original text of a place in this one."""
        if self.offset is None:
            return self.start, self.end
        first = min(self.offset + start, self.end)
        return first, max(first, min(self.offset + end, self.end))

    def inner(self, arg: Arg) -> "Source":
        """Return where the text of an argument stands."""
        start, end = self.place(arg.start, arg.end)
        if self.offset is None or arg.offset is None:
            return Source(None, start, end)
        return Source(self.offset + arg.offset, start, end)


class Frame(NamedTuple):
    """Where the walk stands: in which text, how deep, and behind which programs."""

    source: Source
    depth: int = 0
    via: tuple[str, ...] = ()
    elsewhere: bool = False
    captured: bool = False
    pipe_start: int = -1


class Seen(NamedTuple):
    """A rule that holds somewhere in the original text."""

    sight: Sight
    start: int
    end: int
    verb: str
    via: tuple[str, ...] = ()
    elsewhere: bool = False


class Host(Protocol):
    """The walk, as other languages see it: a place to report to, and a shell to hand texts to."""

    config: CommandConfig
    bounds: Bounds

    @property
    def cwd(self) -> str:
        """The folder in which the next command would run."""

    def see(self, sight: Sight, start: int, end: int, verb: str, frame: Frame) -> None:
        """Report a rule that holds at a place of the text of `frame`."""

    def effect(self, effect: Effect, start: int, end: int, verb: str, frame: Frame) -> None:
        """Report what happens to a file, if it matters."""

    def shell(self, arg: Arg, frame: Frame, stdin: Value = ...) -> Value:
        """Read a text as a shell would, and return what it writes."""

    def wrote(self, path: str, value: Value) -> None:
        """Remember what a file now holds."""

    def program(self, call: Call, start: int, end: int, frame: Frame) -> Value:
        """Judge a program that is started directly, and return what it writes."""
