import gzip
from pathlib import Path
from typing import Any

import httpx
import pytest
from openapi_spec_validator import validate
from support.gates import gate_over
from support.service_app import Caller, add_key, open_service, open_service_over

from demur.codes.registry import Registry
from demur.observe.metrics import Metrics
from demur.service.problem import ProblemError
from demur.service.settings import ServiceSettings
from demur.store.backend import StorageError
from demur.store.opening import open_store
from demur.store.store import Store


class Failing(Store):
    """A store that does not answer."""

    error: Exception = StorageError("gone")

    def info(self) -> dict[str, object]:
        """Fail."""
        raise self.error


def test_a_service_is_up_and_ready() -> None:
    with open_service() as call:
        assert call("GET", "/health").json()["status"] == "up"
        assert call("GET", "/healthz").json() == call("GET", "/health").json()
        assert call("GET", "/ready").json()["status"] == "ready"
        assert call("GET", "/ready").json()["status"] == "ready"


def test_readiness_queries_the_store_at_most_once_a_second() -> None:
    with open_service() as call:
        call("GET", "/ready")
        asked = call.service.checked_at
        call("GET", "/ready")

        assert call.service.checked_at == asked


def test_a_service_without_a_store_is_ready() -> None:
    with open_service_over(gate_over(None)) as call:
        assert call("GET", "/ready").status_code == 200


def test_a_service_that_ends_is_up_but_not_ready() -> None:
    with open_service() as call:
        call.service.closing = True

        assert call("GET", "/ready").status_code == 503
        assert call("GET", "/health").status_code == 200


@pytest.mark.parametrize("error", [StorageError("gone"), ProblemError(503, "RATE_LIMIT", "busy")])  # type: ignore[arg-type]
def test_a_service_whose_store_does_not_answer_is_not_ready(error: Exception) -> None:
    with open_store(":memory:") as real:
        store = Failing(real.backend)
        store.error = error
        with open_service_over(gate_over(store)) as call:
            assert call("GET", "/ready").status_code == 503
            assert call("GET", "/health").status_code == 200


def test_metrics_are_for_keys_of_all_tenants_and_loopback() -> None:
    with open_service(metrics=Metrics()) as call:
        assert b"demur_decisions_total" in call("GET", "/metrics").content
        assert call("GET", "/metrics").headers["content-type"].startswith("text/plain")
        every, one = add_key(call.store, "", "read"), add_key(call.store, "acme", "read")
        assert call("GET", "/metrics", key=every).status_code == 200
        assert call("GET", "/metrics", key=one).status_code == 403
    with open_service() as call:
        assert call("GET", "/metrics").status_code == 404


def test_the_description_is_served_to_everybody_and_holds() -> None:
    with open_service() as call:
        first, again = call("GET", "/openapi.json"), call("GET", "/openapi.json")

    assert first.content == again.content
    validate(first.json())


LOG = b"""2026-11-15T12:00:01Z REFUSED: RCE_RISK: curl | sh
2026-11-15T12:00:02Z all is well
2026-11-15T13:00:03Z REFUSED: RCE_RISK: wget | sh
2026-11-15T13:00:04Z REFUSED: RATE_LIMIT: too often
"""


def sent(call: Caller, content: bytes, query: str = "", kind: str = "text/plain") -> httpx.Response:
    return call("POST", f"/v1/triage{query}", content=content, headers={"content-type": kind})


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_refusals_of_a_log_are_counted(pack: Any) -> None:
    with open_service() as call:
        found = sent(call, pack(LOG), "?top=1&samples=2", "application/octet-stream").json()

    assert found["total"] == 3
    assert found["groups"] == [
        {"code": "RCE_RISK", "canonical": 2, "legacy": 0, "total": 2, "share": 0.666667}
    ]
    assert found["more_groups"] == 1


def test_a_log_is_counted_by_hour_and_by_class() -> None:
    with open_service() as call:
        hours = sent(call, LOG, "?by=hour&format=text").json()["groups"]
        classes = sent(call, LOG, "?by=class").json()["groups"]

    assert [(group["hour"], group["total"]) for group in hours] == [
        ("2026-11-15T12", 1),
        ("2026-11-15T13", 2),
    ]
    assert sum(group["total"] for group in classes) == 3


def test_a_log_knows_the_codes_of_the_gate(tmp_path: Path, acme_text: Any) -> None:
    path = tmp_path / "acme.json"
    path.write_text(acme_text({"code": "acme.com/LATE"}))
    with open_store(":memory:") as store:
        gate = gate_over(store, registry=Registry.load(path))
        with open_service_over(gate) as call:
            found = sent(call, b"REFUSED: acme.com/LATE: x\n").json()

    assert (found["canonical"], found["unknown"]) == (1, 0)


def test_a_log_that_was_packed_to_be_large_is_cut_off() -> None:
    with open_service(ServiceSettings(largest_log=100_000)) as call:
        bomb = sent(call, gzip.compress(b"\n" * 20_000_000), kind="application/gzip")
        large = sent(call, b"x" * 100_001)

    assert (bomb.status_code, large.status_code) == (413, 413)
    assert bomb.json()["code"] == "REQUEST_INVALID"


@pytest.mark.parametrize("query", ["?by=file", "?by=", "?top=0", "?samples=21", "?format=xml"])
def test_a_question_that_makes_no_sense_is_refused(query: str) -> None:
    with open_service() as call:
        assert sent(call, LOG, query).status_code == 422


def test_damaged_logs_are_counted_as_far_as_they_go() -> None:
    with open_service() as call:
        found = sent(call, gzip.compress(LOG)[:-12]).json()

    assert found["unread"]


def test_a_log_is_no_json() -> None:
    with open_service() as call:
        assert sent(call, LOG, kind="application/json").status_code == 415


def test_only_so_many_logs_are_taken_at_once() -> None:
    with open_service() as call:
        places = [call.service.reserve_log_slot() for _ in range(4)]
        for place in places:
            place.__enter__()
        refused = sent(call, LOG)
        for place in places:
            place.__exit__(None, None, None)

        assert refused.status_code == 503
        assert sent(call, LOG).status_code == 200
