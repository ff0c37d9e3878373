"""Explain reason codes: what each word and each code means, and what to do about it.

The reference pages, `demur codes explain` and the vocabulary page all use the sentences in
`meanings.json`. `xref.json` names the entries of public taxonomies that codes refer to.
"""

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from demur.codes.entry import Entry
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import (
    Advice,
    DecisionOutput,
    Effect,
    GrantKind,
    Obligation,
    RefusalClass,
    RetryScope,
    Severity,
    Stability,
    Surface,
    Verdict,
)
from demur.errors import one_line

_Word = TypeVar("_Word", bound=StrEnum)

_MEANINGS = json.loads(Path(__file__).with_name("meanings.json").read_text(encoding="utf-8"))


class Vocabulary(NamedTuple):
    """A closed vocabulary: its name, the question it answers, and what each word means."""

    title: str
    words: type[StrEnum]
    question: str
    meaning: Mapping[Any, str]


def _load_meanings(words: type[_Word]) -> Mapping[_Word, str]:
    return {words(word): text for word, text in _MEANINGS[words.__name__]["words"].items()}


CLASS_MEANING = _load_meanings(RefusalClass)
ADVICE_MEANING = _load_meanings(Advice)
RETRY_SCOPE_MEANING = _load_meanings(RetryScope)
SEVERITY_MEANING = _load_meanings(Severity)
EFFECT_MEANING = _load_meanings(Effect)
OBLIGATION_MEANING = _load_meanings(Obligation)
# Families are open: an organisation's code has the family of its parent, or its own.
FAMILY_MEANING: Mapping[str, str] = _MEANINGS["families"]

_CLOSED: tuple[type[StrEnum], ...] = (
    RefusalClass,
    Advice,
    RetryScope,
    Severity,
    Effect,
    Surface,
    GrantKind,
    Obligation,
    Stability,
    Verdict,
    DecisionOutput,
)
VOCABULARIES = tuple(
    Vocabulary(row["title"], words, row["question"], _load_meanings(words))
    for words in _CLOSED
    for row in (_MEANINGS[words.__name__],)
)

_UNDECIDED = "Nothing was judged, so nothing may run."
_NO_GRANT = "No grant lifts it; only an attempt that can be judged does."
_ALLOWED = "There is nothing to do: the code is kept on record as the reason why the action ran."


def entry_headline(entry: Entry) -> str:
    """Return the entry as one sentence, such as `Refused: remote code execution.`."""
    title = entry.title if entry.title[:2].isupper() else _lower_first(entry.title)
    return f"{'Refused' if entry.effect is Effect.REFUSE else 'Allowed'}: {title}."


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def describe_class(entry: Entry) -> str:
    """Return whether the refusal can be lifted, in one sentence."""
    if not entry.decided:
        return _UNDECIDED
    kind = entry.refusal_class
    return CLASS_MEANING[kind] if kind else EFFECT_MEANING[entry.effect]


def describe_next_step(entry: Entry) -> tuple[str, ...]:
    """Return what to do about a refusal with this code, sentence by sentence."""
    if entry.advice is None or entry.retry_scope is None:
        return (_ALLOWED,)
    sentences = [ADVICE_MEANING[entry.advice]]
    if not entry.decided:
        sentences.append(_NO_GRANT)
    elif entry.grants:
        kinds = " or ".join(f"`{kind}`" for kind in entry.grants)
        sentences.append(f"A grant of kind {kinds} lifts the block.")
    sentences.append(RETRY_SCOPE_MEANING[entry.retry_scope])
    obligations = (_lower_first(OBLIGATION_MEANING[one]) for one in entry.obligations)
    return (*sentences, *(f"Lifted or not, {words}" for words in obligations))


def describe_replacement(entry: Entry) -> str | None:
    """Return what to use instead of a deprecated code, or None if the entry is not one."""
    if not entry.deprecated:
        return None
    return f"Use {entry.replacement} instead." if entry.replacement else "No code replaces it."


def describe_deprecation(entry: Entry) -> str | None:
    """Return since when a code is deprecated and what to use instead, or None if it is not."""
    advice = describe_replacement(entry)
    return f"Deprecated since {entry.deprecated_since}. {advice}" if advice else None


_XREF_PATH = Path(__file__).with_name("xref.json")


class Taxonomy(NamedTuple):
    """A public list of risks: its key in `xref`, its name and edition, and its ids."""

    key: str
    title: str
    version: str
    ids: Mapping[str, str]


class TaxonomyReference(NamedTuple):
    """One cross-reference in words. `title` is empty for an unknown taxonomy."""

    taxonomy: str
    id: str
    title: str


@cache
def load_taxonomies() -> Mapping[str, Taxonomy]:
    """Return the known taxonomies by key."""
    raw = json.loads(_XREF_PATH.read_text(encoding="utf-8"))
    return MappingProxyType({key: Taxonomy(key, **fields) for key, fields in raw.items()})


