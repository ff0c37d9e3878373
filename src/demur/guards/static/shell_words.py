"""Read one word of a shell command: quotes, escapes, variables, substitutions.

The classes at the top are the syntax tree. Places (`start`, `end`) are offsets into the text.
The reader passes over the text once, with the standard library alone: each method starts at
`self.position` and leaves it behind the part that it read. A quote that is never closed ends with
the text; the reader notes a problem and does not raise.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple, TypeAlias


class PieceKind(StrEnum):
    """The kinds of pieces of a word."""

    TEXT = "text"
    QUOTED = "quoted"
    VARIABLE = "variable"
    COMMAND = "command"
    PROCESS = "process"


class WordPiece(NamedTuple):
    """A piece of a word: literal text, a variable or a substitution.

    For a variable, `text` is its name, `subscript` what stands in its brackets, `prefix` is `!` or
    `#`, `operator` its operator (`:-`, `//`, ...) and `operand` the rest; arithmetic is a variable
    `((`. For a substitution, `script` holds its commands; without one, `text` must be read again.
    An `unsplit` piece stands in double quotes: its value is not split into words.
    """

    kind: PieceKind
    text: str = ""
    start: int = 0
    operator: str = ""
    operand: "ShellWord | None" = None
    script: "ShellScript | None" = None
    unsplit: bool = False
    prefix: str = ""
    subscript: str = ""


class ShellWord(NamedTuple):
    """One word of a command, before expansion."""

    pieces: tuple[WordPiece, ...]
    start: int
    end: int


class ShellAssignment(NamedTuple):
    """`name=value`; `append` for `+=`, `subscript` for `name[i]=`, `items` for `name=(...)`."""

    name: str
    value: ShellWord
    append: bool = False
    subscript: str = ""
    items: tuple[ShellWord, ...] | None = None


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
    """Commands that each pass their output to the next; `negated` by `!`."""

    stages: tuple["ShellNode", ...]
    start: int
    end: int
    negated: bool = False


class CommandGroup(NamedTuple):
    """Statements in brackets or braces; a `subshell` keeps its changes of state to itself."""

    body: "ShellScript"
    redirects: tuple[ShellRedirect, ...]
    start: int
    end: int
    subshell: bool = False


class CommandList(NamedTuple):
    """`a && b || c`: the first command, then each operator with the command behind it."""

    first: "ShellNode"
    rest: tuple[tuple[str, "ShellNode"], ...]
    start: int
    end: int


class ConditionalCommand(NamedTuple):
    """`if`: conditions with their bodies; the condition of `else` is empty."""

    branches: tuple[tuple["ShellScript", "ShellScript"], ...]
    redirects: tuple[ShellRedirect, ...]
    start: int
    end: int


class CaseCommand(NamedTuple):
    """`case`: the subject, and the patterns and body of each branch."""

    subject: ShellWord
    branches: tuple[tuple[tuple[ShellWord, ...], "ShellScript"], ...]
    redirects: tuple[ShellRedirect, ...]
    start: int
    end: int


class WhileLoop(NamedTuple):
    """`while` or `until`."""

    condition: "ShellScript"
    body: "ShellScript"
    redirects: tuple[ShellRedirect, ...]
    start: int
    end: int


class ForLoop(NamedTuple):
    """`for name in words`: the body runs once for each word; without words, for each of `$@`."""

    name: str
    words: tuple[ShellWord, ...] | None
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


CompoundCommand: TypeAlias = CommandGroup | ConditionalCommand | CaseCommand | WhileLoop | ForLoop
ShellNode: TypeAlias = SimpleCommand | ShellPipeline | CommandList | CompoundCommand | ShellFunction


class ShellScript(NamedTuple):
    """Statements in order; `problem` says why the text could not be read to its end."""

    nodes: tuple[ShellNode, ...]
    problem: str = ""


_ESCAPE = re.compile(
    r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,4}|c.|.)", re.DOTALL
)
_LETTERS = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))
_MAX_CODE_POINT = 0x10FFFF


def decode_ansi_c(text: str) -> str:
    """Return `text` with its ANSI C escapes decoded."""
    return _ESCAPE.sub(_decode_escape, text) if "\\" in text else text


def _decode_escape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] in "xuU" and len(escape) > 1:
        return _to_character(int(escape[1:], 16))
    if escape[0] in "01234567":
        return _to_character(int(escape, 8) & 0xFF)
    return _LETTERS.get(escape, escape)


def _to_character(point: int) -> str:
    return chr(point) if 0 < point <= _MAX_CODE_POINT else ""


BLANKS = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_PLAIN = re.compile(r"[^ \t\r\n'\"\\$`|&;()<>]+")
_DOUBLE = re.compile(r'[^"\\$`]+')
_BRACED = re.compile(r"[^}'\"\\$`]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!\-]")
_SIMPLE_BRACED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!\-])\}")
_BRACED_HEAD = re.compile(
    r"\{([#!]?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*?$#\-])(\[[^\]}]*\])?"
    r"(:[-=+?]|//|/[#%]?|##?|%%?|\^\^?|,,?|[-=+?:@]|)"
)
BODY = re.compile(r"[^\\$`]+")
_PARENTHESIS = re.compile(r"[()]|\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_BACKTICK = re.compile(r"(?:[^`\\]|\\.)*", re.DOTALL)
_BACKTICK_ESCAPE = re.compile(r"\\([`\\$])")
_MAX_NESTING = 24
_MAX_SUBSCRIPT = 200
_BRACKET = re.compile(r"[\[\]]")


class ShellNestingError(Exception):
    """Substitutions nest deeper than the limit."""


class ShellWordReader(ABC):
    """A position in a text, and the last problem. A subclass reads statements."""

    def __init__(self, text: str, position: int = 0, depth: int = 0) -> None:
        self.text = text
        self.position = position
        self.depth = depth
        self.problem = ""
        self.in_backticks = False

    @abstractmethod
    def read_statements(self, *closers: str) -> ShellScript:
        """Return the statements up to one of `closers`; the subclass implements it."""

    def read_word(self) -> ShellWord:
        """Return the word that starts here."""
        start = self.position
        text, size = self.text, len(self.text)
        plain = _PLAIN.match(text, start)
        if plain and (plain.end() == size or text[plain.end()] in " \t\n\r;|&)"):
            self.position = plain.end()
            return ShellWord((WordPiece(PieceKind.TEXT, plain[0], start),), start, self.position)
        pieces: list[WordPiece] = []
        while self.position < size:
            before = self.position
            pieces.extend(self._read_pieces())
            if self.position == before:
                break
        return ShellWord(tuple(pieces), start, self.position)

    def _read_pieces(self) -> Iterator[WordPiece]:
        """Yield the next pieces of an unquoted word; none if the word ends here."""
        text, at = self.text, self.position
        if plain := _PLAIN.match(text, at):
            self.position = plain.end()
            yield WordPiece(PieceKind.TEXT, plain[0], at)
            if text.startswith("(", self.position) and plain[0][-1] in "?*+@!":
                yield self._read_extended_glob()
            return
        yield from self._read_special(text[at])

    def _read_special(self, character: str) -> Iterator[WordPiece]:
        """Yield the pieces that a special character introduces; none ends the word."""
        if character == '"':
            yield from self._read_double_quoted()
        elif character == "'":
            yield from self._read_single_quoted()
        elif character == "$":
            yield from self._read_dollar()
        elif character == "\\":
            yield from self._read_escape()
        elif character == "`":
            yield from self._read_backtick()
        elif character in "<>" and self.text.startswith("(", self.position + 1):
            # The text of `<(...)` and `>(...)` is the direction.
            start = self.position
            self.position = start + 2
            script = self._read_nested(")")
            yield WordPiece(PieceKind.PROCESS, character, start, script=script)

    def _read_extended_glob(self) -> WordPiece:
        """Return `(a|b)` of a pattern such as `@(a|b)`, as text."""
        start = self.position
        end = self.text.find(")", start)
        self.position = len(self.text) if end < 0 else end + 1
        return WordPiece(PieceKind.TEXT, self.text[start : self.position], start)

    def _read_escape(self) -> Iterator[WordPiece]:
        """Yield the character after a backslash; a line break after one is dropped."""
        start = self.position
        following = self.text[start + 1 : start + 2]
        self.position = start + 1 + len(following)
        if following != "\n":
            yield WordPiece(PieceKind.QUOTED, following or "\\", start + 1)

    def _read_single_quoted(self) -> Iterator[WordPiece]:
        """Yield a text in single quotes."""
        start = self.position + 1
        end = self._find_closing("'", start)
        yield WordPiece(PieceKind.QUOTED, self.text[start:end], start)

    def _find_closing(self, quote: str, start: int) -> int:
        """Return the end of the quote that opened before `start`, and move behind it."""
        end = self.text.find(quote, start)
        if end < 0:
            self.problem = "a quote is never closed"
            self.position = end = len(self.text)
        else:
            self.position = end + 1
        return end

    def _read_double_quoted(self) -> Iterator[WordPiece]:
        """Yield the pieces of a text in double quotes."""
        self.position += 1
        start = self.position
        pieces = list(self.read_quoted(_DOUBLE, '"'))
        if not self.text.startswith('"', self.position):
            self.problem = "a quote is never closed"
        self.position += 1
        yield from pieces or [WordPiece(PieceKind.QUOTED, "", start)]

    def read_quoted(
        self, plain: re.Pattern[str], closer: str, escapes: str = '$`"\\'
    ) -> Iterator[WordPiece]:
        """Yield the pieces of a quoted text up to `closer`, which is not consumed."""
        text, size = self.text, len(self.text)
        while self.position < size and not (closer and text.startswith(closer, self.position)):
            start = self.position
            if run := plain.match(text, start):
                self.position = run.end()
                yield WordPiece(PieceKind.QUOTED, run[0], start)
            elif text[start] == "\\":
                yield from self._read_quoted_escape(escapes)
            elif text[start] == "$":
                yield from _mark_unsplit(self._read_dollar(quoted=True))
            elif text[start] == "'":
                yield from self._read_single_quoted()
            elif text[start] == '"':
                yield from self._read_double_quoted()
            elif self.in_backticks:
                return
            else:
                yield from _mark_unsplit(self._read_backtick())

    def _read_quoted_escape(self, escapes: str) -> Iterator[WordPiece]:
        """Yield the text of a backslash escape inside double quotes."""
        start = self.position
        following = self.text[start + 1 : start + 2]
        self.position = start + 1 + len(following)
        if following and following != "\n" and following in escapes:
            yield WordPiece(PieceKind.QUOTED, following, start + 1)
        elif following != "\n":
            yield WordPiece(PieceKind.QUOTED, "\\" + following, start)

    def _read_dollar(self, *, quoted: bool = False) -> Iterator[WordPiece]:
        """Yield the pieces that a dollar sign introduces."""
        text, start = self.text, self.position
        following = text[start + 1 : start + 2]
        if following == "(":
            yield self._read_substitution()
        elif following == "{":
            yield self._read_braced()
        elif following == "'" and not quoted:
            yield self._read_ansi()
        elif following == '"' and not quoted:
            self.position += 1
            yield from self._read_double_quoted()
        elif name := _NAME.match(text, start + 1):
            self.position = name.end()
            yield WordPiece(PieceKind.VARIABLE, name[0], start)
        else:
            self.position = start + 1
            yield WordPiece(PieceKind.QUOTED, "$", start)

    def _read_ansi(self) -> WordPiece:
        """Return the text of `$'...'` with its escapes decoded."""
        start = self.position + 2
        end = start
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            self.problem = "a quote is never closed"
        self.position = end + 1
        return WordPiece(PieceKind.QUOTED, decode_ansi_c(self.text[start:end]), start)

    def _read_substitution(self) -> WordPiece:
        """Return `$(...)` or `$((...))`."""
        start = self.position
        if self.text.startswith("((", start + 1) and (end := self.find_arithmetic_end(start + 1)):
            return self.read_arithmetic(start, start + 3, end)
        self.position = start + 2
        return WordPiece(PieceKind.COMMAND, start=start, script=self._read_nested(")"))

    def find_arithmetic_end(self, start: int) -> int:
        """Return where the text of `((...))` ends; 0 if bash reads brackets in brackets there.

        The second bracket must be closed right before the first: `((1) + (2))` is arithmetic,
        `((a); (b))` is not.
        """
        depth = 0
        for match in _PARENTHESIS.finditer(self.text, start + 1):
            if match[0] in {"(", ")"}:
                depth += 1 if match[0] == "(" else -1
                if depth == 0:
                    return match.start() if self.text.startswith("))", match.start()) else 0
        return 0

    def read_arithmetic(self, start: int, begin: int, end: int) -> WordPiece:
        """Return arithmetic as a variable `((`; its operand keeps the substitutions in it."""
        reader = type(self)(self.text[:end], begin, self.depth)
        pieces = tuple(reader.read_quoted(BODY, "", '$`"\\'))
        self.problem = self.problem or reader.problem
        self.position = end + 2
        return WordPiece(PieceKind.VARIABLE, "((", start, operand=ShellWord(pieces, begin, end))

    def _read_nested(self, *closers: str) -> ShellScript:
        self.depth += 1
        if self.depth > _MAX_NESTING:
            raise ShellNestingError
        script = self.read_statements(*closers)
        self.depth -= 1
        return script

    def _read_backtick(self) -> Iterator[WordPiece]:
        """Yield a substitution in backticks; with escapes inside, as text to read again."""
        if self.in_backticks:
            return
        start = self.position + 1
        body = _BACKTICK.match(self.text, start)
        end = body.end() if body else start
        if not self.text.startswith("`", end):
            self.problem = "a backtick is never closed"
        raw = self.text[start:end]
        inner = _BACKTICK_ESCAPE.sub(r"\1", raw)
        script = None
        if inner == raw:
            self.position, self.in_backticks = start, True
            script = self._read_nested("`")
            self.in_backticks = False
        self.position = end + 1
        yield WordPiece(PieceKind.COMMAND, inner, start, script=script)

    def _read_nested_subscript(self) -> str:
        """Return the text of a subscript that holds brackets itself, and move behind it."""
        start, depth = self.position, 0
        for match in _BRACKET.finditer(self.text, start, start + _MAX_SUBSCRIPT):
            depth += 1 if match[0] == "[" else -1
            if depth == 0:
                self.position = match.end()
                return self.text[start + 1 : match.start()]
        return ""

    def _read_braced(self) -> WordPiece:
        """Return `${name}`, with its operator and operand."""
        text, start = self.text, self.position
        if simple := _SIMPLE_BRACED.match(text, start + 1):
            self.position = simple.end()
            return WordPiece(PieceKind.VARIABLE, simple[1], start)
        head = _BRACED_HEAD.match(text, start + 1)
        if head is None:
            self.position = start + 2
            return WordPiece(PieceKind.QUOTED, "${", start)
        self.position = head.end()
        subscript, operator = (head[3] or "")[1:-1], head[4]
        if text.startswith("[", head.end(2)) and (not head[3] or "[" in subscript):
            self.position, operator = head.end(2), ""
            subscript = self._read_nested_subscript()
        pieces = tuple(self.read_quoted(_BRACED, "}", '}$`"\\'))
        operand = ShellWord(pieces, head.end(), self.position)
        self.position += 1
        return WordPiece(
            PieceKind.VARIABLE, head[2], start, operator, operand, None, False, head[1], subscript
        )


def _mark_unsplit(pieces: Iterator[WordPiece]) -> Iterator[WordPiece]:
    return (piece._replace(unsplit=True) for piece in pieces)
