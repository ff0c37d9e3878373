"""Explain one reason code as plain text: its meaning, and what to do about it."""

import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from demur.codes.default import default_registry
from demur.codes.entry import Entry
from demur.codes.meaning import SEVERITY_MEANING, next_step, retirement, standing
from demur.codes.registry import Registry
from demur.codes.xref import references
from demur.errors import one_line

__all__ = ["Section", "explain", "render", "sections"]

_WIDTH = 80
_INDENT = "  "
_MOST_EXAMPLES = 2
_MOST_PHRASES = 2


class Section(NamedTuple):
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
    return render(sections(known[code], known), _fill, str)


def sections(entry: Entry, registry: Registry) -> tuple[Section, ...]:
    """Return the sections of an explanation that are not empty.

    For a deprecated code, the first section names the replacement.
    """
    notice = retirement(entry)
    details = (
        Section("Evidence", rows=tuple(entry.evidence.items())),
        Section("Examples", rows=tuple(_examples(entry))),
        Section("Elsewhere", rows=tuple(_elsewhere(entry))),
    )
    return (
        *((Section(notice),) if notice else ()),
        Section(f"{entry.code}: {entry.title}", entry.description),
        Section("What to do", " ".join(next_step(entry))),
        Section("Facts", rows=tuple(_facts(entry, registry))),
        *(detail for detail in details if detail.rows),
    )


def _facts(entry: Entry, registry: Registry) -> Iterator[tuple[str, str]]:
    words = {
        "class": f"{entry.refusal_class}. {standing(entry)}" if entry.refusal_class else "",
        "effect": "" if entry.refusal_class else f"{entry.effect}. {standing(entry)}",
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
        "phrases": _phrases(entry.code, registry),
    }
    return ((name, value) for name, value in words.items() if value)


def _phrases(code: str, registry: Registry) -> str:
    phrases = [phrase for phrase, owner in registry.phrases.items() if owner == code]
    shown = ", ".join(f"`{phrase}`" for phrase in phrases[:_MOST_PHRASES])
    more = len(phrases) - _MOST_PHRASES
    return f"{shown} and {more} more" if more > 0 else shown


def _examples(entry: Entry) -> Iterator[tuple[str, str]]:
    yield from (("refused", text) for text in entry.examples.refuse[:_MOST_EXAMPLES])
    yield from (("allowed", text) for text in entry.examples.allow[:_MOST_EXAMPLES])


def _elsewhere(entry: Entry) -> Iterator[tuple[str, str]]:
    for reference in references(entry):
        yield reference.id, ": ".join(filter(None, (reference.taxonomy, reference.title)))


def render(
    parts: Iterable[Section], wrap: Callable[[str, str], str], head: Callable[[str], str]
) -> str:
    """Return the sections as text; `wrap` fills a text at an indent, `head` styles a heading."""
    return "\n\n".join(_section(part, wrap, head) for part in parts)


def _section(part: Section, wrap: Callable[[str, str], str], head: Callable[[str], str]) -> str:
    lines = [head(one_line(part.heading))]
    if part.prose:
        lines.append(wrap(one_line(" ".join(part.prose.split())), _INDENT))
    rows = [(one_line(name), one_line(value)) for name, value in part.rows]
    column = max((len(name) for name, _ in rows), default=0) + 2
    for name, value in rows:
        filled = wrap(value, " " * (len(_INDENT) + column))
        lines.append(f"{_INDENT}{name.ljust(column)}{filled.lstrip()}")
    return "\n".join(lines)


def _fill(text: str, indent: str) -> str:
    return textwrap.fill(
        text,
        width=_WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
