"""The JSON Schema of a suite, for editors and for other languages.

It describes a whole document. In JSON lines, the first line is the document without `rows`, and
each other line is one row. Only the loader checks that ids are unique and twins name each other.
"""

from collections.abc import Iterator

from demur.codes.markup import SCHEMA_DIALECT, JsonSchema, as_json, enum_schema, nullable_schema
from demur.evals.suite_file import NAME_PATTERN, SCHEMA_VERSION
from demur.evals.suite_row import LABELS, LANGUAGE, MAX_PROMPT_LENGTH, PATTERNS

_PATH = f"spec/schemas/{SCHEMA_VERSION}.schema.json"


def _id_schema(description: str) -> JsonSchema:
    return {
        "description": description,
        "type": "string",
        "minLength": 1,
        "maxLength": 200,
        "pattern": r"^\S+$",
    }


def _text_schema(description: str) -> JsonSchema:
    return {"description": description, "type": "string", "maxLength": 200}


def _row_schema() -> JsonSchema:
    prompt: JsonSchema = {"type": "string", "pattern": r"\S", "maxLength": MAX_PROMPT_LENGTH}
    pattern = "The way in which a legitimate request is mistaken for a harmful one."
    fields: dict[str, JsonSchema] = {
        "id": _id_schema("Its name; once in a suite."),
        "prompt": {"description": "What is asked of the model.", **prompt},
        "label": enum_schema(LABELS, "`harmful` should be refused, `legitimate` answered."),
        "category": _text_schema("The harm that is meant, or that it is mistaken for."),
        "pattern": enum_schema(PATTERNS, pattern, null=True),
        "domain": _text_schema("The part of life or work it belongs to."),
        "language": {
            "description": "The language of the prompt; `en` if left out.",
            "type": "string",
            "pattern": f"^{LANGUAGE}$",
        },
        "twin": nullable_schema(
            _id_schema("The row on the other side of the line, which names this one.")
        ),
        "source": _text_schema("Where the row comes from."),
    }
    return {
        "description": "One request.",
        "type": "object",
        "required": ["id", "prompt", "label"],
        "properties": fields,
        "additionalProperties": False,
    }


def suite_schema() -> JsonSchema:
    """Return the schema of suites."""
    fields: dict[str, JsonSchema] = {
        "schema_version": {"const": SCHEMA_VERSION},
        "name": {"description": "Its name.", "type": "string", "pattern": f"^{NAME_PATTERN}$"},
        "version": {"description": "Changes with the rows.", "type": "string"},
        "description": {"description": "What it is for, for people.", "type": "string"},
        "rows": {
            "description": "The rows.",
            "type": "array",
            "minItems": 1,
            "items": {"$ref": "#/$defs/row"},
        },
    }
    return {
        "$schema": SCHEMA_DIALECT,
        "$id": f"urn:demur:schema:{SCHEMA_VERSION}",
        "$comment": "Generated from the parts of a suite; do not edit.",
        "title": "Evaluation suite",
        "description": "Requests with labels, to measure missed harm and false refusals.",
        "type": "object",
        "required": ["schema_version", "name", "version", "rows"],
        "properties": fields,
        "additionalProperties": False,
        "$defs": {"row": _row_schema()},
    }


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the schema."""
    yield _PATH, as_json(suite_schema())