def entry_references(entry: Entry) -> tuple[TaxonomyReference, ...]:
    """Return the cross-references of an entry, with the names that the taxonomies give them."""
    return tuple(_name_reference(key, name) for key, ids in entry.xref.items() for name in ids)


def _name_reference(key: str, name: str) -> TaxonomyReference:
    # An organisation may refer to its own taxonomies; those are shown as written.
    known = load_taxonomies().get(key)
    if known is None:
        return TaxonomyReference(key, name, "")
    return TaxonomyReference(f"{known.title} {known.version}", name, known.ids.get(name, ""))


_WIDTH = 80
_INDENT = "  "
_MAX_EXAMPLES = 2
_MAX_PHRASES = 2


class ExplanationSection(NamedTuple):
    """A heading, a paragraph, and rows of names and values."""

    heading: str
    prose: str = ""
    rows: tuple[tuple[str, str], ...] = ()


def explain(code: str, *, registry: Registry | None = None) -> str:
    """Return what `code` means and what to do about it, wrapped to 80 columns.

    Raises:
        UnknownCodeError: No loaded registry holds the code.
    """
    known = default_registry() if registry is None else registry
    return render_sections(explanation_sections(known[code], known), _wrap_text, str)


def explanation_sections(entry: Entry, registry: Registry) -> tuple[ExplanationSection, ...]:
    """Return the sections of an explanation that are not empty.

    For a deprecated code, the first section names the replacement.
    """
    notice = describe_deprecation(entry)
    examples = (
        *(("refused", text) for text in entry.examples.refuse[:_MAX_EXAMPLES]),
        *(("allowed", text) for text in entry.examples.allow[:_MAX_EXAMPLES]),
    )
    named = entry_references(entry)
    elsewhere = tuple((one.id, ": ".join(filter(None, (one.taxonomy, one.title)))) for one in named)
    details = (
        ExplanationSection("Evidence", rows=tuple(entry.evidence.items())),
        ExplanationSection("Examples", rows=examples),
        ExplanationSection("Elsewhere", rows=elsewhere),
    )
    return (
        *((ExplanationSection(notice),) if notice else ()),
        ExplanationSection(f"{entry.code}: {entry.title}", entry.description),
        ExplanationSection("What to do", " ".join(describe_next_step(entry))),
        ExplanationSection("Facts", rows=tuple(_fact_rows(entry, registry))),
        *(detail for detail in details if detail.rows),
    )


def _fact_rows(entry: Entry, registry: Registry) -> Iterator[tuple[str, str]]:
    phrases = [phrase for phrase, owner in registry.phrases.items() if owner == entry.code]
    shown = ", ".join(f"`{phrase}`" for phrase in phrases[:_MAX_PHRASES])
    more = len(phrases) - _MAX_PHRASES
    words = {
        "class": f"{entry.refusal_class}. {describe_class(entry)}" if entry.refusal_class else "",
        "effect": "" if entry.refusal_class else f"{entry.effect}. {describe_class(entry)}",
        "severity": f"{entry.severity}. {SEVERITY_MEANING[entry.severity]}",
        "advice": f"{entry.advice} (scope: {entry.retry_scope})" if entry.advice else "",
        "decided": "" if entry.decided else "no",
        "grants": ", ".join(entry.grants),
        "always": ", ".join(entry.obligations),
        "seen at": ", ".join(entry.surfaces),
        "parent": entry.parent or "",
        "children": ", ".join(child.code for child in registry.children(entry.code)),
        "HTTP": str(entry.http),
        "since": f"{entry.since} ({entry.stability})",
        "phrases": (f"{shown} and {more} more" if more > 0 else shown),
    }
    return ((name, value) for name, value in words.items() if value)


_Wrap = Callable[[str, str], str]
_Style = Callable[[str], str]


def render_sections(parts: Iterable[ExplanationSection], wrap: _Wrap, head: _Style) -> str:
    """Return the sections as text; `wrap` fills a text at an indent, `head` styles a heading."""
    return "\n\n".join(_render_section(part, wrap, head) for part in parts)


def _render_section(part: ExplanationSection, wrap: _Wrap, head: _Style) -> str:
    lines = [head(one_line(part.heading))]
    if part.prose:
        lines.append(wrap(one_line(" ".join(part.prose.split())), _INDENT))
    rows = [(one_line(name), one_line(value)) for name, value in part.rows]
    column = max((len(name) for name, _ in rows), default=0) + 2
    for name, value in rows:
        filled = wrap(value, " " * (len(_INDENT) + column))
        lines.append(f"{_INDENT}{name.ljust(column)}{filled.lstrip()}")
    return "\n".join(lines)


def _wrap_text(text: str, indent: str) -> str:
    return textwrap.fill(
        text,
        width=_WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
