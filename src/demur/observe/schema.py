"""The JSON Schema of alert rules, for editors and for other languages.

Only the loader checks whether codes are registered.
"""

from collections.abc import Iterator

from demur.codes.export.schema import CODE, DIALECT, DOMAIN_CODE, Schema, word
from demur.codes.export.text import as_json
from demur.codes.vocabulary import DecisionOutput, RefusalClass, Severity, Verdict
from demur.observe.alerts.loader import SCHEMA_VERSION
from demur.observe.alerts.rule import Field, Kind, Whole

__all__ = ["alert_rules_schema", "generated_files"]

_PATH = f"spec/schemas/{SCHEMA_VERSION}.schema.json"
_LINE: Schema = {"type": "string", "pattern": r"\S", "maxLength": 300}
_PERIOD: Schema = {"type": "string", "pattern": "^[0-9]{1,6}[mhd]$"}


def _common(kind: Kind) -> dict[str, Schema]:
    return {
        "id": {
            "description": "Its name in alerts; once in a file.",
            "type": "string",
            "pattern": "^[A-Z][A-Z0-9_]*[A-Z0-9]$",
        },
        "kind": {"const": str(kind)},
        "window": {"description": "The time that is looked at, up to now.", **_PERIOD},
        "severity": word(Severity, "How urgent it is."),
        "for": {"description": "How long it must be so before it fires.", **_PERIOD},
        "cooldown": {"description": "How long nobody is told of it again.", **_PERIOD},
        "description": {"description": "What is the case when it fires, in one line.", **_LINE},
        "runbook": {"description": "What to do then: one line, or a link.", **_LINE},
    }


_SELECTORS: dict[str, Schema] = {
    Field.CODE: {
        "description": "Count decisions that this registered code refused.",
        "type": "string",
        "pattern": f"^(?:{CODE}|{DOMAIN_CODE})$",
    },
    Field.CLASS: word(RefusalClass, "Count decisions of this class."),
    Field.VERDICT: word(Verdict, "Count decisions with this verdict."),
    Field.OUTPUT: word(DecisionOutput, "Count decisions with this output."),
}
assert tuple(_SELECTORS) == tuple(Field)
_BEFORE: Schema = {"description": "The time before the window that it is held against.", **_PERIOD}


def _minimum(description: str) -> Schema:
    return {"description": description, "type": "integer", "minimum": 1}


_OWN: dict[Kind, dict[str, Schema]] = {
    Kind.COUNT: {
        **_SELECTORS,
        "over": {
            "description": "It fires above this number of decisions.",
            "type": "integer",
            "minimum": 0,
            "maximum": 10**9,
        },
    },
    Kind.SHARE: {
        **_SELECTORS,
        "over_percent": {
            "description": "It fires above this percentage.",
            "type": "number",
            "minimum": 0,
            "exclusiveMaximum": 100,
        },
        "of": word(Whole, "What it is a share of; decisions if left out."),
        "minimum": _minimum("The least number of them in the window for a share to mean anything."),
    },
    Kind.RATE_CHANGE: {
        **_SELECTORS,
        "factor": {
            "description": "It fires where the share of decisions grew by this factor or more.",
            "type": "number",
            "exclusiveMinimum": 1,
            "maximum": 1000,
        },
        "before": _BEFORE,
        "minimum": _minimum(
            "The least number of chosen decisions in the window, and of all decisions before it."
        ),
    },
    Kind.NEW_UNKNOWN_CODE: {"before": _BEFORE},
}
assert tuple(_OWN) == tuple(Kind)
_NEEDED = {Kind.COUNT: "over", Kind.SHARE: "over_percent", Kind.RATE_CHANGE: "factor"}
_SAYS = {
    Kind.COUNT: "More decisions of a kind than a number.",
    Kind.SHARE: "A larger share of decisions of a kind than a percentage.",
    Kind.RATE_CHANGE: "A share that grew against the time before.",
    Kind.NEW_UNKNOWN_CODE: "A code that no registry holds and that was not there before.",
}


def _rule(kind: Kind) -> Schema:
    needed = ["id", "kind", "window", "severity", "description"]
    schema = _closed(_SAYS[kind], {**_common(kind), **_OWN[kind]}, needed)
    if kind in _NEEDED:
        schema["required"] = [*needed, _NEEDED[kind]]
        schema["oneOf"] = [{"required": [str(field)]} for field in Field]
    return schema


def _closed(description: str, fields: dict[str, Schema], needed: list[str]) -> Schema:
    return {
        "description": description,
        "type": "object",
        "required": needed,
        "properties": {str(name): schema for name, schema in fields.items()},
        "additionalProperties": False,
    }


def alert_rules_schema() -> Schema:
    """Return the schema of files of alert rules."""
    fields: dict[str, Schema] = {
        "schema_version": {"const": SCHEMA_VERSION},
        "description": {"description": "What these rules watch.", "type": "string"},
        "rules": {
            "description": "The rules.",
            "type": "array",
            "minItems": 1,
            "items": {"oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in Kind]},
        },
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:demur:schema:{SCHEMA_VERSION}",
        "$comment": "Generated from the loader's own parts; do not edit.",
        "title": "Alert rules",
        **_closed("What is worth an alert.", fields, ["schema_version", "rules"]),
        "$defs": {str(kind): _rule(kind) for kind in Kind},
    }


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the schema."""
    yield _PATH, as_json(alert_rules_schema())
