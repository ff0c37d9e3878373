"""Find SQL that changes or drops everything, or that reaches the machine of the database.

Statements are read as statements, not as words. A sweep is a `delete` or `update` without a
condition (or with one that every row meets, or all but a few), `truncate`, and `drop` of what
holds data. Host access is `copy ... to program`, `pg_read_file()`, `xp_cmdshell` and similar.
Quoted text, comments and names are set apart first, so a column called "where" is no condition
and a comment hides nothing. Quoting of all common dialects is read. Limits: effects of procedures
and triggers are not seen, nor how many rows a condition meets that only the data can decide.
"""

import operator
import re
from bisect import bisect
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Literal, NamedTuple

import re2

from demur.guards.static.source_text import word_set

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


_END = _SqlToken("other", "", 0, 0)


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
        for unit in _split_units(statement):
            if sweep := _judge_unit(unit, statement):
                yield sweep


HostReach = Literal["program", "file"]
_HOST_MENTIONED = re2.compile(
    r"(?i)program|cmdshell|_file|file_|readfile|writefile|outfile|dumpfile|lo_(?:im|ex)port|ls_dir"
    r"|load_extension|oacreate|sys_e(?:xec|val)|utl_file|openrowset|infile|\bcopy\b"
)
_RUNS = word_set(
    "xp_cmdshell sp_oacreate sys_exec sys_eval load_extension dbms_scheduler.create_job"
)
_FILES = word_set(
    "pg_read_file pg_read_binary_file pg_ls_dir pg_file_write pg_file_read lo_import lo_export"
    " load_file readfile writefile utl_file.fopen"
)
_SYSTEM_FILE = re.compile(
    r"(?i)'(?:/etc/|/root|/proc/|/home/|/var/(?:run|spool|log)|~|[a-z]:\\|.*/\.ssh/)"
)


class SqlHostAccess(NamedTuple):
    """A statement that runs a program, or opens a file, on the machine of the database."""

    reach: HostReach
    name: str
    start: int
    end: int


def find_host_access(text: str) -> Iterator[SqlHostAccess]:
    """Yield the places in `text` at which SQL would reach the machine of the database."""
    plain = text.encode("utf-8", "replace").decode()
    if not _HOST_MENTIONED.search(plain):
        return
    for statement in _split_statements(list(_iter_tokens(plain))):
        for index, token in enumerate(statement):
            name = token.word.rpartition("..")[2].removeprefix("master.").removeprefix("dbo.")
            following = statement[index + 1] if index + 1 < len(statement) else _END
            if name in _RUNS:
                yield SqlHostAccess("program", name, token.start, following.end)
            elif name in _FILES and following.text == "(":
                yield SqlHostAccess("file", name, token.start, following.end)
            elif _opens_file(statement, index, following):
                reach: HostReach = "program" if name == "program" else "file"
                yield SqlHostAccess(reach, name, statement[0].start, following.end)


def _opens_file(statement: list["_SqlToken"], index: int, following: "_SqlToken") -> bool:
    """Whether `copy ... to program '...'`, `into outfile '...'` or `copy ... to '...'` is here."""
    word, before = statement[index].word, statement[index - 1].word if index else ""
    if following.kind != "quoted":
        return False
    copies = statement[0].word == "copy"
    if word == "program":
        return copies and before in {"to", "from"}
    if word in {"outfile", "dumpfile"}:
        return before == "into"
    writes = copies and word == "to"
    reads = (copies and word == "from") or word in {"infile", "bulk"}
    return writes or (reads and bool(_SYSTEM_FILE.match(following.text)))


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


def _judge_unit(unit: list[_SqlToken], statement: list[_SqlToken]) -> SqlSweep | None:
    start = next((i for i, token in enumerate(unit) if token.word in _VERBS), None)
    if start is None:
        return None
    # Named parts, or a plan to measure, may go before the verb.
    before = [token.word for token in unit[:start]]
    if before and (before[0] not in _LEADS or not _OTHER_VERBS.isdisjoint(before)):
        return None
    return _VERBS[unit[start].word](unit[start:], statement)


def _judge_delete(unit: list[_SqlToken], statement: list[_SqlToken]) -> SqlSweep | None:
    words = [token.word for token in unit]
    if "from" not in words[:8] or len(unit) < 3:
        return None
    return _judge_condition(unit, words.index("from") + 1, "delete", statement)


def _judge_update(unit: list[_SqlToken], statement: list[_SqlToken]) -> SqlSweep | None:
    words = [token.word for token in unit]
    if "set" not in words[2:] or "=" not in [token.text for token in unit]:
        return None
    return _judge_condition(unit, 2 if words[1] == "only" else 1, "update", statement)


