"""Reads what hangs on a shell command: assignments, redirections, here-documents.

A heredoc's body is read when its operator is met, and passed over when the line ends.
"""

import re
from collections.abc import Iterator

from demur.guards.code_execution.tree import (
    ShellAssignment,
    WordPiece,
    PieceKind,
    ShellRedirect,
    ShellWord,
)
from demur.guards.code_execution.words import BLANKS, ShellWordReader

__all__ = ["ShellRedirectReader"]

_REDIRECT = re.compile(r"(\d*|\{[A-Za-z_]\w*\})(<<<|<<-|<<|<>|<&|>&|>>|>\||&>>|&>|<(?!\()|>(?!\())")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]\s]*\])?(\+?)=")
_COMMENT = re.compile(r"#[^\n]*")
_BODY = re.compile(r"[^\\$`]+")
_MAX_HEREDOCS = 64


class ShellRedirectReader(ShellWordReader):
    """A reader of words that also knows assignments, redirections and the ends of lines."""

    def __init__(self, text: str, position: int = 0, depth: int = 0) -> None:
        super().__init__(text, position, depth)
        self.bodies: dict[int, int] = {}
        self.heredocs = 0

    def skip_line_end(self) -> None:
        """Skip the end of a line, and the here-documents that start there."""
        self.position = self.bodies.pop(self.position, self.position + 1)

    def skip_blanks(self) -> None:
        """Skip blanks and continued lines."""
        if blanks := BLANKS.match(self.text, self.position):
            self.position = blanks.end()

    def skip_blank_lines(self) -> None:
        """Skip blanks, comments and line ends before a command."""
        self.skip_blanks()
        while self.text.startswith(("\n", "#"), self.position):
            if comment := _COMMENT.match(self.text, self.position):
                self.position = comment.end()
            else:
                self.skip_line_end()
            self.skip_blanks()

    def read_assignment(self) -> ShellAssignment | None:
        """Return the assignment at this position, if there is one."""
        match = _ASSIGNMENT.match(self.text, self.position)
        if match is None:
            return None
        self.position = match.end()
        value = self._read_array() if self.text.startswith("(", self.position) else self.read_word()
        return ShellAssignment(match[1], value, bool(match[2]))

    def _read_array(self) -> ShellWord:
        """Return the words of `( ... )` as one, with blanks between them."""
        start = self.position
        self.position += 1
        pieces: list[WordPiece] = []
        while self.position < len(self.text) and not self.text.startswith(")", self.position):
            self.skip_blank_lines()
            before = self.position
            pieces.extend(self.read_word().pieces)
            if self.position == before and not self.text.startswith(")", self.position):
                self.position += 1
            pieces.append(WordPiece(PieceKind.TEXT, " ", self.position))
        self.position += 1
        return ShellWord(tuple(pieces), start, self.position)

    def read_redirects(self) -> Iterator[ShellRedirect]:
        """Yield the redirections at this position."""
        while True:
            self.skip_blanks()
            redirect = self.read_redirect()
            if redirect is None:
                return
            yield redirect

    def read_redirect(self) -> ShellRedirect | None:
        """Return the redirection at this position, if there is one."""
        match = _REDIRECT.match(self.text, self.position)
        if match is None:
            return None
        self.position = match.end()
        self.skip_blanks()
        target = self.read_word()
        if match[2] in {"<<", "<<-"}:
            target = self._read_heredoc(target, tabs=match[2] == "<<-")
        return ShellRedirect(match[2], target, match[1])

    def _read_heredoc(self, delimiter: ShellWord, *, tabs: bool) -> ShellWord:
        """Return the body of a here-document, which starts on the next line."""
        line = self.text.find("\n", self.position)
        begin = self.bodies.get(line, line + 1)
        self.heredocs += 1
        if line < 0 or self.heredocs > _MAX_HEREDOCS:
            self.problem = "a here-document has no body"
            return ShellWord((), self.position, self.position)
        mark = "".join(piece.text for piece in delimiter.pieces)
        end, after = self._find_body_end(begin, mark, tabs=tabs)
        self.bodies[line] = after
        if any(piece.kind is PieceKind.QUOTED for piece in delimiter.pieces):
            return ShellWord(
                (WordPiece(PieceKind.QUOTED, self.text[begin:end], begin),), begin, end
            )
        return self._read_body(begin, end)

    def _find_body_end(self, begin: int, mark: str, *, tabs: bool) -> tuple[int, int]:
        """Return where the body ends, and where the line of its delimiter ends."""
        indent = r"\t*" if tabs else ""
        found = re.compile(rf"^{indent}{re.escape(mark)}\r?$", re.MULTILINE).search(
            self.text, begin
        )
        if found is None:
            self.problem = "a here-document is never closed"
            return len(self.text), len(self.text)
        return found.start(), min(found.end() + 1, len(self.text))

    def _read_body(self, begin: int, end: int) -> ShellWord:
        """Return the pieces of a body, with its variables and substitutions."""
        reader = type(self)(self.text[:end], begin, self.depth)
        return ShellWord(tuple(reader.read_quoted(_BODY, "", "$`\\")), begin, end)
