"""Load the marks of a language: every problem at once, each with its place and help.

A file holds the marks of one language; `any` holds what needs no language. Patterns are
linear-time expressions over folded text (see `demur.respond.lint_text`): a blank stands for
any white space, `<name>` for an expression under `phrases`, and case and accents do not count.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import re2

from demur.codes.suggest import did_you_mean
from demur.errors import ManyProblemsError, Problem
from demur.respond.lint_mark import MEANINGS, Mark, Marks, failing_rows
from demur.respond.lint_text import fold
from demur.source import Item, SourceError, read_source, read_text

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
    """Return the marks in the file at `path`, held to their own rows.

    Raises:
        MarksError: The file cannot be read or used; carries every problem.
    """
    try:
        text = read_text(path, "marks")
    except SourceError as error:
        raise MarksError.of(error.problems) from error
    marks = parse_marks(text, str(path))
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
    try:
        source = read_source(name, text)
    except SourceError as error:
        raise MarksError.of(error.problems) from error
    loader = _Loader()
    marks = loader.marks(source)
    if loader.problems:
        raise MarksError.of(loader.problems)
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
        self.problems: list[Problem] = []
        self.phrases: dict[str, str] = {}

    def report(self, where: str, problem: str, help_text: str | None = None) -> None:
        self.problems.append(Problem(where, problem, help_text))

    def marks(self, source: Item) -> Marks:
        """Return the marks; worthless if problems were reported on the way."""
        fields = self._fields(source, _TOP, "a file of marks")
        version = self._text(fields, "schema_version", source)
        if version and version != SCHEMA_VERSION:
            place = fields["schema_version"].where
            self.report(place, f"unknown schema version `{version}`", f"this is {SCHEMA_VERSION}")
        locale = self._text(fields, "locale", source)
        if locale and not _LOCALE.match(locale):
            self.report(fields["locale"].where, f"`{locale}` is no language", "like `en`")
        for name, item in self._mapping(fields.get("phrases"), "phrases").items():
            self.phrases[name] = f"(?:{self._expanded(item)})"
        return Marks(
            locale=locale,
            words=frozenset(fold(word).lower() for word in self._rows(fields, "words")),
            names={
                key: tuple(fold(name).lower() for name in self._texts(item, "names"))
                for key, item in self._mapping(fields.get("names"), "names").items()
            },
            marks=tuple(self._marks(fields.get("marks"), source)),
        )

    def _fields(self, item: Item, known: tuple[str, ...], what: str) -> Mapping[str, Item]:
        if not isinstance(item.value, dict):
            self.report(item.where, f"{what} is a mapping")
            return {}
        for key, where in item.keys.items():
            if key not in known:
                hint = did_you_mean(key, known) or f"one of {', '.join(known)}"
                self.report(where, f"unknown key `{key}`", hint)
        return item.value

    def _mapping(self, item: Item | None, what: str) -> Mapping[str, Item]:
        if item is None:
            return {}
        if not isinstance(item.value, dict):
            self.report(item.where, f"`{what}` is a mapping")
            return {}
        return item.value

    def _text(self, fields: Mapping[str, Item], key: str, parent: Item) -> str:
        if key not in fields:
            self.report(parent.where, f"`{key}` is missing")
            return ""
        value = fields[key].value
        if isinstance(value, str) and value.strip():
            return value
        self.report(fields[key].where, f"`{key}` must be a text", "quote it")
        return ""

    def _flag(self, fields: Mapping[str, Item], key: str) -> bool:
        if key in fields and not isinstance(fields[key].value, bool):
            self.report(fields[key].where, f"`{key}` is true or false")
        return key in fields and fields[key].value is True

    def _texts(self, item: Item, what: str) -> Iterator[str]:
        for child in item.value if isinstance(item.value, list) else [item]:
            if isinstance(child.value, str) and child.value.strip():
                yield child.value
            else:
                self.report(child.where, f"`{what}` holds texts", "quote it")

    def _rows(self, fields: Mapping[str, Item], key: str) -> tuple[str, ...]:
        return tuple(self._texts(fields[key], key)) if key in fields else ()

    def _marks(self, item: Item | None, source: Item) -> Iterator[Mark]:
        if item is None or not isinstance(item.value, list):
            self.report(source.where if item is None else item.where, "`marks` must be a list")
            return
        ids: dict[str, str] = {}
        for child in item.value:
            mark = self._mark(child)
            if mark.id in ids:
                self.report(child.where, f"mark `{mark.id}` stands twice", f"at {ids[mark.id]}")
            ids.setdefault(mark.id, child.where)
            yield mark

    def _mark(self, item: Item) -> Mark:
        fields = self._fields(item, _MARK, "a mark")
        means = self._text(fields, "means", item)
        if means and means not in MEANINGS:
            hint = did_you_mean(means, MEANINGS) or f"one of {', '.join(MEANINGS)}"
            self.report(fields["means"].where, f"unknown meaning `{means}`", hint)
        for key in ("pattern", "hit", "miss"):
            if not self._rows(fields, key):
                help_text = "each mark shows what it must hit, and a twin it must not"
                self.report(item.where, f"the mark has no `{key}`", help_text)
        return Mark(
            id=self._text(fields, "id", item),
            means=means,
            pattern=self._pattern(fields.get("pattern")),
            unless=self._pattern(fields.get("unless")),
            opens=self._flag(fields, "opens"),
            weak=self._flag(fields, "weak"),
            outside_crisis=self._flag(fields, "outside_crisis"),
            hit=self._rows(fields, "hit"),
            miss=self._rows(fields, "miss"),
            where=item.where,
        )

    def _pattern(self, item: Item | None) -> Any:
        """Return one compiled expression for a pattern or a list of them."""
        if item is None:
            return None
        parts = item.value if isinstance(item.value, list) else [item]
        return self._compiled(item, "|".join(f"(?:{self._expanded(part)})" for part in parts))

    def _expanded(self, item: Item) -> str:
        """Return the expression in an item, its phrases and blanks written out, checked."""
        if not isinstance(item.value, str):
            self.report(item.where, "a pattern is a text", "quote it")
            return ""

        def phrase(found: re.Match[str]) -> str:
            if found[1] not in self.phrases:
                hint = did_you_mean(found[1], self.phrases) or "it goes under `phrases`, before use"
                self.report(item.where, f"unknown phrase `<{found[1]}>`", hint)
            return self.phrases.get(found[1], "")

        written = fold(item.value.strip())
        return _PHRASE.sub(phrase, written.replace(" ?", r"\s*").replace(" ", r"\s+"))

    def _compiled(self, item: Item, expression: str) -> Any:
        options = re2.Options()
        options.case_sensitive = False
        options.never_capture = True
        options.log_errors = False
        try:
            return re2.compile(expression, options)
        except re2.error as error:
            said = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
            self.report(item.where, f"not a usable pattern: {said}", "see RE2's syntax")
            return None
