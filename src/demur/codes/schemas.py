"""JSON Schemas of refusals and of registry files.

A schema checks the form. Rules among entries, such as a parent that exists, are checked when
the registry is loaded.
"""

from demur.codes.document import ENTRY_FIELDS, FILE_FIELDS, SCHEMA_VERSION
from demur.codes.entry import (
    CODE_PATTERN,
    DOMAIN_CODE_PATTERN,
    DOMAIN_PATTERN,
    VERSION_PATTERN,
    Entry,
)
from demur.codes.markup import GENERATED_NOTICE
from demur.codes.refusal_line import REFUSAL_PREFIX
from demur.codes.registry import REQUIRED_OF_ORGANISATIONS, Registry
from demur.codes.vocabulary import Advice, RefusalClass, RetryScope, Severity, Surface
from demur.source.schema import (
    JsonSchema,
    as_json,
    closed_object,
    document_schema,
    enum_schema,
    list_schema,
    nullable_schema,
    text_schema,
)

_ENVELOPE_VERSION = "refusal.v1"
_MAX_DETAIL_LENGTH = 2000


def refusal_schema(registry: Registry) -> str:
    """Return the schema of refusals with the codes of `registry`, or of an organisation's own."""
    fields = _refusal_fields(registry)
    words = "One refusal: why, what can be done, and what was seen."
    body = closed_object(words, fields, fields)
    return as_json(document_schema(_ENVELOPE_VERSION, "Refusal", GENERATED_NOTICE, **body))


def _refusal_fields(registry: Registry) -> dict[str, JsonSchema]:
    version = f"@{VERSION_PATTERN}"
    label = rf"^{SCHEMA_VERSION.replace('.', '[.]')}{version}(?:\+{DOMAIN_PATTERN}{version})*$"
    core = [entry.code for entry in registry if "/" not in entry.code]
    return {
        "schema_version": {"description": "The form of the refusal.", "const": _ENVELOPE_VERSION},
        "code": {
            "description": "Why: a code of the registry, or one that an organisation added.",
            "anyOf": [
                {"enum": [entry.code for entry in registry]},
                {"type": "string", "pattern": f"^{DOMAIN_CODE_PATTERN}$"},
            ],
        },
        "parent": enum_schema(core, "The wider core code that it is a kind of, if any.", null=True),
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
        "registry": text_schema("The registries in force, with their versions.", label),
        "line": text_schema("The same refusal as a line for logs.", f"^{REFUSAL_PREFIX}"),
    }


def _source_schema() -> JsonSchema:
    """Return the schema of the source; unknown parts are left out."""
    words = "The guard, policy or provider that saw it, if that is known."
    fields: dict[str, JsonSchema] = {
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
    }
    return nullable_schema(closed_object(words, fields, ["name"]))


def _name_schema(description: str) -> JsonSchema:
    return nullable_schema({"description": description, "type": "string"})


def _entry_items(kind: str) -> JsonSchema:
    return {"properties": {"codes": {"items": {"$ref": f"#/$defs/{kind}"}}}}


def registry_schema() -> str:
    """Return the schema of registry files as JSON."""
    organisation = {
        "description": "An organisation's code; what it leaves out, its parent says.",
        "required": list(REQUIRED_OF_ORGANISATIONS),
        "properties": {
            "code": {"pattern": f"^{DOMAIN_CODE_PATTERN}$"},
            "parent": {"type": "string"},
        },
    }
    core = {
        "description": "A core code; it says everything about itself.",
        "required": list(Entry._fields),
        "properties": {"code": {"pattern": f"^{CODE_PATTERN}$"}},
    }
    entry = {name: field.schema for name, field in ENTRY_FIELDS.items()}
    file = closed_object(
        "A registry file: the core, or an organisation's under its domain.",
        {
            "schema_version": {"description": "The form of the file.", "const": SCHEMA_VERSION},
            **{name: field.schema for name, field in FILE_FIELDS.items()},
            "codes": list_schema("The entries.", {"$ref": "#/$defs/entry"}),
        },
        ["schema_version", "version", "codes"],
    )
    file |= {
        "if": {"properties": {"domain": {"type": "string"}}, "required": ["domain"]},
        "then": _entry_items("organisation"),
        "else": _entry_items("core"),
        "$defs": {
            "core": core,
            "organisation": organisation,
            "entry": closed_object("One reason code.", entry),
        },
    }
    title = "Registry of reason codes"
    return as_json(document_schema(SCHEMA_VERSION, title, GENERATED_NOTICE, **file))
