"""The JSON Schema of a rule file, for editors and for other languages.

The schema checks the form only. Loading the file checks codes and patterns, and running the
rules checks their rows.
"""

from collections.abc import Iterator

from demur.codes.markup import (
    CODE_PATTERN,
    DOMAIN_CODE_PATTERN,
    SCHEMA_DIALECT,
    JsonSchema,
    as_json,
    enum_schema,
)
from demur.codes.vocabulary import Surface
from demur.guards.text_rules import DEFAULT_WITHIN, SCHEMA_VERSION
from demur.model.finding import Action
from demur.scan.pattern import MAX_MATCH_WIDTH

_PATH = f"spec/schemas/{SCHEMA_VERSION}.schema.json"
_TEXT: JsonSchema = {"type": "string", "pattern": r"\S"}


def _text_list(description: str, min_items: int) -> JsonSchema:
    return {"description": description, "type": "array", "items": _TEXT, "minItems": min_items}


def _closed_object(
    description: str, fields: dict[str, JsonSchema], needed: tuple[str, ...]
) -> JsonSchema:
    return {
        "description": description,
        "type": "object",
        "required": list(needed),
        "properties": fields,
        "additionalProperties": False,
    }


def _rule_schema() -> JsonSchema:
    fields: dict[str, JsonSchema] = {
        "id": {
            "description": "Its name in findings and tests; once in a file.",
            "type": "string",
            "pattern": "^[A-Z][A-Z0-9_]*[A-Z0-9]$",
        },
        "code": {
            "description": "The registered reason code it finds; one that refuses.",
            "type": "string",
            "pattern": f"^(?:{CODE_PATTERN}|{DOMAIN_CODE_PATTERN})$",
        },
        "action": enum_schema(Action, "What it asks for."),
        "description": {
            "description": "What was seen, for people: one line, without any of the text.",
            "maxLength": 120,
            **_TEXT,
        },
        "pattern": {"description": "What must occur.", **_TEXT},
        "all": _text_list("Patterns that must all occur near each other, in any order.", 2),
        "within": {
            "description": f"How near, in characters of folded text; {DEFAULT_WITHIN} if left out.",
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_MATCH_WIDTH,
        },
        "unless": _text_list("Patterns one of which, that near, cancels the hit.", 0),
        "refuse": {**_text_list("Texts that the rule must hit.", 1), "uniqueItems": True},
        "allow": {**_text_list("Harmless twins that it must not hit.", 1), "uniqueItems": True},
    }
    needed = ("id", "code", "action", "description", "refuse", "allow")
    schema = _closed_object("One rule.", fields, needed)
    schema["oneOf"] = [{"required": ["pattern"]}, {"required": ["all"]}]
    schema["dependentSchemas"] = {
        "within": {"anyOf": [{"required": ["all"]}, {"required": ["unless"]}]}
    }
    return schema


def rules_schema() -> JsonSchema:
    """Return the schema of rule files."""
    fields: dict[str, JsonSchema] = {
        "schema_version": {"const": SCHEMA_VERSION},
        "surface": enum_schema(Surface, "Where the text comes from."),
        "description": {"description": "What the rules are for, for people.", **_TEXT},
        "words": {
            "description": "Parts of patterns by name; `{name}` in a pattern stands for them.",
            "type": "object",
            "propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"},
            "additionalProperties": _TEXT,
        },
        "rules": {"description": "The rules.", "type": "array", "items": _rule_schema()},
    }
    return {
        "$schema": SCHEMA_DIALECT,
        "$id": f"urn:demur:schema:{SCHEMA_VERSION}",
        "$comment": "Generated from the parts of a rule; do not edit.",
        "title": "Guard rules",
        **_closed_object(
            "Text rules of one surface.", fields, ("schema_version", "surface", "rules")
        ),
    }


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the schema."""
    yield _PATH, as_json(rules_schema())
