import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from demur.codes.registry import Registry
from demur.emit.envelope import (
    check_refuses,
    from_envelope,
    from_problem,
    from_refusal_line,
    nested_value,
    to_envelope,
    to_problem,
)
from demur.errors import InputError
from demur.model.refusal import Refusal

RCE = Refusal.from_code("RCE_RISK", "curl x | sh", evidence={"command": "curl"})
ALLOWS = Refusal.from_code("SUCCESS_MEMORY_SIMILAR_ALLOW")


def test_a_code_that_allows_is_no_refusal() -> None:
    with pytest.raises(InputError, match="is a code that allows"):
        check_refuses(ALLOWS)
    with pytest.raises(InputError):
        to_envelope(ALLOWS)


def test_members_that_are_not_known_are_left() -> None:
    assert from_envelope({**to_envelope(RCE), "later": [1]}) == RCE


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": "refusal.v2"},
        {"line": "REFUSED: RATE_LIMIT: x"},
        {"advice": "bribe"},
        {"code": 7},
        {"detail": "x" * 3000, "line": ""},
        {"source": {"name": ""}},
    ],
)
def test_an_envelope_that_contradicts_itself_is_none(change: dict[str, Any]) -> None:
    assert from_envelope({**to_envelope(RCE), **change}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"refusal_class": None},
        {"refusal_class": "SOFT_BLOCK"},
        {"advice": "retry_later"},
        {"retry_scope": "call"},
        {"decided": False},
        {"severity": "info"},
        {"parent": "RATE_LIMIT"},
    ],
)
def test_envelope_fields_looser_than_the_registry_are_ignored(change: dict[str, Any]) -> None:
    assert from_envelope({**to_envelope(RCE), **change}) == RCE


@pytest.mark.parametrize("data", [None, 1, "x", [], {}, [to_envelope(RCE)]])
def test_data_that_is_not_an_object_with_a_schema_is_none(data: object) -> None:
    assert from_envelope(data) is None


def test_only_a_canonical_line_is_read() -> None:
    assert from_refusal_line("REFUSED: RCE_RISK: x") == Refusal.from_code("RCE_RISK", "x")
    for text in ("rate limit exceeded", "REFUSED: NOPE_NOPE: x", " REFUSED: RCE_RISK: x", None, 3):
        assert from_refusal_line(text) is None
    assert from_refusal_line(ALLOWS.line) is None


def test_a_member_is_found_in_nested_objects_or_none() -> None:
    assert nested_value({"a": {"b": 1}}, "a", "b") == 1
    assert nested_value({"a": []}, "a", "b") is None
    assert nested_value({"a": 1}) == {"a": 1}


SCHEMA = Path(__file__).parents[3] / "spec/schemas/refusal.v1.schema.json"
CORE = Registry.load()
LIMIT = Refusal.from_code(
    "RATE_LIMIT", "100 a minute", evidence={"retry_after": 30}, decision_id="D1"
)


def test_type_title_status_and_detail_come_first_and_the_rest_are_extensions() -> None:
    problem = to_problem(LIMIT, instance="/decisions/D1", registry=CORE)

    assert list(problem)[:4] == ["type", "title", "status", "instance"]
    assert problem["type"] == "urn:demur:code:RATE_LIMIT"
    assert problem["title"] == CORE["RATE_LIMIT"].title
    assert (problem["status"], problem["detail"]) == (429, "100 a minute")
    assert (problem["code"], problem["advice"]) == ("RATE_LIMIT", "retry_later")
    assert problem["evidence"] == {"retry_after": 30}


def test_without_its_own_members_it_is_an_envelope_of_the_published_schema() -> None:
    problem = to_problem(LIMIT)
    for name in ("type", "title", "status"):
        del problem[name]

    jsonschema.validate(problem, json.loads(SCHEMA.read_text(encoding="utf-8")))


def test_a_code_that_is_not_loaded_has_the_status_of_its_parent() -> None:
    foreign = msgspec.structs.replace(
        LIMIT, code="acme.com/TOO_MANY_ORDERS", parent="RATE_LIMIT", line=""
    )
    problem = to_problem(foreign, registry=CORE)

    assert (problem["status"], problem["title"]) == (429, "Too many orders")
    assert from_problem(problem) == foreign


@pytest.mark.parametrize(("decided", "status"), [(True, 403), (False, 503)])
def test_a_code_of_which_nothing_is_known_is_forbidden_or_not_judged(
    decided: bool, status: int
) -> None:
    odd = msgspec.structs.replace(LIMIT, code="ODD_ONE", parent=None, decided=decided, line="")

    assert to_problem(odd, registry=CORE)["status"] == status


def test_a_problem_stripped_by_a_gateway_is_still_a_refusal() -> None:
    bare = {"type": "urn:demur:code:RCE_RISK", "title": "x", "status": 403, "detail": "curl"}

    assert from_problem(bare) == Refusal.from_code("RCE_RISK", "curl")
    assert from_problem({"type": "urn:demur:code:RCE_RISK"}) == Refusal.from_code("RCE_RISK")


@pytest.mark.parametrize(
    "data",
    [
        {"type": "about:blank", "status": 403},
        {"type": "urn:demur:code:NOPE_NOPE"},
        {"type": "urn:demur:code:SUCCESS_MEMORY_SIMILAR_ALLOW"},
        {"type": 7},
        {**to_problem(LIMIT), "type": "urn:demur:code:RCE_RISK"},
        {**to_problem(LIMIT), "advice": "bribe"},
    ],
)
def test_other_problems_and_contradictions_are_none(data: dict[str, object]) -> None:
    assert from_problem(data) is None


def test_an_organisation_s_code_has_its_own_title(
    tmp_path: Path, acme_text: Callable[..., str]
) -> None:
    path = tmp_path / "acme.json"
    path.write_text(acme_text({"code": "acme.com/KYC_EXPIRED"}), encoding="utf-8")
    registry = Registry.load(path)
    refusal = Refusal.from_code("acme.com/KYC_EXPIRED", registry=registry)

    assert to_problem(refusal, registry=registry)["type"] == "urn:demur:code:acme.com/KYC_EXPIRED"
    assert to_problem(refusal, registry=registry)["title"] == registry[refusal.code].title


def test_a_code_that_allows_is_no_problem() -> None:
    with pytest.raises(InputError):
        to_problem(Refusal.from_code("SUCCESS_MEMORY_SIMILAR_ALLOW"))
