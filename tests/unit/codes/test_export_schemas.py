import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest

from demur.codes import document
from demur.codes.document import ENTRY_FIELDS, FILE_FIELDS, read_document
from demur.codes.export_data import refusal_schema
from demur.codes.registry import CORE_PATH, REQUIRED_OF_ORGANISATIONS, Registry
from demur.codes.vocabulary import (
    Advice,
    Effect,
    GrantKind,
    Obligation,
    RefusalClass,
    RetryScope,
    Severity,
    Stability,
    Surface,
)
from demur.errors import RegistryError
from demur.source.schema import load_schema

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


SCHEMA: dict[str, Any] = load_schema(document.__file__, document.SCHEMA_VERSION)
CORE: dict[str, Any] = json.loads(CORE_PATH.read_text(encoding="utf-8"))

BROKEN_FIELDS: dict[str, tuple[object, ...]] = {
    "code": ("rce_risk", "A", "A" * 64, "", None),
    "family": ("", " ", None, 1),
    "title": ("", None),
    "description": ("", None),
    "effect": ("deny", None),
    "refusal_class": ("hard_block", 3),
    "severity": ("urgent", None),
    "advice": ("give_up", 1),
    "retry_scope": ("forever", 1),
    "decided": ("yes", None, 1),
    "parent": ("", 1, "acme.com/KYC"),
    "grants": (["money"], None, "tool", ["tool", "tool"]),
    "obligations": (["pray"], None),
    "surfaces": (["email"], None),
    "http": (99, 600, "403", None),
    "since": ("1.0", "01.0.0", None),
    "stability": ("shaky", None),
    "deprecated": ("no", None),
    "deprecated_since": ("yesterday", 1),
    "replacement": ("", 1),
    "aliases": (["short"], ["x" * 201], [""], None, ["a phrase", "a phrase"]),
    "evidence": ({"key": ""}, {"": "meaning"}, {"key": 1}, []),
    "xref": ({"atlas": [""]}, {"atlas": "AML"}, []),
    "examples": ({"maybe": []}, {"refuse": [""]}, []),
}
BROKEN_FILES: dict[str, tuple[object, ...]] = {
    "schema_version": ("reason_codes.v2", None),
    "version": ("1", None),
    "domain": ("", 1),
    "min_core": ("new", 1),
    "phrases": ({"a phrase": ""}, {"short": "RCE_RISK"}, []),
    "codes": (None, {}),
}


def is_valid(document: object) -> bool:
    return bool(jsonschema.Draft202012Validator(SCHEMA).is_valid(document))


def loads(document: object) -> bool:
    try:
        Registry(read_document("broken.json", json.dumps(document)))
    except RegistryError:
        return False
    return True


def core_with(**fields: object) -> dict[str, Any]:
    """Return the core, the fields of `RCE_RISK` replaced."""
    document = copy.deepcopy(CORE)
    [row] = [row for row in document["codes"] if row["code"] == "RCE_RISK"]
    row.update(fields)
    return document


def described(schema: object) -> Iterator[dict[str, Any]]:
    """Yield the schema of every named property, however deep."""
    if isinstance(schema, dict):
        if "additionalProperties" in schema and "properties" in schema:
            yield from schema["properties"].values()
        for part in schema.values():
            yield from described(part)


def test_the_schema_is_a_schema_registry_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_shipped_registry_is_valid() -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(CORE)


def test_an_organisations_file_is_valid(acme_text: Callable[..., str]) -> None:
    text = acme_text(
        {"code": "acme.com/KYC_EXPIRED", "severity": "high"},
        min_core="1.0.0",
        phrases={"papers have run out": "acme.com/KYC_EXPIRED"},
    )

    assert is_valid(json.loads(text))


@pytest.mark.parametrize(
    ("field", "value"),
    [(field, value) for field, values in BROKEN_FIELDS.items() for value in values],
)
def test_a_broken_field_fits_neither_the_schema_nor_the_registry(field: str, value: object) -> None:
    document = core_with(**{field: value})

    assert not is_valid(document)
    assert not loads(document)


@pytest.mark.parametrize("field", ENTRY_FIELDS)
def test_a_core_code_without_a_field_fits_neither(field: str) -> None:
    document = core_with()
    del document["codes"][0][field]

    assert not is_valid(document)
    assert not loads(document)


@pytest.mark.parametrize(
    ("field", "value"),
    [(field, value) for field, values in BROKEN_FILES.items() for value in values],
)
def test_a_broken_file_fits_neither(field: str, value: object) -> None:
    document = {**CORE, field: value}

    assert not is_valid(document)
    # The loader is told by its caller which file is the core, so a domain there is no matter.
    assert field == "domain" or not loads(document)


@pytest.mark.parametrize("field", ["schema_version", "version", "codes"])
def test_a_file_without_a_required_field_fits_neither(field: str) -> None:
    document = {name: value for name, value in CORE.items() if name != field}

    assert not is_valid(document)
    assert not loads(document)


def test_an_unknown_field_fits_neither() -> None:
    for file in (core_with(colour="red"), {**CORE, "colour": "red"}):
        assert not is_valid(file)
        assert not loads(file)


@pytest.mark.parametrize("field", ["code", "description", "parent", "since"])
def test_an_organisations_code_needs_some_fields(field: str, acme_text: Callable[..., str]) -> None:
    document = json.loads(acme_text({"code": "acme.com/KYC_EXPIRED"}))
    del document["codes"][0][field]

    assert not is_valid(document)


def test_a_core_code_has_no_domain() -> None:
    assert not is_valid(core_with(code="acme.com/KYC"))


def test_an_organisations_code_needs_a_domain_and_a_parent(acme_text: Callable[..., str]) -> None:
    assert not is_valid(json.loads(acme_text({"code": "KYC_EXPIRED"})))
    assert not is_valid(json.loads(acme_text({"code": "acme.com/KYC", "parent": None})))


def test_every_property_is_described_registry_schema() -> None:
    properties = list(described(SCHEMA))

    assert len(properties) > len(ENTRY_FIELDS)
    assert all(schema["description"].endswith(".") for schema in properties)


def test_the_schemas_say_what_the_loader_says(core: Registry) -> None:
    parts, fields = SCHEMA["$defs"], SCHEMA["$defs"]["entry"]["properties"]
    refusal = json.loads(refusal_schema(core))["properties"]

    assert list(SCHEMA["properties"]) == ["schema_version", *FILE_FIELDS, "codes"]
    assert list(fields) == parts["core"]["required"] == list(ENTRY_FIELDS)
    assert tuple(parts["organisation"]["required"]) == REQUIRED_OF_ORGANISATIONS
    closed: dict[str, Any] = {
        "effect": Effect,
        "severity": Severity,
        "stability": Stability,
        "refusal_class": RefusalClass,
        "advice": Advice,
        "retry_scope": RetryScope,
        "grants": GrantKind,
        "obligations": Obligation,
        "surfaces": Surface,
    }
    for name, words in closed.items():
        members = fields[name].get("items", fields[name])["enum"]
        assert [member for member in members if member is not None] == list(words)
    for name in ("refusal_class", "advice", "retry_scope"):
        assert refusal[name]["enum"] == fields[name]["enum"]
    assert refusal["severity"]["enum"] == list(Severity)
    assert refusal["surface"]["enum"] == [*Surface, None]
