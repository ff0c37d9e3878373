from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.gates import cleanup, finding, gate_over, grant, refund
from support.service_app import add_key, open_service, open_service_over

from demur.observe.metrics import Metrics
from demur.store.backend import UnavailableError
from demur.store.opening import open_store
from demur.store.store import Store


class Lost(Store):
    """A store that cannot be written to."""

    async def aput(self, *_: Any) -> Any:
        """Fail."""
        raise UnavailableError("the disk is full")


def test_a_refusal_is_a_200_with_its_record() -> None:
    with open_service() as call:
        answered = call("POST", "/v1/decide", {"request": refund(500)})
        record = answered.json()

        assert answered.status_code == 200
        assert record["verdict"] == "ESCALATE"
        assert record["request"]["evidence"] == {"ticket_id": "T-1"}
        stored = call.store.get(record["decision_id"])
    assert stored is not None
    assert record == dict(stored.items())


def test_findings_and_signals_next_to_the_request_count() -> None:
    with open_service() as call:
        found = msgspec.to_builtins(finding("RCE_RISK"))
        body = {"request": refund(20), "findings": [found], "signals": {"mood": 1}}
        record = call("POST", "/v1/decide", body).json()

    assert record["reason_codes"] == ["RCE_RISK"]
    assert record["risk_signals"]["mood"] == 1


def test_a_store_that_is_down_from_the_start_is_answered_as_an_outage(tmp_path: Path) -> None:
    store = open_store(tmp_path / "later" / "demur.db", defer=True)
    with gate_over(store) as gate, open_service_over(gate) as call:
        down = call("POST", "/v1/decide", {"request": refund()})
        (tmp_path / "later").mkdir()
        up = call("POST", "/v1/decide", {"request": refund()})

    assert (down.status_code, down.json()["code"]) == (503, "STORAGE_UNAVAILABLE")
    assert (up.status_code, up.json()["verdict"]) == (200, "ALLOW")


def test_the_key_says_whose_decision_it_is() -> None:
    with open_service() as call:
        key, every = add_key(call.store, "acme"), add_key(call.store, "")
        mine = call("POST", "/v1/decide", {"request": refund()}, key=key)
        claimed = {"request": refund(tenant={"id": "other"})}

        assert mine.json()["tenant"] == "acme"
        assert call("POST", "/v1/decide", claimed, key=key).status_code == 422
        assert call("POST", "/v1/decide", claimed, key=every).json()["tenant"] == "other"
        assert call("POST", "/v1/decide", {"request": refund()}, key=every).json()["tenant"] == (
            "default"
        )


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, None),
        ({"request": 1}, "request"),
        ({"request": {"action": {}}}, "action"),
        ({"request": refund(), "extra": 1}, "extra"),
        ({"request": refund(), "findings": [{"code": "NO_SUCH", "surface": "input"}]}, None),
        ({"request": refund(), "grants": [{}]}, "grants[0]"),
        ({"request": refund(), "signals": {"failure_similarity": 1}}, "signals.failure_similarity"),
        ({"request": refund(), "signals": {"guards": {"pii": 0}}}, "signals.guards"),
        ({"request": refund(), "guard_signals": {"pii": 0}}, "guard_signals"),
        ({"request": refund(), "signals": {"a": [1]}}, "signals.a"),
        ({"request": refund(), "accepted": [1]}, "accepted[0]"),
        ([], None),
    ],
)
def test_an_unusable_request_is_reported_and_not_stored(body: Any, where: str | None) -> None:
    with open_service() as call:
        answered = call("POST", "/v1/decide", body)

        assert answered.status_code == 422
        assert answered.json()["code"] == "REQUEST_INVALID"
        assert answered.json().get("where") == where
        assert list(call.store.find_records()) == []


@pytest.mark.parametrize("name", ["requst", "zzz"])
def test_a_field_that_is_none_is_named_beside_those_there_are(name: str) -> None:
    with open_service() as call:
        details = call("POST", "/v1/decide", {"request": refund(), name: 1}).json()

    assert details["where"] == name
    assert "the fields are request, " in details["help"]
    assert ("did you mean `request`?" in details["help"]) == (name == "requst")


def test_the_same_request_id_gives_the_same_decision_and_another_request_a_conflict() -> None:
    with open_service() as call:
        body = {"request": refund(20, request_id="r1")}
        first, again = call("POST", "/v1/decide", body), call("POST", "/v1/decide", body)
        other = call("POST", "/v1/decide", {"request": refund(30, request_id="r1")})

    assert again.json()["decision_id"] == first.json()["decision_id"]
    assert other.status_code == 409
    assert other.json()["code"] == "IDEMPOTENCY_CONFLICT"


def test_a_decision_that_cannot_be_stored_is_a_503() -> None:
    with (
        open_store(":memory:") as real,
        gate_over(Lost(real.backend)) as gate,
        open_service_over(gate) as call,
    ):
        answered = call("POST", "/v1/decide", {"request": refund()})

    assert answered.status_code == 503
    assert answered.json()["code"] == "STORAGE_UNAVAILABLE"
    assert answered.headers["retry-after"] == "1"


def test_an_internal_error_is_recorded_as_an_abstention(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_service() as call:
        broken = call.service.gate._engine

        def fail(_: Any) -> Any:
            raise RuntimeError("inside")

        monkeypatch.setattr(type(broken), "evaluate", lambda *_: fail(None))
        answered = call("POST", "/v1/decide", {"request": refund()})

    assert answered.status_code == 200
    assert answered.json()["verdict"] == "ABSTAIN"
    assert answered.json()["reason_codes"] == ["INTERNAL_ERROR"]


def test_deciding_is_timed_where_metrics_are_kept() -> None:
    metrics = Metrics()
    with open_service(metrics=metrics) as call:
        call("POST", "/v1/decide", {"request": refund()})

    assert b"demur_decision_seconds_count 1.0" in metrics.render_metrics()


def test_accepted_constraints_and_grants_resolve() -> None:
    with open_service() as call:
        asked = call("POST", "/v1/decide", {"request": cleanup()}).json()
        path = f"/v1/decisions/{asked['decision_id']}/resolve"
        resolved = call("POST", path, {"accepted": ["dry_run"]})

        assert resolved.status_code == 200
        assert resolved.json()["decision_output"] == "ALLOW_CONSTRAINED"
        assert call("POST", "/v1/decisions/NO/resolve", {}).status_code == 404
        assert call("POST", path, {"accepted": 1}).status_code == 422


def test_an_approval_comes_over_http() -> None:
    with open_service() as call:
        asked = call("POST", "/v1/decide", {"request": refund(500)}).json()
        given = msgspec.to_builtins(grant(asked["scope"]))
        path = f"/v1/decisions/{asked['decision_id']}/resolve"

        assert call("POST", path, {"grants": [given]}).json()["verdict"] == "ALLOW"
