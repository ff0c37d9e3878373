"""The JSON Schema of a template file, for editors and for other languages.

The schema checks the form only. Loading the file also checks that codes are registered and
share a class, and that no slot can be empty where it stands.
"""

from collections.abc import Iterator

from demur.codes.export.schema import CODE, DIALECT, DOMAIN_CODE, Schema, word
from demur.codes.export.text import as_json
from demur.codes.vocabulary import Advice
from demur.respond.sheet import FEWEST_ALTERNATIVES, SCHEMA_VERSION
from demur.respond.template import CONDITIONS, PHRASES, SlotKind
from demur.respond.wording import LONGEST, PARTS

__all__ = ["generated_files", "templates_schema"]

_PATH = f"spec/schemas/{SCHEMA_VERSION}.schema.json"
_TEXT: Schema = {"type": "string", "pattern": r"\S"}
_MEANING = {
    "acknowledgment": "Whole sentences: what was understood, without taking sides.",
    "boundary": "A clause without full stop: what is not done, in direct words.",
    "reason": "A clause without full stop: why, joined with the boundary into one sentence.",
    "engagement": "A question that keeps the conversation going.",
    "how_to_proceed": "Whole sentences: what to do next; the advice of the locale if left out.",
}


def _closed(description: str, fields: dict[str, Schema], needed: tuple[str, ...]) -> Schema:
    return {
        "description": description,
        "type": "object",
        "required": list(needed),
        "properties": fields,
        "additionalProperties": False,
    }


def _texts(description: str, least: int) -> Schema:
    return {"description": description, "type": "array", "items": _TEXT, "minItems": least}


def _by_name(description: str, values: Schema) -> Schema:
    return {"description": description, "type": "object", "additionalProperties": values}


def _wording(fewest: int) -> dict[str, Schema]:
    fields: dict[str, Schema] = {
        part: {"description": meaning, "maxLength": LONGEST, **_TEXT}
        for part, meaning in _MEANING.items()
    }
    offered = "Phrases without full stop that complete the offer: what can be done instead."
    return {**fields, "alternatives": _texts(offered, fewest)}


def _slots() -> Schema:
    fields: dict[str, Schema] = {
        "kind": word(SlotKind, "What may fill it; anything else is left out."),
        "evidence": {"description": "The field of evidence that may fill it.", **_TEXT},
        "else": {"description": "What stands there otherwise.", **_TEXT},
    }
    slots = _by_name("Gaps in the texts, by name.", _closed("One gap.", fields, ("kind",)))
    slots["propertyNames"] = {"pattern": "^[a-z][a-z0-9_]*$", "not": {"enum": list(CONDITIONS)}}
    return slots


def _branches() -> Schema:
    waits = f"Slots that must be filled, or {', '.join(CONDITIONS)}."
    fields = {"when": _texts(waits, 1), **_wording(0)}
    described = "Other words once more is known; of several that fit, the first has its say."
    return {
        "description": described,
        "type": "array",
        "items": _closed("One branch.", fields, ("when",)),
    }


def _template() -> Schema:
    code: Schema = {"type": "string", "pattern": f"^(?:{CODE}|{DOMAIN_CODE})$"}
    fields: dict[str, Schema] = {
        "id": {
            "description": "Its name; one that is built in is replaced.",
            "type": "string",
            "pattern": "^[a-z][a-z0-9_]*$",
        },
        "codes": {"description": "The codes it serves, of one class.", "items": code},
        "slots": _slots(),
        **_wording(FEWEST_ALTERNATIVES),
        "branches": _branches(),
        "resources": {"description": "Whether places that help come first.", "type": "boolean"},
    }
    fields["codes"]["type"] = "array"
    return _closed("The words for some codes.", fields, ("id", *PARTS[:-1]))


def templates_schema() -> Schema:
    """Return the schema of template files."""
    phrases: dict[str, Schema] = {name: {"type": "string"} for name in PHRASES}
    advice: dict[str, Schema] = {str(one): _TEXT for one in Advice}
    fields: dict[str, Schema] = {
        "schema_version": {"const": SCHEMA_VERSION},
        "locale": {"type": "string", "pattern": "^[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*$"},
        "description": {"description": "What the words are for.", **_TEXT},
        "phrases": _closed("How the parts are joined.", phrases, ()),
        "names": _by_name("How fields and limits are called.", _TEXT),
        "advice": _closed("What to do next, by advice.", advice, ()),
        "resources": _texts("Places that help, where none are given.", 1),
        "slots": _slots(),
        "branches": _branches(),
        "templates": {"description": "The templates.", "type": "array", "items": _template()},
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:demur:schema:{SCHEMA_VERSION}",
        "$comment": "Generated from the parts of a template; do not edit.",
        "title": "Refusal templates",
        **_closed("The words of one locale.", fields, ("schema_version", "locale")),
    }


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the schema."""
    yield _PATH, as_json(templates_schema())
