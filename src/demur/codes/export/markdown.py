"""The registry as documentation: an index of all codes, and a page or section for each."""

from collections.abc import Callable
from operator import attrgetter

from demur.codes.entry import Entry
from demur.codes.export.markup import (
    GENERATED_COMMENT,
    markdown_code,
    markdown_link,
    markdown_prose,
    heading_slug,
    markdown_table,
)
from demur.codes.export.page import PageLinks, render_page
from demur.codes.meaning import FAMILY_MEANING
from demur.codes.registry import Registry

__all__ = ["code_page", "index_page", "render_markdown"]

_INDEX_INTRO = (
    "A reason code says why something was refused. It never changes its meaning and holds no "
    "numbers or names, so it is the thing to count and to alert on; what differs from case to "
    "case stands in the evidence."
)


def render_markdown(registry: Registry) -> str:
    """Return one document: the index, then a section for each code."""
    links = PageLinks(_anchor_link)
    sections = (render_page(entry, registry, links, level=2) for entry in registry)
    parts = [
        GENERATED_COMMENT,
        "# Reason codes",
        _INDEX_INTRO,
        *_family_tables(registry, _anchor_link, "**{}**"),
        *sections,
    ]
    return "\n\n".join(parts) + "\n"


def _anchor_link(name: str) -> str:
    return f"#{heading_slug(name)}"


def code_page(entry: Entry, registry: Registry) -> str:
    """Return the page of a core code in `docs/reference/codes/`."""
    links = PageLinks("{}.md".format, vocabulary="../vocabulary.md")
    foot = "[All reason codes](../codes.md)"
    return "\n\n".join((GENERATED_COMMENT, render_page(entry, registry, links), foot)) + "\n"


def index_page(registry: Registry) -> str:
    """Return the index in `docs/reference/`: the codes by family."""
    hint = (
        "`demur codes explain CODE` says the same in a terminal. "
        "The words for class and severity are explained under [vocabulary](vocabulary.md)."
    )
    tables = _family_tables(registry, "codes/{}.md".format, "## {}")
    return "\n\n".join((GENERATED_COMMENT, "# Reason codes", _INDEX_INTRO, hint, *tables)) + "\n"


def _family_tables(registry: Registry, address: Callable[[str], str], heading: str) -> list[str]:
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
