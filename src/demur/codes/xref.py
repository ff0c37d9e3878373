"""The taxonomies that entries refer to: what an id such as `LLM05` is called there."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from demur.codes.entry import Entry

__all__ = ["Reference", "Taxonomy", "references", "taxonomies"]

_PATH = Path(__file__).with_name("xref.json")


class Taxonomy(NamedTuple):
    """A public list of risks: its key in `xref`, its name and edition, and its ids."""

    key: str
    title: str
    version: str
    ids: Mapping[str, str]


class Reference(NamedTuple):
    """One cross-reference in words. `title` is empty for an unknown taxonomy."""

    taxonomy: str
    id: str
    title: str


@cache
def taxonomies() -> Mapping[str, Taxonomy]:
    """Return the known taxonomies by key."""
    raw = json.loads(_PATH.read_text(encoding="utf-8"))
    return MappingProxyType({key: Taxonomy(key, **fields) for key, fields in raw.items()})


def references(entry: Entry) -> tuple[Reference, ...]:
    """Return the cross-references of an entry, with the names that the taxonomies give them."""
    return tuple(_reference(key, name) for key, ids in entry.xref.items() for name in ids)


def _reference(key: str, name: str) -> Reference:
    # An organisation may refer to its own taxonomies; those are shown as written.
    known = taxonomies().get(key)
    if known is None:
        return Reference(key, name, "")
    return Reference(f"{known.title} {known.version}", name, known.ids.get(name, ""))
