"""The JSON Schema of a suite, for editors and for other languages.

It describes a whole document. In JSON lines, the first line is the document without `rows`, and
each other line is one row. Only the loader checks that ids are unique and twins name each other.
"""

from collections.abc import Iterator

from demur.codes.export.schema import DIALECT, Schema, nullable, word
from demur.codes.export.text import as_json
from demur.evals.suite_file import NAME, SCHEMA_VERSION
from demur.evals.suite_row import LABELS, LANGUAGE, LONGEST_PROMPT, PATTERNS

__all__ = ["generated_files", "suite_schema"]

_PATH = f"spec/schemas/{SCHEMA_VERSION}.schema.json"


def _id(description: str) -> Schema:
    return {
        "description": description,
        "type": "string",
        "minLength": 1,
        "maxLength": 200,
        "pattern": r"^\S+$",
    }


def _text(description: str) -> Schema:
    return {"description": description, "type": "string", "maxLength": 200}


def _row() -> Schema:
    prompt: Schema = {"type": "string", "pattern": r"\S", "maxLength": LONGEST_PROMPT}
    pattern = "The way in which a legitimate request is mistaken for a harmful one."
    fields: dict[str, Schema] = {
        "id": _id("Its name; once in a suite."),
        "prompt": {"description": "What is asked of the model.", **prompt},
        "label": word(LABELS, "`harmful` should be refused, `legitimate` answered."),
        "category": _text("The harm that is meant, or that it is mistaken for."),
        "pattern": word(PATTERNS, pattern, null=True),
        "domain": _text("The part of life or work it belongs to."),
        "language": {
            "description": "The language of the prompt; `en` if left out.",
            "type": "string",
            "pattern": f"^{LANGUAGE}$",
        },
        "twin": nullable(_id("The row on the other side of the line, which names this one.")),
        "source": _text("Where the row comes from."),
    }
    return {
        "description": "One request.",
        "type": "object",
        "required": ["id", "prompt", "label"],
        "properties": fields,
        "additionalProperties": False,
    }


def suite_schema() -> Schema:
    """Return the schema of suites."""
    fields: dict[str, Schema] = {
        "schema_version": {"const": SCHEMA_VERSION},
        "name": {"description": "Its name.", "type": "string", "pattern": f"^{NAME}$"},
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
        "$schema": DIALECT,
        "$id": f"urn:demur:schema:{SCHEMA_VERSION}",
        "$comment": "Generated from the parts of a suite; do not edit.",
        "title": "Evaluation suite",
        "description": "Requests with labels, to measure missed harm and false refusals.",
        "type": "object",
        "required": ["schema_version", "name", "version", "rows"],
        "properties": fields,
        "additionalProperties": False,
        "$defs": {"row": _row()},
    }


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the schema."""
    yield _PATH, as_json(suite_schema())
