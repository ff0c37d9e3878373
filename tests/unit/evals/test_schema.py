import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from demur.evals.schema import generated_files, suite_schema
from demur.evals.suite import builtin_suites, load_suite

ROOT = Path(__file__).parents[3]


def document(name: str) -> dict[str, object]:
    suite = json.loads(msgspec.json.encode(load_suite(name)))
    del suite["digest"]
    return {"schema_version": "eval_suite.v1", **suite}


def test_the_committed_schema_is_up_to_date() -> None:
    for name, text in generated_files():
        assert (ROOT / name).read_text(encoding="utf-8") == text
        assert json.loads(text) == suite_schema()


@pytest.mark.parametrize("name", builtin_suites())
def test_what_ships_is_valid(name: str) -> None:
    jsonschema.Draft202012Validator(suite_schema()).validate(document(name))


@pytest.mark.parametrize(
    ("field", "value"),
    [("label", "safe"), ("id", "two words"), ("prompt", " "), ("language", "English"), ("x", "")],
)
def test_what_cannot_be_loaded_is_not_valid(field: str, value: str) -> None:
    given = document("smoke")
    given["rows"] = [{"id": "a", "prompt": "b", "label": "harmful", field: value}]

    assert not jsonschema.Draft202012Validator(suite_schema()).is_valid(given)
