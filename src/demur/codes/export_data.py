"""The registry as data: complete JSON, CSV, and a SARIF 2.1.0 taxonomy."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from demur.codes.document import SCHEMA_VERSION
from demur.codes.entry import Entry
from demur.codes.export_code import camel_name
from demur.codes.markup import escape_cell
from demur.codes.meaning import Taxonomy, describe_next_step, load_taxonomies
from demur.codes.registry import Registry
from demur.codes.vocabulary import Severity
from demur.source.schema import as_json


def render_json(registry: Registry) -> str:
    """Return all entries and legacy phrases as JSON, for programs that do not run Python."""
    phrases = dict(sorted(registry.phrases.items()))
    codes = [entry.as_json() for entry in registry]
    return as_json({"registry": registry.label, "phrases": phrases, "codes": codes})


CSV_COLUMNS = (
    "code",
    "family",
    "title",
    "description",
    "effect",
    "refusal_class",
    "severity",
    "advice",
    "retry_scope",
    "decided",
    "parent",
    "grants",
    "obligations",
    "surfaces",
    "http",
    "since",
    "stability",
    "deprecated_since",
    "replacement",
)


def render_csv(registry: Registry) -> str:
    """Return the codes as CSV. A list is one cell separated by spaces; null is empty.

    A text that a spreadsheet would run begins with an apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for entry in registry:
        writer.writerow([_csv_cell(getattr(entry, column)) for column in CSV_COLUMNS])
    return text.getvalue()


def _csv_cell(value: object) -> str:
    if isinstance(value, tuple):
        return escape_cell(" ".join(value))
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    return escape_cell(str(value))


_OASIS = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas"
_SARIF_SCHEMA = f"{_OASIS}/sarif-schema-2.1.0.json"
_TAXONOMY_NAME = "demur reason codes"
_SARIF_LEVELS: Mapping[Severity, str] = {
    Severity.INFO: "none",
    Severity.LOW: "note",
    Severity.MEDIUM: "warning",
    Severity.HIGH: "error",
    Severity.CRITICAL: "error",
}
_TAXON_PROPERTIES = (
    "family",
    "refusal_class",
    "severity",
    "advice",
    "retry_scope",
    "decided",
    "stability",
    "since",
    "surfaces",
)


def render_sarif(registry: Registry) -> str:
    """Return a log without results: one run, whose first taxonomy is the registry.

    The public taxonomies follow, so that the references of codes resolve.
    """
    others = list(load_taxonomies().values())
    names = (_TAXONOMY_NAME, *(other.title for other in others))
    supported = [{"name": name, "index": index} for index, name in enumerate(names)]
    run = {
        "tool": {"driver": {"name": "demur", "supportedTaxonomies": supported}},
        "taxonomies": [_registry_taxonomy(registry), *map(_public_taxonomy, others)],
    }
    return as_json({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _registry_taxonomy(registry: Registry) -> dict[str, Any]:
    retired: dict[str, list[str]] = {}
    for entry in registry:
        if entry.replacement is not None:
            retired.setdefault(entry.replacement, []).append(entry.code)
    return {
        "name": _TAXONOMY_NAME,
        "version": registry.label.removeprefix(f"{SCHEMA_VERSION}@"),
        "shortDescription": {"text": "Why an agent, a model or a guard refused."},
        "isComprehensive": True,
        "taxa": [_sarif_taxon(entry, retired.get(entry.code, [])) for entry in registry],
    }


def _sarif_taxon(entry: Entry, retired: list[str]) -> dict[str, Any]:
    relationships = list(_list_relationships(entry))
    properties = {name: getattr(entry, name) for name in _TAXON_PROPERTIES}
    return {
        "id": entry.code,
        **({"deprecatedIds": retired} if retired else {}),
        "name": camel_name(entry.code),
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.description},
        "help": {"text": " ".join(describe_next_step(entry))},
        "defaultConfiguration": {"level": _SARIF_LEVELS[entry.severity]},
        **({"relationships": relationships} if relationships else {}),
        "properties": {name: value for name, value in properties.items() if value is not None},
    }


def _list_relationships(entry: Entry) -> Iterator[dict[str, Any]]:
    if entry.parent is not None:
        yield _sarif_relationship(entry.parent, _TAXONOMY_NAME, 0, "superset")
    for index, (key, other) in enumerate(load_taxonomies().items(), start=1):
        known = (name for name in entry.xref.get(key, ()) if name in other.ids)
        yield from (_sarif_relationship(name, other.title, index, "relevant") for name in known)


def _sarif_relationship(target: str, taxonomy: str, index: int, kind: str) -> dict[str, Any]:
    component = {"name": taxonomy, "index": index}
    return {"target": {"id": target, "toolComponent": component}, "kinds": [kind]}


def _public_taxonomy(other: Taxonomy) -> dict[str, Any]:
    about = f"{other.title}, the entries that reason codes refer to."
    taxa = [{"id": name, "shortDescription": {"text": text}} for name, text in other.ids.items()]
    head = {"name": other.title, "version": other.version, "shortDescription": {"text": about}}
    return {**head, "taxa": taxa}


_REFUSAL = Path(__file__).with_name("refusal.v1.json")


def refusal_schema(registry: Registry) -> str:
    """Return the schema of refusals with the codes of `registry`, or of an organisation's own."""
    schema = json.loads(_REFUSAL.read_text(encoding="utf-8"))
    codes = [entry.code for entry in registry]
    fields = schema["properties"]
    fields["code"]["anyOf"][0]["enum"] = codes
    fields["parent"]["enum"] = [*(code for code in codes if "/" not in code), None]
    return as_json(schema)
