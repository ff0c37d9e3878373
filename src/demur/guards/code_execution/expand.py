"""Track the state of a shell, and expand words as the shell would.

Expansion covers variables, substitutions, braces, the tilde and word splitting. Nothing looks up
file names: a pattern keeps its stars.
"""

import re
from collections.abc import Callable, Iterator
from itertools import islice, pairwise, product

from demur.guards.code_execution.call import EMPTY, UNKNOWN, Arg, Value, join_values
from demur.guards.code_execution.paths import HOME, canonical_path
from demur.guards.static.shell_words import PieceKind, ShellScript, ShellWord, WordPiece

_INITIAL_VARIABLES = {
    "HOME": Value(HOME),
    "IFS": Value(" \t\n"),
    "SHELL": Value("/bin/sh"),
    "BASH": Value("/bin/bash"),
    "0": Value("sh"),
}
_MAX_ENTRIES = 500


class ShellState:
    """The state of one run. Paths are absolute; the home directory is written `/~`."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.variables: dict[str, Value] = {}
        self.functions: dict[str, ShellScript] = {}
        self.aliases: dict[str, str] = {}
        self.files: dict[str, Value] = {}
        self.positional: tuple[Value, ...] = ()

    def variable_value(self, name: str) -> Value | None:
        """Return the value of a variable, if it is known."""
        if name in self.variables:
            return self.variables[name]
        if name == "PWD":
            return Value(self.cwd)
        if name.isdigit() and name != "0":
            position = int(name) - 1
            return self.positional[position] if position < len(self.positional) else None
        return _INITIAL_VARIABLES.get(name)

    def assign(self, name: str, value: Value) -> None:
        """Record a variable; beyond the limit, new names are ignored."""
        if name in self.variables or len(self.variables) < _MAX_ENTRIES:
            self.variables[name] = value

    def resolve_path(self, text: str) -> str:
        """Return `text` as an absolute path without `.` and `..`."""
        return canonical_path(text, self.cwd) if text else self.cwd

    def write_file(self, path: str, value: Value, *, append: bool = False) -> None:
        """Record the new content of a file."""
        place = self.resolve_path(path)
        if append and place in self.files:
            value = join_values([self.files[place], value])
        if place in self.files or len(self.files) < _MAX_ENTRIES:
            self.files[place] = value


RunSubstitution = Callable[[WordPiece], Value]

_MAX_WORDS = 64
_RANGE = re.compile(r"(-?\d{1,9}|[A-Za-z])\.\.(-?\d{1,9}|[A-Za-z])(?:\.\.-?\d{1,9})?")
_SUBSTRING = re.compile(r" *(-?\d{1,6})(?::(-?\d{1,6}))?")
_BLANK = re.compile(r"[ \t\n]+")
_LITERAL_BRACE = "\ufdd0"


def expand_word(word: ShellWord, state: ShellState, run: RunSubstitution) -> Iterator[Arg]:
    """Yield the arguments that `word` becomes; often one, sometimes none or several."""
    pieces = word.pieces
    if len(pieces) == 1 and pieces[0].kind in _LITERAL:
        piece = pieces[0]
        if piece.kind is PieceKind.QUOTED or not _SPECIAL.search(piece.text):
            yield Arg(piece.text, word.start, word.end, offset=piece.start)
            return
    for combination in islice(product(*_piece_alternatives(pieces, state, run)), _MAX_WORDS):
        yield from _split_fields(combination, word)


_LITERAL = (PieceKind.TEXT, PieceKind.QUOTED)
_SPECIAL = re.compile(r"^~|\{")


def expand_unsplit(word: ShellWord, state: ShellState, run: RunSubstitution) -> Arg:
    """Return `word` as one argument, as in an assignment, a heredoc or a redirection."""
    if len(word.pieces) == 1 and word.pieces[0].kind in _LITERAL:
        piece = word.pieces[0]
        text = _expand_tilde(piece.text) if piece.kind is PieceKind.TEXT else piece.text
        return Arg(text, word.start, word.end, offset=piece.start if text == piece.text else None)
    value = join_values([_piece_value(piece, state, run) for piece in word.pieces] or [EMPTY])
    return Arg(value.text, word.start, word.end, value.known, value.taints)


def _piece_alternatives(
    pieces: tuple[WordPiece, ...], state: ShellState, run: RunSubstitution
) -> Iterator[list[tuple[Value, bool]]]:
    """Yield the possible values of each piece, each with whether it is split into words."""
    for position, piece in enumerate(pieces):
        if piece.kind is PieceKind.TEXT:
            texts = expand_braces(piece.text)
            if position == 0:
                texts = [_expand_tilde(text) for text in texts]
            yield [(Value(text), False) for text in texts]
        else:
            split = not piece.unsplit and piece.kind not in _LITERAL
            yield [(_piece_value(piece, state, run), split)]


def _split_fields(combination: tuple[tuple[Value, bool], ...], word: ShellWord) -> Iterator[Arg]:
    """Yield the arguments of one combination, split where an unquoted value has blanks."""
    parts: list[list[Value]] = [[]]
    for value, split in combination:
        if not split or not _BLANK.search(value.text):
            parts[-1].append(value)
            continue
        texts = _BLANK.split(value.text.strip(" \t\n"))
        if value.text[0] in " \t\n":
            parts.append([])
        for number, text in enumerate(texts):
            if number:
                parts.append([])
            parts[-1].append(value._replace(text=text))
        if value.text[-1] in " \t\n":
            parts.append([])
    for part in parts:
        if part:
            value = join_values(part)
            yield Arg(value.text, word.start, word.end, value.known, value.taints)


def _piece_value(piece: WordPiece, state: ShellState, run: RunSubstitution) -> Value:
    """Return the value of one piece."""
    if piece.kind is PieceKind.VARIABLE:
        return _variable_value(piece, state, run)
    if piece.kind in _LITERAL:
        return Value(piece.text)
    value = run(piece)
    if piece.kind is PieceKind.PROCESS:
        return Value("/dev/fd/63", known=False, taints=value.taints)
    return value._replace(text=value.text.rstrip("\n"))


def _variable_value(piece: WordPiece, state: ShellState, run: RunSubstitution) -> Value:
    """Return a variable's value with its operator applied; an unknown one keeps its name."""
    if piece.text in "@*":
        found = join_values(list(state.positional), " ") if state.positional else UNKNOWN
    elif piece.text == "((":
        found = UNKNOWN._replace(text="0")
    else:
        found = state.variable_value(piece.text) or UNKNOWN._replace(text=f"${piece.text}")
    if not piece.operator:
        return found
    operand = expand_unsplit(piece.operand or ShellWord((), 0, 0), state, run)
    if change := _OPERATORS.get(piece.operator):
        return change(found, operand)
    return found if piece.operator == "!" else found._replace(known=False)


