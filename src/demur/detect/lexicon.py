"""What answers say, as data: phrases of each language, sorted by what they do (their act).

The phrases stand in `read_file/<language>.yaml` as RE2 expressions over folded text, with two
shorthands: `{name}` is a word class of the same file, and `~` stands for up to three words and
the space after them. Which acts there are is closed: the model that weighs them knows these.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import re2

from demur.detect.acts import CURT_ACTS, SpeechAct, drop_traps
from demur.detect.fold import fold_sentence
from demur.errors import ManyProblemsError, Problem
from demur.source import SourceItem, SourceError, read_source
from demur.source.suggest import did_you_mean

__all__ = ["Lexicon", "PhraseError", "LanguagePhrases", "builtin_lexicon", "read_phrases"]

SCHEMA_VERSION = "detect_phrases.v1"

_KEYS = ("schema_version", "language", "spaced", "common", "words", "acts")
_WORD = re.compile(r"\{([a-z]+)\}")
_SPACE = re.compile(r" (?![?*+])")
_GAP = r"(?:\S+ +){0,3}"
# Languages that share one automaton. One automaton for all of them would have so many
# states that fresh text keeps adding new ones.
_TOGETHER = (frozenset({"es", "fr", "it", "pt"}), frozenset({"de", "nl", "pl", "yo"}))
_WORDS = re.compile(r"[a-z]+")
_MIN_WORDS = 8
# re2 builds the automaton while matching; with too little memory it starts over.
_MEMORY = 128 << 20


class PhraseError(ManyProblemsError):
    """A phrase file that cannot be used."""


_ACTS = {act.name.lower(): act for act in SpeechAct}


class LanguagePhrases(NamedTuple):
    """The phrases of one language, each an expression with its act."""

    language: str
    common: frozenset[str]
    rows: tuple[tuple[SpeechAct, str], ...]


class Lexicon:
    """Says which acts the sentences of an answer perform. Immutable; safe to share."""

    __slots__ = ("_always", "_curt", "_groups", "_other", "common")

    def __init__(self, languages: Iterable[LanguagePhrases]) -> None:
        known = tuple(languages)
        self.common: Mapping[str, Sequence[str]] = _languages_by_word(known)
        every = [(one.language, row) for one in known for row in one.rows]
        rows = [(language, row) for language, row in every if row[0] not in CURT_ACTS]
        self._curt = _PhraseMatcher([row for _, row in every if row[0] in CURT_ACTS])
        latin = [(language, row) for language, row in rows if row[1].isascii()]
        self._other = _PhraseMatcher([row for _, row in rows if not row[1].isascii()])
        named = frozenset[str]().union(*_TOGETHER)
        self._always = _PhraseMatcher([row for language, row in latin if language not in named])
        self._groups = tuple(
            (
                frozenset(word for word, have in self.common.items() if names.issuperset(have)),
                _PhraseMatcher([row for language, row in latin if language in names]),
            )
            for names in _TOGETHER
        )

    def classify_sentences(self, sentences: Sequence[str]) -> tuple[int, ...]:
        """Return for each folded sentence of an answer its acts as bits, `1 << act` for each.

        English is always matched. Other languages in Latin script are matched if the answer has
        one of their common words or is too short to tell, the rest by the script of a sentence.
        """
        words = set(_WORDS.findall(" ".join(sentences)))
        short = len(words) < _MIN_WORDS
        groups = [
            matcher for marks, matcher in self._groups if short or not marks.isdisjoint(words)
        ]
        return tuple(self._classify_sentence(sentence, groups) for sentence in sentences)

    def classify_curt(self, sentence: str) -> int:
        """Return the curt acts, as bits, that a whole folded sentence performs in any language."""
        found = self._curt.match_acts(sentence)
        return 0 if found and self._always.match_acts(sentence) & 1 << SpeechAct.TRAP else found

    def _classify_sentence(self, sentence: str, groups: Sequence["_PhraseMatcher"]) -> int:
        found = self._always.match_acts(sentence)
        for matcher in groups:
            found |= matcher.match_acts(sentence)
        if not sentence.isascii():
            found |= self._other.match_acts(sentence)
        return drop_traps(found)


def _languages_by_word(languages: Iterable[LanguagePhrases]) -> dict[str, tuple[str, ...]]:
    """Return for each common word the languages that have it."""
    found: dict[str, tuple[str, ...]] = {}
    for one in languages:
        for word in one.common:
            found[word] = (*found.get(word, ()), one.language)
    return found


class _PhraseMatcher:
    __slots__ = ("_bits", "_set")

    def __init__(self, rows: list[tuple[SpeechAct, str]]) -> None:
        options = re2.Options()
        options.never_capture = True
        options.log_errors = False
        options.max_mem = _MEMORY
        self._set = re2.Set.SearchSet(options)
        self._bits = [1 << act for act, _ in rows]
        for _, expression in rows:
            self._set.Add(expression)
        self._set.Compile()

    def match_acts(self, sentence: str) -> int:
        found = 0
        for index in self._set.Match(sentence) or ():
            found |= self._bits[index]
        return found


@cache
def builtin_lexicon() -> Lexicon:
    """Return the phrases that demur ships, ready to match."""
    folder = files("demur.detect") / "phrases"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return Lexicon(
        read_phrases((folder / name).read_text(encoding="utf-8"), name) for name in names
    )


def read_phrases(text: str, name: str = "phrases") -> LanguagePhrases:
    """Return the phrases written in `text`, called `name` in errors.

    Raises:
        PhraseError: They cannot be used; carries every problem.
    """
    try:
        source = read_source(name, text)
    except SourceError as error:
        raise PhraseError.from_problems(error.problems) from error
    reader = _PhraseReader()
    phrases = reader.read_file(source)
    if reader.problems:
        raise PhraseError.from_problems(reader.problems)
    return phrases


class _PhraseReader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._words: dict[str, str] = {}

    def report(self, where: str, problem: str, help_text: str | None = None) -> None:
        self.problems.append(Problem(where, problem, help_text))

    def read_file(self, source: SourceItem) -> LanguagePhrases:
        """Return the phrases; not usable if a problem was reported."""
        fields = self._read_mapping(source, "a phrase file", _KEYS)
        for key in _KEYS:
            if key not in fields:
                self.report(source.where, f"`{key}` is missing")
        version = self._read_value(fields, "schema_version", str, "")
        if version and version != SCHEMA_VERSION:
            where = fields["schema_version"].where
            self.report(where, f"unknown schema version `{version}`", f"this is {SCHEMA_VERSION}")
        spaced = self._read_value(fields, "spaced", bool, False)
        if "words" in fields:
            found = self._read_mapping(fields["words"], "`words`", None)
            self._words = {key: str(item.value) for key, item in found.items()}
        rows = tuple(self._read_rows(fields["acts"], spaced=spaced)) if "acts" in fields else ()
        common = self._read_value(fields, "common", str, "")
        return LanguagePhrases(
            language=self._read_value(fields, "language", str, ""),
            common=frozenset(fold_sentence(common).split()),
            rows=rows,
        )

    def _read_mapping(
        self, item: SourceItem, what: str, known: Iterable[str] | None
    ) -> Mapping[str, SourceItem]:
        if not isinstance(item.value, dict):
            self.report(item.where, f"{what} is a mapping")
            return {}
        for key, where in item.keys.items():
            if known is not None and key not in known:
                hint = did_you_mean(key, known) or f"one of {', '.join(known)}"
                self.report(where, f"unknown key `{key}`", hint)
        found: Mapping[str, SourceItem] = item.value
        return found

    def _read_value(
        self, fields: Mapping[str, SourceItem], key: str, kind: type, default: Any
    ) -> Any:
        if key not in fields:
            return default
        if isinstance(fields[key].value, kind):
            return fields[key].value
        self.report(fields[key].where, f"`{key}` is not a {kind.__name__}")
        return default

    def _read_rows(self, acts: SourceItem, *, spaced: bool) -> Iterator[tuple[SpeechAct, str]]:
        for name, item in self._read_mapping(acts, "`acts`", _ACTS).items():
            if not isinstance(item.value, list):
                self.report(item.where, f"the phrases of `{name}` are a list")
                continue
            for phrase in item.value:
                whole = _ACTS.get(name) in CURT_ACTS
                expression = self._build_expression(phrase, spaced=spaced, whole=whole)
                if expression is not None and name in _ACTS:
                    yield _ACTS[name], expression

    def _build_expression(self, phrase: SourceItem, *, spaced: bool, whole: bool) -> str | None:
        """Return a phrase as RE2 reads it, or None with the problem reported."""
        if not isinstance(phrase.value, str):
            self.report(phrase.where, "a phrase is a text", "quote it")
            return None
        odd = [
            letter
            for letter in phrase.value
            if letter.isalpha() and fold_sentence(letter) != letter
        ]
        if any(not letter.isascii() for letter in odd):
            self.report(
                phrase.where, f"`{odd[0]}` is never seen", f"write `{fold_sentence(odd[0])}`"
            )
            return None
        missing = [name for name in _WORD.findall(phrase.value) if name not in self._words]
        if missing:
            self.report(phrase.where, f"unknown word class `{missing[0]}`")
            return None
        text = _WORD.sub(lambda found: self._words[found[1]], phrase.value)
        text = _SPACE.sub(" +", text).replace("~", _GAP)
        if whole:
            expression = rf"^(?:{text})[^\pL\pN]*$"
        else:
            start = (r"\b" if text.isascii() else r"(?:^|[^\pL])") if spaced else ""
            expression = f"{start}(?:{text})"
        try:
            re2.compile(expression)
        except re2.error as error:
            self.report(phrase.where, f"not an expression: {error.args[0]!s}")
            return None
        return expression
