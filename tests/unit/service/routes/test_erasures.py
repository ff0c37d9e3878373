"""Erasing over HTTP: by admins, for their tenant, with a preview, and on record."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.gates import gate_over, refund
from support.service_app import Caller, add_key, open_service_over

from demur.service.routes import erasures
from demur.store.events import OTHER_KINDS, read_event
from demur.store.opening import open_store
from demur.store.verify import verify_chain

ANN = "ann@example.org"


@pytest.fixture(params=["sqlite", "postgresql"])
def call(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Caller]:
    place = str(tmp_path / "records.db")
    if request.param == "postgresql":
        place = request.getfixturevalue("postgres_url")
    with gate_over(open_store(place)) as gate, open_service_over(gate) as caller:
        yield caller


@pytest.fixture
def admin(call: Caller) -> str:
    return add_key(call.store, "acme", "admin")


def decide(call: Caller, key: str, **evidence: Any) -> str:
    body = {"request": refund(500, evidence=evidence)}
    decision_id: str = call("POST", "/v1/decide", body, key=key).json()["decision_id"]
    return decision_id


def test_a_preview_changes_nothing_and_an_erasure_is_on_record(call: Caller, admin: str) -> None:
    ids = [decide(call, admin, ticket_id=ANN), decide(call, admin, ticket_id="T-1")]
    previewed = call("POST", "/v1/erasures/preview", {"identifier": ANN}, key=admin).json()

    assert previewed == {
        "tenant": "acme",
        "records": 1,
        "others": dict.fromkeys(OTHER_KINDS, 0),
        "open_parts": 0,
        "kept": {},
        "why": {},
        "next": None,
    }
    assert list(call.store.backend.read_events("acme")) == []
    order = {"identifier": ANN, "reason": "request 12"}
    erased = call("POST", "/v1/erasures", order, key=admin).json()
    name = admin.split("_")[1]
    assert (erased["records"], erased["by"], erased["reason"]) == (1, f"key:{name}", "request 12")
    kept = {one.decision_id: one.sealed is not None for one in call.store.find_records()}
    assert kept == dict(zip(ids, (False, True), strict=True))
    [event] = map(read_event, call.store.backend.read_events("acme"))
    assert (event.by, event.reason, list(event.what["decisions"])) == (
        f"key:{name}",
        "request 12",
        ids[:1],
    )
    assert verify_chain(call.store.backend).holds
    again = call("POST", "/v1/erasures", order, key=admin).json()
    assert again["records"] == 0


def test_what_keeps_an_identifier_is_said_with_the_reason(call: Caller, admin: str) -> None:
    body = {"request": refund(500, request_id=ANN)}
    call("POST", "/v1/decide", body, key=admin)
    previewed = call("POST", "/v1/erasures/preview", {"identifier": ANN}, key=admin).json()

    assert previewed["open_parts"] == 1
    assert previewed["kept"] == {"record.request_id": 1}
    assert previewed["why"] == {
        "record.request_id": "the hash chain covers the open part of a record"
    }


def test_a_long_chain_is_searched_in_parts(
    call: Caller, admin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasures, "_MAX_SEARCHED", 2)
    for number in range(5):
        decide(call, admin, ticket_id=ANN if number % 2 == 0 else "T-1")
    first, records, calls = 1, 0, 0
    while first is not None:
        body = {"identifier": ANN, "first": first}
        part = call("POST", "/v1/erasures/preview", body, key=admin).json()
        first, records, calls = part["next"], records + part["records"], calls + 1

    assert (records, calls) == (3, 3)


def test_a_key_of_all_tenants_names_one(call: Caller) -> None:
    root = add_key(call.store, "", "admin")
    acme = add_key(call.store, "acme", "decide")
    decide(call, acme, ticket_id=ANN)
    body = {"identifier": ANN}
    unnamed = call("POST", "/v1/erasures/preview", body, key=root)

    assert (unnamed.status_code, unnamed.json()["where"]) == (422, "tenant")
    found = call("POST", "/v1/erasures/preview?tenant=acme", body, key=root)
    assert found.json()["records"] == 1
    other = call("POST", "/v1/erasures/preview?tenant=zoo", body, key=root)
    assert other.json()["records"] == 0


@pytest.mark.parametrize("roles", [("read",), ("label",), ("decide",)])
def test_only_an_admin_erases(call: Caller, roles: tuple[str, ...]) -> None:
    key = add_key(call.store, "acme", *roles)
    body = {"identifier": ANN, "reason": "x"}

    assert call("POST", "/v1/erasures", body, key=key).status_code == 403
    preview = call("POST", "/v1/erasures/preview", {"identifier": ANN}, key=key)
    assert preview.status_code == 403


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"identifier": ANN}, None),
        ({"identifier": ANN, "reason": " "}, "reason"),
        ({"identifier": ANN, "reason": "a\nb"}, "reason"),
        ({"identifier": "   x", "reason": "x"}, None),
        ({"identifier": ANN, "reason": "x", "by": "somebody else"}, "by"),
        ({"identifier": ANN, "reason": "x", "first": 0}, "first"),
    ],
)
def test_an_invalid_order_erases_nothing(
    call: Caller, admin: str, body: dict[str, Any], where: str | None
) -> None:
    decide(call, admin, ticket_id=ANN)
    refused = call("POST", "/v1/erasures", body, key=admin)

    assert refused.status_code == 422
    assert where is None or where in (refused.json().get("where") or refused.text)
    assert all(record.sealed is not None for record in call.store.find_records())


def test_a_page_of_another_site_erases_nothing(call: Caller, admin: str) -> None:
    decide(call, admin, ticket_id=ANN)
    body = {"identifier": ANN, "reason": "x"}
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        refused = call("POST", "/v1/erasures", body, key=admin, headers=headers)
        assert refused.status_code == 403

    assert all(record.sealed is not None for record in call.store.find_records())
