"""Reads one word of a shell command: quotes, escapes, variables, substitutions.

Only the standard library is used, and the text is passed over once: each method starts at
`self.at` and leaves it behind what it read. What has no end (a quote that is never closed)
ends with the text, and is a problem, not an error.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator

from demur.guards.code_execution.escapes import ansi_c
from demur.guards.code_execution.tree import Piece, PieceKind, Script, Word

__all__ = ["BLANKS", "TooDeepError", "WordReader"]

BLANKS = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_PLAIN = re.compile(r"[^ \t\r\n'\"\\$`|&;()<>]+")
_DOUBLE = re.compile(r'[^"\\$`]+')
_BRACED = re.compile(r"[^}'\"\\$`]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!\-]")
_SIMPLE_BRACED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!\-])\}")
_BRACED_HEAD = re.compile(
    r"\{([#!]?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*?$\-])(\[[^\]}]*\])?"
    r"(:[-=+?]|//|/[#%]?|##?|%%?|\^\^?|,,?|[-=+?:@]|)"
)
_BACKTICK = re.compile(r"(?:[^`\\]|\\.)*", re.DOTALL)
_BACKTICK_ESCAPE = re.compile(r"\\([`\\$])")
_DEEPEST = 24


class TooDeepError(Exception):
    """Substitutions nest deeper than the limit."""


class WordReader(ABC):
    """A position in a text, and the last problem. A subclass reads statements."""

    def __init__(self, text: str, at: int = 0, depth: int = 0) -> None:
        self.text = text
        self.at = at
        self.depth = depth
        self.problem = ""
        self.in_backticks = False

    @abstractmethod
    def script(self, closer: str) -> Script:
        """Return the statements up to `closer`; the subclass implements it."""

    def word(self) -> Word:
        """Return the word that starts here."""
        start = self.at
        text, size = self.text, len(self.text)
        plain = _PLAIN.match(text, start)
        if plain and (plain.end() == size or text[plain.end()] in " \t\n\r;|&)"):
            self.at = plain.end()
            return Word((Piece(PieceKind.TEXT, plain[0], start),), start, self.at)
        pieces: list[Piece] = []
        while self.at < size:
            before = self.at
            pieces.extend(self._pieces())
            if self.at == before:
                break
        return Word(tuple(pieces), start, self.at)

    def _pieces(self) -> Iterator[Piece]:
        """Yield the next pieces of an unquoted word; none if the word ends here."""
        text, at = self.text, self.at
        if plain := _PLAIN.match(text, at):
            self.at = plain.end()
            yield Piece(PieceKind.TEXT, plain[0], at)
            if text.startswith("(", self.at) and plain[0][-1] in "?*+@!":
                yield self._extended_glob()
            return
        yield from self._special(text[at])

    def _special(self, character: str) -> Iterator[Piece]:
        """Yield the pieces that a special character introduces; none ends the word."""
        if character == '"':
            yield from self._double()
        elif character == "'":
            yield from self._single()
        elif character == "$":
            yield from self._dollar()
        elif character == "\\":
            yield from self._escape()
        elif character == "`":
            yield from self._backtick()
        elif character in "<>" and self.text.startswith("(", self.at + 1):
            yield self._process()

    def _extended_glob(self) -> Piece:
        """Return `(a|b)` of a pattern such as `@(a|b)`, as text."""
        start = self.at
        end = self.text.find(")", start)
        self.at = len(self.text) if end < 0 else end + 1
        return Piece(PieceKind.TEXT, self.text[start : self.at], start)

    def _escape(self) -> Iterator[Piece]:
        """Yield the character after a backslash; a line break after one is dropped."""
        start = self.at
        following = self.text[start + 1 : start + 2]
        self.at = start + 1 + len(following)
        if following != "\n":
            yield Piece(PieceKind.QUOTED, following or "\\", start + 1)

    def _single(self) -> Iterator[Piece]:
        """Yield a text in single quotes."""
        start = self.at + 1
        end = self._closing("'", start)
        yield Piece(PieceKind.QUOTED, self.text[start:end], start)

    def _closing(self, quote: str, start: int) -> int:
        """Return the end of the quote that opened before `start`, and move behind it."""
        end = self.text.find(quote, start)
        if end < 0:
            self.problem = "a quote is never closed"
            self.at = end = len(self.text)
        else:
            self.at = end + 1
        return end

    def _double(self) -> Iterator[Piece]:
        """Yield the pieces of a text in double quotes."""
        self.at += 1
        start = self.at
        pieces = list(self.quoted(_DOUBLE, '"'))
        if not self.text.startswith('"', self.at):
            self.problem = "a quote is never closed"
        self.at += 1
        yield from pieces or [Piece(PieceKind.QUOTED, "", start)]

    def quoted(
        self, plain: re.Pattern[str], closer: str, escapes: str = '$`"\\'
    ) -> Iterator[Piece]:
        """Yield the pieces of a quoted text up to `closer`, which is not consumed."""
        text, size = self.text, len(self.text)
        while self.at < size and not (closer and text.startswith(closer, self.at)):
            start = self.at
            if run := plain.match(text, start):
                self.at = run.end()
                yield Piece(PieceKind.QUOTED, run[0], start)
            elif text[start] == "\\":
                yield from self._quoted_escape(escapes)
            elif text[start] == "$":
                yield from _whole(self._dollar(quoted=True))
            elif text[start] == "'":
                yield from self._single()
            elif text[start] == '"':
                yield from self._double()
            elif self.in_backticks:
                return
            else:
                yield from _whole(self._backtick())

    def _quoted_escape(self, escapes: str) -> Iterator[Piece]:
        """Yield the text of a backslash escape inside double quotes."""
        start = self.at
        following = self.text[start + 1 : start + 2]
        self.at = start + 1 + len(following)
        if following == "\n":
            return
        if following and following in escapes:
            yield Piece(PieceKind.QUOTED, following, start + 1)
        else:
            yield Piece(PieceKind.QUOTED, "\\" + following, start)

    def _dollar(self, *, quoted: bool = False) -> Iterator[Piece]:
        """Yield the pieces that a dollar sign introduces."""
        text, start = self.text, self.at
        following = text[start + 1 : start + 2]
        if following == "(":
            yield self._substitution()
        elif following == "{":
            yield self._braced()
        elif following == "'" and not quoted:
            yield self._ansi()
        elif following == '"' and not quoted:
            self.at += 1
            yield from self._double()
        elif name := _NAME.match(text, start + 1):
            self.at = name.end()
            yield Piece(PieceKind.VARIABLE, name[0], start)
        else:
            self.at = start + 1
            yield Piece(PieceKind.QUOTED, "$", start)

    def _ansi(self) -> Piece:
        """Return the text of `$'...'` with its escapes decoded."""
        start = self.at + 2
        end = start
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            self.problem = "a quote is never closed"
        self.at = end + 1
        return Piece(PieceKind.QUOTED, ansi_c(self.text[start:end]), start)

    def _substitution(self) -> Piece:
        """Return `$(...)`; arithmetic is a substitution whose commands still run."""
        start = self.at
        with_arithmetic = self.text.startswith("((", start + 1)
        self.at = start + 2
        if with_arithmetic and (piece := self._arithmetic(start)):
            return piece
        return Piece(PieceKind.COMMAND, start=start, script=self._nested(")"))

    def _arithmetic(self, start: int) -> Piece | None:
        """Return `$((...))`, or None if it is a subshell in a substitution."""
        end = self.text.find("))", self.at)
        inner = self.text[self.at + 1 : end]
        if end < 0 or "$(" in inner or "`" in inner:
            return None
        self.at = end + 2
        return Piece(PieceKind.VARIABLE, "((", start, operand=None)

    def _process(self) -> Piece:
        """Return `<(...)` or `>(...)`; the text is its direction."""
        start = self.at
        self.at = start + 2
        return Piece(PieceKind.PROCESS, self.text[start], start, script=self._nested(")"))

    def _nested(self, closer: str) -> Script:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise TooDeepError
        script = self.script(closer)
        self.depth -= 1
        return script

    def _backtick(self) -> Iterator[Piece]:
        """Yield a substitution in backticks; with escapes inside, as text to read again."""
        if self.in_backticks:
            return
        start = self.at + 1
        body = _BACKTICK.match(self.text, start)
        end = body.end() if body else start
        if not self.text.startswith("`", end):
            self.problem = "a backtick is never closed"
        raw = self.text[start:end]
        inner = _BACKTICK_ESCAPE.sub(r"\1", raw)
        self.at = start
        script = None if inner != raw else self._within_backticks()
        self.at = end + 1
        yield Piece(PieceKind.COMMAND, inner, start, script=script)

    def _within_backticks(self) -> Script:
        self.in_backticks = True
        script = self._nested("`")
        self.in_backticks = False
        return script

    def _braced(self) -> Piece:
        """Return `${name}`, with its operator and operand."""
        text, start = self.text, self.at
        if simple := _SIMPLE_BRACED.match(text, start + 1):
            self.at = simple.end()
            return Piece(PieceKind.VARIABLE, simple[1], start)
        head = _BRACED_HEAD.match(text, start + 1)
        if head is None:
            self.at = start + 2
            return Piece(PieceKind.QUOTED, "${", start)
        self.at = head.end()
        operator = head[1] + (head[4] or "")
        operand = Word(tuple(self.quoted(_BRACED, "}", '}$`"\\')), head.end(), self.at)
        self.at += 1
        return Piece(PieceKind.VARIABLE, head[2], start, operator, operand)


def _whole(pieces: Iterator[Piece]) -> Iterator[Piece]:
    return (piece._replace(whole=True) for piece in pieces)
