"""JSON Schemas of refusals and of registry files.

A schema checks the form. Rules among entries, such as a parent that exists, are checked when
the registry is loaded.
"""

from collections.abc import Iterable

from demur.codes.document import SCHEMA_VERSION
from demur.codes.entry import Entry
from demur.codes.markup import (
    CODE_PATTERN,
    DOMAIN_CODE_PATTERN,
    DOMAIN_PATTERN,
    GENERATED_NOTICE,
    SCHEMA_DIALECT,
    VERSION_PATTERN,
    JsonSchema,
    as_json,
    enum_schema,
    nullable_schema,
)
from demur.codes.refusal_line import REFUSAL_PREFIX
from demur.codes.registry import REQUIRED_OF_ORGANISATIONS, Registry
from demur.codes.vocabulary import (
    Advice,
    Effect,
    GrantKind,
    Obligation,
    RefusalClass,
    RetryScope,
    Severity,
    Stability,
    Surface,
)

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
    version = f"@{VERSION_PATTERN}"
    label = rf"^{SCHEMA_VERSION.replace('.', '[.]')}{version}(?:\+{DOMAIN_PATTERN}{version})*$"
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


def _text_schema(description: str) -> JsonSchema:
    return {"description": description, "type": "string", "pattern": r"\S"}


def _pattern_schema(description: str, pattern: str) -> JsonSchema:
    return {"description": description, "type": "string", "pattern": f"^{pattern}$"}


def _list_schema(description: str, items: JsonSchema) -> JsonSchema:
    return {"description": description, "type": "array", "items": items, "uniqueItems": True}


def _word_list_schema(description: str, words: Iterable[str]) -> JsonSchema:
    return _list_schema(description, {"enum": [str(member) for member in words]})


def _text_list_schema(description: str) -> JsonSchema:
    return _list_schema(description, {"type": "string", "pattern": r"\S"})


def _object_schema(description: str, values: JsonSchema) -> JsonSchema:
    return {
        "description": description,
        "type": "object",
        "propertyNames": {"pattern": r"\S"},
        "additionalProperties": values,
    }


_PHRASE_SCHEMA: JsonSchema = {"type": "string", "minLength": 6, "maxLength": 200}

_ENTRY_FIELDS: dict[str, JsonSchema] = {
    "code": _pattern_schema(
        "The code: stable, never reused.", f"(?:{CODE_PATTERN}|{DOMAIN_CODE_PATTERN})"
    ),
    "family": _text_schema("The group of codes it is listed under."),
    "title": _text_schema("A name for people, which reads well after `refused:`."),
    "description": _text_schema("When the code applies, and which code applies instead nearby."),
    "effect": enum_schema(Effect, "Whether the code speaks against an action or for it."),
    "refusal_class": enum_schema(
        RefusalClass, "Whether the refusal may be lifted; null for a code that allows.", null=True
    ),
    "severity": enum_schema(Severity, "How much attention the code deserves."),
    "advice": enum_schema(Advice, "What to do next; null for a code that allows.", null=True),
    "retry_scope": enum_schema(
        RetryScope, "How far the refusal reaches; null for a code that allows.", null=True
    ),
    "decided": {
        "description": "False for a code that says nothing was judged.",
        "type": "boolean",
    },
    "parent": nullable_schema(
        _pattern_schema("The wider core code that it is a kind of, if any.", CODE_PATTERN)
    ),
    "grants": _word_list_schema(
        "The kinds of grant that lift it; only a workflow block has any.", GrantKind
    ),
    "obligations": _word_list_schema(
        "What must happen wherever it appears, lifted or not.", Obligation
    ),
    "surfaces": _word_list_schema("Where in the stack it is seen.", Surface),
    "http": {
        "description": "The HTTP status of a service that refuses with it.",
        "type": "integer",
        "minimum": 200,
        "maximum": 599,
    },
    "since": _pattern_schema(
        "The version of the registry that it first stood in.", VERSION_PATTERN
    ),
    "stability": enum_schema(Stability, "How firmly the code is promised."),
    "deprecated": {"description": "True if nothing new should use it.", "type": "boolean"},
    "deprecated_since": nullable_schema(
        _pattern_schema("The version of the registry that deprecated it.", VERSION_PATTERN)
    ),
    "replacement": nullable_schema(
        _pattern_schema(
            "The code to use instead of a deprecated one.",
            f"(?:{CODE_PATTERN}|{DOMAIN_CODE_PATTERN})",
        )
    ),
    "aliases": _list_schema("Legacy phrases that parse to it.", _PHRASE_SCHEMA),
    "evidence": _object_schema(
        "The keys of its evidence, and what each one holds.", {"type": "string", "pattern": r"\S"}
    ),
    "xref": _object_schema(
        "Ids in other taxonomies, by taxonomy.",
        _text_list_schema("Ids in the taxonomy that the key names."),
    ),
    "examples": {
        "description": "Texts that show the code.",
        "type": "object",
        "properties": {
            "refuse": _text_list_schema("Texts to refuse."),
            "allow": _text_list_schema("Harmless texts that look alike, to allow."),
        },
        "additionalProperties": False,
    },
}
assert tuple(_ENTRY_FIELDS) == Entry._fields

_FILE_FIELDS: dict[str, JsonSchema] = {
    "schema_version": {"description": "The form of the file.", "const": SCHEMA_VERSION},
    "version": _pattern_schema("The version of the registry.", VERSION_PATTERN),
    "domain": nullable_schema(
        _pattern_schema(
            "The name that an organisation's codes stand under; null in the core.", DOMAIN_PATTERN
        )
    ),
    "min_core": nullable_schema(
        _pattern_schema("The oldest core that an organisation's file needs.", VERSION_PATTERN)
    ),
    "phrases": {
        "description": "More legacy phrases, and the code that each one means.",
        "type": "object",
        "propertyNames": _PHRASE_SCHEMA,
        "additionalProperties": {
            "type": "string",
            "pattern": f"^(?:{CODE_PATTERN}|{DOMAIN_CODE_PATTERN})$",
        },
    },
    "codes": {
        "description": "The entries.",
        "type": "array",
        "items": {"$ref": "#/$defs/entry"},
    },
}


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
    return as_json(
        {
            "$schema": SCHEMA_DIALECT,
            "$id": f"urn:demur:schema:{SCHEMA_VERSION}",
            "$comment": GENERATED_NOTICE,
            "title": "Registry of reason codes",
            "description": "A registry file: the core, or an organisation's under its domain.",
            "type": "object",
            "required": ["schema_version", "version", "codes"],
            "properties": _FILE_FIELDS,
            "additionalProperties": False,
            "if": {"properties": {"domain": {"type": "string"}}, "required": ["domain"]},
            "then": _entry_items("organisation"),
            "else": _entry_items("core"),
            "$defs": {
                "core": core,
                "organisation": organisation,
                "entry": {
                    "description": "One reason code.",
                    "type": "object",
                    "properties": _ENTRY_FIELDS,
                    "additionalProperties": False,
                },
            },
        }
    )
