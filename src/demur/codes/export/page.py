"""The reference page of one reason code."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from demur.codes.entry import Entry
from demur.codes.export.markup import (
    markdown_code,
    markdown_fence,
    markdown_link,
    markdown_prose,
    heading_slug,
    markdown_table,
)
from demur.codes.meaning import (
    SEVERITY_MEANING,
    entry_headline,
    describe_next_step,
    describe_deprecation,
    describe_class,
)
from demur.codes.registry import Registry
from demur.codes.xref import entry_references

__all__ = ["PageLinks", "render_page"]


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
    yield "Examples", _example_blocks(entry)
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
    yield "Severity", f"{words('Severity', entry.severity)}: {_severity_meaning(entry)}"
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


def _severity_meaning(entry: Entry) -> str:
    meaning = SEVERITY_MEANING[entry.severity]
    return meaning[0].lower() + meaning[1:].rstrip(".")


def _evidence_table(entry: Entry) -> str:
    if not entry.evidence:
        return ""
    rows = (
        (markdown_code(key), markdown_prose(meaning)) for key, meaning in entry.evidence.items()
    )
    return markdown_table(("Key", "Meaning"), rows)


def _example_blocks(entry: Entry) -> str:
    parts: list[str] = []
    if entry.examples.refuse:
        parts += ("Refused:", markdown_fence(entry.examples.refuse))
    if entry.examples.allow:
        parts += ("Allowed, however alike it looks:", markdown_fence(entry.examples.allow))
    return "\n\n".join(parts)


def _phrase_list(writer: _PageWriter) -> str:
    own = writer.entry.code
    phrases = [phrase for phrase, owner in writer.registry.phrases.items() if owner == own]
    if not phrases:
        return ""
    items = "\n".join(f"- {markdown_code(phrase)}" for phrase in phrases)
    intro = "A text without a code is read as this one if it contains one of these, in any case:"
    return f"{intro}\n\n{items}"


def _reference_list(entry: Entry) -> str:
    return "\n".join(
        f"- {markdown_prose(reference.taxonomy)}: {markdown_code(reference.id)} {markdown_prose(reference.title)}".rstrip()
        for reference in entry_references(entry)
    )
