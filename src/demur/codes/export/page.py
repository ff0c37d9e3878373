"""The reference page of one reason code."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from demur.codes.entry import Entry
from demur.codes.export.markup import code, fence, link, prose, slug, table
from demur.codes.meaning import SEVERITY_MEANING, headline, next_step, retirement, standing
from demur.codes.registry import Registry
from demur.codes.xref import references

__all__ = ["Links", "page"]


class Links(NamedTuple):
    """Link targets of a page: the address of a code, and the vocabulary page if any."""

    code: Callable[[str], str]
    vocabulary: str | None = None


class _Writer(NamedTuple):
    """One page that is being written."""

    entry: Entry
    registry: Registry
    links: Links

    def address(self, name: str) -> str | None:
        """Return the address of another code's page, or None if `name` is not another code."""
        known = name in self.registry and name != self.entry.code
        return self.links.code(name) if known else None

    def other(self, name: str) -> str:
        return link(name, self.links.code(name))

    def words(self, title: str, *members: str) -> str:
        """Return words of the vocabulary `title`, linked to their explanations."""
        if self.links.vocabulary is None:
            return ", ".join(map(code, members))
        target = f"{self.links.vocabulary}#{slug(title)}"
        return ", ".join(link(member, target) for member in members)


def page(entry: Entry, registry: Registry, links: Links, level: int = 1) -> str:
    """Return the page of `entry`, its title a heading of `level`."""
    writer = _Writer(entry, registry, links)
    mark = "#" * level
    parts = [f"{mark} {entry.code}"]
    if notice := retirement(entry):
        parts.append(f"**{prose(notice, writer.address)}**")
    parts.append(f"**{prose(headline(entry))}** {standing(entry)}")
    parts.append(table(("Fact", "Value"), [row for row in _facts(writer) if row[1]]))
    for heading, body in _sections(writer):
        if body:
            parts += (f"{mark}# {heading}", body)
    return "\n\n".join(parts)


def _sections(writer: _Writer) -> Iterator[tuple[str, str]]:
    entry = writer.entry
    yield "When it appears", prose(entry.description, writer.address)
    yield "What to do", " ".join(next_step(entry))
    yield "Evidence", _evidence(entry)
    yield "Examples", _examples(entry)
    yield "Legacy phrases", _phrases(writer)
    yield "In other taxonomies", _elsewhere(entry)


def _facts(writer: _Writer) -> Iterator[tuple[str, str]]:
    entry, words = writer.entry, writer.words
    children = writer.registry.children(entry.code)
    if entry.refusal_class and entry.advice and entry.retry_scope:
        yield "Class", words("Refusal class", entry.refusal_class)
        yield "Advice", words("Advice", entry.advice)
        yield "Retry scope", words("Retry scope", entry.retry_scope)
    else:
        yield "Effect", words("Effect", entry.effect)
    yield "Severity", f"{words('Severity', entry.severity)}: {_severity(entry)}"
    yield "Decided", "yes" if entry.decided else "no, the check could not be made"
    yield "Lifted by grants", words("Grant kind", *entry.grants)
    yield "Obligations", words("Obligation", *entry.obligations)
    yield "Surfaces", words("Surface", *entry.surfaces)
    yield "HTTP status", str(entry.http)
    yield "Family", code(entry.family)
    yield "Parent", writer.other(entry.parent) if entry.parent else ""
    yield "Children", ", ".join(writer.other(child.code) for child in children)
    yield "Since", f"{entry.since} ({words('Stability', entry.stability)})"
    yield "Deprecated since", entry.deprecated_since or ""
    yield "Replacement", writer.other(entry.replacement) if entry.replacement else ""


def _severity(entry: Entry) -> str:
    meaning = SEVERITY_MEANING[entry.severity]
    return meaning[0].lower() + meaning[1:].rstrip(".")


def _evidence(entry: Entry) -> str:
    if not entry.evidence:
        return ""
    rows = ((code(key), prose(meaning)) for key, meaning in entry.evidence.items())
    return table(("Key", "Meaning"), rows)


def _examples(entry: Entry) -> str:
    parts: list[str] = []
    if entry.examples.refuse:
        parts += ("Refused:", fence(entry.examples.refuse))
    if entry.examples.allow:
        parts += ("Allowed, however alike it looks:", fence(entry.examples.allow))
    return "\n\n".join(parts)


def _phrases(writer: _Writer) -> str:
    own = writer.entry.code
    phrases = [phrase for phrase, owner in writer.registry.phrases.items() if owner == own]
    if not phrases:
        return ""
    items = "\n".join(f"- {code(phrase)}" for phrase in phrases)
    intro = "A text without a code is read as this one if it contains one of these, in any case:"
    return f"{intro}\n\n{items}"


def _elsewhere(entry: Entry) -> str:
    return "\n".join(
        f"- {prose(reference.taxonomy)}: {code(reference.id)} {prose(reference.title)}".rstrip()
        for reference in references(entry)
    )
