import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from demur.respond.template_file import BUILTIN_LOCALES
from demur.respond.template_schema import generated_files, templates_schema

FOLDER = Path(__file__).parents[3] / "src/demur/respond/templates"


@pytest.mark.parametrize("locale", BUILTIN_LOCALES)
def test_the_built_in_words_fit_the_schema(locale: str) -> None:
    text = (FOLDER / f"{locale}.yaml").read_text(encoding="utf-8")

    jsonschema.validate(yaml.safe_load(text), templates_schema())


def test_the_schema_is_generated() -> None:
    [(path, text)] = generated_files()

    assert path == "spec/schemas/refusal_templates.v1.schema.json"
    assert json.loads(text) == templates_schema()
