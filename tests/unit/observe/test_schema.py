from importlib.resources import files

import pytest
import yaml
from jsonschema import Draft202012Validator

from demur.codes.vocabulary import DecisionOutput, RefusalClass, Severity, Verdict
from demur.observe.alerts.rules import (
    ALERTS_SCHEMA,
    SCHEMA_VERSION,
    AlertKind,
    SelectorField,
    ShareWhole,
)

VALIDATOR = Draft202012Validator(ALERTS_SCHEMA)
GOOD = {
    "id": "A1",
    "kind": "count",
    "code": "RCE_RISK",
    "over": 3,
    "window": "1h",
    "severity": "high",
    "description": "d",
}


def file_of(**more: object) -> dict[str, object]:
    rule = {key: value for key, value in {**GOOD, **more}.items() if value is not None}
    return {"schema_version": "alert_rules.v1", "rules": [rule]}


def test_the_schema_is_one_and_takes_the_built_in_rules() -> None:
    Draft202012Validator.check_schema(ALERTS_SCHEMA)
    text = (files("demur.observe.alerts") / "default_rules.yaml").read_text(encoding="utf-8")

    VALIDATOR.validate(yaml.safe_load(text))
    VALIDATOR.validate(file_of())


@pytest.mark.parametrize(
    "more",
    [
        {"over": None},
        {"over": -1},
        {"code": None},
        {"verdict": "DENY"},
        {"minimum": 3},
        {"kind": "shares"},
        {"window": "1y"},
        {"severity": "loud"},
        {"id": "lower"},
        {"extra": 1},
    ],
)
def test_the_schema_refuses_malformed_documents_that_the_loader_refuses(
    more: dict[str, object],
) -> None:
    assert not VALIDATOR.is_valid(file_of(**more))


def test_the_schema_says_what_the_loader_says() -> None:
    kinds = ALERTS_SCHEMA["$defs"]
    share = kinds["share"]["properties"]

    assert ALERTS_SCHEMA["properties"]["schema_version"]["const"] == SCHEMA_VERSION
    assert list(kinds) == list(AlertKind)
    assert [{"required": [field]} for field in SelectorField] == kinds["share"]["oneOf"]
    for field, words in (
        ("severity", Severity),
        ("class", RefusalClass),
        ("verdict", Verdict),
        ("output", DecisionOutput),
        ("of", ShareWhole),
    ):
        assert share[field]["enum"] == list(words)
