"""The JSON Schema of a rule file, for editors and for other languages.

The schema checks the form only. Loading the file checks codes and patterns, and running the
rules checks their rows.
"""

from collections.abc import Iterator

from demur.codes.export.schema import CODE, DIALECT, DOMAIN_CODE, Schema, word
from demur.codes.export.text import as_json
from demur.codes.vocabulary import Surface
from demur.guards.text_rules.rule import WITHIN
from demur.guards.text_rules.rules import SCHEMA_VERSION
from demur.model.finding import Action
from demur.scan.pattern import WIDEST

__all__ = ["generated_files", "rules_schema"]

_PATH = f"spec/schemas/{SCHEMA_VERSION}.schema.json"
_TEXT: Schema = {"type": "string", "pattern": r"\S"}


def _texts(description: str, least: int) -> Schema:
    return {"description": description, "type": "array", "items": _TEXT, "minItems": least}


def _closed(description: str, fields: dict[str, Schema], needed: tuple[str, ...]) -> Schema:
    return {
        "description": description,
        "type": "object",
        "required": list(needed),
        "properties": fields,
        "additionalProperties": False,
    }


def _rule() -> Schema:
    fields: dict[str, Schema] = {
        "id": {
            "description": "Its name in findings and tests; once in a file.",
            "type": "string",
            "pattern": "^[A-Z][A-Z0-9_]*[A-Z0-9]$",
        },
        "code": {
            "description": "The registered reason code it finds; one that refuses.",
            "type": "string",
            "pattern": f"^(?:{CODE}|{DOMAIN_CODE})$",
        },
        "action": word(Action, "What it asks for."),
        "description": {
            "description": "What was seen, for people: one line, without any of the text.",
            "maxLength": 120,
            **_TEXT,
        },
        "pattern": {"description": "What must occur.", **_TEXT},
        "all": _texts("Patterns that must all occur near each other, in any order.", 2),
        "within": {
            "description": f"How near, in characters of folded text; {WITHIN} if left out.",
            "type": "integer",
            "minimum": 1,
            "maximum": WIDEST,
        },
        "unless": _texts("Patterns one of which, that near, cancels the hit.", 0),
        "refuse": {**_texts("Texts that the rule must hit.", 1), "uniqueItems": True},
        "allow": {**_texts("Harmless twins that it must not hit.", 1), "uniqueItems": True},
    }
    needed = ("id", "code", "action", "description", "refuse", "allow")
    schema = _closed("One rule.", fields, needed)
    schema["oneOf"] = [{"required": ["pattern"]}, {"required": ["all"]}]
    schema["dependentSchemas"] = {
        "within": {"anyOf": [{"required": ["all"]}, {"required": ["unless"]}]}
    }
    return schema


def rules_schema() -> Schema:
    """Return the schema of rule files."""
    fields: dict[str, Schema] = {
        "schema_version": {"const": SCHEMA_VERSION},
        "surface": word(Surface, "Where the text comes from."),
        "description": {"description": "What the rules are for, for people.", **_TEXT},
        "words": {
            "description": "Parts of patterns by name; `{name}` in a pattern stands for them.",
            "type": "object",
            "propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"},
            "additionalProperties": _TEXT,
        },
        "rules": {"description": "The rules.", "type": "array", "items": _rule()},
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:demur:schema:{SCHEMA_VERSION}",
        "$comment": "Generated from the parts of a rule; do not edit.",
        "title": "Guard rules",
        **_closed("Text rules of one surface.", fields, ("schema_version", "surface", "rules")),
    }


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the schema."""
    yield _PATH, as_json(rules_schema())
