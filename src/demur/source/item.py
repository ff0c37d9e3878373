"""A value of a YAML document that knows its place, and guesses at mistyped names.

A loader asks items for what must be there: a text, a word out of a list, a list. An item of another
kind reports the problem with its place and a hint, so that one reading finds every problem.
"""

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from demur.errors import DemurError, ManyProblemsError, Problem

_MIN_PREFIX = 3


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name nearest to `name`, or None if none is near.

    A name that is only the beginning of known ones is near the shortest of them.
    """
    # Long text is no typo, and comparing it would be slow.
    if len(name) > 100:
        return None
    by_fold = {_fold_name(candidate): candidate for candidate in known}
    folded = _fold_name(name)
    near = difflib.get_close_matches(folded, by_fold, n=1, cutoff=0.75)
    if not near and len(folded) >= _MIN_PREFIX:
        near = sorted((one for one in by_fold if one.startswith(folded)), key=len)
    return by_fold[near[0]] if near else None


def _fold_name(name: str) -> str:
    return name.casefold().strip().replace("-", "_").replace(" ", "_")


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return `did you mean ...?` for the known name nearest to `name`, or None."""
    near = closest_name(name, known)
    return f"did you mean `{near}`?" if near else None


def line_and_column(where: str) -> tuple[int, ...]:
    """Return line and column of a place; a whole file sorts before its lines."""
    return tuple(int(part) for part in where.split(":")[-2:] if part.isdecimal())


_Found = TypeVar("_Found")
_Word = TypeVar("_Word", bound=str)
_Choice = TypeVar("_Choice", bound=StrEnum)


