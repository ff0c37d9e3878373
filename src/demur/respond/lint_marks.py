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
from demur.respond.lint_text import fold_accents
from demur.source.item import SourceItem
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
        raise MarksError.from_problems(problems)
    return marks


def parse_marks(text: str, name: str = "marks") -> Marks:
    """Return the marks written in `require_text`, called `name` in errors.

    Raises:
        MarksError: They cannot be used; carries every problem.
    """
    source = read_source(name, text, MarksError)
    marks = _MarkLoader().read_file(source)
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


class _MarkLoader:
    def __init__(self) -> None:
        self.phrases: dict[str, str] = {}

    def read_file(self, source: SourceItem) -> Marks:
        """Return the marks; not usable if a problem was reported."""
        source.as_fields(_TOP, "a file of marks")
        source.check_version(SCHEMA_VERSION)
        locale = source.require_text("locale")
        if locale and not _LOCALE.match(locale):
            source.value["locale"].report(f"`{locale}` is no language", "like `en`")
        for name, item in source.read_entries("phrases").items():
            self.phrases[name] = f"(?:{self._expand_phrases(item)})"
        return Marks(
            locale=locale,
            words=frozenset(fold_accents(word).lower() for word in _read_texts(source, "words")),
            names={
                key: tuple(fold_accents(name).lower() for name in _iter_texts(item, "names"))
                for key, item in source.read_entries("names").items()
            },
            marks=tuple(self._read_marks(source)),
        )

    def _read_marks(self, source: SourceItem) -> Iterator[Mark]:
        source.require_item("marks")
        ids: dict[str, str] = {}
        for child in source.list_items("marks"):
            mark = self._read_mark(child)
            child.report_duplicate(mark.id, "mark", ids)
            yield mark

    def _read_mark(self, item: SourceItem) -> Mark:
        item.as_fields(_MARK, "a mark")
        said = item.require_item("means", f"one of {', '.join(MEANINGS)}")
        means = None if said is None else said.match_word(MEANINGS, "meaning")
        for key in ("pattern", "hit", "miss"):
            if not _read_texts(item, key):
                help_text = "each mark shows what it must hit, and a twin it must not"
                item.report(f"the mark has no `{key}`", help_text)
        return Mark(
            id=item.require_text("id"),
            means=str(means or ""),
            pattern=self._read_pattern(item.get("pattern")),
            unless=self._read_pattern(item.get("unless")),
            opens=item.read_flag("opens"),
            weak=item.read_flag("weak"),
            outside_crisis=item.read_flag("outside_crisis"),
            hit=_read_texts(item, "hit"),
            miss=_read_texts(item, "miss"),
            where=item.where,
        )

    def _read_pattern(self, item: SourceItem | None) -> Any:
        """Return one compiled expression for a pattern or a list of them."""
        if item is None:
            return None
        parts = item.value if isinstance(item.value, list) else [item]
        return _compile_pattern(
            item, "|".join(f"(?:{self._expand_phrases(part)})" for part in parts)
        )

    def _expand_phrases(self, item: SourceItem) -> str:
        """Return the expression in an item, its phrases and blanks written out, checked."""
        if not isinstance(item.value, str):
            item.report("a pattern is a text", "quote it")
            return ""

        def phrase(found: re.Match[str]) -> str:
            if found[1] not in self.phrases:
                hint = did_you_mean(found[1], self.phrases) or "it goes under `phrases`, before use"
                item.report(f"unknown phrase `<{found[1]}>`", hint)
            return self.phrases.get(found[1], "")

        written = fold_accents(item.value.strip())
        return _PHRASE.sub(phrase, written.replace(" ?", r"\s*").replace(" ", r"\s+"))


def _read_texts(parent: SourceItem, key: str) -> tuple[str, ...]:
    item = parent.get(key)
    return () if item is None else tuple(_iter_texts(item, key))


def _iter_texts(item: SourceItem, what: str) -> Iterator[str]:
    """Yield the texts of a list, or the one that stands there without a list."""
    for child in item.value if isinstance(item.value, list) else [item]:
        if child.is_text:
            yield child.value
        else:
            child.report(f"`{what}` holds texts", "quote it")


def _compile_pattern(item: SourceItem, expression: str) -> Any:
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
