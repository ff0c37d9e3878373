from pathlib import Path

import jsonschema
import pytest
import yaml

from demur.codes.vocabulary import Advice
from demur.respond.template import (
    CONDITIONS,
    MAX_PART_LENGTH,
    MIN_ALTERNATIVES,
    PART_NAMES,
    PHRASES,
    SlotKind,
)
from demur.respond.template_file import (
    BUILTIN_LOCALES,
    SCHEMA_VERSION,
    TEMPLATES_SCHEMA,
)

FOLDER = Path(__file__).parents[3] / "src/demur/respond/templates"


@pytest.mark.parametrize("locale", BUILTIN_LOCALES)
def test_the_built_in_words_fit_the_schema(locale: str) -> None:
    text = (FOLDER / f"{locale}.yaml").read_text(encoding="utf-8")

    jsonschema.validate(yaml.safe_load(text), TEMPLATES_SCHEMA)


def test_the_schema_says_what_the_loader_says() -> None:
    fields = TEMPLATES_SCHEMA["properties"]
    template = fields["templates"]["items"]["properties"]
    slots = fields["slots"]

    assert fields["schema_version"]["const"] == SCHEMA_VERSION
    assert list(fields["advice"]["properties"]) == list(Advice)
    assert list(fields["phrases"]["properties"]) == list(PHRASES)
    assert slots["additionalProperties"]["properties"]["kind"]["enum"] == list(SlotKind)
    assert slots["propertyNames"]["not"]["enum"] == list(CONDITIONS)
    assert set(PART_NAMES) <= set(template)
    assert template["reason"]["maxLength"] == MAX_PART_LENGTH
    assert template["alternatives"]["minItems"] == MIN_ALTERNATIVES
