"""Read a shell script: lists, pipelines, compounds, functions, redirections, heredocs.

Bash's grammar and POSIX's, read by descent in one pass. The reader is lenient: it reads a text
that a shell would reject command by command, because a guard must not pass a text that it cannot
parse. `read_script` never raises. A heredoc's body is read at its operator and skipped at the end
of the line.
"""

import re
from collections.abc import Iterable, Iterator

from demur.guards.static.shell_words import (
    BLANKS,
    BODY,
    CaseCommand,
    CommandGroup,
    CommandList,
    ConditionalCommand,
    ForLoop,
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
    WhileLoop,
    WordPiece,
)

_REDIRECT = re.compile(r"(\d*|\{[A-Za-z_]\w*\})(<<<|<<-|<<|<>|<&|>&|>>|>\||&>>|&>|<(?!\()|>(?!\())")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]\n]*\])?(\+?)=")
_COMMENT = re.compile(r"#[^\n]*")
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
        start, subscript = self.position, (match[2] or "")[1:-1]
        if not self.text.startswith("(", start):
            return ShellAssignment(match[1], self.read_word(), bool(match[3]), subscript)
        items = tuple(self._read_items())
        whole = ShellWord(tuple(piece for item in items for piece in item.pieces), start, start)
        return ShellAssignment(match[1], whole, bool(match[3]), subscript, items)

    def _read_items(self) -> Iterator[ShellWord]:
        """Yield the words of `( ... )`."""
        self.position += 1
        while True:
            self.skip_blank_lines()
            if self.position >= len(self.text) or self.text.startswith(")", self.position):
                break
            before = self.position
            word = self.read_word()
            if self.position == before:
                self.position += 1
            else:
                yield word
        self.position += 1

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
        return ShellWord(tuple(reader.read_quoted(BODY, "", "$`\\")), begin, end)

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
_BRANCH_ENDS = (";;&", ";;", ";&")
_PARENTHESES = re.compile(r"[ \t]*\([ \t]*\)")
_WORD_ENDS = frozenset(" \t\r\n;|&()<>`")
_LOOPS = ("while", "until", "for", "select")
_CLOSERS = {"{": "}", "if": "fi", "case": "esac", **dict.fromkeys(_LOOPS, "done")}
_SKIPPED = frozenset({"then", "else", "elif", "do", "!", "time"})
_TIME_OPTION = re.compile(r"[ \t]+-p(?=[ \t\n])")
_ENDS = frozenset(_CLOSERS.values())
_RESERVED = frozenset({*_CLOSERS, *_SKIPPED, *_ENDS, "function", "coproc", "[[", "in"})
_KEYWORD = re.compile(r"\{|\}|!|\[\[|[a-z]+")
_COPROCESS_NAME = re.compile(
    r"[A-Za-z_]\w*[ \t]+(?=[({]|(?:if|case|while|until|for|select)[ \t\n])"
)
_DECLARING = frozenset({"export", "declare", "local", "typeset", "readonly"})


def read_script(text: str) -> ShellScript:
    """Return the statements of `text` as far as they can be read, and the first problem."""
    reader = _ScriptReader(text)
    try:
        nodes = reader.read_statements().nodes
    except ShellNestingError:
        return ShellScript((), "substitutions nest too deep")
    return ShellScript(nodes, reader.problem)


