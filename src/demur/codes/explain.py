"""Explain one reason code as plain text: its meaning, and what to do about it."""

import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from demur.codes.default import default_registry
from demur.codes.entry import Entry
from demur.codes.meaning import (
    SEVERITY_MEANING,
    describe_next_step,
    describe_deprecation,
    describe_class,
)
from demur.codes.registry import Registry
from demur.codes.xref import entry_references
from demur.errors import one_line

__all__ = ["ExplanationSection", "explain", "render_sections", "explanation_sections"]

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
    details = (
        ExplanationSection("Evidence", rows=tuple(entry.evidence.items())),
        ExplanationSection("Examples", rows=tuple(_example_rows(entry))),
        ExplanationSection("Elsewhere", rows=tuple(_reference_rows(entry))),
    )
    return (
        *((ExplanationSection(notice),) if notice else ()),
        ExplanationSection(f"{entry.code}: {entry.title}", entry.description),
        ExplanationSection("What to do", " ".join(describe_next_step(entry))),
        ExplanationSection("Facts", rows=tuple(_fact_rows(entry, registry))),
        *(detail for detail in details if detail.rows),
    )


def _fact_rows(entry: Entry, registry: Registry) -> Iterator[tuple[str, str]]:
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
        "phrases": _phrase_summary(entry.code, registry),
    }
    return ((name, value) for name, value in words.items() if value)


def _phrase_summary(code: str, registry: Registry) -> str:
    phrases = [phrase for phrase, owner in registry.phrases.items() if owner == code]
    shown = ", ".join(f"`{phrase}`" for phrase in phrases[:_MAX_PHRASES])
    more = len(phrases) - _MAX_PHRASES
    return f"{shown} and {more} more" if more > 0 else shown


def _example_rows(entry: Entry) -> Iterator[tuple[str, str]]:
    yield from (("refused", text) for text in entry.examples.refuse[:_MAX_EXAMPLES])
    yield from (("allowed", text) for text in entry.examples.allow[:_MAX_EXAMPLES])


def _reference_rows(entry: Entry) -> Iterator[tuple[str, str]]:
    for reference in entry_references(entry):
        yield reference.id, ": ".join(filter(None, (reference.taxonomy, reference.title)))


def render_sections(
    parts: Iterable[ExplanationSection], wrap: Callable[[str, str], str], head: Callable[[str], str]
) -> str:
    """Return the sections as text; `wrap` fills a text at an indent, `head` styles a heading."""
    return "\n\n".join(_render_section(part, wrap, head) for part in parts)


def _render_section(
    part: ExplanationSection, wrap: Callable[[str, str], str], head: Callable[[str], str]
) -> str:
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
