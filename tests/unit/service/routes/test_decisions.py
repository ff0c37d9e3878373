import io
import zipfile
from datetime import timedelta

import msgspec
import pytest
from support.gates import NOON, Ticking, cleanup, finding, gate_over, refund
from support.service_app import Caller, add_key, open_service

from demur.service.dashboard.counts import count_period
from demur.service.dashboard.time_range import named_range
from demur.service.record_search import record_view


def decided(call: Caller, *values: int) -> list[str]:
    asked = [call("POST", "/v1/decide", {"request": refund(value)}) for value in values]
    return [answered.json()["decision_id"] for answered in asked]


def listed(call: Caller, query: str) -> list[str]:
    answered = call("GET", f"/v1/decisions?{query}")
    assert answered.status_code == 200, answered.text
    return [record["decision_id"] for record in answered.json()["decisions"]]


def test_decisions_are_listed_newest_first_in_pages() -> None:
    with open_service() as call:
        ids = decided(call, 1, 2, 3)
        first = call("GET", "/v1/decisions?limit=2").json()
        rest = call("GET", f"/v1/decisions?limit=2&before={first['next']}").json()

    assert [record["decision_id"] for record in first["decisions"]] == ids[:0:-1]
    assert [record["decision_id"] for record in rest["decisions"]] == ids[:1]
    assert rest["next"] is None


def test_a_code_that_does_not_exist_is_named_with_the_one_that_was_meant() -> None:
    with open_service() as call:
        answered = call("GET", "/v1/decisions?code=RCE_RISC")

    assert answered.status_code == 422
    details = answered.json()
    assert (details["where"], details["help"]) == ("code", "did you mean `RCE_RISK`?")


def test_decisions_are_found_by_what_they_are() -> None:
    with open_service() as call:
        small, large = decided(call, 1, 500)
        call("POST", f"/v1/decisions/{small}/labels", {"value": "good"})
        for query, found in {
            "verdict=ALLOW": [small],
            "output=NEED_CONTEXT": [large],
            "class=WORKFLOW_BLOCK": [large],
            "code=REFUND_OVER_ESCALATION_LIMIT": [large],
            "action=refund": [large, small],
            "action=nothing": [],
            "q=REFUND+bill": [large, small],
            "q=refund&verdict=ALLOW": [small],
            "q=%22refund%22+NOT+bill": [],
            "q=%2A": [],
            "q=": [large, small],
            "subject=agent:billing&code=": [large, small],
            "since=2026-11-15&until=2026-11-15T12:00:01Z": [large, small],
            "since=2026-11-15T13:00:00%2B01:00": [large, small],
            "until=2026-11-15T12:00:00": [],
            "unreviewed=1": [large],
            "unreviewed=0": [large, small],
            "tenant=default": [large, small],
            "tenant=other": [],
        }.items():
            assert listed(call, query) == found, query


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=x",
        "since=yesterday",
        "verdict=NO",
        "until=9999999",
        "colour=red",
        "class=X",
    ],
)
def test_a_question_that_makes_no_sense_is_refused(query: str) -> None:
    with open_service() as call:
        assert call("GET", f"/v1/decisions?{query}").status_code == 422


@pytest.mark.parametrize("part", ["", "/explain", "/pack", "/labels"])
@pytest.mark.parametrize("name", ["NO", "a%20b", "..", "x" * 65, "%F0%9F%98%80", "'%20OR%201=1"])
def test_an_unknown_decision_is_a_404(part: str, name: str) -> None:
    with open_service() as call:
        assert call("GET", f"/v1/decisions/{name}{part}").status_code == 404


@pytest.mark.parametrize("part", ["", "/explain", "/pack", "/labels"])
def test_no_id_holds_a_nul(part: str) -> None:
    with open_service() as call:
        assert call("GET", f"/v1/decisions/%00{part}").status_code == 422


def test_a_decision_is_shown_whole_also_once_it_is_erased() -> None:
    with open_service() as call:
        [one] = decided(call, 500)
        shown = call("GET", f"/v1/decisions/{one}").json()
        assert shown["request"]["action"]["type"] == "refund"
        assert {"salt", "fingerprint", "sealed"}.isdisjoint(shown)
        call.store.erase_subject("default", "agent:billing", by="ops", reason="test")
        erased = call("GET", f"/v1/decisions/{one}").json()
        record = call.store.get(one)

    assert erased["request"] is None
    assert record is not None
    assert list(record_view(record)) == list(record)


def test_a_decision_is_explained_replayed_and_exported() -> None:
    with open_service() as call:
        [one] = decided(call, 500)
        told = call("GET", f"/v1/decisions/{one}/explain").json()
        again = call("POST", f"/v1/decisions/{one}/replay").json()
        pack = call("GET", f"/v1/decisions/{one}/pack")

    assert told["rules"][0]["rule_id"] == "R_LIMIT"
    assert told["family"] == [one]
    assert again == {"same": True, "differences": [], "notes": []}
    assert pack.headers["content-disposition"] == f'attachment; filename="{one}.zip"'
    assert "record.json" in zipfile.ZipFile(io.BytesIO(pack.content)).namelist()


