"""What the shell reader makes of a text: commands, pipelines and groups, nothing more.

Places (`start`, `end`) are offsets into the text that was read. Branches and loops are groups:
whatever might run is there, in the order in which it stands.
"""

from enum import StrEnum
from typing import NamedTuple, TypeAlias

__all__ = [
    "ShellAssignment",
    "OrList",
    "ShellFunction",
    "CommandGroup",
    "ForLoop",
    "ShellNode",
    "WordPiece",
    "PieceKind",
    "ShellPipeline",
    "ShellRedirect",
    "ShellScript",
    "SimpleCommand",
    "ShellWord",
]


class PieceKind(StrEnum):
    """The kinds of pieces of a word."""

    TEXT = "text"
    QUOTED = "quoted"
    VARIABLE = "variable"
    COMMAND = "command"
    PROCESS = "process"


class WordPiece(NamedTuple):
    """A piece of a word: literal text, a variable or a substitution.

    For a variable, `text` is its name, `operator` its operator (`:-`, `//`, ...) and `operand` the
    rest. For a substitution, `script` holds its commands; without one, `text` must be read again.
    A `whole` piece stands in double quotes: its value is not split into words.
    """

    kind: PieceKind
    text: str = ""
    start: int = 0
    operator: str = ""
    operand: "ShellWord | None" = None
    script: "ShellScript | None" = None
    whole: bool = False


class ShellWord(NamedTuple):
    """One word of a command, before expansion."""

    pieces: tuple[WordPiece, ...]
    start: int
    end: int


class ShellAssignment(NamedTuple):
    """`name=value`; `append` for `+=`."""

    name: str
    value: ShellWord
    append: bool = False


class ShellRedirect(NamedTuple):
    """A redirection; the target of a here-document is its body."""

    operator: str
    target: ShellWord
    descriptor: str = ""


class SimpleCommand(NamedTuple):
    """One command: assignments, words, redirections."""

    assignments: tuple[ShellAssignment, ...]
    words: tuple[ShellWord, ...]
    redirects: tuple[ShellRedirect, ...]
    start: int
    end: int


class ShellPipeline(NamedTuple):
    """Commands that each pass their output to the next."""

    stages: tuple["ShellNode", ...]
    start: int
    end: int


class CommandGroup(NamedTuple):
    """Statements in brackets, braces, or the branches of one compound command."""

    body: "ShellScript"
    redirects: tuple[ShellRedirect, ...]
    start: int
    end: int


class OrList(NamedTuple):
    """`a || b`: the second runs where the first fails."""

    choices: tuple["ShellNode", ...]
    start: int
    end: int


class ForLoop(NamedTuple):
    """`for name in words`: the body runs once for each word."""

    name: str
    words: tuple[ShellWord, ...]
    body: "ShellScript"
    redirects: tuple[ShellRedirect, ...]
    start: int
    end: int


class ShellFunction(NamedTuple):
    """A function that is defined, not run."""

    name: str
    body: "ShellScript"
    start: int
    end: int


ShellNode: TypeAlias = (
    SimpleCommand | ShellPipeline | CommandGroup | ForLoop | OrList | ShellFunction
)


class ShellScript(NamedTuple):
    """Statements in order; `problem` says why the text could not be read to its end."""

    nodes: tuple[ShellNode, ...]
    problem: str = ""
