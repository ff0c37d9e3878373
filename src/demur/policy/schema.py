"""The JSON Schema of a policy, and the reference page generated from it.

The schema checks the form. Whether codes are registered, patterns are linear and conditions
can hold is checked when the policy is loaded.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from demur.codes.markup import (
    CODE_PATTERN,
    DOMAIN_CODE_PATTERN,
    SCHEMA_DIALECT,
    JsonSchema,
    as_json,
    enum_schema,
    markdown_code,
    markdown_table,
)
from demur.codes.vocabulary import Obligation, Surface, Verdict
from demur.policy.facts import FINDING_FACTS, ROOTS, SHORTCUTS
from demur.policy.lint import LINT_LEVELS
from demur.policy.loader import SCHEMA_VERSION
from demur.policy.policy import Mode, Operator, Stage

_Schema = Mapping[str, Any]

_INTRO = """\
<!-- Generated from the schema of policies; do not edit. -->

# Policy

Every key of `policy.v1`, as `spec/schemas/policy.v1.schema.json` says it.
See [write a policy](../how-to/write-a-policy.md) for how to write one, and
[how a policy decides](../explanation/policy.md) for what it means."""

_PATHS = """\
A field is a dotted path into the request; null counts as not there.
A path begins with one of {roots}.
{shortcuts}, and `amount_usd` is the action's amount in dollars, by the policy's `rates`.
{findings} are what guards saw."""

_VALUE_KINDS = {
    "string": "text",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "mapping",
}

_LINT_MEANINGS = {
    "broad-code": "A rule gives a code that stands for many narrower ones.",
    "default-allow": "Requests that no rule matches are allowed.",
    "deprecated-code": "A rule gives a deprecated code.",
    "duplicate-condition": "Two rules have the same condition and verdict, and different codes.",
    "invalid-policy": "The policy does not load.",
    "negated-field": (
        "A rule that stops something reads a field by `not`, `ne` or `not_in`, "
        "and no requirement asks for the field."
    ),
    "no-rules": "There are no rules, so every request gets the default.",
    "shadowed-by-stricter": "A stricter rule, or a finding, applies wherever this rule does.",
    "uncovered-field": (
        "A rule that stops something compares a field, and no requirement asks for the field."
    ),
    "unreachable-rule": (
        "Another rule or a finding applies wherever this one does, as strictly and with its codes."
    ),
}
assert tuple(_LINT_MEANINGS) == tuple(LINT_LEVELS)


def policy_page(schema: _Schema) -> str:
    """Return the page."""
    parts = schema["$defs"]
    sections = (
        _INTRO,
        "## The file",
        _key_table(schema, parts),
        "### `defaults`",
        _key_table(parts["defaults"], parts),
        "### `shadow`",
        parts["shadow"]["description"],
        _key_table(parts["shadow"], parts),
        "## A rule",
        _key_table(parts["rule"], parts),
        "### Stages",
        _stage_table(parts["rule"]),
        "### `then`",
        _key_table(parts["then"], parts),
        "## Conditions",
        parts["condition"]["description"],
        _group_table(parts["condition"]),
        "### Fields",
        _field_paths(),
        "### Operators",
        "A plain value stands for `eq`.",
        _operator_table(parts["operators"], parts),
        "## Remarks of `demur policy lint`",
        markdown_table(("Remark", "Level", "Meaning"), _diagnostic_rows()),
    )
    return "\n\n".join(sections) + "\n"


def _key_table(schema: _Schema, parts: Mapping[str, _Schema]) -> str:
    needed = schema.get("required", ())
    rows = (
        (
            markdown_code(name),
            _value_kinds(field, parts),
            "yes" if name in needed else "",
            _field_meaning(field, parts),
        )
        for name, field in schema["properties"].items()
    )
    return markdown_table(("Key", "Takes", "Needed", "Meaning"), rows)


def _resolve_reference(field: _Schema, parts: Mapping[str, _Schema]) -> _Schema:
    """Return the field with what it refers to; its own words come first."""
    if "$ref" not in field:
        return field
    return {**parts[field["$ref"].rpartition("/")[2]], **field}


def _field_meaning(field: _Schema, parts: Mapping[str, _Schema]) -> str:
    return str(_resolve_reference(field, parts).get("description", ""))


def _value_kinds(field: _Schema, parts: Mapping[str, _Schema]) -> str:
    whole = _resolve_reference(field, parts)
    if "const" in whole:
        return markdown_code("true" if whole["const"] is True else str(whole["const"]))
    if "enum" in whole:
        return ", ".join(markdown_code(member) for member in whole["enum"])
    kinds = whole["type"] if isinstance(whole["type"], list) else [whole["type"]]
    return ", ".join(_VALUE_KINDS[kind] for kind in kinds)


def _stage_table(rule: _Schema) -> str:
    rows = (
        (
            markdown_code(part["if"]["properties"]["stage"]["const"]),
            ", ".join(
                map(
                    markdown_code,
                    part["then"]["properties"]["then"]["properties"]["verdict"]["enum"],
                )
            ),
        )
        for part in rule["allOf"]
    )
    return markdown_table(("Stage", "Verdicts"), rows)


def _group_table(condition: _Schema) -> str:
    names = ("all", "any", "not")
    rows = ((markdown_code(name), condition["properties"][name]["description"]) for name in names)
    return markdown_table(("Group", "Holds if"), rows)


def _field_paths() -> str:
    return _PATHS.format(
        roots=", ".join(markdown_code(root) for root in ROOTS if root != "findings"),
        shortcuts=", ".join(
            f"{markdown_code(key)} is {markdown_code(path)}" for key, path in SHORTCUTS.items()
        ),
        findings=", ".join(map(markdown_code, FINDING_FACTS)),
    )


def _operator_table(operators: _Schema, parts: Mapping[str, _Schema]) -> str:
    rows = (
        (markdown_code(name), _value_kinds(field, parts), field["description"])
        for name, field in operators["properties"].items()
    )
    return markdown_table(("Operator", "Takes", "Holds if"), rows)


def _diagnostic_rows() -> list[tuple[str, str, str]]:
    return [
        (markdown_code(name), str(LINT_LEVELS[name]), meaning)
        for name, meaning in _LINT_MEANINGS.items()
    ]


_NAME = "[A-Za-z_][A-Za-z0-9_-]*"
_ROOT = "|".join(root for root in ROOTS if root != "findings")
_PATH = rf"^(?:{'|'.join(SHORTCUTS)}|amount_usd|(?:{_ROOT})(?:\.{_NAME})*)$"
_NUMBER: JsonSchema = {"type": "number"}
_SCALAR: JsonSchema = {"type": ["string", "number", "boolean"]}
_CODE: JsonSchema = {"type": "string", "pattern": f"^(?:{CODE_PATTERN}|{DOMAIN_CODE_PATTERN})$"}
_NEEDS_CODE: JsonSchema = {"properties": {"verdict": {"not": {"const": "ALLOW"}}}}

_OPERATORS: dict[Operator, tuple[JsonSchema, str]] = {
    Operator.EQ: (_SCALAR, "The field is this value, of the same kind."),
    Operator.NE: (_SCALAR, "The field is another value of the same kind."),
    Operator.GT: (_NUMBER, "The field is a greater number."),
    Operator.GTE: (_NUMBER, "The field is this number or a greater one."),
    Operator.LT: (_NUMBER, "The field is a smaller number."),
    Operator.LTE: (_NUMBER, "The field is this number or a smaller one."),
    Operator.IN: ({"$ref": "#/$defs/values"}, "The field is one of these values."),
    Operator.NOT_IN: ({"$ref": "#/$defs/values"}, "The field is none of these values."),
    Operator.CONTAINS: (_SCALAR, "The field is a list with this value, or a text with this part."),
    Operator.STARTS_WITH: (
        {"type": "string", "minLength": 1},
        "The field is a text that begins so.",
    ),
    Operator.MATCHES: (
        {"type": "string"},
        "The field is a text in which this pattern (RE2, linear time) is found.",
    ),
    Operator.EXISTS: ({"const": True}, "The field is there."),
    Operator.MISSING: ({"const": True}, "The field is not there, or null."),
}
assert tuple(_OPERATORS) == tuple(Operator)

_STAGE_VERDICTS = {
    Stage.REQUIREMENTS: [Verdict.ESCALATE, Verdict.ABSTAIN, Verdict.DENY],
    Stage.HARD_BLOCKS: [Verdict.DENY],
    Stage.ESCALATIONS: [Verdict.ESCALATE],
    Stage.ALLOW_PATHS: [Verdict.ALLOW],
}


def _object_schema(description: str, fields: dict[str, JsonSchema], *needed: str) -> JsonSchema:
    required: JsonSchema = {"required": list(needed)} if needed else {}
    closed = {"type": "object", **required, "properties": fields, "additionalProperties": False}
    return {"description": description, **closed}


def _text_schema(description: str) -> JsonSchema:
    return {"description": description, "type": "string", "pattern": r"\S"}


def _list_schema(description: str, items: JsonSchema, **more: object) -> JsonSchema:
    return {"description": description, "type": "array", "items": items, **more}


def _text_list_schema(description: str) -> JsonSchema:
    return _list_schema(description, {"type": "string", "pattern": r"\S"}, uniqueItems=True)


_THEN = _object_schema(
    "What the rule concludes where it matches.",
    {
        "verdict": enum_schema(Verdict, "The verdict; its stage says which ones it may be."),
        "reason_codes": _list_schema(
            "Why. Every verdict but ALLOW needs a code that refuses.", _CODE, uniqueItems=True
        ),
        "constraints": _text_list_schema("Limits under which the action may run."),
        "missing": _text_list_schema(
            "What to ask the caller for; left out, the fields that the condition finds missing."
        ),
        "obligations": _list_schema(
            "What must happen besides.", {"enum": [str(duty) for duty in Obligation]}
        ),
    },
    "verdict",
)
_THEN |= {
    "if": _NEEDS_CODE,
    "then": {"required": ["reason_codes"], "properties": {"reason_codes": {"minItems": 1}}},
}

_RULE = _object_schema(
    "One rule.",
    {
        "id": _text_schema("Its name in records and tests; once in a policy."),
        "stage": enum_schema(Stage, "When it speaks; the stage limits its verdict."),
        "description": _text_schema("What it is for, for people."),
        "shadow": {
            "description": "True for a rule on trial: it is reported, but does not count.",
            "type": "boolean",
        },
        "if": {"description": "When it matches; `{}` is always.", "$ref": "#/$defs/condition"},
        "then": {"$ref": "#/$defs/then"},
    },
    "id",
    "stage",
    "if",
    "then",
)
_RULE["allOf"] = [
    {
        "if": {"properties": {"stage": {"const": str(stage)}}, "required": ["stage"]},
        "then": {
            "properties": {
                "then": {"properties": {"verdict": {"enum": [str(v) for v in verdicts]}}},
                # A finding may tighten a decision, never relax it.
                **({"if": {"$ref": "#/$defs/blind"}} if Verdict.ALLOW in verdicts else {}),
            }
        },
    }
    for stage, verdicts in _STAGE_VERDICTS.items()
]

_DEFAULTS = _object_schema(
    "What holds where no rule matches; left out, ESCALATE by NO_MATCH_DEFAULT_ESCALATE.",
    {
        "verdict": enum_schema(Verdict, "The verdict; ESCALATE if left out."),
        "reason_code": {
            "description": "Why; needed for DENY and ABSTAIN.",
            **_CODE,
        },
    },
)
_DEFAULTS |= {
    "if": {"properties": {"verdict": {"enum": ["DENY", "ABSTAIN"]}}, "required": ["verdict"]},
    "then": {"required": ["reason_code"]},
}

_SHADOW = _object_schema(
    "A finding's code that does not count here. No hard block, and none that could not judge.",
    {
        "code": {"description": "The code.", **_CODE},
        "reason": _text_schema("Why it does not count."),
    },
    "code",
    "reason",
)

_POLICY: dict[str, JsonSchema] = {
    "schema_version": {"description": "The form of the file.", "const": SCHEMA_VERSION},
    "policy_id": _text_schema("Its name in records."),
    "policy_version": _text_schema("Its version in records; a text, so quote a plain number."),
    "description": _text_schema("What it is for, for people."),
    "mode": enum_schema(Mode, "Whether verdicts bind, or are recorded only; enforce if left out."),
    "defaults": {"$ref": "#/$defs/defaults"},
    "rates": {
        "description": "Dollars for one unit of each other currency, for `amount_usd`.",
        "type": "object",
        "propertyNames": {"pattern": "^(?!USD)[A-Z]{3}$"},
        "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
    },
    "shadow": _list_schema("Findings that do not count here.", {"$ref": "#/$defs/shadow"}),
    "rules": _list_schema("The rules, in any order of stages.", {"$ref": "#/$defs/rule"}),
}


def _operator_schemas() -> JsonSchema:
    fields = {
        str(operator): {"description": text, **schema}
        for operator, (schema, text) in _OPERATORS.items()
    }
    return {**_object_schema("How the field is compared.", fields), "minProperties": 1}


def _finding_facts() -> dict[str, JsonSchema]:
    surface: JsonSchema = {"enum": [str(surface) for surface in Surface]}
    facts = (
        {"contains": _CODE},
        {"contains": surface},
        {"gt": _NUMBER, "gte": _NUMBER},
    )
    return {
        path: {
            **_object_schema("What guards saw; read only positively.", dict(fact)),
            "minProperties": 1,
        }
        for path, fact in zip(FINDING_FACTS, facts, strict=True)
    }


def _group_schema(description: str, name: str) -> JsonSchema:
    items = {"type": "array", "minItems": 1, "items": {"$ref": f"#/$defs/{name}"}}
    return {"description": description, **items}


def _condition_schema(name: str) -> JsonSchema:
    """Return the schema of a condition: any, one that reads no findings, or findings alone."""
    fields: dict[str, JsonSchema] = {
        "all": _group_schema("Every one of these conditions holds.", name),
        "any": _group_schema("At least one of these conditions holds.", name),
        "not": {"description": "This does not hold.", "$ref": "#/$defs/blind"},
        **(_finding_facts() if name != "blind" else {}),
    }
    if name == "condition":
        # Alternatives are findings alone, or other fields alone.
        fields["any"]["anyOf"] = [
            {"items": {"$ref": f"#/$defs/{only}"}} for only in ("blind", "seen")
        ]
    if name == "seen":
        del fields["not"]
    schema = _object_schema("Every key must hold: a field and how it compares, or a group.", fields)
    if name != "seen":
        schema["patternProperties"] = {_PATH: {"$ref": "#/$defs/test"}}
    return schema


def _schema_definitions() -> dict[str, JsonSchema]:
    kinds = ("string", "number", "boolean")
    return {
        "rule": _RULE,
        "then": _THEN,
        "defaults": _DEFAULTS,
        "shadow": _SHADOW,
        **{name: _condition_schema(name) for name in ("condition", "blind", "seen")},
        "test": {
            "description": "A value that the field is, or operators.",
            "anyOf": [_SCALAR, {"$ref": "#/$defs/operators"}],
        },
        "operators": _operator_schemas(),
        "values": {
            "description": "Values of one kind.",
            "type": "array",
            "minItems": 1,
            "uniqueItems": True,
            "anyOf": [{"items": {"type": kind}} for kind in kinds],
        },
    }


def policy_schema() -> JsonSchema:
    """Return the schema of policy files."""
    return {
        "$schema": SCHEMA_DIALECT,
        "$id": f"urn:demur:schema:{SCHEMA_VERSION}",
        "$comment": "Generated from the policy's own parts; do not edit.",
        "title": "Policy",
        **_object_schema(
            "Rules that decide what an agent may do.",
            _POLICY,
            "schema_version",
            "policy_id",
            "policy_version",
            "rules",
        ),
        "$defs": _schema_definitions(),
    }


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the schema and of the reference page that follows from it."""
    schema = policy_schema()
    yield "spec/schemas/policy.v1.schema.json", as_json(schema)
    yield "docs/reference/policy.md", policy_page(schema)
