"""The JSON Schema of a registry file: the core, or an organisation's.

It judges the form of a file. What must hold among entries, such as a parent
that exists, only loading the registry can tell.
"""

from collections.abc import Iterable

from demur.codes.document import SCHEMA_VERSION
from demur.codes.entry import Entry
from demur.codes.export.schema import (
    CODE,
    DIALECT,
    DOMAIN,
    DOMAIN_CODE,
    VERSION,
    Schema,
    nullable,
    word,
)
from demur.codes.export.text import NOTICE, as_json
from demur.codes.rules import REQUIRED_OF_ORGANISATIONS
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

__all__ = ["registry_schema"]


def _text(description: str) -> Schema:
    return {"description": description, "type": "string", "pattern": r"\S"}


def _pattern(description: str, pattern: str) -> Schema:
    return {"description": description, "type": "string", "pattern": f"^{pattern}$"}


def _list(description: str, items: Schema) -> Schema:
    return {"description": description, "type": "array", "items": items, "uniqueItems": True}


def _words(description: str, words: Iterable[str]) -> Schema:
    return _list(description, {"enum": [str(member) for member in words]})


def _texts(description: str) -> Schema:
    return _list(description, {"type": "string", "pattern": r"\S"})


def _object(description: str, values: Schema) -> Schema:
    return {
        "description": description,
        "type": "object",
        "propertyNames": {"pattern": r"\S"},
        "additionalProperties": values,
    }


_PHRASE: Schema = {"type": "string", "minLength": 6, "maxLength": 200}

_FIELDS: dict[str, Schema] = {
    "code": _pattern("The code: stable, never reused.", f"(?:{CODE}|{DOMAIN_CODE})"),
    "family": _text("The group of codes it is listed under."),
    "title": _text("A name for people, which reads well after `refused:`."),
    "description": _text("When the code applies, and which code applies instead nearby."),
    "effect": word(Effect, "Whether the code speaks against an action or for it."),
    "refusal_class": word(
        RefusalClass, "Whether the refusal may be lifted; null for a code that allows.", null=True
    ),
    "severity": word(Severity, "How much attention the code deserves."),
    "advice": word(Advice, "What to do next; null for a code that allows.", null=True),
    "retry_scope": word(
        RetryScope, "How far the refusal reaches; null for a code that allows.", null=True
    ),
    "decided": {
        "description": "False for a code that says nothing was judged.",
        "type": "boolean",
    },
    "parent": nullable(_pattern("The wider core code that it is a kind of, if any.", CODE)),
    "grants": _words("The kinds of grant that lift it; only a workflow block has any.", GrantKind),
    "obligations": _words("What must happen wherever it appears, lifted or not.", Obligation),
    "surfaces": _words("Where in the stack it is seen.", Surface),
    "http": {
        "description": "The HTTP status of a service that refuses with it.",
        "type": "integer",
        "minimum": 200,
        "maximum": 599,
    },
    "since": _pattern("The version of the registry that it first stood in.", VERSION),
    "stability": word(Stability, "How firmly the code is promised."),
    "deprecated": {"description": "True if nothing new should use it.", "type": "boolean"},
    "deprecated_since": nullable(
        _pattern("The version of the registry that deprecated it.", VERSION)
    ),
    "replacement": nullable(
        _pattern("The code to use instead of a deprecated one.", f"(?:{CODE}|{DOMAIN_CODE})")
    ),
    "aliases": _list("Legacy phrases that parse to it.", _PHRASE),
    "evidence": _object(
        "The keys of its evidence, and what each one holds.", {"type": "string", "pattern": r"\S"}
    ),
    "xref": _object(
        "Ids in other taxonomies, by taxonomy.", _texts("Ids in the taxonomy that the key names.")
    ),
    "examples": {
        "description": "Texts that show the code.",
        "type": "object",
        "properties": {
            "refuse": _texts("Texts to refuse."),
            "allow": _texts("Harmless texts that look alike, to allow."),
        },
        "additionalProperties": False,
    },
}
assert tuple(_FIELDS) == Entry._fields

_FILE: dict[str, Schema] = {
    "schema_version": {"description": "The form of the file.", "const": SCHEMA_VERSION},
    "version": _pattern("The version of the registry.", VERSION),
    "domain": nullable(
        _pattern("The name that an organisation's codes stand under; null in the core.", DOMAIN)
    ),
    "min_core": nullable(_pattern("The oldest core that an organisation's file needs.", VERSION)),
    "phrases": {
        "description": "More legacy phrases, and the code that each one means.",
        "type": "object",
        "propertyNames": _PHRASE,
        "additionalProperties": {"type": "string", "pattern": f"^(?:{CODE}|{DOMAIN_CODE})$"},
    },
    "codes": {
        "description": "The entries.",
        "type": "array",
        "items": {"$ref": "#/$defs/entry"},
    },
}


def _entries(kind: str) -> Schema:
    return {"properties": {"codes": {"items": {"$ref": f"#/$defs/{kind}"}}}}


def registry_schema() -> str:
    """Return the schema of registry files as JSON."""
    organisation = {
        "description": "An organisation's code; what it leaves out, its parent says.",
        "required": list(REQUIRED_OF_ORGANISATIONS),
        "properties": {
            "code": {"pattern": f"^{DOMAIN_CODE}$"},
            "parent": {"type": "string"},
        },
    }
    core = {
        "description": "A core code; it says everything about itself.",
        "required": list(Entry._fields),
        "properties": {"code": {"pattern": f"^{CODE}$"}},
    }
    return as_json(
        {
            "$schema": DIALECT,
            "$id": f"urn:demur:schema:{SCHEMA_VERSION}",
            "$comment": NOTICE,
            "title": "Registry of reason codes",
            "description": "A registry file: the core, or an organisation's under its domain.",
            "type": "object",
            "required": ["schema_version", "version", "codes"],
            "properties": _FILE,
            "additionalProperties": False,
            "if": {"properties": {"domain": {"type": "string"}}, "required": ["domain"]},
            "then": _entries("organisation"),
            "else": _entries("core"),
            "$defs": {
                "core": core,
                "organisation": organisation,
                "entry": {
                    "description": "One reason code.",
                    "type": "object",
                    "properties": _FIELDS,
                    "additionalProperties": False,
                },
            },
        }
    )
