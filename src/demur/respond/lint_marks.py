"""Marks: wordings that show a part of a refusal or a fault in it, loaded from one file a language.

The file `any` holds marks that need no language. Patterns are linear-time expressions over
folded text: a blank stands for any white space, `<name>` for an expression under `phrases`, and
case and accents do not count. Each mark carries `hit` and `miss` rows that show what it means;
`failing_rows` runs them. Spans point into the original text, so folding keeps the number of
characters or records where they came from.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import re2

from demur.errors import ManyProblemsError, Problem
from demur.respond.lint_report import LINT_RULES, RefusalPart
from demur.source.item import SourceItem, did_you_mean
from demur.source.reading import read_source, read_text
from demur.text.prose import PreparedText, fold_accents, prepare_text

# An apology or a word of morals is no fault and a help line no part, but the linter counts them.
MEANINGS = (*RefusalPart, *LINT_RULES, "apology", "moral", "resource")


_Place = tuple[int, int]


class Mark(NamedTuple):
    """One mark.

    `opens`: it counts only at the start of a sentence. `weak`: it does not make a text a
    refusal, and shows its part only if no stronger mark does, like a reason that a boundary
    implies. `outside_crisis`: it does not count in a crisis, where the words are right.
    """

    id: str
    means: str
    pattern: Any
    unless: Any
    opens: bool
    weak: bool
    outside_crisis: bool
    hit: tuple[str, ...]
    miss: tuple[str, ...]
    where: str

    def find_places(self, text: PreparedText) -> Iterator[_Place]:
        """Yield the spans of the mark in a text."""
        found = [match.span() for match in self.pattern.finditer(text.folded)]
        if self.opens and found:
            begins = {sentence.start for sentence in text.sentences}
            found = [place for place in found if place[0] in begins]
        if self.unless is not None and found:
            spared = [match.span() for match in self.unless.finditer(text.folded)]
            found = list(_outside_spans(found, spared))
        yield from (place for place in found if place[0] < place[1])


class Marks(NamedTuple):
    """The marks of a language.

    `words` identify the language; `names` are its names of requirements.
    """

    locale: str
    words: frozenset[str]
    names: Mapping[str, tuple[str, ...]]
    marks: tuple[Mark, ...]


def _outside_spans(places: Iterable[_Place], others: Sequence[_Place]) -> Iterator[_Place]:
    """Yield the places that touch none of the others; both are in order, and disjoint."""
    at = 0
    for start, end in places:
        while at < len(others) and others[at][1] <= start:
            at += 1
        if at == len(others) or others[at][0] >= end:
            yield start, end


class FailingRow(NamedTuple):
    """A row that its mark fails."""

    mark: str
    where: str
    row: str
    kind: str


def failing_rows(marks: Marks) -> Iterator[FailingRow]:
    """Yield each `hit` row that is missed and each `miss` row that is hit."""
    for mark in marks.marks:
        for kind, rows in (("hit", mark.hit), ("miss", mark.miss)):
            for row in rows:
                found = any(True for _ in mark.find_places(prepare_text(row)))
                if found != (kind == "hit"):
                    yield FailingRow(mark.id, mark.where, row, kind)


SCHEMA_VERSION = "refusal_marks.v1"

_TOP = ("schema_version", "locale", "description", "words", "names", "phrases", "marks")
_MARK = ("id", "means", "pattern", "unless", "opens", "weak", "outside_crisis", "hit", "miss")
_PHRASE = re.compile(r"<([a-z_]+)>")
_LOCALE = re.compile(r"[a-z]{2,3}\Z")


class MarksError(ManyProblemsError):
    """An invalid file of marks."""


def load_marks(path: Path | str) -> Marks:
    """Return the marks in the file at `path`, checked against their own rows.

    Raises:
        MarksError: demur cannot read or use the file; carries every problem.
    """
    marks = parse_marks(read_text(path, "marks", MarksError), str(path))
    if problems := [
        Problem(row.where, f"the mark `{row.mark}` does not hold to its {row.kind} row `{row.row}`")
        for row in failing_rows(marks)
    ]:
        raise MarksError.from_problems(problems)
    return marks


def parse_marks(text: str, name: str = "marks") -> Marks:
    """Return the marks written in `text`, called `name` in errors.

    Raises:
        MarksError: demur cannot use them; carries every problem.
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
            self.phrases[name] = f"(?:{self._expand(item)})"
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
        meaning = item.require_item("means", f"one of {', '.join(MEANINGS)}")
        means = None if meaning is None else meaning.match_word(MEANINGS, "meaning")
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
        return _compile_pattern(item, "|".join(f"(?:{self._expand(part)})" for part in parts))

    def _expand(self, item: SourceItem) -> str:
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
        meaning = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        item.report(f"not a usable pattern: {meaning}", "see RE2's syntax")
        return None


_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_KANA = re.compile(r"[\u3041-\u30ff]")
_LATIN = re.compile(r"[a-z]", re.IGNORECASE)
_FAR = re.compile(r"[\u0370-\u1fff\u3131-\uabff\uac00-\ud7ff]")
# The guess needs only a sample of a long text.
_MAX_SAMPLE = 4_000
# Languages without marks that look like one with marks, so that they are not confused.
_OTHERS = {
    name: frozenset(fold_accents(words).lower().split())
    for name, words in {
        "it": "il lo gli di che non è per una con sono del della questo posso mi dispiace ma ti",
        "pt": "o os não um uma com para que do da em isso posso você mas por ao são sinto muito se",
        "nl": "de het een ik niet dat van en is kan je maar met voor dit om te over helpen",
        "sv": "jag inte det att och en som för på är kan med men du om tyvärr detta av hjälpa",
        "da": "jeg ikke det at og en som for på er kan med men du om desværre dette af hjælpe",
        "pl": "nie mogę się w to że na jest przepraszam ale z do jak pomóc tym w o i ci tego",
        "tr": "bu bir ve için değil üzgünüm ama ile bu konuda olamam size da de",
        "ro": "nu pot să te ajut cu acest și este în pentru dar din o îmi pare rău",
        "id": "saya tidak bisa dengan yang untuk ini itu dan maaf membantu anda tetapi",
        "vi": "tôi không thể giúp bạn với điều này xin lỗi nhưng và là của có",
        "cs": "nemohu se to že na je omlouvám ale s do jak pomoci tím v o i vám",
        "fi": "en voi auttaa tämän kanssa pahoittelut mutta ja on että se minä",
    }.items()
}


def guess_locale(text: str, extra: Sequence[Marks] = ()) -> str | None:
    """Return the language of `text` if there are marks for it, else None."""
    taste = fold_accents(text[:_MAX_SAMPLE]).lower()
    kana, latin = len(_KANA.findall(taste)), len(_LATIN.findall(taste))
    if kana and kana * 4 >= latin:
        return "ja"
    if len(_FAR.findall(taste)) > latin:
        return None
    known = {name: marks.words for name in builtin_locales() if (marks := builtin_marks(name))}
    known |= {marks.locale: marks.words for marks in extra}
    best = _best_language(
        _WORD.findall(taste), known | {name: _OTHERS[name] for name in _OTHERS.keys() - known}
    )
    return best if best in known else None


def _best_language(words: Sequence[str], languages: Mapping[str, frozenset[str]]) -> str | None:
    """Return the language that claims most of the words; those with marks win a tie."""
    counted = {name: sum(word in own for word in words) for name, own in languages.items()}
    best = max(counted, key=lambda name: counted[name], default=None)
    return best if best is not None and counted[best] else None
