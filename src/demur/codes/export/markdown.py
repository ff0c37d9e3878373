"""The registry as documentation: an index of all codes, and a page or section for each."""

from collections.abc import Callable
from operator import attrgetter

from demur.codes.entry import Entry
from demur.codes.export.markup import COMMENT, code, link, prose, slug, table
from demur.codes.export.page import Links, page
from demur.codes.meaning import FAMILY_MEANING
from demur.codes.registry import Registry

__all__ = ["code_page", "index_page", "markdown"]

_INTRO = (
    "A reason code says why something was refused. It never changes its meaning and holds no "
    "numbers or names, so it is the thing to count and to alert on; what differs from case to "
    "case stands in the evidence."
)


def markdown(registry: Registry) -> str:
    """Return one document: the index, then a section for each code."""
    links = Links(_anchor)
    sections = (page(entry, registry, links, level=2) for entry in registry)
    parts = [COMMENT, "# Reason codes", _INTRO, *_families(registry, _anchor, "**{}**"), *sections]
    return "\n\n".join(parts) + "\n"


def _anchor(name: str) -> str:
    return f"#{slug(name)}"


def code_page(entry: Entry, registry: Registry) -> str:
    """Return the page of a core code in `docs/reference/codes/`."""
    links = Links("{}.md".format, vocabulary="../vocabulary.md")
    foot = "[All reason codes](../codes.md)"
    return "\n\n".join((COMMENT, page(entry, registry, links), foot)) + "\n"


def index_page(registry: Registry) -> str:
    """Return the index in `docs/reference/`: the codes by family."""
    hint = (
        "`demur codes explain CODE` says the same in a terminal. "
        "The words for class and severity are explained under [vocabulary](vocabulary.md)."
    )
    tables = _families(registry, "codes/{}.md".format, "## {}")
    return "\n\n".join((COMMENT, "# Reason codes", _INTRO, hint, *tables)) + "\n"


def _families(registry: Registry, address: Callable[[str], str], heading: str) -> list[str]:
    """Return heading, meaning and table of each family, in the order of the registry."""
    parts = []
    for family in dict.fromkeys(entry.family for entry in registry):
        entries = (entry for entry in registry if entry.family == family)
        rows = (_row(entry, address) for entry in sorted(entries, key=attrgetter("code")))
        head = heading.format(prose(family.capitalize()))
        meaning = [FAMILY_MEANING[family]] if family in FAMILY_MEANING else []
        parts += [head, *meaning, table(("Code", "Class", "Severity", "Title"), rows)]
    return parts


def _row(entry: Entry, address: Callable[[str], str]) -> tuple[str, ...]:
    return (
        link(entry.code, address(entry.code)),
        code(entry.refusal_class) if entry.refusal_class else "allows",
        entry.severity,
        prose(entry.title) + (" (deprecated)" if entry.deprecated else ""),
    )
