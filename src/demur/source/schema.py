"""JSON Schemas of documents that people write.

A document is described once, by its schema. The loader takes the known keys from there and
suggests them for mistyped ones; editors and other languages use the same file.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
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


def load_schema(module_file: str, version: str) -> JsonSchema:
    """Return the schema of a document that lies beside a module, given its `__file__`."""
    path = Path(module_file).with_name(f"{version}.schema.json")
    schema: JsonSchema = json.loads(path.read_text(encoding="utf-8"))
    return schema


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the copy in `spec/` of each schema that is kept as data."""
    for path in sorted(Path(__file__).parents[1].rglob("*.schema.json")):
        yield f"spec/schemas/{path.name}", path.read_text(encoding="utf-8")
