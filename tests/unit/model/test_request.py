import json
from collections import UserDict
from types import MappingProxyType
from typing import Any

import pytest
from support.gates import refund

from demur.canonical import canonical_bytes
from demur.errors import InputError, InputTypeError
from demur.model.request import MAX_REQUEST_BYTES, REQUEST_KEYS, Subject, read_request

LEAST = {"action": {"type": "refund"}}


def test_an_action_is_all_it_takes() -> None:
    request = read_request(LEAST)

    assert request.action.type == "refund"
    assert (request.request_id, request.continues, request.tenant) == (None, None, None)
    assert request.requester is None
    assert request.pin is None
    assert request.raw == canonical_bytes(LEAST)
    assert request.is_fast_canonical


def test_the_parts_that_demur_reads_are_typed() -> None:
    request = read_request(
        refund(
            request_id="r1",
            continues="01J",
            tenant={"id": "acme", "environment": "prod"},
            policy={"policy_id": "support"},
            schema_version="decision_request.v1",
        )
    )

    assert (request.request_id, request.continues, request.tenant) == ("r1", "01J", "acme")
    assert request.requester == "agent:billing"
    assert request.pin is not None
    assert request.pin.policy_id == "support"


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ({}, None),
        ({"id": "a"}, "a"),
        ({"type": "user", "id": "a"}, "user:a"),
        ({"type": "user"}, None),
    ],
)
def test_the_requester_is_named_as_in_grants(subject: dict[str, Any], name: str | None) -> None:
    assert Subject(**subject).name == name
    assert read_request({**LEAST, "subject": subject}).requester == name


@pytest.mark.parametrize("kind", [dict, UserDict, MappingProxyType])
def test_any_mapping_will_do_and_is_copied(kind: Any) -> None:
    inner = {"type": "refund", "tags": ["a"]}
    request = read_request(kind({"action": inner}))
    inner["tags"].append("b")  # type: ignore[attr-defined]

    assert request.facts == {"action": {"type": "refund", "tags": ["a"]}}
    assert type(request.facts) is dict


@pytest.mark.parametrize("value", [None, 5, "action", b"{}", [LEAST], object()])
def test_a_request_must_be_a_mapping(value: Any) -> None:
    with pytest.raises(InputTypeError, match="a request must be a mapping"):
        read_request(value)


@pytest.mark.parametrize(
    ("request_", "where", "problem"),
    [
        ({}, None, "missing required field `action`"),
        ({"action": {}}, "action", "missing required field `type`"),
        ({"action": "refund"}, "action", "expected `object`"),
        ({"action": {"type": ""}}, "action.type", "length >= 1"),
        ({"action": {"type": "x" * 257}}, "action.type", "length <= 256"),
        ({"action": {"type": 5}}, "action.type", "expected `str`, got `int`"),
        ({"action": {"type": "x", "tags": [1]}}, "action.tags[0]", "expected `str`"),
        ({"action": {"type": "x", "amount": 20}}, "action.amount", "expected `object"),
        ({**LEAST, "subject": {"id": 5}}, "subject.id", "expected `str"),
        ({**LEAST, "subject": {"roles": "admin"}}, "subject.roles", "expected `array"),
        ({**LEAST, "tenant": {"tenant_id": "a"}}, "tenant", "missing required field `id`"),
        ({**LEAST, "tenant": "acme"}, "tenant", "expected `object"),
        ({**LEAST, "request_id": 5}, "request_id", "expected `str"),
        ({**LEAST, "continues": ""}, "continues", "length >= 1"),
        ({**LEAST, "evidence": []}, "evidence", "expected `object"),
        ({**LEAST, "context_ref": "c"}, "context_ref", "expected `object"),
        ({**LEAST, "policy": {"policy_id": 5}}, "policy.policy_id", "expected `str"),
        ({**LEAST, "policy": {"id": "x"}}, "policy", "unknown field `id`"),
        ({**LEAST, "schema_version": "v0"}, "schema_version", "invalid enum value 'v0'"),
        ({**LEAST, "schema_version": 1}, "schema_version", "expected `str"),
        ({**LEAST, "evidnce": {}}, "evidnce", "no field `evidnce`"),
        ({"Action": {}, **LEAST}, "Action", "no field `Action`"),
    ],
)
def test_a_part_that_cannot_be_used_is_named_by_its_path(
    request_: dict[str, Any], where: str | None, problem: str
) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        read_request(request_)

    assert caught.value.where == where


def test_the_help_for_an_unknown_field_lists_those_there_are() -> None:
    with pytest.raises(InputError) as caught:
        read_request({**LEAST, "nothing": 1})

    assert caught.value.help == f"one of {', '.join(REQUEST_KEYS)}"


@pytest.mark.parametrize(
    ("request_", "where"),
    [
        (refund(evidence={"x": "a" * MAX_REQUEST_BYTES}), "evidence"),
        (refund(trace={"x": ["ab"] * MAX_REQUEST_BYTES}), "trace"),
        ({**LEAST, "big": "a" * MAX_REQUEST_BYTES}, None),
    ],
)
def test_a_request_that_is_too_large_is_refused_and_the_part_named(
    request_: dict[str, Any], where: str | None
) -> None:
    with pytest.raises(InputError, match="at most 1000000 bytes") as caught:
        read_request(request_)

    assert "context_ref" in str(caught.value.help)
    assert caught.value.where == where


def test_a_large_request_within_the_limit_is_read() -> None:
    room = MAX_REQUEST_BYTES - len(canonical_bytes(refund(evidence={"x": ""})))

    assert len(read_request(refund(evidence={"x": "a" * room})).raw) == MAX_REQUEST_BYTES
    with pytest.raises(InputError):
        read_request(refund(evidence={"x": "a" * (room + 1)}))


@pytest.mark.parametrize("value", [1e-7, {"é": 1}, 1e300])
def test_a_value_that_the_fast_encoder_spells_differently_is_marked(value: Any) -> None:
    request = read_request(refund(evidence={"x": value}))

    assert not request.is_fast_canonical
    assert request.raw == canonical_bytes(request.facts)


@pytest.mark.parametrize("value", [1e21, -1e300, 2.0**53 - 1, 0.5, 1e-300])
def test_a_number_that_reads_back_as_itself_is_taken(value: float) -> None:
    request = read_request(refund(evidence={"x": [value]}))

    assert json.loads(request.raw)["evidence"]["x"] == [value]


@pytest.mark.parametrize(
    ("part", "where"),
    [
        ({"request_id": "r\u0000"}, "request_id"),
        ({"tenant": {"id": "a\nb"}}, "tenant.id"),
        ({"subject": {"type": "agent", "id": "x\u202e"}}, "subject.id"),
        ({"subject": {"type": "\u200b", "id": "x"}}, "subject.type"),
        ({"action": {"type": "re\tfund"}}, "action.type"),
    ],
)
def test_a_name_that_cannot_be_shown_is_refused(part: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match="cannot be shown") as caught:
        read_request({"action": {"type": "refund"}, **part})

    assert caught.value.where == where


@pytest.mark.parametrize(
    "subject", [{"type": "a:b", "id": "c"}, {"id": "agent:billing"}], ids=["type", "id"]
)
def test_a_subject_cannot_pass_for_another_one(subject: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="`:`"):
        read_request({"action": {"type": "refund"}, "subject": subject})
