"""The description of a rule file: the keys that its loader knows, and its JSON Schema.

The schema checks the form only. Loading the file checks codes and patterns, and running the
rules checks their rows.
"""

from collections.abc import Iterator

from demur.codes.entry import CODE_PATTERN, DOMAIN_CODE_PATTERN
from demur.codes.vocabulary import Surface
from demur.model.finding import Action
from demur.scan.pattern import MAX_MATCH_WIDTH
from demur.source.schema import (
    TEXT,
    JsonSchema,
    closed_object,
    document_schema,
    enum_schema,
    list_schema,
    schema_file,
    text_schema,
)

SCHEMA_VERSION = "guard_rules.v1"
DEFAULT_WITHIN = 120
MAX_DESCRIPTION_LENGTH = 120

RULE = closed_object(
    "One rule.",
    {
        "id": text_schema(
            "Its name in findings and tests; once in a file.", "^[A-Z][A-Z0-9_]*[A-Z0-9]$"
        ),
        "code": text_schema(
            "The registered reason code it finds; one that refuses.",
            f"^(?:{CODE_PATTERN}|{DOMAIN_CODE_PATTERN})$",
        ),
        "action": enum_schema(Action, "What it asks for."),
        "description": {
            "description": "What was seen, for people: one line, without any of the text.",
            "maxLength": MAX_DESCRIPTION_LENGTH,
            **TEXT,
        },
        "pattern": text_schema("What must occur."),
        "all": list_schema(
            "Patterns that must all occur near each other, in any order.", TEXT, minItems=2
        ),
        "within": {
            "description": f"How near, in characters of folded text; {DEFAULT_WITHIN} if left out.",
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_MATCH_WIDTH,
        },
        "unless": list_schema(
            "Patterns one of which, that near, cancels the hit.", TEXT, minItems=0
        ),
        "refuse": list_schema("Texts that the rule must hit.", TEXT, minItems=1, uniqueItems=True),
        "allow": list_schema(
            "Harmless twins that it must not hit.", TEXT, minItems=1, uniqueItems=True
        ),
    },
    ("id", "code", "action", "description", "refuse", "allow"),
)
RULE["oneOf"] = [{"required": ["pattern"]}, {"required": ["all"]}]
RULE["dependentSchemas"] = {"within": {"anyOf": [{"required": ["all"]}, {"required": ["unless"]}]}}

RULE_FILE = closed_object(
    "Text rules of one surface.",
    {
        "schema_version": {"const": SCHEMA_VERSION},
        "surface": enum_schema(Surface, "Where the text comes from."),
        "description": text_schema("What the rules are for, for people."),
        "words": {
            "description": "Parts of patterns by name; `{name}` in a pattern stands for them.",
            "type": "object",
            "propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"},
            "additionalProperties": TEXT,
        },
        "rules": list_schema("The rules.", RULE),
    },
    ("schema_version", "surface", "rules"),
)


def rules_schema() -> JsonSchema:
    """Return the schema of rule files."""
    comment = "Generated from the parts of a rule; do not edit."
    return document_schema(SCHEMA_VERSION, "Guard rules", comment, **RULE_FILE)


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the schema."""
    yield from schema_file(SCHEMA_VERSION, rules_schema())
