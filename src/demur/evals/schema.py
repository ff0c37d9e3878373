"""The JSON Schema of a suite, for editors and for other languages.

It describes a whole document. In JSON lines, the first line is the document without `rows`, and
each other line is one row. Only the loader checks that ids are unique and twins name each other.
"""

from collections.abc import Iterator

from demur.evals.suite_file import NAME_PATTERN, SCHEMA_VERSION
from demur.evals.suite_row import LABELS, LANGUAGE, MAX_PROMPT_LENGTH, PATTERNS
from demur.source.schema import (
    JsonSchema,
    closed_object,
    document_schema,
    enum_schema,
    nullable_schema,
    schema_file,
    text_schema,
)


def _id_schema(description: str) -> JsonSchema:
    return {
        "description": description,
        "type": "string",
        "minLength": 1,
        "maxLength": 200,
        "pattern": r"^\S+$",
    }


def _short_text(description: str) -> JsonSchema:
    return {"description": description, "type": "string", "maxLength": 200}


def _row_schema() -> JsonSchema:
    prompt: JsonSchema = {"type": "string", "pattern": r"\S", "maxLength": MAX_PROMPT_LENGTH}
    pattern = "The way in which a legitimate request is mistaken for a harmful one."
    fields: dict[str, JsonSchema] = {
        "id": _id_schema("Its name; once in a suite."),
        "prompt": {"description": "What is asked of the model.", **prompt},
        "label": enum_schema(LABELS, "`harmful` should be refused, `legitimate` answered."),
        "category": _short_text("The harm that is meant, or that it is mistaken for."),
        "pattern": enum_schema(PATTERNS, pattern, null=True),
        "domain": _short_text("The part of life or work it belongs to."),
        "language": text_schema("The language of the prompt; `en` if left out.", f"^{LANGUAGE}$"),
        "twin": nullable_schema(
            _id_schema("The row on the other side of the line, which names this one.")
        ),
        "source": _short_text("Where the row comes from."),
    }
    return closed_object("One request.", fields, ["id", "prompt", "label"])


def suite_schema() -> JsonSchema:
    """Return the schema of suites."""
    fields: dict[str, JsonSchema] = {
        "schema_version": {"const": SCHEMA_VERSION},
        "name": text_schema("Its name.", f"^{NAME_PATTERN}$"),
        "version": {"description": "Changes with the rows.", "type": "string"},
        "description": {"description": "What it is for, for people.", "type": "string"},
        "rows": {
            "description": "The rows.",
            "type": "array",
            "minItems": 1,
            "items": {"$ref": "#/$defs/row"},
        },
    }
    words = "Requests with labels, to measure missed harm and false refusals."
    body = closed_object(words, fields, ["schema_version", "name", "version", "rows"])
    body["$defs"] = {"row": _row_schema()}
    comment = "Generated from the parts of a suite; do not edit."
    return document_schema(SCHEMA_VERSION, "Evaluation suite", comment, **body)


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the schema."""
    yield from schema_file(SCHEMA_VERSION, suite_schema())
