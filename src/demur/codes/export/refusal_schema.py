"""The JSON Schema of a refusal: the envelope that a refusal line is the short form of."""

from demur.codes.document import SCHEMA_VERSION
from demur.codes.export.schema import DIALECT, DOMAIN, DOMAIN_CODE, VERSION, Schema, nullable, word
from demur.codes.export.text import NOTICE, as_json
from demur.codes.line import PREFIX
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, RetryScope, Severity, Surface

__all__ = ["refusal_schema"]

_ENVELOPE = "refusal.v1"
_LONGEST_DETAIL = 2000


def refusal_schema(registry: Registry) -> str:
    """Return the schema of refusals with the codes of `registry`, or of an organisation's own."""
    properties = _properties(registry)
    return as_json(
        {
            "$schema": DIALECT,
            "$id": f"urn:demur:schema:{_ENVELOPE}",
            "$comment": NOTICE,
            "title": "Refusal",
            "description": "One refusal: why, what can be done, and what was seen.",
            "type": "object",
            "required": list(properties),
            "properties": properties,
            "additionalProperties": False,
        }
    )


def _properties(registry: Registry) -> dict[str, Schema]:
    label = rf"^{SCHEMA_VERSION.replace('.', '[.]')}@{VERSION}(?:\+{DOMAIN}@{VERSION})*$"
    return {
        "schema_version": {"description": "The form of the refusal.", "const": _ENVELOPE},
        "code": _code(registry),
        "parent": _parent(registry),
        "refusal_class": word(
            RefusalClass, "Whether it may be lifted; null for a code that allows.", null=True
        ),
        "advice": word(Advice, "What to do next; null for a code that allows.", null=True),
        "retry_scope": word(
            RetryScope, "How far it reaches; null for a code that allows.", null=True
        ),
        "severity": word(Severity, "How much attention it deserves."),
        "decided": {"description": "False if nothing was judged.", "type": "boolean"},
        "detail": {
            "description": "What happened, in words. Never parsed, never a secret.",
            "type": "string",
            "maxLength": _LONGEST_DETAIL,
        },
        "evidence": {
            "description": "What was measured or seen; the code's page explains its keys.",
            "type": "object",
        },
        "surface": word(Surface, "Where it was seen, if that is known.", null=True),
        "source": _source(),
        "decision_id": _name("The decision that it belongs to, if there is one."),
        "registry": {
            "description": "The registries in force, with their versions.",
            "type": "string",
            "pattern": label,
        },
        "line": {
            "description": "The same refusal as a line for logs.",
            "type": "string",
            "pattern": f"^{PREFIX}",
        },
    }


def _source() -> Schema:
    """Return the schema of the source; unknown parts are left out."""
    return {
        "description": "The guard, policy or provider that saw it, if that is known.",
        "type": ["object", "null"],
        "required": ["name"],
        "properties": {
            "name": {"description": "Who saw it.", "type": "string", "minLength": 1},
            "path": _name("Where the signal stood in what was received."),
            "native": {"description": "The signal itself, verbatim."},
            "served_by": _name("What answered instead, if something did."),
            "confidence": {
                "description": "How sure a judgement of words is; a typed signal has none.",
                "type": ["number", "null"],
                "minimum": 0,
                "maximum": 1,
            },
            "request_id": _name("The name that the source gave to the exchange."),
        },
        "additionalProperties": False,
    }


def _code(registry: Registry) -> Schema:
    return {
        "description": "Why: a code of the registry, or one that an organisation added.",
        "anyOf": [
            {"enum": [entry.code for entry in registry]},
            {"type": "string", "pattern": f"^{DOMAIN_CODE}$"},
        ],
    }


def _parent(registry: Registry) -> Schema:
    core = [entry.code for entry in registry if "/" not in entry.code]
    return word(core, "The wider core code that it is a kind of, if any.", null=True)


def _name(description: str) -> Schema:
    return nullable({"description": description, "type": "string"})
