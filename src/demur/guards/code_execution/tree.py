"""What the shell reader makes of a text: commands, pipelines and groups, nothing more.

Places (`start`, `end`) are offsets into the text that was read. Branches and loops are groups:
whatever might run is there, in the order in which it stands.
"""

from enum import StrEnum
from typing import NamedTuple, TypeAlias

__all__ = [
    "Assignment",
    "Either",
    "Function",
    "Group",
    "Loop",
    "Node",
    "Piece",
    "PieceKind",
    "Pipeline",
    "Redirect",
    "Script",
    "Simple",
    "Word",
]


class PieceKind(StrEnum):
    """The kinds of pieces of a word."""

    TEXT = "text"
    QUOTED = "quoted"
    VARIABLE = "variable"
    COMMAND = "command"
    PROCESS = "process"


class Piece(NamedTuple):
    """A piece of a word: literal text, a variable or a substitution.

    For a variable, `text` is its name, `operator` its operator (`:-`, `//`, ...) and `operand` the
    rest. For a substitution, `script` holds its commands; without one, `text` must be read again.
    A `whole` piece stands in double quotes: its value is not split into words.
    """

    kind: PieceKind
    text: str = ""
    start: int = 0
    operator: str = ""
    operand: "Word | None" = None
    script: "Script | None" = None
    whole: bool = False


class Word(NamedTuple):
    """One word of a command, before expansion."""

    pieces: tuple[Piece, ...]
    start: int
    end: int


class Assignment(NamedTuple):
    """`name=value`; `append` for `+=`."""

    name: str
    value: Word
    append: bool = False


class Redirect(NamedTuple):
    """A redirection; the target of a here-document is its body."""

    operator: str
    target: Word
    descriptor: str = ""


class Simple(NamedTuple):
    """One command: assignments, words, redirections."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    start: int
    end: int


class Pipeline(NamedTuple):
    """Commands that each pass their output to the next."""

    stages: tuple["Node", ...]
    start: int
    end: int


class Group(NamedTuple):
    """Statements in brackets, braces, or the branches of one compound command."""

    body: "Script"
    redirects: tuple[Redirect, ...]
    start: int
    end: int


class Either(NamedTuple):
    """`a || b`: the second runs where the first fails."""

    choices: tuple["Node", ...]
    start: int
    end: int


class Loop(NamedTuple):
    """`for name in words`: the body runs once for each word."""

    name: str
    words: tuple[Word, ...]
    body: "Script"
    redirects: tuple[Redirect, ...]
    start: int
    end: int


class Function(NamedTuple):
    """A function that is defined, not run."""

    name: str
    body: "Script"
    start: int
    end: int


Node: TypeAlias = Simple | Pipeline | Group | Loop | Either | Function


class Script(NamedTuple):
    """Statements in order; `problem` says why the text could not be read to its end."""

    nodes: tuple[Node, ...]
    problem: str = ""
