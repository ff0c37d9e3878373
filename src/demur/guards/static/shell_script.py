"""Read a shell script: lists, pipelines, compounds, functions, redirections, heredocs.

Bash's grammar and POSIX's, read by descent in one pass. The reader is lenient: it reads a text
that a shell would reject command by command, because a guard must not pass a text that it cannot
parse. `read_script` never raises. A heredoc's body is read at its operator and skipped at the end
of the line.
"""

import re
from collections.abc import Iterator

from demur.guards.static.shell_words import (
    BLANKS,
    CommandGroup,
    ForLoop,
    OrList,
    PieceKind,
    ShellAssignment,
    ShellFunction,
    ShellNestingError,
    ShellNode,
    ShellPipeline,
    ShellRedirect,
    ShellScript,
    ShellWord,
    ShellWordReader,
    SimpleCommand,
    WordPiece,
)

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
            body = WordPiece(PieceKind.QUOTED, self.text[begin:end], begin)
            return ShellWord((body,), begin, end)
        reader = type(self)(self.text[:end], begin, self.depth)
        return ShellWord(tuple(reader.read_quoted(_BODY, "", "$`\\")), begin, end)

    def _find_body_end(self, begin: int, mark: str, *, tabs: bool) -> tuple[int, int]:
        """Return where the body ends, and where the line of its delimiter ends."""
        indent = r"\t*" if tabs else ""
        line = re.compile(rf"^{indent}{re.escape(mark)}\r?$", re.MULTILINE)
        found = line.search(self.text, begin)
        if found is None:
            self.problem = "a here-document is never closed"
            return len(self.text), len(self.text)
        return found.start(), min(found.end() + 1, len(self.text))


_SPACE = re.compile(r"(?:[ \t\r;&]|\\\r?\n|#[^\n]*)*")
_GAP = re.compile(r"(?:[ \t\r]|\\\r?\n|#[^\n]*|;(?![;&])|&)*")
_BRANCH_END = re.compile(r";;&?|;&")
_PATTERNS = re.compile(
    r"""\(?(?:[^()'"\\\n]|\\[\s\S]|'[^']*'|"(?:\\[\s\S]|[^"\\])*"|\([^()\n]*\))*\)"""
)
_PARENTHESES = re.compile(r"[ \t]*\([ \t]*\)")
_WORD_ENDS = frozenset(" \t\r\n;|&()<>`")
_LOOPS = ("while", "until", "for", "select")
_CLOSERS = {"{": "}", "if": "fi", "case": "esac", **dict.fromkeys(_LOOPS, "done")}
_SKIPPED = frozenset({"then", "else", "elif", "do", "!", "time", "coproc"})
_ENDS = frozenset(_CLOSERS.values())
_RESERVED = frozenset({*_CLOSERS, *_SKIPPED, *_ENDS, "function", "[[", "in"})
_KEYWORD = re.compile(r"\{|\}|!|\[\[|[a-z]+")


def read_script(text: str) -> ShellScript:
    """Return the statements of `text` as far as they can be read, and the first problem."""
    reader = _ScriptReader(text)
    try:
        nodes = reader.read_statements("").nodes
    except ShellNestingError:
        return ShellScript((), "substitutions nest too deep")
    return ShellScript(nodes, reader.problem)


