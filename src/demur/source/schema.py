"""JSON Schemas of documents that people write.

A document is described once, by its schema. The loader takes the known keys from there and
suggests them for mistyped ones; editors and other languages use the same file.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

JsonSchema: TypeAlias = dict[str, Any]


def as_json(value: object) -> str:
    """Return `value` as JSON for people to read, with a final newline."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def load_schema(module_file: str, version: str) -> JsonSchema:
    """Return the schema of a document that lies beside a module, given its `__file__`."""
    path = Path(module_file).with_name(f"{version}.schema.json")
    schema: JsonSchema = json.loads(path.read_text(encoding="utf-8"))
    return schema


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the copy in `spec/` of each schema that is kept as data."""
    for path in sorted(Path(__file__).parents[1].rglob("*.schema.json")):
        yield f"spec/schemas/{path.name}", path.read_text(encoding="utf-8")
