"""Pieces that both JSON Schemas are built from."""

from collections.abc import Iterable
from typing import Any, TypeAlias

__all__ = ["CODE", "DIALECT", "DOMAIN", "DOMAIN_CODE", "VERSION", "Schema", "nullable", "word"]

Schema: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_LABEL = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_LOCAL = "[A-Z][A-Z0-9_]{0,61}[A-Z0-9]"
_NUMBER = "(?:0|[1-9][0-9]{0,8})"

# Parts of patterns: the schemas combine them and add `^` and `$`.
DOMAIN = rf"(?:x-local|(?=[a-z0-9.-]{{1,253}}(?:[/@]|$)){_LABEL}(?:\.{_LABEL})+)"
VERSION = rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
CODE = _LOCAL
DOMAIN_CODE = f"{DOMAIN}/{_LOCAL}"


def word(words: Iterable[str], description: str, *, null: bool = False) -> Schema:
    """Return the schema of a word from a closed list, or null where that is allowed."""
    members: list[str | None] = [str(member) for member in words]
    return {"description": description, "enum": members + [None] * null}


def nullable(schema: Schema) -> Schema:
    """Return the schema of a typed value that may also be null."""
    return {**schema, "type": [schema["type"], "null"]}