class _ScriptReader(ShellRedirectReader):
    """Reads statements. `closed_by`: the word or character that ended the last ones."""

    closed_by = ""

    def read_statements(self, *closers: str) -> ShellScript:
        """Return the statements up to one of `closers`, and skip it."""
        nodes: list[ShellNode] = []
        gap = _GAP if ";;" in closers else _SPACE
        while True:
            self._skip_separators(gap)
            if self.position >= len(self.text):
                if closers:
                    self.problem = self.problem or f"`{closers[-1]}` is missing"
                self.closed_by = ""
                break
            if self._skip_closer(closers):
                break
            before = self.position
            nodes.extend(self._read_list())
            if self.position == before:
                self._skip_stray()
        return ShellScript(tuple(nodes))

    def _skip_closer(self, closers: Iterable[str]) -> bool:
        """Skip one of `closers` if it stands here, and return whether it did."""
        for closer in closers:
            end = self.position + len(closer)
            if self.text.startswith(closer, self.position) and (
                not closer.isalpha() or self.text[end : end + 1] in _ENDED
            ):
                self.position, self.closed_by = end, closer
                return True
        return False

    def _skip_stray(self, word: str = "") -> None:
        """Skip a word, or else a character, that cannot start a statement."""
        stray = word or self.text[self.position]
        self.problem = self.problem or f"`{stray}` is not expected here"
        self.position += len(stray)

    def _skip_separators(self, gap: re.Pattern[str] = _SPACE) -> None:
        """Skip blanks, comments, separators, line ends and the bodies of heredocs."""
        while True:
            space = gap.match(self.text, self.position)
            self.position = space.end() if space else self.position
            if not self.text.startswith("\n", self.position):
                return
            self.skip_line_end()

    def _read_list(self) -> Iterator[ShellNode]:
        """Yield the pipelines that `&&` and `||` connect; one pipeline is no list."""
        start = self.position
        found = list(self._read_pipeline())
        rest: list[tuple[str, ShellNode]] = []
        while found:
            self.skip_blanks()
            operator = self.text[self.position : self.position + 2]
            if operator not in {"&&", "||"}:
                break
            self.position += 2
            self.skip_blank_lines()
            behind = list(self._read_pipeline())
            if not behind:
                break
            rest.append((operator, behind[0]))
        if rest:
            found = [CommandList(found[0], tuple(rest), start, self.position)]
        if found and self.text.startswith("&", self.position):
            self.position += 1
            found = [CommandGroup(ShellScript(tuple(found)), (), start, self.position, True)]
        yield from found

    def _read_pipeline(self) -> Iterator[ShellNode]:
        """Yield the pipeline that starts here; one command is no pipeline."""
        start = self.position
        negated = self._peek_keyword() == "!"
        stages = list(self._read_command())
        while self._skip_pipe():
            self.skip_blank_lines()
            before = self.position
            stages.extend(self._read_command())
            if self.position == before:
                self.problem = "a pipe leads nowhere"
                break
        if len(stages) > 1 or (stages and negated):
            yield ShellPipeline(tuple(stages), start, self.position, negated)
        else:
            yield from stages

    def _skip_pipe(self) -> bool:
        """Skip a single `|` if it stands here, and return whether it did."""
        text = self.text
        self.skip_blanks()
        if not text.startswith("|", self.position) or text.startswith("||", self.position):
            return False
        self.position += 2 if text.startswith("|&", self.position) else 1
        return True

    def _read_command(self) -> Iterator[ShellNode]:
        """Yield the command that starts here, compound or simple."""
        word = self._peek_keyword()
        while word in _SKIPPED:
            self.position += len(word)
            if word == "time" and (option := _TIME_OPTION.match(self.text, self.position)):
                self.position = option.end()
            self.skip_blank_lines()
            word = self._peek_keyword()
        if self.text.startswith("((", self.position) and (
            end := self.find_arithmetic_end(self.position)
        ):
            start = self.position
            piece = self.read_arithmetic(start, start + 2, end)
            words = (_LET, ShellWord((piece,), start, self.position))
            yield SimpleCommand((), words, tuple(self.read_redirects()), start, self.position)
        elif self.text.startswith("(", self.position):
            yield self._read_group("(", ")")
        elif word == "function":
            yield from self._read_function()
        elif word == "coproc":
            yield from self._read_coprocess()
        elif word in _CLOSERS:
            yield self._read_compound(word)
        elif word in _ENDS:
            self._skip_stray(word)
        else:
            yield from self._read_simple()

    def _read_compound(self, word: str) -> ShellNode:
        """Return the compound command that a reserved word opens."""
        if word == "case":
            return self._read_case()
        if word == "if":
            return self._read_if()
        if word in {"for", "select"}:
            return self._read_for(word)
        return self._read_group(word, "}") if word == "{" else self._read_while(word)

    def _peek_keyword(self) -> str:
        """Return the reserved word at this position, or an empty text."""
        match = _KEYWORD.match(self.text, self.position)
        if match is None or match[0] not in _RESERVED:
            return ""
        end = match.end()
        return match[0] if match[0] == "}" or self.text[end : end + 1] in _ENDED else ""

    def _read_group(self, opener: str, closer: str) -> CommandGroup:
        start = self.position
        self.position += len(opener)
        body = self._read_nested(closer)
        redirects = tuple(self.read_redirects())
        return CommandGroup(body, redirects, start, self.position, opener == "(")

    def _read_coprocess(self) -> Iterator[ShellNode]:
        """Yield `coproc COMMAND` or `coproc NAME { ...; }`, which runs in a subshell."""
        start = self.position
        self.position += len("coproc")
        self.skip_blanks()
        if name := _COPROCESS_NAME.match(self.text, self.position):
            self.position = name.end()
        body = ShellScript(tuple(self._read_command()))
        # The script writes its input later, through a descriptor.
        later = WordPiece(PieceKind.VARIABLE, "unknown", start, unsplit=True)
        fed = ShellRedirect("<<<", ShellWord((later,), start, start))
        yield CommandGroup(body, (fed,), start, self.position, True)

    def _read_if(self) -> ConditionalCommand:
        """Return `if LIST; then LIST; elif LIST; then LIST; else LIST; fi`."""
        start = self.position
        self.position += len("if")
        branches: list[tuple[ShellScript, ShellScript]] = []
        condition = self._read_nested("then", "fi")
        while self.closed_by == "then":
            branches.append((condition, self._read_nested("elif", "else", "fi")))
            condition = ShellScript(())
            if self.closed_by == "elif":
                condition = self._read_nested("then", "fi")
            elif self.closed_by == "else":
                branches.append((condition, self._read_nested("fi")))
        branches += [(condition, ShellScript(()))] if condition.nodes else []
        redirects = tuple(self.read_redirects())
        return ConditionalCommand(tuple(branches), redirects, start, self.position)

    def _read_while(self, keyword: str) -> WhileLoop:
        """Return `while LIST; do LIST; done`."""
        start = self.position
        self.position += len(keyword)
        condition = self._read_nested("do", "done")
        body = self._read_nested("done") if self.closed_by == "do" else ShellScript(())
        redirects = tuple(self.read_redirects())
        return WhileLoop(condition, body, redirects, start, self.position)

    def _read_for(self, keyword: str) -> ForLoop:
        """Return `for NAME in WORDS; do ...; done`."""
        start = self.position
        self.position += len(keyword)
        self.skip_blanks()
        name = ShellWord((), start, start)
        words: list[ShellWord] | None = None
        if self.text.startswith("((", self.position) and (
            end := self.find_arithmetic_end(self.position)
        ):
            piece = self.read_arithmetic(start, self.position + 2, end)
            words = [ShellWord((piece,), start, self.position)]
        else:
            name = self.read_word()
        self.skip_blank_lines()
        if words is None and self._peek_keyword() == "in":
            self.position += 2
            words = list(self._read_words())
        self._skip_separators()
        opened = self._skip_closer(("do", "{"))
        body = self._read_nested("}" if opened and self.closed_by == "{" else "done")
        redirects = tuple(self.read_redirects())
        variable = name.pieces[0].text if name.pieces else ""
        known = None if words is None else tuple(words)
        return ForLoop(variable, known, body, redirects, start, self.position)

    def _read_words(self) -> Iterator[ShellWord]:
        """Yield the words up to the end of the statement."""
        while True:
            self.skip_blanks()
            before = self.position
            word = self.read_word()
            if self.position == before:
                return
            yield word

    def _read_case(self) -> CaseCommand:
        """Return `case WORD in PATTERN) ...;; esac`."""
        start = self.position
        self.position += len("case")
        self.skip_blanks()
        subject = self.read_word()
        self.skip_blank_lines()
        if self._peek_keyword() == "in":
            self.position += 2
        branches: list[tuple[tuple[ShellWord, ...], ShellScript]] = []
        while True:
            self._skip_separators()
            if self.position >= len(self.text) or self._skip_closer(("esac",)):
                break
            patterns = tuple(self._read_patterns())
            branches.append((patterns, self._read_nested(*_BRANCH_ENDS, "esac")))
            if self.closed_by in {"esac", ""}:
                break
        redirects = tuple(self.read_redirects())
        return CaseCommand(subject, tuple(branches), redirects, start, self.position)

    def _read_patterns(self) -> Iterator[ShellWord]:
        """Yield the patterns of a branch, and skip the bracket behind them."""
        start = self.position
        if self.text.startswith("(", start):
            self.position += 1
        found: list[ShellWord] = []
        while True:
            self.skip_blanks()
            word = self.read_word()
            if word.end > word.start:
                found.append(word)
            elif self.text.startswith("|", self.position):
                self.position += 1
            elif self.text.startswith(")", self.position):
                self.position += 1
                yield from found
                return
            else:
                self.position = start  # not a branch: its words are commands
                return

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
            if self._may_assign(words) and (assignment := self.read_assignment()):
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

    def _may_assign(self, words: list[ShellWord]) -> bool:
        """Whether an assignment may stand here: before the first word, or a list to declare."""
        if not words:
            return True
        first = words[0].pieces[0].text if words[0].pieces else ""
        array = _ARRAY.match(self.text, self.position)
        return array is not None and first in _DECLARING

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


_ENDED = frozenset({"", *_WORD_ENDS})
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=\(")
_LET = ShellWord((WordPiece(PieceKind.TEXT, "let"),), 0, 0)