def test_a_policy_that_was_changed_in_the_store_is_named_and_not_shown() -> None:
    with open_service() as call:
        [one] = decided(call, 500)
        with call.store.backend._open_write() as execute:
            execute(
                "UPDATE snapshots SET text = replace(text, 'R_', 'Q_') WHERE kind = 'policy'", {}
            )
        explained = call("GET", f"/v1/decisions/{one}/explain").json()
        packed = call("GET", f"/v1/decisions/{one}/pack")

    assert explained["changed"] == ["the policy in the store is not the one that decided"]
    assert explained["rules"][0]["words"] is None
    assert packed.status_code >= 400


def test_an_erased_decision_cannot_be_replayed() -> None:
    with open_service() as call:
        [one] = decided(call, 500)
        call.store.erase_subject("default", "agent:billing", by="ops", reason="test")
        answered = call("POST", f"/v1/decisions/{one}/replay")

    assert answered.status_code == 422
    assert answered.json()["code"] == "CONTEXT_MISSING"


def test_an_explanation_lists_grants_and_codes() -> None:
    with open_service() as call:
        asked = call("POST", "/v1/decide", {"request": cleanup()}).json()
        told = call("GET", f"/v1/decisions/{asked['decision_id']}/explain").json()

    assert told["grants"] == []
    assert told["codes"]["DESTRUCTIVE_ACTION"]


def test_labels_and_outcomes_are_stored_with_their_author() -> None:
    with open_service() as call:
        key = add_key(call.store, "acme")
        body = {"request": refund(500)}
        one = call("POST", "/v1/decide", body, key=key).json()["decision_id"]
        path = f"/v1/decisions/{one}"
        said = {"value": "false_refusal", "note": "<b>no</b>\nline", "by": "mary"}
        first = call("POST", f"{path}/labels", said, key=key)
        learned = call("POST", f"{path}/outcome", {"outcome": "failure", "days": 2}, key=key)
        labels = call("GET", f"{path}/labels", key=key).json()["labels"]
        kept = call.store.list_experiences("acme", "2026-11-15T12:00:00.000Z")

    assert (first.status_code, learned.status_code) == (201, 201)
    key_id = key.split("_")[1]
    # A name is a claim; the key is what is known.
    assert [label["by"] for label in labels] == [f"mary (key {key_id})", key_id]
    assert labels[0]["note"] == said["note"]
    assert learned.json()["effect"].startswith("similar requests are denied from similarity")
    assert kept[0].expires_at == "2026-11-17T12:00:00.000Z"


@pytest.mark.parametrize(
    "body",
    [
        {"value": "bad"},
        {"value": "good", "note": "x" * 2001},
        {"value": "good", "note": "a\0b"},
        {"value": "good", "by": 1},
        {},
    ],
)
def test_a_label_that_cannot_be_kept_is_refused(body: dict[str, object]) -> None:
    with open_service() as call:
        [one] = decided(call, 500)
        assert call("POST", f"/v1/decisions/{one}/labels", body).status_code == 422


def test_statistics_count_what_was_decided() -> None:
    with open_service() as call:
        decided(call, 1, 500)
        seen = msgspec.to_builtins(finding("RCE_RISK"))
        call("POST", "/v1/decide", {"request": refund(1), "findings": [seen]})
        found = call("GET", "/v1/stats?hours=24").json()
        other = call("GET", "/v1/stats?tenant=other").json()

    assert found["decisions"] == 3
    assert found["verdicts"][0] == {"name": "ALLOW", "count": 1, "percent": 33.33}
    assert found["deny_reasons"] == [{"name": "RCE_RISK", "count": 1, "percent": 100.0}]
    assert found["surfaces"] == [{"name": "input", "count": 1, "percent": 100.0}]
    assert found["by_hour"] == {"2026-11-15T12": 3}
    assert other["decisions"] == 0


def test_the_last_hours_are_those_of_every_page() -> None:
    clock = Ticking(NOON + timedelta(minutes=40))
    with open_service(clock=clock) as call:
        gate = gate_over(call.store, clock=clock)
        for hours in (24, 23.5, 22, 0):
            clock.now = NOON + timedelta(minutes=40, hours=-hours)
            gate.decide(refund())
        stats = call("GET", "/v1/stats?hours=24").json()
        shown = count_period(call.store, None, clock.now, named_range("24h", clock.now))

    assert shown.decisions == stats["decisions"] == 3
    assert min(stats["by_hour"]) == shown.buckets[0].start[:13] == "2026-11-14T13"


@pytest.mark.parametrize("before", ["zzz", "01", "I" * 26])
def test_a_page_begins_behind_a_decision_id_alone(before: str) -> None:
    with open_service() as call:
        [one] = decided(call, 500)
        refused = call("GET", f"/v1/decisions?before={before}")
        behind = call("GET", f"/v1/decisions?before={one}")

    assert (refused.status_code, refused.json()["where"]) == (422, "before")
    assert behind.json() == {"decisions": [], "next": None}
