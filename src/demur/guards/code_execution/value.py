"""What is known of a text at run time: its characters, as far as possible, and its origin."""

from enum import StrEnum
from typing import NamedTuple

__all__ = ["EMPTY", "HOLE", "LONGEST", "UNKNOWN", "Arg", "Taint", "Value", "joined"]

LONGEST = 65_536
HOLE = "$unknown"


class Taint(StrEnum):
    """Where a text comes from; it stays with the text through pipes, variables and files."""

    DOWNLOAD = "download"
    DECODED = "decoded"
    SECRET = "secret"  # noqa: S105 - the name of an origin
    ENVIRONMENT = "environment"
    FILE = "file"
    INPUT = "input"


class Value(NamedTuple):
    """A text with its origins. Where it is not `known`, `text` holds the parts that are."""

    text: str
    known: bool = True
    taints: frozenset[Taint] = frozenset()


class Arg(NamedTuple):
    """One argument of a command, after expansion.

    `offset` says where its text stands, character for character, in the text that was read;
    it is None where expansion made it.
    """

    text: str
    start: int
    end: int
    known: bool = True
    taints: frozenset[Taint] = frozenset()
    offset: int | None = None

    @property
    def value(self) -> Value:
        """The argument without its place."""
        return Value(self.text, self.known, self.taints)


EMPTY = Value("")
UNKNOWN = Value("", known=False)


def joined(values: list[Value], between: str = "") -> Value:
    """Return the values one after the other, cut at a bound so that nothing grows for ever."""
    if len(values) == 1:
        return values[0]
    # A part that is not known must not vanish: `$X/*` is not `/*`.
    text = between.join(value.text if value.text or value.known else HOLE for value in values)
    known = all(value.known for value in values) and len(text) <= LONGEST
    return Value(text[:LONGEST], known, frozenset().union(*(value.taints for value in values)))
