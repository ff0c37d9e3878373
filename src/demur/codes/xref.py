"""The taxonomies that entries refer to: what an id such as `LLM05` is called there."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from demur.codes.entry import Entry

__all__ = ["TaxonomyReference", "Taxonomy", "entry_references", "load_taxonomies"]

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
