"""Load the marks of a language: every problem at once, each with its place and help.

A file holds the marks of one language; `any` holds what needs no language. Patterns are
linear-time expressions over folded text (see `demur.respond.lint_text`): a blank stands for
any white space, `<name>` for an expression under `phrases`, and case and accents do not count.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import re2

from demur.errors import ManyProblemsError, Problem
from demur.respond.lint_mark import MEANINGS, Mark, Marks, failing_rows
from demur.respond.lint_text import fold
from demur.source.item import Item
from demur.source.reading import read_source, read_text
from demur.source.suggest import did_you_mean

__all__ = [
    "SCHEMA_VERSION",
    "MarksError",
    "builtin_locales",
    "builtin_marks",
    "load_marks",
    "parse_marks",
]

SCHEMA_VERSION = "refusal_marks.v1"

_TOP = ("schema_version", "locale", "description", "words", "names", "phrases", "marks")
_MARK = ("id", "means", "pattern", "unless", "opens", "weak", "outside_crisis", "hit", "miss")
_PHRASE = re.compile(r"<([a-z_]+)>")
_LOCALE = re.compile(r"[a-z]{2,3}\Z")


class MarksError(ManyProblemsError):
    """A file of marks that cannot be used."""


def load_marks(path: Path | str) -> Marks:
    """Return the marks in the file at `path`, checked against their own rows.

    Raises:
        MarksError: The file cannot be read or used; carries every problem.
    """
    marks = parse_marks(read_text(path, "marks", MarksError), str(path))
    problems = [
        Problem(row.where, f"the mark `{row.mark}` does not hold to its {row.kind} row `{row.row}`")
        for row in failing_rows(marks)
    ]
    if problems:
        raise MarksError.of(problems)
    return marks


def parse_marks(text: str, name: str = "marks") -> Marks:
    """Return the marks written in `text`, called `name` in errors.

    Raises:
        MarksError: They cannot be used; carries every problem.
    """
    source = read_source(name, text, MarksError)
    marks = _Loader().marks(source)
    source.raise_problems(MarksError)
    return marks


@cache
def builtin_marks(locale: str) -> Marks | None:
    """Return the marks that demur ships for a language, or None; `any` needs no language."""
    if not _LOCALE.match(locale):
        return None
    path = files("demur.respond") / "marks" / f"{locale}.yaml"
    return parse_marks(path.read_text(encoding="utf-8"), path.name) if path.is_file() else None


@cache
def builtin_locales() -> tuple[str, ...]:
    """Return the languages that demur ships marks for."""
    folder = files("demur.respond") / "marks"
    names = sorted(path.name.removesuffix(".yaml") for path in folder.iterdir())
    return tuple(name for name in names if name != "any")


class _Loader:
    def __init__(self) -> None:
        self.phrases: dict[str, str] = {}

    def marks(self, source: Item) -> Marks:
        """Return the marks; not usable if a problem was reported."""
        source.fields(_TOP, "a file of marks")
        source.version(SCHEMA_VERSION)
        locale = source.text("locale")
        if locale and not _LOCALE.match(locale):
            source.value["locale"].report(f"`{locale}` is no language", "like `en`")
        for name, item in source.entries("phrases").items():
            self.phrases[name] = f"(?:{self._expanded(item)})"
        return Marks(
            locale=locale,
            words=frozenset(fold(word).lower() for word in _rows(source, "words")),
            names={
                key: tuple(fold(name).lower() for name in _texts(item, "names"))
                for key, item in source.entries("names").items()
            },
            marks=tuple(self._marks(source)),
        )

    def _marks(self, source: Item) -> Iterator[Mark]:
        source.needed("marks")
        ids: dict[str, str] = {}
        for child in source.items("marks"):
            mark = self._mark(child)
            child.once(mark.id, "mark", ids)
            yield mark

    def _mark(self, item: Item) -> Mark:
        item.fields(_MARK, "a mark")
        said = item.needed("means", f"one of {', '.join(MEANINGS)}")
        means = None if said is None else said.one_of(MEANINGS, "meaning")
        for key in ("pattern", "hit", "miss"):
            if not _rows(item, key):
                help_text = "each mark shows what it must hit, and a twin it must not"
                item.report(f"the mark has no `{key}`", help_text)
        return Mark(
            id=item.text("id"),
            means=str(means or ""),
            pattern=self._pattern(item.get("pattern")),
            unless=self._pattern(item.get("unless")),
            opens=item.flag("opens"),
            weak=item.flag("weak"),
            outside_crisis=item.flag("outside_crisis"),
            hit=_rows(item, "hit"),
            miss=_rows(item, "miss"),
            where=item.where,
        )

    def _pattern(self, item: Item | None) -> Any:
        """Return one compiled expression for a pattern or a list of them."""
        if item is None:
            return None
        parts = item.value if isinstance(item.value, list) else [item]
        return _compiled(item, "|".join(f"(?:{self._expanded(part)})" for part in parts))

    def _expanded(self, item: Item) -> str:
        """Return the expression in an item, its phrases and blanks written out, checked."""
        if not isinstance(item.value, str):
            item.report("a pattern is a text", "quote it")
            return ""

        def phrase(found: re.Match[str]) -> str:
            if found[1] not in self.phrases:
                hint = did_you_mean(found[1], self.phrases) or "it goes under `phrases`, before use"
                item.report(f"unknown phrase `<{found[1]}>`", hint)
            return self.phrases.get(found[1], "")

        written = fold(item.value.strip())
        return _PHRASE.sub(phrase, written.replace(" ?", r"\s*").replace(" ", r"\s+"))


def _rows(parent: Item, key: str) -> tuple[str, ...]:
    item = parent.get(key)
    return () if item is None else tuple(_texts(item, key))


def _texts(item: Item, what: str) -> Iterator[str]:
    """Yield the texts of a list, or the one that stands there without a list."""
    for child in item.value if isinstance(item.value, list) else [item]:
        if child.is_text:
            yield child.value
        else:
            child.report(f"`{what}` holds texts", "quote it")


def _compiled(item: Item, expression: str) -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        said = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        item.report(f"not a usable pattern: {said}", "see RE2's syntax")
        return None
