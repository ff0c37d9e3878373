from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from demur.observe.schema import alert_rules_schema, generated_files

ROOT = Path(__file__).parents[3]
VALIDATOR = Draft202012Validator(alert_rules_schema())
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
    Draft202012Validator.check_schema(alert_rules_schema())
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
def test_what_the_loader_refuses_for_its_form_the_schema_refuses(more: dict[str, object]) -> None:
    assert not VALIDATOR.is_valid(file_of(**more))


def test_the_generated_file_is_up_to_date() -> None:
    for path, content in generated_files():
        assert (ROOT / path).read_text(encoding="utf-8") == content