class SourceItem:
    """A value and its place. Mappings hold items by key, lists hold items."""

    __slots__ = ("keys", "problems", "value", "where")

    def __init__(
        self, value: Any, where: str, keys: Mapping[str, str], problems: list[Problem]
    ) -> None:
        self.value = value
        self.where = where
        # The place of each key of a mapping, for problems of the key itself.
        self.keys = keys
        # All items of a document share one list.
        self.problems = problems

    @property
    def plain_value(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {key: item.plain_value for key, item in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain_value for item in self.value]
        return self.value

    # -- problems ----------------------------------------------------------------------------

    def report(self, problem: str, help_text: str | None = None) -> None:
        """Report a problem of this value."""
        self.problems.append(Problem(self.where, problem, help_text))

    def report_key(self, key: str, problem: str, help_text: str | None = None) -> None:
        """Report a problem of a key of this mapping."""
        self.problems.append(Problem(self.keys[key], problem, help_text))

    def raise_problems(self, error: type[ManyProblemsError]) -> None:
        """Raise `error` with all reported problems of this document, if there are any."""
        if self.problems:
            raise error.from_problems(self.problems)

    # -- this value --------------------------------------------------------------------------

    @property
    def number(self) -> float | None:
        """The value if it is a number (booleans are not), else None."""
        fits = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        return self.value if fits else None

    @property
    def integer(self) -> int | None:
        """The value if it is an integer (booleans are not), else None."""
        fits = isinstance(self.value, int) and not isinstance(self.value, bool)
        return self.value if fits else None

    @property
    def is_text(self) -> bool:
        """Whether the value is a text that is not blank."""
        return isinstance(self.value, str) and bool(self.value.strip())

    def must_be_text(self, what: str) -> bool:
        """Return whether the value is a text, and report it if not."""
        if not self.is_text:
            self.report(f"`{what}` must be a text", "quote it")
        return self.is_text

    def match_word(self, known: Iterable[_Word], what: str) -> _Word | None:
        """Return the known word that equals this value, or None and report the problem."""
        for word in known:
            if word == self.value:
                return word
        value = str(self.plain_value)
        hint = did_you_mean(value, known) or f"one of {', '.join(known)}"
        self.report(f"unknown {what} `{value}`", hint)
        return None

    def look_up(self, find: Callable[[Any], _Found]) -> _Found | None:
        """Return what `find` returns for this value, or None and report its error."""
        try:
            return find(self.value)
        except DemurError as error:
            self.report(error.problem, error.help)
            return None

    def report_duplicate(self, name: str, what: str, places: dict[str, str]) -> None:
        """Report a name that an earlier item has; `places` holds their places."""
        if name and name in places:
            self.report(f"{what} `{name}` appears twice", f"also at {places[name]}")
        places.setdefault(name, self.where)

    def as_mapping(self, what: str) -> Mapping[str, "SourceItem"]:
        """Return the values of a mapping by key."""
        if isinstance(self.value, dict):
            return self.value
        self.report(f"{what} is a mapping")
        return {}

    def as_fields(self, known: Collection[str], what: str) -> Mapping[str, "SourceItem"]:
        """Return the values of a mapping by key, and report the keys that are not known."""
        found = self.as_mapping(what)
        for key in found:
            if key not in known:
                hint = did_you_mean(key, known) or f"{what} has {', '.join(known)}"
                self.report_key(key, f"unknown key `{key}`", hint)
        return found

    # -- values of keys of this mapping ------------------------------------------------------

    def get(self, key: str) -> "SourceItem | None":
        """Return the item under `key`, or None."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def require_item(self, key: str, help_text: str | None = None) -> "SourceItem | None":
        """Return the item under `key`, which must be there."""
        item = self.get(key)
        if item is None:
            self.report(f"`{key}` is missing", help_text)
        return item

    def require_text(self, key: str) -> str:
        """Return the text under `key`, which must be there; empty with a problem reported."""
        item = self.require_item(key)
        return str(item.value) if item is not None and item.must_be_text(key) else ""

    def optional_text(self, key: str) -> str | None:
        """Return the text under `key`, or None if there is nothing."""
        return None if self.get(key) is None else self.require_text(key)

    def check_version(self, expected: str) -> None:
        """Report a `schema_version` that is not `wanted`."""
        version = self.require_text("schema_version")
        if version and version != expected:
            problem = f"unknown schema version `{version}`"
            self.value["schema_version"].report(problem, f"this is {expected}")

    def read_flag(self, key: str) -> bool:
        """Return whether the value of `key`, which may be absent, is true."""
        item = self.get(key)
        if item is not None and not isinstance(item.value, bool):
            item.report(f"`{key}` must be true or false, not `{item.plain_value}`")
        return item is not None and item.value is True

    def require_word(self, key: str, known: Iterable[_Word]) -> _Word | None:
        """Return the known word under `key`, which must be there."""
        item = self.get(key)
        if item is not None:
            return item.match_word(known, key)
        self.report(f"`{key}` is missing", f"one of {', '.join(known)}")
        return None

    def word_or_default(self, key: str, default: _Choice) -> _Choice:
        """Return the word under `key`, of the enum of `default`; `default` if it is absent."""
        item = self.get(key)
        return default if item is None else item.match_word(type(default), key) or default

    def list_items(self, key: str) -> list["SourceItem"]:
        """Return the items of the list under `key`, which may be absent."""
        item = self.get(key)
        if item is None or isinstance(item.value, list):
            return [] if item is None else item.value
        item.report(f"`{key}` is a list")
        return []

    def list_texts(self, key: str, *, allow_blank: bool = False) -> Iterator["SourceItem"]:
        """Yield the texts of the list under `key`; other items are reported."""
        for item in self.list_items(key):
            if item.is_text or (allow_blank and isinstance(item.value, str)):
                yield item
            else:
                item.report(f"`{key}` holds texts", "quote it")

    def distinct_texts(self, key: str) -> Iterator["SourceItem"]:
        """Yield the texts of the list under `key`; duplicates are reported."""
        texts: set[str] = set()
        for item in self.list_texts(key):
            if item.value in texts:
                item.report(f"`{item.value}` appears twice in `{key}`")
            else:
                texts.add(item.value)
                yield item

    def read_entries(self, key: str) -> Mapping[str, "SourceItem"]:
        """Return the values of the mapping under `key`, which may be absent, by their keys."""
        item = self.get(key)
        return {} if item is None else item.as_mapping(f"`{key}`")

    def read_pairs(self, key: str) -> Iterator[tuple[str, str]]:
        """Yield the texts of the mapping under `key`, which may be absent, by their keys."""
        for name, item in self.read_entries(key).items():
            if item.must_be_text(name):
                yield name, item.value
