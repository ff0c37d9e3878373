"""The description of alert rules: the keys that their loader knows, and their JSON Schema.

Only the loader checks whether codes are registered.
"""

from collections.abc import Iterator
from enum import StrEnum
from functools import cache

from demur.codes.entry import CODE_PATTERN, DOMAIN_CODE_PATTERN
from demur.codes.vocabulary import DecisionOutput, RefusalClass, Severity, Verdict
from demur.source.schema import (
    JsonSchema,
    closed_object,
    document_schema,
    enum_schema,
    schema_file,
    text_schema,
)

SCHEMA_VERSION = "alert_rules.v1"
_LINE: JsonSchema = {"type": "string", "pattern": r"\S", "maxLength": 300}
_PERIOD: JsonSchema = {"type": "string", "pattern": "^[0-9]{1,6}[mhd]$"}


class AlertKind(StrEnum):
    """The kind of measurement of a rule."""

    COUNT = "count"
    SHARE = "share"
    RATE_CHANGE = "rate_change"
    NEW_UNKNOWN_CODE = "new_unknown_code"


class SelectorField(StrEnum):
    """The field by which decisions are selected."""

    CODE = "code"
    CLASS = "class"
    VERDICT = "verdict"
    OUTPUT = "output"


class ShareWhole(StrEnum):
    """The whole of a share."""

    DECISIONS = "decisions"
    REFUSALS = "refusals"


def _common_fields(kind: AlertKind) -> dict[str, JsonSchema]:
    return {
        "id": text_schema("Its name in alerts; once in a file.", "^[A-Z][A-Z0-9_]*[A-Z0-9]$"),
        "kind": {"const": str(kind)},
        "window": {"description": "The time that is looked at, up to now.", **_PERIOD},
        "severity": enum_schema(Severity, "How urgent it is."),
        "for": {"description": "How long it must be so before it fires.", **_PERIOD},
        "cooldown": {"description": "How long nobody is told of it again.", **_PERIOD},
        "description": {"description": "What is the case when it fires, in one line.", **_LINE},
        "runbook": {"description": "What to do then: one line, or a link.", **_LINE},
    }


_SELECTORS: dict[str, JsonSchema] = {
    SelectorField.CODE: text_schema(
        "Count decisions that this registered code refused.",
        f"^(?:{CODE_PATTERN}|{DOMAIN_CODE_PATTERN})$",
    ),
    SelectorField.CLASS: enum_schema(RefusalClass, "Count decisions of this class."),
    SelectorField.VERDICT: enum_schema(Verdict, "Count decisions with this verdict."),
    SelectorField.OUTPUT: enum_schema(DecisionOutput, "Count decisions with this output."),
}
assert tuple(_SELECTORS) == tuple(SelectorField)
_BEFORE: JsonSchema = {
    "description": "The time before the window that it is held against.",
    **_PERIOD,
}


def _minimum_schema(description: str) -> JsonSchema:
    return {"description": description, "type": "integer", "minimum": 1}


_KIND_SCHEMAS: dict[AlertKind, dict[str, JsonSchema]] = {
    AlertKind.COUNT: {
        **_SELECTORS,
        "over": {
            "description": "It fires above this number of decisions.",
            "type": "integer",
            "minimum": 0,
            "maximum": 10**9,
        },
    },
    AlertKind.SHARE: {
        **_SELECTORS,
        "over_percent": {
            "description": "It fires above this percentage.",
            "type": "number",
            "minimum": 0,
            "exclusiveMaximum": 100,
        },
        "of": enum_schema(ShareWhole, "What it is a share of; decisions if left out."),
        "minimum": _minimum_schema(
            "The least number of them in the window for a share to mean anything."
        ),
    },
    AlertKind.RATE_CHANGE: {
        **_SELECTORS,
        "factor": {
            "description": "It fires where the share of decisions grew by this factor or more.",
            "type": "number",
            "exclusiveMinimum": 1,
            "maximum": 1000,
        },
        "before": _BEFORE,
        "minimum": _minimum_schema(
            "The least number of chosen decisions in the window, and of all decisions before it."
        ),
    },
    AlertKind.NEW_UNKNOWN_CODE: {"before": _BEFORE},
}
assert tuple(_KIND_SCHEMAS) == tuple(AlertKind)
THRESHOLD_FIELDS = {
    AlertKind.COUNT: "over",
    AlertKind.SHARE: "over_percent",
    AlertKind.RATE_CHANGE: "factor",
}
_KIND_DESCRIPTIONS = {
    AlertKind.COUNT: "More decisions of a kind than a number.",
    AlertKind.SHARE: "A larger share of decisions of a kind than a percentage.",
    AlertKind.RATE_CHANGE: "A share that grew against the time before.",
    AlertKind.NEW_UNKNOWN_CODE: "A code that no registry holds and that was not there before.",
}


@cache
def alert_rule_schema(kind: AlertKind) -> JsonSchema:
    """Return the description of one kind of rule."""
    needed = ["id", "kind", "window", "severity", "description"]
    schema = closed_object(
        _KIND_DESCRIPTIONS[kind], {**_common_fields(kind), **_KIND_SCHEMAS[kind]}, needed
    )
    if kind in THRESHOLD_FIELDS:
        schema["required"] = [*needed, THRESHOLD_FIELDS[kind]]
        schema["oneOf"] = [{"required": [str(field)]} for field in SelectorField]
    return schema


ALERT_FILE = closed_object(
    "What is worth an alert.",
    {
        "schema_version": {"const": SCHEMA_VERSION},
        "description": {"description": "What these rules watch.", "type": "string"},
        "rules": {
            "description": "The rules.",
            "type": "array",
            "minItems": 1,
            "items": {"oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in AlertKind]},
        },
    },
    ["schema_version", "rules"],
)


def alert_rules_schema() -> JsonSchema:
    """Return the schema of files of alert rules."""
    comment = "Generated from the loader's own parts; do not edit."
    kinds = {str(kind): alert_rule_schema(kind) for kind in AlertKind}
    body = {**ALERT_FILE, "$defs": kinds}
    return document_schema(SCHEMA_VERSION, "Alert rules", comment, **body)


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the schema."""
    yield from schema_file(SCHEMA_VERSION, alert_rules_schema())