def _apply_default(found: Value, operand: Arg) -> Value:
    return operand.value if not found.known and found.text.startswith("$") else found


def _apply_alternative(found: Value, operand: Arg) -> Value:
    return operand.value if found.known else operand.value._replace(known=False)


def _apply_substring(found: Value, operand: Arg) -> Value:
    match = _SUBSTRING.match(operand.text)
    if not found.known or match is None:
        return found._replace(known=False)
    rest = found.text[int(match[1]) :]
    return found._replace(text=rest[: int(match[2])] if match[2] else rest)


def _apply_replace(found: Value, operand: Arg, times: int) -> Value:
    old, _, new = operand.text.partition("/")
    if not found.known or not old or set("*?[") & set(old):
        return found._replace(known=False)
    return found._replace(text=found.text.replace(old, new, times)[:65_536])


_OPERATORS: dict[str, Callable[[Value, Arg], Value]] = {
    **dict.fromkeys((":-", "-", ":=", "="), _apply_default),
    **dict.fromkeys((":+", "+"), _apply_alternative),
    ":": _apply_substring,
    "/": lambda found, operand: _apply_replace(found, operand, 1),
    "//": lambda found, operand: _apply_replace(found, operand, -1),
    **dict.fromkeys(
        ("#", "##"),
        lambda found, operand: found._replace(text=found.text.removeprefix(operand.text)),
    ),
    **dict.fromkeys(
        ("%", "%%"),
        lambda found, operand: found._replace(text=found.text.removesuffix(operand.text)),
    ),
    "^": lambda found, _: found._replace(text=found.text[:1].upper() + found.text[1:]),
    "^^": lambda found, _: found._replace(text=found.text.upper()),
    ",": lambda found, _: found._replace(text=found.text[:1].lower() + found.text[1:]),
    ",,": lambda found, _: found._replace(text=found.text.lower()),
}


def _expand_tilde(text: str) -> str:
    """Return `text` with a leading tilde replaced by the home directory."""
    if not text.startswith("~"):
        return text
    name, slash, rest = text[1:].partition("/")
    if name in {"", "+"}:
        return HOME + slash + rest
    return f"/home/{name}{slash}{rest}" if name.isidentifier() else text


def expand_braces(text: str) -> list[str]:
    """Return the brace expansion of `text`, bounded in number."""
    if "{" not in text or text.count("{") > _MAX_WORDS:
        return [text]
    done: list[str] = []
    waiting = [text]
    while waiting and len(done) < _MAX_WORDS:
        current = waiting.pop(0)
        parts = _expand_first_brace(current)
        if parts is None:
            done.append(current.replace(_LITERAL_BRACE, "{"))
        else:
            waiting = [*parts[:_MAX_WORDS], *waiting][: 2 * _MAX_WORDS]
    return done


def _expand_first_brace(text: str) -> list[str] | None:
    """Return `text` with its first brace expression resolved, or nothing if it has none."""
    start = text.find("{")
    if start < 0:
        return None
    depth, commas, end = 0, [start], -1
    for index in range(start, len(text)):
        if text[index] == "{":
            depth += 1
        elif text[index] == "}":
            depth -= 1
            if depth == 0:
                end = index
                break
        elif text[index] == "," and depth == 1:
            commas.append(index)
    head, tail = text[:start], text[end + 1 :]
    if end >= 0 and len(commas) > 1:
        cuts = pairwise([*commas, end])
        return [head + text[left + 1 : right] + tail for left, right in cuts]
    if end >= 0 and (match := _RANGE.fullmatch(text[start + 1 : end])):
        return [head + item + tail for item in _expand_range(match[1], match[2])]
    # Not an expression: replace the bracket, so that the next search skips it.
    return [text[:start] + _LITERAL_BRACE + text[start + 1 :]]


def _expand_range(first: str, last: str) -> Iterator[str]:
    """Yield the members of `{1..5}` or `{a..e}`."""
    if first.isalpha() != last.isalpha():
        return
    low, high = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    step = 1 if high >= low else -1
    for number in islice(range(low, high + step, step), _MAX_WORDS):
        yield chr(number) if first.isalpha() else str(number)
