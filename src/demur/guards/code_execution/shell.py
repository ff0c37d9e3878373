"""Reads the shell's grammar: lists, pipelines, compounds, functions, redirections, heredocs.

Bash's grammar and POSIX's, read by descent in one pass. It forgives: what a shell would refuse
as a whole is still read command by command, because a guard must not pass what it cannot
parse. `read_script` never raises.
"""

import re
from collections.abc import Iterator

from demur.guards.code_execution.redirects import RedirectReader
from demur.guards.code_execution.tree import (
    Assignment,
    Either,
    Function,
    Group,
    Loop,
    Node,
    Piece,
    PieceKind,
    Pipeline,
    Redirect,
    Script,
    Simple,
    Word,
)
from demur.guards.code_execution.words import TooDeepError

__all__ = ["read_script"]

_SPACE = re.compile(r"(?:[ \t\r;&]|\\\r?\n|#[^\n]*)*")
_GAP = re.compile(r"(?:[ \t\r]|\\\r?\n|#[^\n]*|;(?![;&])|&)*")
_BRANCH_END = re.compile(r";;&?|;&")
_PATTERNS = re.compile(
    r"""\(?(?:[^()'"\\\n]|\\[\s\S]|'[^']*'|"(?:\\[\s\S]|[^"\\])*"|\([^()\n]*\))*\)"""
)
_PARENTHESES = re.compile(r"[ \t]*\([ \t]*\)")
_WORD_ENDS = frozenset(" \t\r\n;|&()<>`")
_CLOSERS = {
    "{": "}",
    "if": "fi",
    "while": "done",
    "until": "done",
    "for": "done",
    "select": "done",
    "case": "esac",
}
_SKIPPED = frozenset({"then", "else", "elif", "do", "!", "time", "coproc"})
_ENDS = frozenset(_CLOSERS.values())
_RESERVED = frozenset({*_CLOSERS, *_SKIPPED, *_ENDS, "function", "[[", "in"})
_KEYWORD = re.compile(r"\{|\}|!|\[\[|[a-z]+")


def read_script(text: str) -> Script:
    """Return the statements of `text` as far as they can be read, and the first problem."""
    reader = _Reader(text)
    try:
        nodes = reader.script("").nodes
    except TooDeepError:
        return Script((), "substitutions nest too deep")
    return Script(nodes, reader.problem)


