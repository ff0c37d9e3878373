"""What is known of a text at run time: its characters, as far as possible, and its origin."""

from enum import StrEnum
from typing import NamedTuple

__all__ = [
    "EMPTY",
    "UNKNOWN_PLACEHOLDER",
    "MAX_VALUE_LENGTH",
    "UNKNOWN",
    "CommandArg",
    "Taint",
    "TextValue",
    "join_values",
]

MAX_VALUE_LENGTH = 65_536
UNKNOWN_PLACEHOLDER = "$unknown"


class Taint(StrEnum):
    """The origin of a text; pipes, variables and files pass it on."""

    DOWNLOAD = "download"
    DECODED = "decoded"
    SECRET = "secret"  # noqa: S105 - the name of an origin
    ENVIRONMENT = "environment"
    FILE = "file"
    INPUT = "input"


class TextValue(NamedTuple):
    """A text with its origins. If it is not fully `known`, `text` holds the known parts."""

    text: str
    known: bool = True
    taints: frozenset[Taint] = frozenset()


class CommandArg(NamedTuple):
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
    def value(self) -> TextValue:
        """The argument without its span."""
        return TextValue(self.text, self.known, self.taints)


EMPTY = TextValue("")
UNKNOWN = TextValue("", known=False)


def join_values(values: list[TextValue], between: str = "") -> TextValue:
    """Return the values joined by `between`, cut at the maximum length."""
    if len(values) == 1:
        return values[0]
    # An unknown part must not vanish: `$X/*` is not `/*`.
    text = between.join(
        value.text if value.text or value.known else UNKNOWN_PLACEHOLDER for value in values
    )
    known = all(value.known for value in values) and len(text) <= MAX_VALUE_LENGTH
    return TextValue(
        text[:MAX_VALUE_LENGTH], known, frozenset().union(*(value.taints for value in values))
    )
