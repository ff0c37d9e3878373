import json
from pathlib import Path

import pytest

from demur.source.schema import closed_object, generated_files, nullable_schema

ROOT = Path(__file__).parents[3]
FILES = dict(generated_files())


@pytest.mark.parametrize("path", FILES)
def test_a_schema_that_is_data_has_its_copy_in_the_specification(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == FILES[path]
    assert path == f"spec/schemas/{json.loads(FILES[path])['$id'].rpartition(':')[2]}.schema.json"


def test_a_closed_object_lists_its_keys_and_may_be_null() -> None:
    schema = closed_object("One.", {"a": {"type": "string"}}, ["a"])

    assert schema["required"] == list(schema["properties"]) == ["a"]
    assert nullable_schema(schema)["type"] == ["object", "null"]