class _Reader(RedirectReader):
    """Reads statements. `after_or`: the next statement follows `||`."""

    otherwise = False

    def script(self, closer: str) -> Script:
        """Return the statements up to `closer`, and skip it."""
        nodes: list[Node] = []
        size = len(self.text)
        while True:
            self._separators()
            if self.at >= size:
                if closer:
                    self.problem = self.problem or f"`{closer}` is missing"
                break
            if self._closes(closer):
                break
            before, otherwise = self.at, self.otherwise
            self.otherwise = False
            found = list(self._pipeline())
            if otherwise and nodes and found:
                found = [Either((nodes.pop(), *found), before, self.at)]
            nodes.extend(found)
            if self.at == before:
                self._stray()
        return Script(tuple(nodes))

    def _closes(self, closer: str) -> bool:
        """Skip `closer` if it stands here, and return whether it did."""
        if not closer or not self.text.startswith(closer, self.at):
            return False
        end = self.at + len(closer)
        if closer.isalpha() and end < len(self.text) and self.text[end] not in _WORD_ENDS:
            return False
        self.at = end
        return True

    def _stray(self) -> None:
        """Skip a character that cannot start a statement."""
        self.problem = self.problem or f"`{self.text[self.at]}` is not expected here"
        self.at += 1

    def _separators(self) -> None:
        """Skip blanks, comments, separators, line ends and the bodies of heredocs."""
        while True:
            space = _SPACE.match(self.text, self.at)
            self.at = space.end() if space else self.at
            if not self.text.startswith("\n", self.at):
                return
            self.line_end()

    def _pipeline(self) -> Iterator[Node]:
        """Yield the pipeline that starts here; one command is no pipeline."""
        start = self.at
        stages = list(self._command())
        while self._bar():
            self.blank_lines()
            before = self.at
            stages.extend(self._command())
            if self.at == before:
                self.problem = "a pipe leads nowhere"
                break
        if len(stages) > 1:
            yield Pipeline(tuple(stages), start, self.at)
        else:
            yield from stages

    def _bar(self) -> bool:
        """Skip a single `|` if it stands here, and return whether it did."""
        text = self.text
        self.blanks()
        if not text.startswith("|", self.at):
            return False
        if text.startswith("||", self.at):
            self.at += 2
            self.otherwise = True
            return False
        self.at += 2 if text.startswith("|&", self.at) else 1
        return True

    def _command(self) -> Iterator[Node]:
        """Yield the command that starts here, compound or simple."""
        word = self._keyword()
        while word in _SKIPPED:
            self.at += len(word)
            self.blank_lines()
            word = self._keyword()
        if self.text.startswith("(", self.at):
            yield self._subshell()
        elif word in {"for", "select"}:
            yield self._for(word)
        elif word == "case":
            yield self._case()
        elif word in _CLOSERS:
            yield self._compound(word)
        elif word == "function":
            yield from self._function()
        elif word in _ENDS:
            self._stray_end(word)
        else:
            yield from self._simple()

    def _stray_end(self, word: str) -> None:
        self.problem = self.problem or f"`{word}` is not expected here"
        self.at += len(word)

    def _keyword(self) -> str:
        """Return the reserved word at this position, or an empty text."""
        match = _KEYWORD.match(self.text, self.at)
        if match is None or match[0] not in _RESERVED:
            return ""
        end = match.end()
        ends = end >= len(self.text) or self.text[end] in _WORD_ENDS
        return match[0] if ends or match[0] == "}" else ""

    def _subshell(self) -> Group:
        start = self.at
        self.at += 1
        return self._group(start, ")")

    def _compound(self, word: str) -> Group:
        start = self.at
        self.at += len(word)
        return self._group(start, _CLOSERS[word])

    def _group(self, start: int, closer: str) -> Group:
        body = self._nested(closer)
        redirects = tuple(self.redirects())
        return Group(body, redirects, start, self.at)

    def _for(self, keyword: str) -> Loop:
        """Return `for NAME in WORDS; do ...; done`."""
        start = self.at
        self.at += len(keyword)
        self.blanks()
        name = self.word()
        self.blank_lines()
        words: list[Word] = []
        if self._keyword() == "in":
            self.at += 2
            words.extend(self._words())
        body = self._nested("done")
        redirects = tuple(self.redirects())
        variable = name.pieces[0].text if name.pieces else ""
        return Loop(variable, tuple(words), body, redirects, start, self.at)

    def _words(self) -> Iterator[Word]:
        """Yield the words up to the end of the statement."""
        while True:
            self.blanks()
            before = self.at
            word = self.word()
            if self.at == before:
                return
            yield word

    def _case(self) -> Group:
        """Return `case WORD in PATTERN) ...;; esac`: all branches as one body."""
        start = self.at
        self.at += len("case")
        self.blanks()
        subject = self.word()
        self.blank_lines()
        if self._keyword() == "in":
            self.at += 2
        nodes: list[Node] = [Simple((), (_CASE, subject), (), start, self.at)]
        self._pattern()
        while self._branch_goes_on() and not self._closes("esac"):
            before = self.at
            nodes.extend(self._pipeline())
            if self.at == before:
                self._stray()
        redirects = tuple(self.redirects())
        return Group(Script(tuple(nodes)), redirects, start, self.at)

    def _branch_goes_on(self) -> bool:
        """Skip to the next command of a `case`, over branch ends and patterns; False at the end."""
        while True:
            gap = _GAP.match(self.text, self.at)
            self.at = gap.end() if gap else self.at
            if self.text.startswith("\n", self.at):
                self.line_end()
            elif end := _BRANCH_END.match(self.text, self.at):
                self.at = end.end()
                self._pattern()
            else:
                return self.at < len(self.text)

    def _pattern(self) -> None:
        """Skip the patterns of a branch."""
        self._separators()
        if self._keyword() == "esac":
            return
        if pattern := _PATTERNS.match(self.text, self.at):
            self.at = pattern.end()

    def _function(self) -> Iterator[Node]:
        """Yield `function NAME { ...; }`."""
        start = self.at
        self.at += len("function")
        self.blanks()
        name = self.word()
        if brackets := _PARENTHESES.match(self.text, self.at):
            self.at = brackets.end()
        yield self._definition(name, start)

    def _definition(self, name: Word, start: int) -> Function:
        self.blank_lines()
        body = Script(tuple(self._command()))
        called = "".join(piece.text for piece in name.pieces)
        return Function(called, body, start, self.at)

    def _simple(self) -> Iterator[Node]:
        """Yield a simple command, or the function that its first word defines."""
        start = end = self.at
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            if not words and (assignment := self.assignment()):
                assignments.append(assignment)
            elif redirect := self.redirect():
                redirects.append(redirect)
            else:
                word = self.word()
                if self.at == word.start:
                    break
                words.append(word)
                if len(words) == 1 and (opened := _PARENTHESES.match(self.text, self.at)):
                    self.at = opened.end()
                    yield self._definition(word, start)
                    return
                if len(words) == 1 and self.text.startswith("[[", start):
                    words.extend(self._test())
            end = self.at
            self.blanks()
            if self.text.startswith("#", self.at) and self.at > end:
                break
        if assignments or words or redirects:
            yield Simple(tuple(assignments), tuple(words), tuple(redirects), start, end)

    def _test(self) -> Iterator[Word]:
        """Yield the words of `[[ ... ]]`, where operators are words."""
        while self.at < len(self.text) and not self.text.startswith("\n", self.at):
            self.blanks()
            before = self.at
            word = self.word()
            if self.at == before:
                self.at += 1
                continue
            yield word
            if self.text.startswith("]]", word.start):
                return


_CASE = Word((Piece(PieceKind.TEXT, "case"),), 0, 0)
