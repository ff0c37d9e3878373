"""What is known of a text at run time: its characters, as far as possible, and its origin."""

from enum import StrEnum
from typing import NamedTuple

__all__ = ["EMPTY", "HOLE", "LONGEST", "UNKNOWN", "Arg", "Taint", "Value", "joined"]

LONGEST = 65_536
HOLE = "$unknown"


class Taint(StrEnum):
    """The origin of a text; pipes, variables and files pass it on."""

    DOWNLOAD = "download"
    DECODED = "decoded"
    SECRET = "secret"  # noqa: S105 - the name of an origin
    ENVIRONMENT = "environment"
    FILE = "file"
    INPUT = "input"


class Value(NamedTuple):
    """A text with its origins. If it is not fully `known`, `text` holds the known parts."""

    text: str
    known: bool = True
    taints: frozenset[Taint] = frozenset()


class Arg(NamedTuple):
    """One argument of a command, after expansion.

    `offset` is the position at which the source holds its text unchanged; None if expansion
    produced the text.
    """

    text: str
    start: int
    end: int
    known: bool = True
    taints: frozenset[Taint] = frozenset()
    offset: int | None = None

    @property
    def value(self) -> Value:
        """The argument without its span."""
        return Value(self.text, self.known, self.taints)


EMPTY = Value("")
UNKNOWN = Value("", known=False)


def joined(values: list[Value], between: str = "") -> Value:
    """Return the values joined by `between`, cut at the maximum length."""
    if len(values) == 1:
        return values[0]
    # An unknown part must not vanish: `$X/*` is not `/*`.
    text = between.join(value.text if value.text or value.known else HOLE for value in values)
    known = all(value.known for value in values) and len(text) <= LONGEST
    return Value(text[:LONGEST], known, frozenset().union(*(value.taints for value in values)))
