"""The state of a shell, with every reading of it that the script leaves open.

A variable, a function, the positional parameters and the current folder each have a few readings:
after `test -f x && a=rm`, the variable `a` is either `rm` or whatever it was before. Readings that
are more than `MAX_READINGS` become one that is not known.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, product
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from demur.guards.code_execution.call import (
    EMPTY,
    UNKNOWN_PLACEHOLDER,
    Arg,
    Value,
    join_values,
)
from demur.guards.code_execution.paths import HOME, canonical_path

if TYPE_CHECKING:
    from demur.guards.static.shell_words import ShellScript

MAX_READINGS = 8
_MAX_ENTRIES = 500
_MAX_ITEMS = 500
_MAX_MERGED = 8_192

# The words of an array; a plain variable has one. None: the variable is not set by the script.
Words: TypeAlias = tuple[Value, ...]
Readings: TypeAlias = tuple[Words | None, ...]
ANY_TEXT = Value(UNKNOWN_PLACEHOLDER, known=False)
_NOT_SET: Readings = (None,)
_INITIAL_VARIABLES = {
    "HOME": Value(HOME),
    "IFS": Value(" \t\n"),
    "SHELL": Value("/bin/sh"),
    "BASH": Value("/bin/bash"),
    "0": Value("sh"),
    "TMPDIR": Value("/tmp"),  # noqa: S108 - a name
}
_Item = TypeVar("_Item")


def bound_readings(items: Iterable[_Item], overflow: _Item) -> tuple[_Item, ...]:
    """Return the distinct items; those beyond the maximum become `overflow`."""
    # INVARIANT: a reading beyond the bound becomes an unknown one, and none is dropped.
    distinct = tuple(dict.fromkeys(items))
    return distinct if len(distinct) <= MAX_READINGS else (*distinct[: MAX_READINGS - 1], overflow)


def combine_readings(parts: list[list[_Item]], limit: int) -> tuple[list[tuple[_Item, ...]], bool]:
    """Return the combinations of one item of each part, and whether there are more."""
    if max(map(len, parts), default=1) == 1:
        return list(product(*parts)), False
    combinations = list(islice(product(*parts), limit + 1))
    return combinations[:limit], len(combinations) > limit


class ShellState:
    """The state of one run. Paths are absolute; the home directory is written `/~`.

    `folders` are those in which the next command may run, `missed_folders` those if the last `cd`
    failed, and `after_missed` says that this is the state behind such a `cd`. A state is `dead`
    behind `exit` or `return`: no command after it sees it. `local_names`: None outside functions.
    `full`: a table has no room for more.
    """

    def __init__(self, cwd: str) -> None:
        self.folders: tuple[str, ...] = (cwd,)
        self.missed_folders: tuple[str, ...] = ()
        self.pushed_folders: tuple[tuple[str, ...], ...] = ()
        self.after_missed = False
        self.variables: dict[str, Readings] = {}
        self.references: dict[str, str] = {}
        self.cases: dict[str, Callable[[str], str]] = {}
        self.functions: dict[str, tuple[ShellScript | None, ...]] = {}
        self.aliases: dict[str, tuple[str, ...]] = {}
        self.files: dict[str, Value] = {}
        self.descriptors: dict[str, str] = {}
        self.positional: Readings = _NOT_SET
        self.stdin: tuple[Value, ...] = (EMPTY,)
        self.exported: frozenset[str] = frozenset()
        self.local_names: frozenset[str] | None = None
        self.traps: tuple[Arg, ...] = ()
        self.exits_on_error = False
        self.dead = False
        self.full = False

    @property
    def cwd(self) -> str:
        """The folder in which the next command would run."""
        return self.folders[0]

    def copy_state(self, *, share_files: bool = False) -> "ShellState":
        """Return a copy; a subshell shares the files."""
        values = self.__dict__.copy()
        for name in _TABLES if share_files else _ALL_TABLES:
            values[name] = values[name].copy()
        copy = ShellState.__new__(ShellState)
        copy.__dict__ = values
        return copy

    def enter_child(self, exported: frozenset[str], positional: Words) -> "ShellState":
        """Return the state of a shell that this one starts: it sees exported variables alone."""
        child = self.copy_state(share_files=True)
        for name, readings in child.variables.items():
            if name not in self.exported and name not in exported:
                child.variables[name] = merge_readings(readings, _NOT_SET)
        for name, bodies in child.functions.items():
            child.functions[name] = add_bodies(bodies, (None,))
        child.positional = (positional[1:],)
        child.variables["0"] = (positional[:1],)
        child.local_names = None
        child.exits_on_error = False
        child.traps = ()
        return child

    def is_same(self, other: "ShellState") -> bool:
        """Whether both states hold the same."""
        return self.__dict__ == other.__dict__

    def merge_state(self, other: "ShellState") -> "ShellState":
        """Return the state after either of two ways; a dead one does not count."""
        # INVARIANT: each reading that a way may leave is a reading after both ways.
        if other.dead or self is other:
            return self
        if self.dead:
            return other
        if self.is_same(other):
            return self
        merged = self.copy_state()
        _merge_folders(merged, self, other)
        merged.stdin = bound_readings((*self.stdin, *other.stdin), ANY_TEXT)
        merged.positional = merge_readings(self.positional, other.positional)
        merged.traps = tuple(dict.fromkeys((*self.traps, *other.traps)))[:MAX_READINGS]
        merged.exits_on_error = self.exits_on_error and other.exits_on_error
        merged.full = merged.full or other.full
        if self.local_names is not None:
            merged.local_names = self.local_names | (other.local_names or frozenset())
        for name in self.variables.keys() | other.variables.keys():
            ours, theirs = (each.variables.get(name, _NOT_SET) for each in (self, other))
            if ours != theirs:
                merged.variables[name] = merge_readings(ours, theirs)
        for name in self.functions.keys() | other.functions.keys():
            bodies, others = (each.functions.get(name, (None,)) for each in (self, other))
            merged.functions[name] = add_bodies(bodies, others)
        for name, texts in other.aliases.items():
            merged.aliases[name] = tuple(dict.fromkeys((*self.aliases.get(name, ()), *texts)))
        merged.files = _merge_files(self.files, other.files)
        merged.references = {**self.references, **other.references}
        merged.descriptors = {**self.descriptors, **other.descriptors}
        return merged

    def read_variable(self, name: str) -> Readings:
        """Return the readings of a variable."""
        name = self.references.get(name, name)
        if name in self.variables:
            return self.variables[name]
        if name == "PWD":
            return tuple((Value(folder),) for folder in self.folders)
        if name.isdigit() and name != "0":
            return tuple(_pick(words, int(name) - 1) for words in self.positional)
        initial = _INITIAL_VARIABLES.get(name)
        return ((initial,),) if initial else _NOT_SET

    def assign(self, name: str, *values: Value) -> None:
        """Record the readings of a plain variable."""
        self.assign_readings(name, tuple((value,) for value in values))

    def assign_readings(self, name: str, readings: Readings) -> None:
        """Record the readings of a variable; beyond the limit, new names are ignored."""
        name = self.references.get(name, name)
        if change := self.cases.get(name):
            readings = tuple(
                words and tuple(word._replace(text=change(word.text)) for word in words)
                for words in readings
            )
        if name in self.variables or len(self.variables) < _MAX_ENTRIES:
            # No script may give a value to the name that stands for an unknown one.
            if f"${name}" != UNKNOWN_PLACEHOLDER:
                self.variables[name] = bound_readings(readings, (ANY_TEXT,))
        else:
            self.full = True

    def assign_item(self, name: str, subscript: str, values: tuple[Value, ...]) -> None:
        """Record the readings of one item of an array."""
        if not subscript.isdigit() or int(subscript) > _MAX_ITEMS:
            self.assign(f"{name}[{subscript}]", *values)
            return
        index = int(subscript)
        readings = []
        for words in self.read_variable(name):
            padded = (*(words or ()), *(Value("") for _ in range(index + 1 - len(words or ()))))
            readings += [(*padded[:index], value, *padded[index + 1 :]) for value in values]
        self.assign_readings(name, tuple(readings))

    def read_items(self, name: str) -> Readings:
        """Return the readings of all items of an array, those with names included."""
        named = [key for key in self.variables if key.startswith(f"{name}[")]
        if not named:
            return self.read_variable(name)
        parts = [list(self.variables[key]) for key in named]
        own: list[Words | None] = [words for words in self.variables.get(name, ()) if words]
        combinations, more = combine_readings([own, *parts] if own else parts, MAX_READINGS)
        joined = [tuple(v for words in each for v in words or ()) for each in combinations]
        return (*joined, (ANY_TEXT,)) if more else tuple(joined)

    def unset(self, name: str) -> None:
        """Forget a variable, an item or, without one, a function."""
        array, _, index = name.removesuffix("]").partition("[")
        if index.isdigit():
            readings = self.read_variable(array)
            number = int(index)
            self.variables[array] = tuple(
                words and (*words[:number], *words[number + 1 :]) for words in readings
            )
            return
        if name in self.variables or name not in self.functions:
            self.variables[name] = ((),)
        else:
            self.functions[name] = (None,)

    def resolve_path(self, text: str) -> str:
        """Return `text` as an absolute path without `.` and `..`."""
        path = canonical_path(text, self.cwd) if text else self.cwd
        return _DESCRIPTOR.sub("/dev/fd/", path) if path.startswith("/proc/") else path

    def write_file(self, path: str, value: Value, *, append: bool = False) -> None:
        """Record the new content of a file."""
        place = self.resolve_path(path)
        if append and place in self.files:
            value = join_values([self.files[place], value])
        if place in self.files or len(self.files) < _MAX_ENTRIES:
            self.files[place] = value
        else:
            self.full = True


_DESCRIPTOR = re.compile(r"/proc/(?:self|thread-self|\d+|\$\$|\$PPID)/fd/")
_TABLES = ("variables", "references", "cases", "functions", "aliases", "descriptors")
_ALL_TABLES = (*_TABLES, "files")


def _pick(words: Words | None, index: int) -> Words | None:
    """Return one word as a reading."""
    if words is None:
        return None
    return words[index : index + 1] or (Value(""),)


def add_bodies(
    bodies: tuple["ShellScript | None", ...], others: tuple["ShellScript | None", ...]
) -> tuple["ShellScript | None", ...]:
    """Return the bodies of a function with those of another way; each is one object."""
    added = [body for body in others if not any(body is known for known in bodies)]
    return (*bodies, *added)[: 2 * MAX_READINGS] if added else bodies


def merge_readings(ours: Readings, theirs: Readings) -> Readings:
    """Return the readings of both."""
    return bound_readings((*ours, *theirs), (ANY_TEXT,))


def _merge_files(ours: dict[str, Value], theirs: dict[str, Value]) -> dict[str, Value]:
    """Return the files of both; one with two contents holds either, which is not known."""
    merged = {**theirs, **ours}
    for path in ours.keys() & theirs.keys():
        if ours[path] != theirs[path]:
            texts = sorted((ours[path].text, theirs[path].text), key=len)
            text = texts[1] if texts[0] in texts[1] else "\n".join(texts)
            taints = ours[path].taints | theirs[path].taints
            merged[path] = Value(text if len(text) < _MAX_MERGED else "", False, taints)
    return merged


def _merge_folders(merged: ShellState, ours: ShellState, theirs: ShellState) -> None:
    """Set the folders of `merged`: those behind a `cd` that failed stay apart."""
    if ours.after_missed and not theirs.after_missed:
        ours, theirs = theirs, ours
    merged.after_missed = ours.after_missed
    missed = [*ours.missed_folders, *theirs.missed_folders]
    folders = list(ours.folders)
    (missed if theirs.after_missed and not ours.after_missed else folders).extend(theirs.folders)
    merged.folders = tuple(dict.fromkeys(folders))
    merged.missed_folders = tuple(dict.fromkeys(each for each in missed if each not in folders))
    if max(len(merged.folders), len(merged.missed_folders)) > MAX_READINGS:
        merged.full = True
        merged.folders = merged.folders[:MAX_READINGS]
        merged.missed_folders = merged.missed_folders[:MAX_READINGS]


def texts_of(readings: Iterable[Words | None]) -> Iterator[Value]:
    """Yield the text of each reading that is set, as `"$name"` has it."""
    for words in readings:
        if words is not None:
            yield words[0] if words else Value("")
