"""The JSON Schema of a template file, for editors and for other languages.

The schema checks the form only. Loading the file also checks that codes are registered and
share a class, and that no slot can be empty where it stands.
"""

from collections.abc import Iterator

from demur.codes.entry import CODE_PATTERN, DOMAIN_CODE_PATTERN
from demur.codes.vocabulary import Advice
from demur.respond.template import CONDITIONS, MAX_PART_LENGTH, PART_NAMES, PHRASES, SlotKind
from demur.respond.template_file import MIN_ALTERNATIVES, SCHEMA_VERSION
from demur.source.schema import (
    TEXT,
    JsonSchema,
    closed_object,
    document_schema,
    enum_schema,
    list_schema,
    schema_file,
    text_schema,
)

_MEANING = {
    "acknowledgment": "Whole sentences: what was understood, without taking sides.",
    "boundary": "A clause without full stop: what is not done, in direct words.",
    "reason": "A clause without full stop: why, joined with the boundary into one sentence.",
    "engagement": "A question that keeps the conversation going.",
    "how_to_proceed": "Whole sentences: what to do next; the advice of the locale if left out.",
}


def _named_values(description: str, values: JsonSchema) -> JsonSchema:
    return {"description": description, "type": "object", "additionalProperties": values}


def _wording_fields(min_alternatives: int) -> dict[str, JsonSchema]:
    fields: dict[str, JsonSchema] = {
        part: {"description": meaning, "maxLength": MAX_PART_LENGTH, **TEXT}
        for part, meaning in _MEANING.items()
    }
    offered = "Phrases without full stop that complete the offer: what can be done instead."
    return {**fields, "alternatives": list_schema(offered, TEXT, minItems=min_alternatives)}


def _slots_schema() -> JsonSchema:
    fields: dict[str, JsonSchema] = {
        "kind": enum_schema(SlotKind, "What may fill it; anything else is left out."),
        "evidence": text_schema("The field of evidence that may fill it."),
        "else": text_schema("What stands there otherwise."),
    }
    slots = _named_values(
        "Gaps in the texts, by name.", closed_object("One gap.", fields, ("kind",))
    )
    slots["propertyNames"] = {"pattern": "^[a-z][a-z0-9_]*$", "not": {"enum": list(CONDITIONS)}}
    return slots


def _branches_schema() -> JsonSchema:
    waits = f"Slots that must be filled, or {', '.join(CONDITIONS)}."
    fields = {"when": list_schema(waits, TEXT, minItems=1), **_wording_fields(0)}
    described = "Other words once more is known; of several that fit, the first has its say."
    return list_schema(described, closed_object("One branch.", fields, ("when",)))


def _template_schema() -> JsonSchema:
    code: JsonSchema = {"type": "string", "pattern": f"^(?:{CODE_PATTERN}|{DOMAIN_CODE_PATTERN})$"}
    fields: dict[str, JsonSchema] = {
        "id": text_schema("Its name; one that is built in is replaced.", "^[a-z][a-z0-9_]*$"),
        "codes": {"description": "The codes it serves, of one class.", "items": code},
        "slots": _slots_schema(),
        **_wording_fields(MIN_ALTERNATIVES),
        "branches": _branches_schema(),
        "resources": {"description": "Whether places that help come first.", "type": "boolean"},
    }
    fields["codes"]["type"] = "array"
    return closed_object("The words for some codes.", fields, ("id", *PART_NAMES[:-1]))


def templates_schema() -> JsonSchema:
    """Return the schema of template files."""
    phrases: dict[str, JsonSchema] = {name: {"type": "string"} for name in PHRASES}
    advice: dict[str, JsonSchema] = {str(one): TEXT for one in Advice}
    fields: dict[str, JsonSchema] = {
        "schema_version": {"const": SCHEMA_VERSION},
        "locale": {"type": "string", "pattern": "^[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*$"},
        "description": text_schema("What the words are for."),
        "phrases": closed_object("How the parts are joined.", phrases, ()),
        "names": _named_values("How fields and limits are called.", TEXT),
        "advice": closed_object("What to do next, by advice.", advice, ()),
        "resources": list_schema("Places that help, where none are given.", TEXT, minItems=1),
        "slots": _slots_schema(),
        "branches": _branches_schema(),
        "templates": list_schema("The templates.", _template_schema()),
    }
    comment = "Generated from the parts of a template; do not edit."
    body = closed_object("The words of one locale.", fields, ("schema_version", "locale"))
    return document_schema(SCHEMA_VERSION, "Refusal templates", comment, **body)


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the schema."""
    yield from schema_file(SCHEMA_VERSION, templates_schema())
