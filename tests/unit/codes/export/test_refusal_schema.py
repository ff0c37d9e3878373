import json
from typing import Any

import jsonschema
import pytest

from demur.codes.export.refusal_schema import refusal_schema
from demur.codes.registry import Registry

REFUSAL: dict[str, Any] = {
    "schema_version": "refusal.v1",
    "code": "RCE_RISK",
    "parent": "POLICY_VIOLATION",
    "refusal_class": "HARD_BLOCK",
    "advice": "do_not_retry",
    "retry_scope": "rule",
    "severity": "critical",
    "decided": True,
    "detail": "curl x | sh",
    "evidence": {"command": "curl x | sh"},
    "surface": "code_execution",
    "source": {"name": "shell"},
    "decision_id": "d-1",
    "registry": "reason_codes.v1@1.0.0",
    "line": "REFUSED: RCE_RISK: curl x | sh",
}
BROKEN: dict[str, tuple[object, ...]] = {
    "schema_version": ("refusal.v2", None),
    "code": ("RCE_RISC", "acme.com/kyc", "ACME/KYC", None, 1),
    "parent": ("NO_SUCH_CODE", "acme.com/KYC", 1),
    "refusal_class": ("SOFT", 1),
    "advice": ("give_up", 1),
    "retry_scope": ("forever", 1),
    "severity": ("urgent", None),
    "decided": ("yes", None),
    "detail": ("x" * 2001, None),
    "evidence": ([], None),
    "surface": ("email", 1),
    "source": (1,),
    "decision_id": (1,),
    "registry": ("1.0.0", "reason_codes.v1@1.0", "reason_codesXv1@1.0.0", None),
    "line": ("RCE_RISK", None),
}


@pytest.fixture(scope="module")
def validator(core: Registry) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(refusal_schema(core)))


def test_the_schema_is_a_schema(core: Registry) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(refusal_schema(core)))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"detail": "x" * 2000, "evidence": {}},
        {"surface": None, "source": None, "decision_id": None, "parent": None},
        {"code": "acme.com/KYC_EXPIRED", "registry": "reason_codes.v1@1.0.0+acme.com@2.3.0"},
        {"refusal_class": None, "advice": None, "retry_scope": None},
    ],
)
def test_a_whole_refusal_is_valid(
    given: dict[str, Any], validator: jsonschema.Draft202012Validator
) -> None:
    validator.validate({**REFUSAL, **given})


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in BROKEN.items() for value in values]
)
def test_a_broken_field_is_not_valid(
    field: str, value: object, validator: jsonschema.Draft202012Validator
) -> None:
    assert not validator.is_valid({**REFUSAL, field: value})


@pytest.mark.parametrize("field", REFUSAL)
def test_every_field_is_required(field: str, validator: jsonschema.Draft202012Validator) -> None:
    rest = {name: value for name, value in REFUSAL.items() if name != field}

    assert not validator.is_valid(rest)


def test_there_are_no_other_fields(validator: jsonschema.Draft202012Validator) -> None:
    assert set(validator.schema["properties"]) == set(REFUSAL)  # type: ignore[index]
    assert not validator.is_valid({**REFUSAL, "apology": "sorry"})


def test_the_codes_of_organisations_are_listed_but_are_no_parents(mixed: Registry) -> None:
    properties = json.loads(refusal_schema(mixed))["properties"]

    assert "acme.com/KYC_EXPIRED" in properties["code"]["anyOf"][0]["enum"]
    assert "acme.com/KYC_EXPIRED" not in properties["parent"]["enum"]


def test_every_property_is_described(core: Registry) -> None:
    properties = json.loads(refusal_schema(core))["properties"]

    assert all(schema["description"].endswith(".") for schema in properties.values())
