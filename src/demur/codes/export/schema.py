"""Pieces that both JSON Schemas are built from."""

from collections.abc import Iterable
from typing import Any, TypeAlias

__all__ = [
    "CODE_PATTERN",
    "SCHEMA_DIALECT",
    "DOMAIN_PATTERN",
    "DOMAIN_CODE_PATTERN",
    "VERSION_PATTERN",
    "JsonSchema",
    "nullable_schema",
    "enum_schema",
]

JsonSchema: TypeAlias = dict[str, Any]

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_LABEL = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_LOCAL = "[A-Z][A-Z0-9_]{0,61}[A-Z0-9]"
_NUMBER = "(?:0|[1-9][0-9]{0,8})"

# Parts of patterns: the schemas combine them and add `^` and `$`.
DOMAIN_PATTERN = rf"(?:x-local|(?=[a-z0-9.-]{{1,253}}(?:[/@]|$)){_LABEL}(?:\.{_LABEL})+)"
VERSION_PATTERN = rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
CODE_PATTERN = _LOCAL
DOMAIN_CODE_PATTERN = f"{DOMAIN_PATTERN}/{_LOCAL}"


def enum_schema(words: Iterable[str], description: str, *, null: bool = False) -> JsonSchema:
    """Return the schema of a word from a closed list, or null where that is allowed."""
    members: list[str | None] = [str(member) for member in words]
    return {"description": description, "enum": members + [None] * null}


def nullable_schema(schema: JsonSchema) -> JsonSchema:
    """Return the schema of a typed value that may also be null."""
    return {**schema, "type": [schema["type"], "null"]}
