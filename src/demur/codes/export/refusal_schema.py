"""The JSON Schema of a refusal: the envelope that a refusal line is the short form of."""

from demur.codes.document import SCHEMA_VERSION
from demur.codes.export.schema import (
    SCHEMA_DIALECT,
    DOMAIN_PATTERN,
    DOMAIN_CODE_PATTERN,
    VERSION_PATTERN,
    JsonSchema,
    nullable_schema,
    enum_schema,
)
from demur.codes.export.text import GENERATED_NOTICE, as_json
from demur.codes.line import REFUSAL_PREFIX
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, RetryScope, Severity, Surface

__all__ = ["refusal_schema"]

_ENVELOPE_VERSION = "refusal.v1"
_MAX_DETAIL_LENGTH = 2000


def refusal_schema(registry: Registry) -> str:
    """Return the schema of refusals with the codes of `registry`, or of an organisation's own."""
    properties = _refusal_properties(registry)
    return as_json(
        {
            "$schema": SCHEMA_DIALECT,
            "$id": f"urn:demur:schema:{_ENVELOPE_VERSION}",
            "$comment": GENERATED_NOTICE,
            "title": "Refusal",
            "description": "One refusal: why, what can be done, and what was seen.",
            "type": "object",
            "required": list(properties),
            "properties": properties,
            "additionalProperties": False,
        }
    )


def _refusal_properties(registry: Registry) -> dict[str, JsonSchema]:
    label = rf"^{SCHEMA_VERSION.replace('.', '[.]')}@{VERSION_PATTERN}(?:\+{DOMAIN_PATTERN}@{VERSION_PATTERN})*$"
    return {
        "schema_version": {"description": "The form of the refusal.", "const": _ENVELOPE_VERSION},
        "code": _code_schema(registry),
        "parent": _parent_schema(registry),
        "refusal_class": enum_schema(
            RefusalClass, "Whether it may be lifted; null for a code that allows.", null=True
        ),
        "advice": enum_schema(Advice, "What to do next; null for a code that allows.", null=True),
        "retry_scope": enum_schema(
            RetryScope, "How far it reaches; null for a code that allows.", null=True
        ),
        "severity": enum_schema(Severity, "How much attention it deserves."),
        "decided": {"description": "False if nothing was judged.", "type": "boolean"},
        "detail": {
            "description": "What happened, in words. Never parsed, never a secret.",
            "type": "string",
            "maxLength": _MAX_DETAIL_LENGTH,
        },
        "evidence": {
            "description": "What was measured or seen; the code's page explains its keys.",
            "type": "object",
        },
        "surface": enum_schema(Surface, "Where it was seen, if that is known.", null=True),
        "source": _source_schema(),
        "decision_id": _name_schema("The decision that it belongs to, if there is one."),
        "registry": {
            "description": "The registries in force, with their versions.",
            "type": "string",
            "pattern": label,
        },
        "line": {
            "description": "The same refusal as a line for logs.",
            "type": "string",
            "pattern": f"^{REFUSAL_PREFIX}",
        },
    }


def _source_schema() -> JsonSchema:
    """Return the schema of the source; unknown parts are left out."""
    return {
        "description": "The guard, policy or provider that saw it, if that is known.",
        "type": ["object", "null"],
        "required": ["name"],
        "properties": {
            "name": {"description": "Who saw it.", "type": "string", "minLength": 1},
            "path": _name_schema("Where the signal stood in what was received."),
            "native": {"description": "The signal itself, verbatim."},
            "served_by": _name_schema("What answered instead, if something did."),
            "confidence": {
                "description": "How sure a judgement of words is; a typed signal has none.",
                "type": ["number", "null"],
                "minimum": 0,
                "maximum": 1,
            },
            "request_id": _name_schema("The name that the source gave to the exchange."),
        },
        "additionalProperties": False,
    }


def _code_schema(registry: Registry) -> JsonSchema:
    return {
        "description": "Why: a code of the registry, or one that an organisation added.",
        "anyOf": [
            {"enum": [entry.code for entry in registry]},
            {"type": "string", "pattern": f"^{DOMAIN_CODE_PATTERN}$"},
        ],
    }


def _parent_schema(registry: Registry) -> JsonSchema:
    core = [entry.code for entry in registry if "/" not in entry.code]
    return enum_schema(core, "The wider core code that it is a kind of, if any.", null=True)


def _name_schema(description: str) -> JsonSchema:
    return nullable_schema({"description": description, "type": "string"})
