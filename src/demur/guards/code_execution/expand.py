"""Expands a word as the shell would: variables, substitutions, braces, the tilde, word splitting.

File names are not looked up: a pattern stays a pattern, and says so by its stars.
"""

import re
from collections.abc import Callable, Iterator
from itertools import islice, pairwise, product

from demur.guards.code_execution.places import HOME
from demur.guards.code_execution.scope import Scope
from demur.guards.code_execution.tree import Piece, PieceKind, Word
from demur.guards.code_execution.value import EMPTY, UNKNOWN, Arg, Value, joined

__all__ = ["Run", "expand", "expand_whole"]

Run = Callable[[Piece], Value]

_MOST_WORDS = 64
_RANGE = re.compile(r"(-?\d{1,9}|[A-Za-z])\.\.(-?\d{1,9}|[A-Za-z])(?:\.\.-?\d{1,9})?")
_SUBSTRING = re.compile(r" *(-?\d{1,6})(?::(-?\d{1,6}))?")
_BLANK = re.compile(r"[ \t\n]+")
_HOLE = "\ufdd0"


def expand(word: Word, scope: Scope, run: Run) -> Iterator[Arg]:
    """Yield the arguments that `word` becomes; often one, sometimes none or several."""
    pieces = word.pieces
    if len(pieces) == 1 and pieces[0].kind in _LITERAL:
        piece = pieces[0]
        if piece.kind is PieceKind.QUOTED or not _SPECIAL.search(piece.text):
            yield Arg(piece.text, word.start, word.end, offset=piece.start)
            return
    for combination in islice(product(*_alternatives(pieces, scope, run)), _MOST_WORDS):
        yield from _fields(combination, word)


_LITERAL = (PieceKind.TEXT, PieceKind.QUOTED)
_SPECIAL = re.compile(r"^~|\{")


def expand_whole(word: Word, scope: Scope, run: Run) -> Arg:
    """Return `word` as one argument, as in an assignment, a heredoc or a redirection."""
    if len(word.pieces) == 1 and word.pieces[0].kind in _LITERAL:
        piece = word.pieces[0]
        text = _tilde(piece.text) if piece.kind is PieceKind.TEXT else piece.text
        return Arg(text, word.start, word.end, offset=piece.start if text == piece.text else None)
    values = [_value(piece, scope, run) for piece in word.pieces] or [EMPTY]
    value = joined(values)
    return Arg(value.text, word.start, word.end, value.known, value.taints)


def _alternatives(
    pieces: tuple[Piece, ...], scope: Scope, run: Run
) -> Iterator[list[tuple[Value, bool]]]:
    """Yield the possible values of each piece, each with whether it is split into words."""
    for position, piece in enumerate(pieces):
        if piece.kind is PieceKind.TEXT:
            texts = braces(piece.text)
            if position == 0:
                texts = [_tilde(text) for text in texts]
            yield [(Value(text), False) for text in texts]
        else:
            yield [(_value(piece, scope, run), not piece.whole and piece.kind not in _LITERAL)]


def _fields(combination: tuple[tuple[Value, bool], ...], word: Word) -> Iterator[Arg]:
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
            value = joined(part)
            yield Arg(value.text, word.start, word.end, value.known, value.taints)


def _value(piece: Piece, scope: Scope, run: Run) -> Value:
    """Return the value of one piece."""
    if piece.kind is PieceKind.VARIABLE:
        return _variable(piece, scope, run)
    if piece.kind in _LITERAL:
        return Value(piece.text)
    value = run(piece)
    if piece.kind is PieceKind.PROCESS:
        return Value("/dev/fd/63", known=False, taints=value.taints)
    return value._replace(text=value.text.rstrip("\n"))


def _variable(piece: Piece, scope: Scope, run: Run) -> Value:
    """Return a variable's value with its operator applied; an unknown one keeps its name."""
    if piece.text in "@*":
        found = joined(list(scope.positional), " ") if scope.positional else UNKNOWN
    elif piece.text == "((":
        found = UNKNOWN._replace(text="0")
    else:
        found = scope.variable(piece.text) or UNKNOWN._replace(text=f"${piece.text}")
    if not piece.operator:
        return found
    operand = expand_whole(piece.operand or Word((), 0, 0), scope, run)
    change = _OPERATORS.get(piece.operator)
    if change is None:
        return found if piece.operator == "!" else found._replace(known=False)
    return change(found, operand)


