"""Reads what hangs on a shell command: assignments, redirections, here-documents.

A heredoc's body is read when its operator is met, and passed over when the line ends.
"""

import re
from collections.abc import Iterator

from demur.guards.code_execution.tree import Assignment, Piece, PieceKind, Redirect, Word
from demur.guards.code_execution.words import BLANKS, WordReader

__all__ = ["RedirectReader"]

_REDIRECT = re.compile(r"(\d*|\{[A-Za-z_]\w*\})(<<<|<<-|<<|<>|<&|>&|>>|>\||&>>|&>|<(?!\()|>(?!\())")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]\s]*\])?(\+?)=")
_COMMENT = re.compile(r"#[^\n]*")
_BODY = re.compile(r"[^\\$`]+")
_MOST_HEREDOCS = 64


class RedirectReader(WordReader):
    """A reader of words that also knows assignments, redirections and the ends of lines."""

    def __init__(self, text: str, at: int = 0, depth: int = 0) -> None:
        super().__init__(text, at, depth)
        self.bodies: dict[int, int] = {}
        self.heredocs = 0

    def line_end(self) -> None:
        """Skip the end of a line, and the here-documents that start there."""
        self.at = self.bodies.pop(self.at, self.at + 1)

    def blanks(self) -> None:
        """Skip blanks and continued lines."""
        if blanks := BLANKS.match(self.text, self.at):
            self.at = blanks.end()

    def blank_lines(self) -> None:
        """Skip blanks, comments and line ends before a command."""
        self.blanks()
        while self.text.startswith(("\n", "#"), self.at):
            if comment := _COMMENT.match(self.text, self.at):
                self.at = comment.end()
            else:
                self.line_end()
            self.blanks()

    def assignment(self) -> Assignment | None:
        """Return the assignment at this position, if there is one."""
        match = _ASSIGNMENT.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        value = self._array() if self.text.startswith("(", self.at) else self.word()
        return Assignment(match[1], value, bool(match[2]))

    def _array(self) -> Word:
        """Return the words of `( ... )` as one, with blanks between them."""
        start = self.at
        self.at += 1
        pieces: list[Piece] = []
        while self.at < len(self.text) and not self.text.startswith(")", self.at):
            self.blank_lines()
            before = self.at
            pieces.extend(self.word().pieces)
            if self.at == before and not self.text.startswith(")", self.at):
                self.at += 1
            pieces.append(Piece(PieceKind.TEXT, " ", self.at))
        self.at += 1
        return Word(tuple(pieces), start, self.at)

    def redirects(self) -> Iterator[Redirect]:
        """Yield the redirections at this position."""
        while True:
            self.blanks()
            redirect = self.redirect()
            if redirect is None:
                return
            yield redirect

    def redirect(self) -> Redirect | None:
        """Return the redirection at this position, if there is one."""
        match = _REDIRECT.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        self.blanks()
        target = self.word()
        if match[2] in {"<<", "<<-"}:
            target = self._heredoc(target, tabs=match[2] == "<<-")
        return Redirect(match[2], target, match[1])

    def _heredoc(self, delimiter: Word, *, tabs: bool) -> Word:
        """Return the body of a here-document, which starts on the next line."""
        line = self.text.find("\n", self.at)
        begin = self.bodies.get(line, line + 1)
        self.heredocs += 1
        if line < 0 or self.heredocs > _MOST_HEREDOCS:
            self.problem = "a here-document has no body"
            return Word((), self.at, self.at)
        mark = "".join(piece.text for piece in delimiter.pieces)
        end, after = self._body_end(begin, mark, tabs=tabs)
        self.bodies[line] = after
        if any(piece.kind is PieceKind.QUOTED for piece in delimiter.pieces):
            return Word((Piece(PieceKind.QUOTED, self.text[begin:end], begin),), begin, end)
        return self._body(begin, end)

    def _body_end(self, begin: int, mark: str, *, tabs: bool) -> tuple[int, int]:
        """Return where the body ends, and where the line of its delimiter ends."""
        indent = r"\t*" if tabs else ""
        found = re.compile(rf"^{indent}{re.escape(mark)}\r?$", re.MULTILINE).search(
            self.text, begin
        )
        if found is None:
            self.problem = "a here-document is never closed"
            return len(self.text), len(self.text)
        return found.start(), min(found.end() + 1, len(self.text))

    def _body(self, begin: int, end: int) -> Word:
        """Return the pieces of a body, with its variables and substitutions."""
        reader = type(self)(self.text[:end], begin, self.depth)
        return Word(tuple(reader.quoted(_BODY, "", "$`\\")), begin, end)
