"""The description of a policy file: the keys that its loader knows, and its JSON Schema.

The schema checks the form. Whether codes are registered, patterns are linear and conditions
can hold is checked when the policy is loaded.
"""

from demur.codes.entry import CODE_PATTERN, DOMAIN_CODE_PATTERN
from demur.codes.vocabulary import Obligation, Surface, Verdict
from demur.policy.facts import FINDING_FACTS, ROOTS, SHORTCUTS
from demur.policy.policy import Mode, Operator, Stage
from demur.source.schema import (
    TEXT,
    JsonSchema,
    closed_object,
    document_schema,
    enum_schema,
    list_schema,
    text_schema,
)

SCHEMA_VERSION = "policy.v1"

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

STAGE_VERDICTS = {
    Stage.REQUIREMENTS: [Verdict.ESCALATE, Verdict.ABSTAIN, Verdict.DENY],
    Stage.HARD_BLOCKS: [Verdict.DENY],
    Stage.ESCALATIONS: [Verdict.ESCALATE],
    Stage.ALLOW_PATHS: [Verdict.ALLOW],
}


THEN = closed_object(
    "What the rule concludes where it matches.",
    {
        "verdict": enum_schema(Verdict, "The verdict; its stage says which ones it may be."),
        "reason_codes": list_schema(
            "Why. Every verdict but ALLOW needs a code that refuses.", _CODE, uniqueItems=True
        ),
        "constraints": list_schema(
            "Limits under which the action may run.", TEXT, uniqueItems=True
        ),
        "missing": list_schema(
            "What to ask the caller for; left out, the fields that the condition finds missing.",
            TEXT,
            uniqueItems=True,
        ),
        "obligations": list_schema(
            "What must happen besides.", {"enum": [str(duty) for duty in Obligation]}
        ),
    },
    ["verdict"],
)
THEN |= {
    "if": _NEEDS_CODE,
    "then": {"required": ["reason_codes"], "properties": {"reason_codes": {"minItems": 1}}},
}

RULE = closed_object(
    "One rule.",
    {
        "id": text_schema("Its name in records and tests; once in a policy."),
        "stage": enum_schema(Stage, "When it speaks; the stage limits its verdict."),
        "description": text_schema("What it is for, for people."),
        "shadow": {
            "description": "True for a rule on trial: it is reported, but does not count.",
            "type": "boolean",
        },
        "if": {"description": "When it matches; `{}` is always.", "$ref": "#/$defs/condition"},
        "then": {"$ref": "#/$defs/then"},
    },
    ["id", "stage", "if", "then"],
)
RULE["allOf"] = [
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
    for stage, verdicts in STAGE_VERDICTS.items()
]

DEFAULTS = closed_object(
    "What holds where no rule matches; left out, ESCALATE by NO_MATCH_DEFAULT_ESCALATE.",
    {
        "verdict": enum_schema(Verdict, "The verdict; ESCALATE if left out."),
        "reason_code": {"description": "Why; needed for DENY and ABSTAIN.", **_CODE},
    },
)
DEFAULTS |= {
    "if": {"properties": {"verdict": {"enum": ["DENY", "ABSTAIN"]}}, "required": ["verdict"]},
    "then": {"required": ["reason_code"]},
}

SHADOW = closed_object(
    "A finding's code that does not count here. No hard block, and none that could not judge.",
    {
        "code": {"description": "The code.", **_CODE},
        "reason": text_schema("Why it does not count."),
    },
    ["code", "reason"],
)

POLICY = closed_object(
    "Rules that decide what an agent may do.",
    {
        "schema_version": {"description": "The form of the file.", "const": SCHEMA_VERSION},
        "policy_id": text_schema("Its name in records."),
        "policy_version": text_schema("Its version in records; a text, so quote a plain number."),
        "description": text_schema("What it is for, for people."),
        "mode": enum_schema(
            Mode, "Whether verdicts bind, or are recorded only; enforce if left out."
        ),
        "defaults": {"$ref": "#/$defs/defaults"},
        "rates": {
            "description": "Dollars for one unit of each other currency, for `amount_usd`.",
            "type": "object",
            "propertyNames": {"pattern": "^(?!USD)[A-Z]{3}$"},
            "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
        },
        "shadow": list_schema("Findings that do not count here.", {"$ref": "#/$defs/shadow"}),
        "rules": list_schema("The rules, in any order of stages.", {"$ref": "#/$defs/rule"}),
    },
    ["schema_version", "policy_id", "policy_version", "rules"],
)


def _operator_schemas() -> JsonSchema:
    fields = {
        str(operator): {"description": text, **schema}
        for operator, (schema, text) in _OPERATORS.items()
    }
    return {**closed_object("How the field is compared.", fields), "minProperties": 1}


def _finding_facts() -> dict[str, JsonSchema]:
    surface: JsonSchema = {"enum": [str(surface) for surface in Surface]}
    facts = ({"contains": _CODE}, {"contains": surface}, {"gt": _NUMBER, "gte": _NUMBER})
    return {
        path: {
            **closed_object("What guards saw; read only positively.", dict(fact)),
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
    schema = closed_object("Every key must hold: a field and how it compares, or a group.", fields)
    if name != "seen":
        schema["patternProperties"] = {_PATH: {"$ref": "#/$defs/test"}}
    return schema


def _schema_definitions() -> dict[str, JsonSchema]:
    kinds = ("string", "number", "boolean")
    return {
        "rule": RULE,
        "then": THEN,
        "defaults": DEFAULTS,
        "shadow": SHADOW,
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
    comment = "Generated from the policy's own parts; do not edit."
    body = {**POLICY, "$defs": _schema_definitions()}
    return document_schema(SCHEMA_VERSION, "Policy", comment, **body)
