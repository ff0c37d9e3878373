"""Expand words as a shell would: variables, substitutions, braces, the tilde, word splitting.

A word has several readings if a value in it has. Nothing looks up file names: a pattern keeps its
stars.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from itertools import islice, pairwise, product
from typing import NamedTuple

from demur.guards.code_execution.arithmetic import evaluate_arithmetic
from demur.guards.code_execution.call import EMPTY, Arg, Value, join_values
from demur.guards.code_execution.paths import HOME
from demur.guards.code_execution.shell_state import (
    ANY_TEXT,
    MAX_READINGS,
    Readings,
    ShellState,
    Words,
    bound_readings,
    combine_readings,
    texts_of,
)
from demur.guards.static.shell_words import PieceKind, ShellWord, WordPiece, decode_ansi_c

RunSubstitution = Callable[[WordPiece], tuple[Value, ...]]

_MAX_WORDS = 64
_RANGE = re.compile(r"(-?\d{1,9}|[A-Za-z])\.\.(-?\d{1,9}|[A-Za-z])(?:\.\.-?\d{1,9})?")
_SUBSTRING = re.compile(r" *(-?\d{1,6})(?: *: *(-?\d{1,6}))? *")
_DEFAULT_IFS = " \t\n"
_BLANK = re.compile(r"[ \t\n]+")
_LITERAL_BRACE = "\ufdd0"
_LITERAL = (PieceKind.TEXT, PieceKind.QUOTED)
_SPECIAL = re.compile(r"^~|\{")
_NO_WORD = ShellWord((), 0, 0)


class _WordPart(NamedTuple):
    """One reading of a piece: its words, and how they join the word around them."""

    words: Words
    split: bool = False
    braces: bool = False


def expand_word(
    word: ShellWord, state: ShellState, run: RunSubstitution, *, starts: bool = False
) -> list[list[Arg]]:
    """Return the readings of `word`: each is the arguments that it becomes.

    A word that `starts` a command may also vanish, if it is a variable that the script does not
    set: then the next word is the command.
    """
    pieces = word.pieces
    if len(pieces) == 1 and pieces[0].kind in _LITERAL:
        piece = pieces[0]
        if piece.kind is PieceKind.QUOTED or not _SPECIAL.search(piece.text):
            return [[Arg(piece.text, word.start, word.end, offset=piece.start)]]
    parts = list(_piece_readings(pieces, state, run, starts=starts))
    combinations, more = combine_readings(parts, MAX_READINGS)
    fields = state.read_variable("IFS")
    texts = (words[0].text if words else _DEFAULT_IFS for words in fields)
    separators = bound_readings(texts, _DEFAULT_IFS)
    readings = [
        _build_args(combination, word, separator)
        for combination in combinations
        for separator in separators
    ]
    if more:
        readings.append([Arg(ANY_TEXT.text, word.start, word.end, known=False)])
    return _drop_repeated(readings) if len(readings) > 1 else readings


def _drop_repeated(readings: list[list[Arg]]) -> list[list[Arg]]:
    return [list(each) for each in dict.fromkeys(tuple(reading) for reading in readings)]


def expand_unsplit(word: ShellWord, state: ShellState, run: RunSubstitution) -> list[Arg]:
    """Return the readings of `word` as one argument, as in an assignment or a redirection."""
    if len(word.pieces) == 1 and word.pieces[0].kind in _LITERAL:
        piece = word.pieces[0]
        text = _expand_tilde(piece.text) if piece.kind is PieceKind.TEXT else piece.text
        return [Arg(text, word.start, word.end, offset=piece.start if text == piece.text else None)]
    parts = [
        [join_values(list(part.words), " ") if part.words else EMPTY for part in readings]
        for readings in _piece_readings(word.pieces, state, run, braces=False)
    ]
    combinations, more = combine_readings(parts, MAX_READINGS)
    values = [join_values(list(values) or [EMPTY]) for values in combinations]
    distinct = dict.fromkeys([*values, ANY_TEXT] if more else values)
    return [Arg(value.text, word.start, word.end, *value[1:]) for value in distinct]


def _piece_readings(
    pieces: tuple[WordPiece, ...],
    state: ShellState,
    run: RunSubstitution,
    *,
    starts: bool = False,
    braces: bool = True,
) -> Iterator[list[_WordPart]]:
    """Yield the readings of each piece."""
    for position, piece in enumerate(pieces):
        if piece.kind is PieceKind.TEXT:
            texts = expand_braces(piece.text) if braces else [piece.text]
            if position == 0:
                texts = [_expand_tilde(text) for text in texts]
            yield [_WordPart(tuple(map(Value, texts)), braces=True)]
        elif piece.kind is PieceKind.QUOTED:
            yield [_WordPart((Value(piece.text),))]
        elif piece.kind is PieceKind.VARIABLE:
            readings = _variable_readings(piece, state, run)
            parts = [
                _WordPart((Value(f"${piece.text}", known=False),) if words is None else words)
                for words in readings
            ]
            if starts and None in readings and (not piece.unsplit or piece.text in "@*"):
                parts.append(_WordPart(()))
            yield [part._replace(split=not piece.unsplit) for part in parts]
        else:
            split = not piece.unsplit and piece.kind is PieceKind.COMMAND
            values = (value._replace(text=value.text.rstrip("\n")) for value in run(piece))
            yield [_WordPart((value,), split) for value in values]


def _build_args(combination: tuple[_WordPart, ...], word: ShellWord, separators: str) -> list[Arg]:
    """Return the arguments of one reading, split where an unquoted value has blanks."""
    choices = [part.words if part.braces else (None,) for part in combination]
    args: list[Arg] = []
    for chosen in islice(product(*choices), _MAX_WORDS):
        fields: list[list[Value]] = [[]]
        for part, choice in zip(combination, chosen, strict=True):
            _extend_fields(fields, part, choice, separators)
        for field in fields:
            if field:
                value = join_values(field)
                args.append(Arg(value.text, word.start, word.end, *value[1:]))
    return args


def _extend_fields(
    fields: list[list[Value]], part: _WordPart, choice: Value | None, separators: str
) -> None:
    """Append one part of a word to its fields."""
    if choice is not None:
        fields[-1].append(choice)
        return
    for number, value in enumerate(part.words):
        if number:
            fields.append([])
        if part.split and value.known and not value.text:
            continue
        texts = _split_text(value.text, separators) if part.split else [value.text]
        for place, text in enumerate(texts):
            if place and fields[-1]:
                fields.append([])
            if text or len(texts) == 1:
                fields[-1].append(value._replace(text=text))


def _split_text(text: str, separators: str) -> list[str]:
    """Return the fields of an unquoted text, split by the characters of `IFS`."""
    if separators == _DEFAULT_IFS:
        return _BLANK.split(text) if _BLANK.search(text) else [text]
    if not separators:
        return [text]
    return re.split(f"[{re.escape(separators)}]+", text)


def _variable_readings(piece: WordPiece, state: ShellState, run: RunSubstitution) -> Readings:
    """Return the readings of a variable with its operator applied."""
    if piece.text == "((":
        operand = expand_unsplit(piece.operand or _NO_WORD, state, run)
        numbers = (evaluate_arithmetic(arg, state) for arg in operand)
        return tuple((number,) for number in numbers)
    if piece.prefix == "!":
        return _indirect_readings(piece, state, run)
    every = piece.text in "@*" or piece.subscript in {"@", "*"}
    found = _plain_readings(piece, state, run)
    if piece.prefix == "#":
        counts = (_count(words, every=every) for words in found)
        return tuple((count,) for count in counts)
    if every and piece.unsplit and "*" in {piece.text, piece.subscript}:
        found = tuple(words and (join_values(list(words), " "),) for words in found)
    if not piece.operator:
        return found
    operands = expand_unsplit(piece.operand or _NO_WORD, state, run)
    if piece.operator in _CONDITIONAL:
        readings = _apply_condition(piece, found, operands, state)
    elif piece.operator == "@" and operands[0].text == "P":
        texts = (value.text for value in texts_of(found))
        readings = tuple((value,) for text in texts for value in expand_text(text, run)) or found
    elif piece.operator == ":" and every:
        first = 1 if piece.text in "@*" else 0
        readings = tuple(_slice_words(words, operands[0], first) for words in found)
    elif change := _OPERATORS.get(piece.operator):
        readings = tuple(
            words and tuple(change(word, operand) for word in words)
            for words in found
            for operand in operands
        )
    else:
        readings = found
    return bound_readings(readings, (ANY_TEXT,))


def _plain_readings(piece: WordPiece, state: ShellState, run: RunSubstitution) -> Readings:
    """Return the readings of a variable or of items of an array."""
    name, subscript = piece.text, piece.subscript
    if name in "@*":
        return state.positional
    if name == "#":
        return tuple(words and (Value(str(len(words))),) for words in state.positional)
    if subscript in {"@", "*"}:
        return state.read_items(name)
    if not subscript:
        return tuple(words and words[:1] for words in state.read_variable(name))
    return tuple(
        item for key in expand_text(subscript, run) for item in _read_item(name, key, state)
    )


def _read_item(name: str, key: Value, state: ShellState) -> Iterator[Words | None]:
    if not key.known:
        yield (ANY_TEXT,)
    elif re.fullmatch(r"-?\d{1,6}", key.text) and f"{name}[{key.text}]" not in state.variables:
        index = int(key.text)
        for words in state.read_variable(name):
            item = (words or ())[index : index + 1 or None]
            yield words and (item or (EMPTY,))
    else:
        yield from state.read_variable(f"{name}[{key.text}]")


def expand_text(text: str, run: RunSubstitution) -> tuple[Value, ...]:
    """Return the readings of a text that is expanded as if it stood in double quotes."""
    if "$" not in text and "`" not in text:
        return (Value(text),)
    return run(WordPiece(PieceKind.COMMAND, f'printf %s "{text}"'))


def _indirect_readings(piece: WordPiece, state: ShellState, run: RunSubstitution) -> Readings:
    """Return the readings of `${!name}`: of the variable that `name` names; or the keys."""
    if piece.subscript in {"@", "*"}:
        return tuple(
            words and tuple(Value(str(index)) for index in range(len(words)))
            for words in state.read_items(piece.text)
        )
    readings: list[Words | None] = []
    for target in texts_of(state.read_variable(piece.text)):
        match = _TARGET.fullmatch(target.text) if target.known else None
        if match is None:
            readings.append((ANY_TEXT,))
        else:
            aimed = piece._replace(text=match[1], subscript=match[2] or "", prefix="")
            readings.extend(_variable_readings(aimed, state, run))
    return bound_readings(readings or [(ANY_TEXT,)], (ANY_TEXT,))


_TARGET = re.compile(r"([A-Za-z_]\w*|\d+|[@*#])(?:\[([^\]]*)\])?")


def _count(words: Words | None, *, every: bool) -> Value:
    if words is None:
        return Value("0", known=False)
    if every:
        return Value(str(len(words)))
    return Value(str(len(words[0].text) if words else 0), known=all(word.known for word in words))


_CONDITIONAL = frozenset({":-", "-", ":=", "=", ":+", "+", ":?", "?"})


def _apply_condition(
    piece: WordPiece, found: Readings, operands: list[Arg], state: ShellState
) -> Readings:
    """Return the readings of `${name:-text}` and its like."""
    others: Readings = tuple((operand.value,) for operand in operands)
    readings: list[Words | None] = []
    for words in found:
        blank = words is not None and not any(word.text or not word.known for word in words)
        missing = not words or (blank and piece.operator.startswith(":"))
        sure = words is None or all(word.known for word in words)
        if piece.operator[-1] == "+":
            readings += [()] if missing else []
            readings += others if not missing or words is None else []
        elif piece.operator == ":?" and missing:
            # The shell ends here if the variable is empty, so it is never that.
            readings.append((Value(f"${piece.text}?", known=False),))
        elif piece.operator[-1] == "?" or not missing:
            readings.append(words)
            readings += others if not sure and piece.operator[-1] != "?" else []
        else:
            readings += others
            if piece.operator[-1] == "=":
                state.assign_readings(piece.text, others)
    return tuple(readings)


def _slice_words(words: Words | None, operand: Arg, base: int) -> Words | None:
    """Return `${name[@]:1:2}`; the first of `$@` has the number one."""
    match = _SUBSTRING.fullmatch(operand.text)
    if words is None or match is None:
        return words and (ANY_TEXT,)
    rest = words[max(int(match[1]) - base, 0) if int(match[1]) >= 0 else int(match[1]) :]
    return rest[: int(match[2])] if match[2] else rest


def _apply_substring(found: Value, operand: Arg) -> Value:
    match = _SUBSTRING.fullmatch(operand.text)
    if not found.known or match is None:
        return found._replace(known=False)
    rest = found.text[int(match[1]) :]
    return found._replace(text=rest[: int(match[2])] if match[2] else rest)


def _apply_replace(found: Value, operand: Arg, *, every: bool) -> Value:
    old, _, new = operand.text.partition("/")
    if not found.known or not old or len(old) > _MAX_WORDS:
        return found._replace(known=False)
    text = re.sub(_glob_pattern(old), lambda _: new, found.text, count=0 if every else 1)
    return found._replace(text=text[:65_536])


def _apply_trim(found: Value, operand: Arg, *, end: bool, longest: bool) -> Value:
    """Remove the shortest or longest part at one end that matches a pattern."""
    text, pattern = found.text, operand.text
    if not found.known or len(text) > _MAX_TRIMMED or len(pattern) > _MAX_WORDS:
        return found._replace(known=False)
    form = re.compile(_glob_pattern(pattern), re.DOTALL)
    cuts = range(len(text) + 1) if longest == end else range(len(text), -1, -1)
    for cut in cuts:
        if form.fullmatch(text[cut:] if end else text[:cut]):
            # The first cut that matches is the shortest or the longest, by the order.
            return found._replace(text=text[:cut] if end else text[cut:])
    return found


_MAX_TRIMMED = 200


def _glob_pattern(pattern: str) -> str:
    """Return a regular expression for a pattern of the shell."""
    parts = re.split(r"(\*+|\?|\[[^\]]+\])", pattern)
    return "".join(
        ".*"
        if part.startswith("*")
        else "."
        if part == "?"
        else f"[{re.escape(part[1:-1]).replace(chr(92) + '-', '-')}]"
        if part[:1] == "["
        else re.escape(part)
        for part in parts
    )


def _apply_transformation(found: Value, operand: Arg) -> Value:
    """Return `${name@U}` and its like."""
    change = _TRANSFORMATIONS.get(operand.text)
    return found._replace(text=change(found.text)) if change else ANY_TEXT


_TRANSFORMATIONS: dict[str, Callable[[str], str]] = {
    "U": str.upper,
    "L": str.lower,
    "u": lambda text: text[:1].upper() + text[1:],
    "E": decode_ansi_c,
    "Q": shlex.quote,
}
_OPERATORS: dict[str, Callable[[Value, Arg], Value]] = {
    ":": _apply_substring,
    "/": lambda found, operand: _apply_replace(found, operand, every=False),
    "//": lambda found, operand: _apply_replace(found, operand, every=True),
    **dict.fromkeys(("/#", "/%"), lambda found, _: found._replace(known=False)),
    "#": lambda found, operand: _apply_trim(found, operand, end=False, longest=False),
    "##": lambda found, operand: _apply_trim(found, operand, end=False, longest=True),
    "%": lambda found, operand: _apply_trim(found, operand, end=True, longest=False),
    "%%": lambda found, operand: _apply_trim(found, operand, end=True, longest=True),
    "^": lambda found, _: found._replace(text=found.text[:1].upper() + found.text[1:]),
    "^^": lambda found, _: found._replace(text=found.text.upper()),
    ",": lambda found, _: found._replace(text=found.text[:1].lower() + found.text[1:]),
    ",,": lambda found, _: found._replace(text=found.text.lower()),
    "@": _apply_transformation,
}


def _expand_tilde(text: str) -> str:
    """Return `text` with a leading tilde replaced by the home directory."""
    if not text.startswith("~"):
        return text
    name, slash, rest = text[1:].partition("/")
    if name in {"", "+"}:
        return HOME + slash + rest
    if name == "root":
        return f"/root{slash}{rest}"
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