def _default(found: Value, operand: Arg) -> Value:
    return operand.value if not found.known and found.text.startswith("$") else found


def _alternative(found: Value, operand: Arg) -> Value:
    return operand.value if found.known else operand.value._replace(known=False)


def _substring(found: Value, operand: Arg) -> Value:
    match = _SUBSTRING.match(operand.text)
    if not found.known or match is None:
        return found._replace(known=False)
    first = int(match[1])
    rest = found.text[first:]
    return found._replace(text=rest[: int(match[2])] if match[2] else rest)


def _replaced(found: Value, operand: Arg, times: int) -> Value:
    old, _, new = operand.text.partition("/")
    if not found.known or not old or set("*?[") & set(old):
        return found._replace(known=False)
    return found._replace(text=found.text.replace(old, new, times)[:65_536])


def _prefix(found: Value, operand: Arg) -> Value:
    return found._replace(text=found.text.removeprefix(operand.text))


def _suffix(found: Value, operand: Arg) -> Value:
    return found._replace(text=found.text.removesuffix(operand.text))


_OPERATORS: dict[str, Callable[[Value, Arg], Value]] = {
    ":-": _default,
    "-": _default,
    ":=": _default,
    "=": _default,
    ":+": _alternative,
    "+": _alternative,
    ":": _substring,
    "/": lambda found, operand: _replaced(found, operand, 1),
    "//": lambda found, operand: _replaced(found, operand, -1),
    "#": _prefix,
    "##": _prefix,
    "%": _suffix,
    "%%": _suffix,
    "^": lambda found, _: found._replace(text=found.text[:1].upper() + found.text[1:]),
    "^^": lambda found, _: found._replace(text=found.text.upper()),
    ",": lambda found, _: found._replace(text=found.text[:1].lower() + found.text[1:]),
    ",,": lambda found, _: found._replace(text=found.text.lower()),
}


def _tilde(text: str) -> str:
    """Return `text` with a leading tilde replaced by the home directory."""
    if not text.startswith("~"):
        return text
    name, slash, rest = text[1:].partition("/")
    if name in {"", "+"}:
        return HOME + slash + rest
    return f"/home/{name}{slash}{rest}" if name.isidentifier() else text


def braces(text: str) -> list[str]:
    """Return the brace expansion of `text`, bounded in number."""
    if "{" not in text or text.count("{") > _MOST_WORDS:
        return [text]
    done: list[str] = []
    waiting = [text]
    while waiting and len(done) < _MOST_WORDS:
        current = waiting.pop(0)
        parts = _brace(current)
        if parts is None:
            done.append(current.replace(_HOLE, "{"))
        else:
            waiting = [*parts[:_MOST_WORDS], *waiting][: 2 * _MOST_WORDS]
    return done


def _brace(text: str) -> list[str] | None:
    """Return `text` with its first brace expression resolved, or nothing if it has none."""
    start = text.find("{")
    if start < 0:
        return None
    depth, commas, end = 0, [start], -1
    for at in range(start, len(text)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                end = at
                break
        elif text[at] == "," and depth == 1:
            commas.append(at)
    head, tail = text[:start], text[end + 1 :]
    if end >= 0 and len(commas) > 1:
        cuts = [*commas, end]
        items = [text[left + 1 : right] for left, right in pairwise(cuts)]
        return [head + item + tail for item in items]
    if end >= 0 and (match := _RANGE.fullmatch(text[start + 1 : end])):
        return [head + item + tail for item in _range(match[1], match[2])]
    # Not an expression: replace the bracket, so that the next search skips it.
    return [text[:start] + _HOLE + text[start + 1 :]]


def _range(first: str, last: str) -> Iterator[str]:
    """Yield the members of `{1..5}` or `{a..e}`."""
    if first.isalpha() != last.isalpha():
        return
    low, high = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    step = 1 if high >= low else -1
    for number in islice(range(low, high + step, step), _MOST_WORDS):
        yield chr(number) if first.isalpha() else str(number)
