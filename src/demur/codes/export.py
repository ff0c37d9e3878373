"""Export the registry: the table of formats, and the pages of reason codes.

A format is a function from a registry to a text.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

from demur.codes.entry import Entry
from demur.codes.export_code import render_go, render_typescript
from demur.codes.export_data import refusal_schema, render_csv, render_json, render_sarif
from demur.codes.markup import (
    GENERATED_COMMENT,
    heading_slug,
    markdown_code,
    markdown_fence,
    markdown_link,
    markdown_prose,
    markdown_table,
)
from demur.codes.meaning import (
    FAMILY_MEANING,
    SEVERITY_MEANING,
    describe_class,
    describe_deprecation,
    describe_next_step,
    entry_headline,
    entry_references,
)
from demur.codes.registry import Registry


class PageLinks(NamedTuple):
    """Link targets of a page: the address of a code, and the vocabulary page if any."""

    code: Callable[[str], str]
    vocabulary: str | None = None


class _PageWriter(NamedTuple):
    """One page that is being written."""

    entry: Entry
    registry: Registry
    links: PageLinks

    def code_address(self, name: str) -> str | None:
        """Return the address of another code's page, or None if `name` is not another code."""
        known = name in self.registry and name != self.entry.code
        return self.links.code(name) if known else None

    def link_code(self, name: str) -> str:
        return markdown_link(name, self.links.code(name))

    def link_words(self, title: str, *members: str) -> str:
        """Return words of the vocabulary `title`, linked to their explanations."""
        if self.links.vocabulary is None:
            return ", ".join(map(markdown_code, members))
        target = f"{self.links.vocabulary}#{heading_slug(title)}"
        return ", ".join(markdown_link(member, target) for member in members)


def render_page(entry: Entry, registry: Registry, links: PageLinks, level: int = 1) -> str:
    """Return the page of `entry`, its title a heading of `level`."""
    writer = _PageWriter(entry, registry, links)
    mark = "#" * level
    parts = [f"{mark} {entry.code}"]
    if notice := describe_deprecation(entry):
        parts.append(f"**{markdown_prose(notice, writer.code_address)}**")
    parts.append(f"**{markdown_prose(entry_headline(entry))}** {describe_class(entry)}")
    parts.append(markdown_table(("Fact", "Value"), [row for row in _fact_rows(writer) if row[1]]))
    for heading, body in _page_sections(writer):
        if body:
            parts += (f"{mark}# {heading}", body)
    return "\n\n".join(parts)


def _page_sections(writer: _PageWriter) -> Iterator[tuple[str, str]]:
    entry = writer.entry
    yield "When it appears", markdown_prose(entry.description, writer.code_address)
    yield "What to do", " ".join(describe_next_step(entry))
    yield "Evidence", _evidence_table(entry)
    parts: list[str] = []
    if entry.examples.refuse:
        parts += ("Refused:", markdown_fence(entry.examples.refuse))
    if entry.examples.allow:
        parts += ("Allowed, however alike it looks:", markdown_fence(entry.examples.allow))
    yield "Examples", "\n\n".join(parts)
    yield "Legacy phrases", _phrase_list(writer)
    yield "In other taxonomies", _reference_list(entry)


def _fact_rows(writer: _PageWriter) -> Iterator[tuple[str, str]]:
    entry, words = writer.entry, writer.link_words
    children = writer.registry.children(entry.code)
    if entry.refusal_class and entry.advice and entry.retry_scope:
        yield "Class", words("Refusal class", entry.refusal_class)
        yield "Advice", words("Advice", entry.advice)
        yield "Retry scope", words("Retry scope", entry.retry_scope)
    else:
        yield "Effect", words("Effect", entry.effect)
    meaning = SEVERITY_MEANING[entry.severity]
    meaning = meaning[0].lower() + meaning[1:].rstrip(".")
    yield "Severity", f"{words('Severity', entry.severity)}: {meaning}"
    yield "Decided", "yes" if entry.decided else "no, the check could not be made"
    yield "Lifted by grants", words("Grant kind", *entry.grants)
    yield "Obligations", words("Obligation", *entry.obligations)
    yield "Surfaces", words("Surface", *entry.surfaces)
    yield "HTTP status", str(entry.http)
    yield "Family", markdown_code(entry.family)
    yield "Parent", writer.link_code(entry.parent) if entry.parent else ""
    yield "Children", ", ".join(writer.link_code(child.code) for child in children)
    yield "Since", f"{entry.since} ({words('Stability', entry.stability)})"
    yield "Deprecated since", entry.deprecated_since or ""
    yield "Replacement", writer.link_code(entry.replacement) if entry.replacement else ""


def _evidence_table(entry: Entry) -> str:
    if not entry.evidence:
        return ""
    rows = ((markdown_code(key), markdown_prose(text)) for key, text in entry.evidence.items())
    return markdown_table(("Key", "Meaning"), rows)


def _phrase_list(writer: _PageWriter) -> str:
    own = writer.entry.code
    phrases = [phrase for phrase, owner in writer.registry.phrases.items() if owner == own]
    if not phrases:
        return ""
    items = "\n".join(f"- {markdown_code(phrase)}" for phrase in phrases)
    intro = "A text without a code counts as this one if it contains one of these, in any case:"
    return f"{intro}\n\n{items}"


def _reference_list(entry: Entry) -> str:
    rows = (
        (markdown_prose(each.taxonomy), markdown_code(each.id), markdown_prose(each.title))
        for each in entry_references(entry)
    )
    return "\n".join(f"- {taxonomy}: {name} {title}".rstrip() for taxonomy, name, title in rows)


INDEX_INTRO = (
    "A reason code says why something was refused. It never changes its meaning and holds no "
    "numbers or names, so it is the thing to count and to alert on; what differs from case to "
    "case stands in the evidence."
)


def render_markdown(registry: Registry) -> str:
    """Return one document: the index, then a section for each code."""
    links = PageLinks(_anchor_link)
    sections = (render_page(entry, registry, links, level=2) for entry in registry)
    tables = family_tables(registry, _anchor_link, "**{}**")
    head = (GENERATED_COMMENT, "# Reason codes", INDEX_INTRO)
    return "\n\n".join([*head, *tables, *sections]) + "\n"


def _anchor_link(name: str) -> str:
    return f"#{heading_slug(name)}"


def family_tables(registry: Registry, address: Callable[[str], str], heading: str) -> list[str]:
    """Return heading, meaning and table of each family, in the order of the registry."""
    parts = []
    for family in dict.fromkeys(entry.family for entry in registry):
        entries = (entry for entry in registry if entry.family == family)
        rows = (_index_row(entry, address) for entry in sorted(entries, key=attrgetter("code")))
        head = heading.format(markdown_prose(family.capitalize()))
        meaning = [FAMILY_MEANING[family]] if family in FAMILY_MEANING else []
        parts += [head, *meaning, markdown_table(("Code", "Class", "Severity", "Title"), rows)]
    return parts


def _index_row(entry: Entry, address: Callable[[str], str]) -> tuple[str, ...]:
    return (
        markdown_link(entry.code, address(entry.code)),
        markdown_code(entry.refusal_class) if entry.refusal_class else "allows",
        entry.severity,
        markdown_prose(entry.title) + (" (deprecated)" if entry.deprecated else ""),
    )


EXPORT_FORMATS: Mapping[str, Callable[[Registry], str]] = MappingProxyType(
    {
        "csv": render_csv,
        "go": render_go,
        "json": render_json,
        "jsonschema": refusal_schema,
        "markdown": render_markdown,
        "sarif": render_sarif,
        "typescript": render_typescript,
    }
)
