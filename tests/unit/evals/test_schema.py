import json

import jsonschema
import msgspec
import pytest

from demur.evals.suite import builtin_suites, load_suite
from demur.evals.suite_file import NAME_PATTERN, SCHEMA_VERSION, SUITE_SCHEMA
from demur.evals.suite_row import LABELS, LANGUAGE, MAX_PROMPT_LENGTH, PATTERNS


def document(name: str) -> dict[str, object]:
    suite = json.loads(msgspec.json.encode(load_suite(name)))
    del suite["digest"]
    return {"schema_version": "eval_suite.v1", **suite}


def test_the_schema_says_what_the_loader_says() -> None:
    fields, row = SUITE_SCHEMA["properties"], SUITE_SCHEMA["$defs"]["row"]["properties"]

    assert fields["schema_version"]["const"] == SCHEMA_VERSION
    assert fields["name"]["pattern"] == f"^{NAME_PATTERN}$"
    assert row["label"]["enum"] == list(LABELS)
    assert row["pattern"]["enum"] == [*PATTERNS, None]
    assert row["language"]["pattern"] == f"^{LANGUAGE}$"
    assert row["prompt"]["maxLength"] == MAX_PROMPT_LENGTH


@pytest.mark.parametrize("name", builtin_suites())
def test_the_built_in_suites_are_valid(name: str) -> None:
    jsonschema.Draft202012Validator(SUITE_SCHEMA).validate(document(name))


@pytest.mark.parametrize(
    ("field", "value"),
    [("label", "safe"), ("id", "two words"), ("prompt", " "), ("language", "English"), ("x", "")],
)
def test_a_suite_that_cannot_be_loaded_is_not_valid(field: str, value: str) -> None:
    given = document("smoke")
    given["rows"] = [{"id": "a", "prompt": "b", "label": "harmful", field: value}]

    assert not jsonschema.Draft202012Validator(SUITE_SCHEMA).is_valid(given)
