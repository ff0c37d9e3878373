"""The description of a template file: the keys that its loader knows, and its JSON Schema.

The schema checks the form only. Loading the file also checks that codes are registered and
share a class, and that no slot can be empty where it stands.
"""

from collections.abc import Iterator

from demur.codes.entry import CODE_PATTERN, DOMAIN_CODE_PATTERN
from demur.codes.vocabulary import Advice
from demur.respond.template import CONDITIONS, MAX_PART_LENGTH, PART_NAMES, PHRASES, SlotKind
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

SCHEMA_VERSION = "refusal_templates.v1"
MIN_ALTERNATIVES = 2

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


SLOT = closed_object(
    "One gap.",
    {
        "kind": enum_schema(SlotKind, "What may fill it; anything else is left out."),
        "evidence": text_schema("The field of evidence that may fill it."),
        "else": text_schema("What stands there otherwise."),
    },
    ("kind",),
)
_SLOTS = _named_values("Gaps in the texts, by name.", SLOT)
_SLOTS["propertyNames"] = {"pattern": "^[a-z][a-z0-9_]*$", "not": {"enum": list(CONDITIONS)}}

_WHEN = f"Slots that must be filled, or {', '.join(CONDITIONS)}."
BRANCH = closed_object(
    "One branch.",
    {"when": list_schema(_WHEN, TEXT, minItems=1), **_wording_fields(0)},
    ("when",),
)
_BRANCHES = list_schema(
    "Other words once more is known; of several that fit, the first has its say.", BRANCH
)
_CODE: JsonSchema = {"type": "string", "pattern": f"^(?:{CODE_PATTERN}|{DOMAIN_CODE_PATTERN})$"}

TEMPLATE = closed_object(
    "The words for some codes.",
    {
        "id": text_schema("Its name; one that is built in is replaced.", "^[a-z][a-z0-9_]*$"),
        "codes": {
            "description": "The codes it serves, of one class.",
            "items": _CODE,
            "type": "array",
        },
        "slots": _SLOTS,
        **_wording_fields(MIN_ALTERNATIVES),
        "branches": _BRANCHES,
        "resources": {"description": "Whether places that help come first.", "type": "boolean"},
    },
    ("id", *PART_NAMES[:-1]),
)

TEMPLATE_FILE = closed_object(
    "The words of one locale.",
    {
        "schema_version": {"const": SCHEMA_VERSION},
        "locale": {"type": "string", "pattern": "^[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*$"},
        "description": text_schema("What the words are for."),
        "phrases": closed_object(
            "How the parts are joined.", {name: {"type": "string"} for name in PHRASES}, ()
        ),
        "names": _named_values("How fields and limits are called.", TEXT),
        "advice": closed_object(
            "What to do next, by advice.", {str(one): TEXT for one in Advice}, ()
        ),
        "resources": list_schema("Places that help, where none are given.", TEXT, minItems=1),
        "slots": _SLOTS,
        "branches": _BRANCHES,
        "templates": list_schema("The templates.", TEMPLATE),
    },
    ("schema_version", "locale"),
)


def templates_schema() -> JsonSchema:
    """Return the schema of template files."""
    comment = "Generated from the parts of a template; do not edit."
    return document_schema(SCHEMA_VERSION, "Refusal templates", comment, **TEMPLATE_FILE)


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of the schema."""
    yield from schema_file(SCHEMA_VERSION, templates_schema())