class _ScriptReader(ShellRedirectReader):
    """Reads statements. `after_or`: the next statement follows `||`."""

    after_or = False

    def read_statements(self, closer: str) -> ShellScript:
        """Return the statements up to `closer`, and skip it."""
        nodes: list[ShellNode] = []
        size = len(self.text)
        while True:
            self._skip_separators()
            if self.position >= size:
                if closer:
                    self.problem = self.problem or f"`{closer}` is missing"
                break
            if self._skip_closer(closer):
                break
            before, otherwise = self.position, self.after_or
            self.after_or = False
            found = list(self._read_pipeline())
            if otherwise and nodes and found:
                found = [OrList((nodes.pop(), *found), before, self.position)]
            nodes.extend(found)
            if self.position == before:
                self._skip_stray()
        return ShellScript(tuple(nodes))

    def _skip_closer(self, closer: str) -> bool:
        """Skip `closer` if it stands here, and return whether it did."""
        if not closer or not self.text.startswith(closer, self.position):
            return False
        end = self.position + len(closer)
        if closer.isalpha() and end < len(self.text) and self.text[end] not in _WORD_ENDS:
            return False
        self.position = end
        return True

    def _skip_stray(self, word: str = "") -> None:
        """Skip a word, or else a character, that cannot start a statement."""
        stray = word or self.text[self.position]
        self.problem = self.problem or f"`{stray}` is not expected here"
        self.position += len(stray)

    def _skip_separators(self) -> None:
        """Skip blanks, comments, separators, line ends and the bodies of heredocs."""
        while True:
            space = _SPACE.match(self.text, self.position)
            self.position = space.end() if space else self.position
            if not self.text.startswith("\n", self.position):
                return
            self.skip_line_end()

    def _read_pipeline(self) -> Iterator[ShellNode]:
        """Yield the pipeline that starts here; one command is no pipeline."""
        start = self.position
        stages = list(self._read_command())
        while self._skip_pipe():
            self.skip_blank_lines()
            before = self.position
            stages.extend(self._read_command())
            if self.position == before:
                self.problem = "a pipe leads nowhere"
                break
        if len(stages) > 1:
            yield ShellPipeline(tuple(stages), start, self.position)
        else:
            yield from stages

    def _skip_pipe(self) -> bool:
        """Skip a single `|` if it stands here, and return whether it did."""
        text = self.text
        self.skip_blanks()
        if not text.startswith("|", self.position):
            return False
        if text.startswith("||", self.position):
            self.position += 2
            self.after_or = True
            return False
        self.position += 2 if text.startswith("|&", self.position) else 1
        return True

    def _read_command(self) -> Iterator[ShellNode]:
        """Yield the command that starts here, compound or simple."""
        word = self._peek_keyword()
        while word in _SKIPPED:
            self.position += len(word)
            self.skip_blank_lines()
            word = self._peek_keyword()
        if self.text.startswith("(", self.position):
            yield self._read_group("(", ")")
        elif word in {"for", "select"}:
            yield self._read_for(word)
        elif word == "case":
            yield self._read_case()
        elif word in _CLOSERS:
            yield self._read_group(word, _CLOSERS[word])
        elif word == "function":
            yield from self._read_function()
        elif word in _ENDS:
            self._skip_stray(word)
        else:
            yield from self._read_simple()

    def _peek_keyword(self) -> str:
        """Return the reserved word at this position, or an empty text."""
        match = _KEYWORD.match(self.text, self.position)
        if match is None or match[0] not in _RESERVED:
            return ""
        end = match.end()
        ends = end >= len(self.text) or self.text[end] in _WORD_ENDS
        return match[0] if ends or match[0] == "}" else ""

    def _read_group(self, opener: str, closer: str) -> CommandGroup:
        start = self.position
        self.position += len(opener)
        body = self._read_nested(closer)
        redirects = tuple(self.read_redirects())
        return CommandGroup(body, redirects, start, self.position)

    def _read_for(self, keyword: str) -> ForLoop:
        """Return `for NAME in WORDS; do ...; done`."""
        start = self.position
        self.position += len(keyword)
        self.skip_blanks()
        name = self.read_word()
        self.skip_blank_lines()
        words: list[ShellWord] = []
        if self._peek_keyword() == "in":
            self.position += 2
            words.extend(self._read_words())
        body = self._read_nested("done")
        redirects = tuple(self.read_redirects())
        variable = name.pieces[0].text if name.pieces else ""
        return ForLoop(variable, tuple(words), body, redirects, start, self.position)

    def _read_words(self) -> Iterator[ShellWord]:
        """Yield the words up to the end of the statement."""
        while True:
            self.skip_blanks()
            before = self.position
            word = self.read_word()
            if self.position == before:
                return
            yield word

    def _read_case(self) -> CommandGroup:
        """Return `case WORD in PATTERN) ...;; esac`: all branches as one body."""
        start = self.position
        self.position += len("case")
        self.skip_blanks()
        subject = self.read_word()
        self.skip_blank_lines()
        if self._peek_keyword() == "in":
            self.position += 2
        nodes: list[ShellNode] = [SimpleCommand((), (_CASE, subject), (), start, self.position)]
        self._skip_pattern()
        while self._skip_to_branch() and not self._skip_closer("esac"):
            before = self.position
            nodes.extend(self._read_pipeline())
            if self.position == before:
                self._skip_stray()
        redirects = tuple(self.read_redirects())
        return CommandGroup(ShellScript(tuple(nodes)), redirects, start, self.position)

    def _skip_to_branch(self) -> bool:
        """Skip to the next command of a `case`, over branch ends and patterns; False at the end."""
        while True:
            gap = _GAP.match(self.text, self.position)
            self.position = gap.end() if gap else self.position
            if self.text.startswith("\n", self.position):
                self.skip_line_end()
            elif end := _BRANCH_END.match(self.text, self.position):
                self.position = end.end()
                self._skip_pattern()
            else:
                return self.position < len(self.text)

    def _skip_pattern(self) -> None:
        """Skip the patterns of a branch."""
        self._skip_separators()
        if self._peek_keyword() == "esac":
            return
        if pattern := _PATTERNS.match(self.text, self.position):
            self.position = pattern.end()

    def _read_function(self) -> Iterator[ShellNode]:
        """Yield `function NAME { ...; }`."""
        start = self.position
        self.position += len("function")
        self.skip_blanks()
        name = self.read_word()
        if brackets := _PARENTHESES.match(self.text, self.position):
            self.position = brackets.end()
        yield self._read_definition(name, start)

    def _read_definition(self, name: ShellWord, start: int) -> ShellFunction:
        self.skip_blank_lines()
        body = ShellScript(tuple(self._read_command()))
        called = "".join(piece.text for piece in name.pieces)
        return ShellFunction(called, body, start, self.position)

    def _read_simple(self) -> Iterator[ShellNode]:
        """Yield a simple command, or the function that its first word defines."""
        start = end = self.position
        assignments: list[ShellAssignment] = []
        words: list[ShellWord] = []
        redirects: list[ShellRedirect] = []
        while True:
            if not words and (assignment := self.read_assignment()):
                assignments.append(assignment)
            elif redirect := self.read_redirect():
                redirects.append(redirect)
            else:
                word = self.read_word()
                if self.position == word.start:
                    break
                words.append(word)
                if len(words) == 1 and (opened := _PARENTHESES.match(self.text, self.position)):
                    self.position = opened.end()
                    yield self._read_definition(word, start)
                    return
                if len(words) == 1 and self.text.startswith("[[", start):
                    words.extend(self._read_test())
            end = self.position
            self.skip_blanks()
            if self.text.startswith("#", self.position) and self.position > end:
                break
        if assignments or words or redirects:
            yield SimpleCommand(tuple(assignments), tuple(words), tuple(redirects), start, end)

    def _read_test(self) -> Iterator[ShellWord]:
        """Yield the words of `[[ ... ]]`, where operators are words."""
        while self.position < len(self.text) and not self.text.startswith("\n", self.position):
            self.skip_blanks()
            before = self.position
            word = self.read_word()
            if self.position == before:
                self.position += 1
                continue
            yield word
            if self.text.startswith("]]", word.start):
                return


_CASE = ShellWord((WordPiece(PieceKind.TEXT, "case"),), 0, 0)
