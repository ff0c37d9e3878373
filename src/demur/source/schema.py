"""Describe documents that people write: parts of a JSON Schema, and the keys a loader knows.

A closed object is described once. Its loader takes the known keys from `properties` and
suggests them for mistyped ones; the JSON Schema for editors is the description itself.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

JsonSchema: TypeAlias = dict[str, Any]

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEXT: JsonSchema = {"type": "string", "pattern": r"\S"}


def as_json(value: object) -> str:
    """Return `value` as JSON for people to read, with a final newline."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def text_schema(description: str, pattern: str = r"\S", **more: object) -> JsonSchema:
    """Return the schema of a text that matches a pattern; by default, one that is not blank."""
    return {"description": description, "type": "string", "pattern": pattern, **more}


def enum_schema(words: Iterable[str], description: str, *, null: bool = False) -> JsonSchema:
    """Return the schema of a word from a closed list, or null where that is allowed."""
    members: list[str | None] = [str(member) for member in words]
    return {"description": description, "enum": members + [None] * null}


def nullable_schema(schema: JsonSchema) -> JsonSchema:
    """Return the schema of a typed value that may also be null."""
    return {**schema, "type": [schema["type"], "null"]}


def list_schema(description: str, items: JsonSchema, **more: object) -> JsonSchema:
    """Return the schema of a list."""
    return {"description": description, "type": "array", "items": items, **more}


def closed_object(
    description: str, fields: Mapping[str, JsonSchema], required: Iterable[str] | None = None
) -> JsonSchema:
    """Return the schema of a mapping with these keys and no others."""
    needed: JsonSchema = {} if required is None else {"required": list(required)}
    properties = {str(name): schema for name, schema in fields.items()}
    closed = {"type": "object", **needed, "properties": properties, "additionalProperties": False}
    return {"description": description, **closed}


def document_schema(version: str, title: str, comment: str, **body: Any) -> JsonSchema:
    """Return the schema of a whole document under its id, such as `policy.v1`."""
    head = {"$schema": SCHEMA_DIALECT, "$id": f"urn:demur:schema:{version}"}
    return {**head, "$comment": comment, "title": title, **body}


def schema_file(version: str, schema: JsonSchema) -> Iterator[tuple[str, str]]:
    """Yield path and content of the generated schema of a document."""
    yield f"spec/schemas/{version}.schema.json", as_json(schema)
