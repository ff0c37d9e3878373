"""Find SQL statements that change or drop everything, read as statements, not as words.

`delete` and `update` without a condition (or with one that always holds), `truncate`, and
`drop` of what holds data. Quoted text, comments and names are set apart first, so a column
called "where" is no condition and a comment hides nothing. Quoting of all common dialects is
read. Limits: effects of procedures and triggers are not seen.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import re2

_MENTIONED = re2.compile(r"(?i)\b(?:delete|drop|truncate|update)\b")
# An unclosed quote or comment runs to the end of the text, and quantifiers are possessive:
# backtracking would make the time quadratic.
_TOKEN = re.compile(
    r"(?P<skip>[ \t\n\f\r]++|--[^\n]*+|/\*.*?(?:\*/|\Z)|\#[^\n]*+)"
    r"|(?P<quoted>'(?:[^'\\]++|''|\\(?:.|\Z))*+(?:'|\Z)|\$\$.*?(?:\$\$|\Z))"
    r"|(?P<name>\"(?:[^\"]++|\"\")*+(?:\"|\Z)|`[^`]*+(?:`|\Z)|\[[^\]]*+(?:\]|\Z))"
    r"|(?P<word>[^\W\d][\w$.]*+|[0-9]++(?:\.[0-9]++)?)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_RUN = re.compile(r"/\*![0-9]*")
_DROPS = {"table", "database", "schema", "tablespace", "keyspace", "collection"}
_LEADS = {"with", "explain", "begin"}
_OTHER_VERBS = {"select", "insert", "merge"}
_AFTER_TARGET = {"", "returning", "limit", "order", "using", "from", "output", "option", "as"}


class SqlSweep(NamedTuple):
    """A statement that reaches all rows: its verb, what it reaches, and where it stands."""

    verb: str
    target: str
    why: str
    start: int
    end: int


class _SqlToken(NamedTuple):
    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        return self.text.casefold() if self.kind == "word" else ""


def find_sweeps(text: str) -> Iterator[SqlSweep]:
    """Yield the statements in `text` that would change, empty or drop everything."""
    # A lone surrogate cannot be encoded; replacing it keeps the places.
    plain = text.encode("utf-8", "replace").decode()
    if not _MENTIONED.search(plain):
        return
    for statement in _split_statements(list(_iter_tokens(plain))):
        # EXPLAIN runs nothing, unless it is to ANALYZE.
        if statement[0].word in {"explain", "describe", "desc"} and not any(
            token.word in {"analyze", "analyse"} for token in statement[:6]
        ):
            continue
        yield from filter(None, map(_judge_unit, _split_units(statement)))


def _iter_tokens(text: str) -> Iterator[_SqlToken]:
    for found in _TOKEN.finditer(text):
        kind = str(found.lastgroup)
        start, end = found.span()
        token = text[start:end]
        if kind == "skip" and token.startswith("/*!"):
            # MySQL runs the text of such a comment. Nested ones are read as one level, because
            # reading them level by level would make the time quadratic.
            inner = _RUN.sub(lambda mark: " " * len(mark[0]), token).removesuffix("*/")
            for each in _iter_tokens(inner):
                yield each._replace(start=each.start + start, end=each.end + start)
        elif kind != "skip":
            yield _SqlToken(kind, token, start, end)


def _split_statements(tokens: list[_SqlToken]) -> Iterator[list[_SqlToken]]:
    parts = groupby(tokens, key=lambda token: token.text == ";" and token.kind == "other")
    return (list(part) for is_end, part in parts if not is_end)


def _split_units(statement: list[_SqlToken]) -> Iterator[list[_SqlToken]]:
    """Yield the statement, and each statement in brackets within it, without what is nested."""
    open_units: list[list[_SqlToken]] = [[]]
    for token in statement:
        mark = token.text if token.kind == "other" else ""
        if mark == ")" and len(open_units) > 1:
            yield open_units.pop()
        open_units[-1].append(token)
        if mark == "(":
            open_units.append([])
    yield from reversed(open_units)


def _judge_unit(unit: list[_SqlToken]) -> SqlSweep | None:
    start = next((i for i, token in enumerate(unit) if token.word in _VERBS), None)
    if start is None:
        return None
    # Named parts, or a plan to measure, may go before the verb.
    before = [token.word for token in unit[:start]]
    if before and (before[0] not in _LEADS or not _OTHER_VERBS.isdisjoint(before)):
        return None
    return _VERBS[unit[start].word](unit[start:])


def _judge_delete(unit: list[_SqlToken]) -> SqlSweep | None:
    words = [token.word for token in unit]
    if "from" not in words[:8] or len(unit) < 3:
        return None
    return _judge_condition(unit, words.index("from") + 1, "delete")


def _judge_update(unit: list[_SqlToken]) -> SqlSweep | None:
    words = [token.word for token in unit]
    if "set" not in words[2:] or "=" not in [token.text for token in unit]:
        return None
    return _judge_condition(unit, 2 if words[1] == "only" else 1, "update")


def _judge_condition(unit: list[_SqlToken], target: int, verb: str) -> SqlSweep | None:
    if target >= len(unit) or unit[target].kind not in {"word", "name"}:
        return None
    words = [token.word for token in unit]
    if "where" not in words:
        rest = words[target + 1 :]
        # Prose goes on with other words, as in `delete from memory it`.
        if verb == "delete" and rest and rest[0] not in _AFTER_TARGET and "join" not in rest:
            return None
        return _make_sweep(verb, unit, target, "no condition")
    holds = _always_holds(unit[words.index("where") + 1 :])
    return _make_sweep(verb, unit, target, "a condition that always holds") if holds else None


def _always_holds(condition: list[_SqlToken]) -> bool:
    """Return whether one of the parts of a condition, between each `or`, holds for all rows."""
    texts = [token.text.casefold() for token in condition]
    parts = groupby(texts, key=lambda text: text == "or")
    return any(_is_always_true(list(part)) for is_or, part in parts if not is_or)


def _is_always_true(texts: list[str]) -> bool:
    if len(texts) == 1:
        return texts[0] == "true" or (texts[0].isdecimal() and int(texts[0][:9]) != 0)
    return len(texts) == 3 and texts[1] == "=" and texts[0] == texts[2]


def _judge_truncate(unit: list[_SqlToken]) -> SqlSweep | None:
    rest = 2 if len(unit) > 2 and unit[1].word == "table" else 1
    # `truncate(text, 20)` is a function, and `truncate the text` is prose.
    if rest >= len(unit) or unit[rest].kind not in {"word", "name"}:
        return None
    if rest == 1 and len(unit) > 2 and unit[2].word not in {"", "cascade", "restart"}:
        return None
    return _make_sweep("truncate", unit, rest, "every row")


def _judge_drop(unit: list[_SqlToken]) -> SqlSweep | None:
    if len(unit) < 3 or unit[1].word not in _DROPS:
        return None
    target = 4 if unit[2].word == "if" and len(unit) > 4 else 2
    return _make_sweep("drop", unit, target, f"the whole {unit[1].word}")


def _make_sweep(verb: str, unit: list[_SqlToken], target: int, why: str) -> SqlSweep:
    return SqlSweep(verb, unit[target].text.strip('"`[]')[:100], why, unit[0].start, unit[-1].end)


_VERBS = {
    "delete": _judge_delete,
    "drop": _judge_drop,
    "truncate": _judge_truncate,
    "update": _judge_update,
}
