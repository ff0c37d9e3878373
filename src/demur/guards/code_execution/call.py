"""One program that would run: its name, arguments, options, and the values they hold."""

import re
from collections.abc import Iterable
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from demur.guards.static.source_text import word_set

MAX_VALUE_LENGTH = 65_536
UNKNOWN_PLACEHOLDER = "$unknown"


class Taint(StrEnum):
    """The origin of a text; pipes, variables and files pass it on."""

    DOWNLOAD = "download"
    DECODED = "decoded"
    SECRET = "secret"  # noqa: S105 - the name of an origin
    ENVIRONMENT = "environment"
    # A single variable of the environment.
    VARIABLE = "variable"
    FILE = "file"
    INPUT = "input"
    # A file on disk or a program's own output: no text of this script is in it.
    EXTERNAL = "external"
    SHELL = "shell"


class Value(NamedTuple):
    """A text with its origins. If it is not fully `known`, `text` holds the known parts."""

    text: str
    known: bool = True
    taints: frozenset[Taint] = frozenset()


class Arg(NamedTuple):
    """One argument of a command, after expansion.

    `offset` is the position at which the source holds its text unchanged; None if expansion
    produced the text.
    """

    text: str
    start: int
    end: int
    known: bool = True
    taints: frozenset[Taint] = frozenset()
    offset: int | None = None

    @property
    def value(self) -> Value:
        """The argument without its span."""
        return Value(self.text, self.known, self.taints)


_UNTAINTED: frozenset[Taint] = frozenset()
EMPTY = Value("")
UNKNOWN = Value("", known=False)


def join_values(values: list[Value], between: str = "") -> Value:
    """Return the values joined by `between`, cut at the maximum length."""
    if len(values) == 1:
        return values[0]
    # An unknown part must not vanish: `$X/*` is not `/*`.
    texts = (each.text if each.text or each.known else UNKNOWN_PLACEHOLDER for each in values)
    text = between.join(texts)
    known = all(value.known for value in values) and len(text) <= MAX_VALUE_LENGTH
    taints = _UNTAINTED.union(*(value.taints for value in values))
    return Value(text[:MAX_VALUE_LENGTH], known, taints)


class WrittenFile(NamedTuple):
    """A file that a call writes, and whether it appends to it."""

    target: Arg
    append: bool


class CommandHit(NamedTuple):
    """A rule that holds for a call, and the target it holds for."""

    rule: str
    target: str = ""


class ProgramCall(NamedTuple):
    """A program with its arguments, redirections, input and environment.

    `verb` is the program's name in lower case without path and extension; `name` is the word as
    written. `via` lists the programs that start it (`sudo`, `xargs`, `docker`).
    """

    verb: str
    name: Arg
    args: tuple[Arg, ...]
    via: tuple[str, ...] = ()
    stdin: Value = EMPTY
    piped: bool = False
    writes: tuple[WrittenFile, ...] = ()
    reads: tuple[Arg, ...] = ()
    environment: tuple[tuple[str, Value], ...] = ()
    cwd: str = "/"

    @property
    def texts(self) -> list[str]:
        """The arguments as plain texts."""
        return [arg.text for arg in self.args]

    def has_arg(self, *texts: str) -> bool:
        """Whether one of these texts is exactly an argument."""
        return any(arg.text in texts for arg in self.args)


class ParsedOptions(NamedTuple):
    """Parsed arguments: option names, option values, and operands."""

    names: frozenset[str]
    values: dict[str, Arg]
    operands: tuple[Arg, ...]

    def has_any(self, *names: str) -> bool:
        """Whether one of these options was given."""
        return not self.names.isdisjoint(names)


def parse_options(args: Iterable[Arg], valued: frozenset[str] = frozenset()) -> ParsedOptions:
    """Parse `args`; `valued` are the options that take the next word as their value.

    Short options may be bundled (`-rf`), long ones may carry `=value`; `--` ends them all.
    """
    names: set[str] = set()
    values: dict[str, Arg] = {}
    operands: list[Arg] = []
    rest = iter(args)
    for arg in rest:
        text = arg.text
        if text == "--":
            operands.extend(rest)
            break
        if len(text) < 2 or text[0] != "-":
            operands.append(arg)
        elif text.startswith("--") or text in valued:
            name, equals, rest_text = text.partition("=")
            names.add(name)
            if equals:
                values[name] = arg._replace(text=rest_text, offset=None)
            elif name in valued and (value := next(rest, None)):
                values[name] = value
        else:
            # A bundle of short options; one that takes a value ends it.
            for index, letter in enumerate(text[1:], start=2):
                name = f"-{letter}"
                names.add(name)
                if name in valued:
                    glued = arg._replace(text=text[index:], offset=None)
                    if value := glued if glued.text else next(rest, None):
                        values[name] = value
                    break
    return ParsedOptions(frozenset(names), values, tuple(operands))


def asks_person(call: ProgramCall, asking: re.Pattern[str], silent: re.Pattern[str]) -> bool:
    """Whether a call asks a person before it acts: the last option counts, and nothing answers."""
    asks = False
    for text in call.texts:
        if text == "--":
            break
        asks = bool(asking.fullmatch(text)) or (asks and not silent.fullmatch(text))
    return asks and not (call.piped or call.reads or call.stdin != EMPTY)


_EXTENSION = re.compile(r"\.(?:exe|com|bat|cmd|ps1|vbs|js)$")


def program_name(name: str) -> str:
    """Return the name of a program without its path and extension, in lower case."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    return (_EXTENSION.sub("", last) if "." in last else last) or name


_BY_NAME = word_set("-name -iname -path -ipath -wholename -regex")
_FILTERS = word_set("-mtime -mmin -size -empty -newer -user -perm -atime -ctime -group -links")


def find_targets(call: ProgramCall) -> list[Arg]:
    """Return the targets of `find` as patterns: `./*.log` for `find . -name '*.log'`."""
    texts = call.texts
    ends = (index for index, text in enumerate(texts) if text.startswith(("-", "(", "!", "\\")))
    roots = call.args[: next(ends, len(texts))] or (call.name._replace(text="."),)
    patterns = (value.rpartition("/")[2] for text, value in pairwise(texts) if text in _BY_NAME)
    # All plain files of a tree are all that it holds; other types are few.
    narrow = ("-type", "f") not in pairwise(texts) and "-type" in texts
    narrow = narrow or not _FILTERS.isdisjoint(texts)
    name = next(patterns, "*.*?" if narrow else "*")
    return [root._replace(text=f"{root.text.rstrip('/')}/{name}", offset=None) for root in roots]
