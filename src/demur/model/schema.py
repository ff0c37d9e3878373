"""JSON Schemas of requests and records, generated from their types."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from demur.model.record import DecisionRecord, Personal
from demur.model.request import RequestShape

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Internal fields of the sealed part that readers do not need.
_HIDDEN = ("salt", "fingerprint", "inputs_digest")


def request_schema() -> dict[str, Any]:
    """Return the schema of `decision_request.v1`."""
    (schema,), definitions = _schema_components(RequestShape)
    return _document("A request to decide", schema, definitions)


def record_schema() -> dict[str, Any]:
    """Return the schema of `decision_record.v1`, as exports write it."""
    (record, personal), definitions = _schema_components(DecisionRecord, Personal)
    record["properties"].pop("sealed")
    sealed = {
        name: {"anyOf": [schema, {"type": "null"}], "description": "null once it was erased"}
        for name, schema in personal["properties"].items()
        if name not in _HIDDEN
    }
    record["properties"].update(sealed)
    return _document("A decision and everything that led to it", record, definitions)


def _schema_components(*types: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    _, definitions = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    return [definitions.pop(kind.__name__) for kind in types], definitions


def _document(title: str, schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    own = {key: value for key, value in schema.items() if key not in {"title", "description"}}
    return {"$schema": _DIALECT, "title": title, **own, "$defs": definitions}


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield the published schemas."""
    for name, build in (("decision_request", request_schema), ("decision_record", record_schema)):
        text = json.dumps(build(), indent=2, ensure_ascii=False)
        yield f"spec/schemas/{name}.v1.schema.json", f"{text}\n"