def _judge_condition(
    unit: list[_SqlToken], target: int, verb: str, statement: list[_SqlToken]
) -> SqlSweep | None:
    if target >= len(unit) or unit[target].kind not in {"word", "name"}:
        return None
    words = [token.word for token in unit]
    if "where" not in words:
        rest = words[target + 1 :]
        # Prose goes on with other words, as in `delete from memory it`.
        if verb == "delete" and rest and rest[0] not in _AFTER_TARGET and "join" not in rest:
            return None
        return _make_sweep(verb, unit, target, "no condition")
    where = words.index("where")
    condition = [token.text.casefold() for token in unit[where + 1 :]]
    # With what brackets hold, which the unit itself leaves out.
    first = bisect(statement, unit[where].start, key=lambda token: token.start)
    nested = statement[first : first + _MAX_CONDITION]
    whole = [token.text.casefold() for token in nested if token.end <= unit[-1].end]
    if _always_holds(condition) or (len(nested) < _MAX_CONDITION and _always_holds(whole)):
        return _make_sweep(verb, unit, target, "a condition that always holds")
    if _nearly_holds(whole):
        return _make_sweep(verb, unit, target, "a condition that nearly always holds")
    return None


_MAX_CONDITION = 64
_ROW_NUMBER = re.compile(r"(?:\w+\.)?[\"`\[]?(?:\w*_)?(?:id|rowid|oid|pk|uuid)[\"`\]]?")
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "<>": operator.ne,
    "!=": operator.ne,
}


def _split_at(texts: list[str], word: str) -> list[list[str]]:
    """Return the parts between each `word` outside brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for text in texts:
        depth += (text == "(") - (text == ")")
        if text == word and depth == 0:
            parts.append([])
        else:
            parts[-1].append(text)
    return parts


def _always_holds(condition: list[str]) -> bool:
    """Whether one of the parts of a condition, between each `or`, holds for all rows."""
    choices = _split_at(condition, "or")
    return any(all(map(_is_always_true, _split_at(choice, "and"))) for choice in choices)


def _is_always_true(texts: list[str]) -> bool:
    if texts[:1] == ["not"]:
        return _is_number(texts[1:], 0) or texts[1:] == ["false"]
    if len(texts) > 2 and texts[0] == "(" and texts[-1] == ")":
        return _always_holds(texts[1:-1])
    if len(texts) == 1:
        return texts[0] == "true" or (texts[0].isdecimal() and int(texts[0][:9]) != 0)
    if texts[-2:] == ["like", "'%'"]:
        return True
    left, sign, right = texts[:1], "".join(texts[1:-1]), texts[-1:]
    if left == right:
        return sign in {"=", "<=", ">="} and len(texts) > 2
    numbers = [float(text[0]) for text in (left, right) if text and text[0].isdecimal()]
    return len(numbers) == 2 and sign in _COMPARISONS and _COMPARISONS[sign](*numbers)


def _is_number(texts: list[str], number: int) -> bool:
    return len(texts) == 1 and texts[0].isdecimal() and int(texts[0][:9]) == number


def _nearly_holds(texts: list[str]) -> bool:
    """Whether a condition on the number of a row leaves out hardly one: `id > 0`."""
    while len(texts) > 2 and texts[0] == "(" and texts[-1] == ")":
        texts = texts[1:-1]
    if not texts or not _ROW_NUMBER.fullmatch(texts[0]) or "and" in texts:
        return False
    rest = "".join(texts[1:])
    return bool(_ALL_BUT_FEW.fullmatch(rest))


_ALL_BUT_FEW = re.compile(r">(?:=?-\d+|=?[01])|(?:<>|!=)-?[\w']+|isnotnull|notin\([^)]*\)")


def _judge_truncate(unit: list[_SqlToken], _: list[_SqlToken]) -> SqlSweep | None:
    rest = 2 if len(unit) > 2 and unit[1].word == "table" else 1
    # `truncate(text, 20)` is a function, and `truncate the text` is prose.
    if rest >= len(unit) or unit[rest].kind not in {"word", "name"}:
        return None
    if rest == 1 and len(unit) > 2 and unit[2].word not in {"", "cascade", "restart"}:
        return None
    return _make_sweep("truncate", unit, rest, "every row")


_SCRATCH_KINDS = frozenset({"table", "view"})
# Names that people give to tables for the moment.
_SCRATCH = re.compile(r"(?:pg_temp\.|#)?(?:te?mp_\w+|\w+_te?mp)|(?:pg_temp\.|#)\w+")


def _judge_drop(unit: list[_SqlToken], _: list[_SqlToken]) -> SqlSweep | None:
    if len(unit) < 3 or unit[1].word not in _DROPS:
        return None
    target = 4 if unit[2].word == "if" and len(unit) > 4 else 2
    is_single = "," not in [token.text for token in unit]
    if is_single and unit[1].word in _SCRATCH_KINDS and _SCRATCH.fullmatch(unit[target].word):
        return None
    return _make_sweep("drop", unit, target, f"the whole {unit[1].word}")


def _make_sweep(verb: str, unit: list[_SqlToken], target: int, why: str) -> SqlSweep:
    return SqlSweep(verb, unit[target].text.strip('"`[]')[:100], why, unit[0].start, unit[-1].end)


_VERBS = {
    "delete": _judge_delete,
    "drop": _judge_drop,
    "truncate": _judge_truncate,
    "update": _judge_update,
}
