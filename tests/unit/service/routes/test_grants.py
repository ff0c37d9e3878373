"""Grants over HTTP: worth nothing to a thief, revoked by admins, seen without signatures."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.gates import gate_over, grant, refund
from support.service_app import Caller, add_key, open_service, open_service_over

from demur.canonical import canonical_bytes, digest_of_bytes
from demur.model.grant import Grant
from demur.model.record import Personal
from demur.store.opening import open_store

SCOPE = {"action": "refund", "tenant": "acme"}
BOUND = ["agent:billing"]


def body(*grants: Grant, **more: Any) -> dict[str, Any]:
    return {"request": refund(50_000, **more), "grants": msgspec.to_builtins(grants)}


def decide(call: Caller, key: str | None, *grants: Grant, **more: Any) -> dict[str, Any]:
    answered = call("POST", "/v1/decide", body(*grants, **more), key=key)
    assert answered.status_code == 200, answered.text
    record: dict[str, Any] = answered.json()
    return record


def outcome(record: dict[str, Any]) -> tuple[str, list[str]]:
    return record["verdict"], [one["why"] for one in record["ignored_grants"]]


def test_a_grant_counts_for_a_key_that_is_bound_to_its_subject() -> None:
    with open_service() as call:
        bound = add_key(call.store, "acme", "decide", subjects=BOUND)
        any_subject = add_key(call.store, "acme", "decide", seed="any", subjects=["*"])
        unbound = add_key(call.store, "acme", "decide", seed="unbound")
        elsewhere = add_key(call.store, "globex", "decide", subjects=BOUND)

        assert outcome(decide(call, bound, grant(SCOPE))) == ("ALLOW", [])
        assert outcome(decide(call, any_subject, grant(SCOPE))) == ("ALLOW", [])
        thief = decide(call, unbound, grant(SCOPE))
        assert outcome(thief) == ("ESCALATE", ["subject_not_bound"])
        other = decide(call, elsewhere, grant(SCOPE))
        assert outcome(other) == ("ESCALATE", ["out_of_scope"])
        nowhere = decide(call, elsewhere, grant({"action": "refund"}))
        assert outcome(nowhere) == ("ESCALATE", ["other_tenant"])


def test_a_caller_on_this_machine_is_trusted_while_there_is_no_key() -> None:
    with open_service() as call:
        assert outcome(decide(call, None, grant({"action": "refund"}))) == ("ALLOW", [])


def test_a_key_names_no_subject_that_it_is_not_bound_to() -> None:
    with open_service() as call:
        bound = add_key(call.store, "acme", "decide", subjects=["agent:other"])
        asked = call("POST", "/v1/decide", body(), key=bound)
        enforced = {"name": "ls", "subject": {"type": "agent", "id": "billing"}}
        inside = {"name": "ls", "request": {"action": {"type": "ls"}, **refund()}}
        checked = [
            call("POST", "/v1/enforce/tool_call", one, key=bound) for one in (enforced, inside)
        ]
        nobody = call("POST", "/v1/decide", {"request": {"action": {"type": "refund"}}}, key=bound)

    assert asked.status_code == 403
    assert "bound to other subjects" in asked.text
    assert [one.status_code for one in checked] == [403, 403]
    assert nobody.status_code == 200


def test_a_thief_gains_nothing_by_resolving_continuing_or_repeating() -> None:
    with open_service() as call:
        bound = add_key(call.store, "acme", "decide", subjects=BOUND)
        thief = add_key(call.store, "acme", "decide", "read", seed="thief")
        given = decide(call, bound, grant(SCOPE, codes=["SCOPE_MISSING"]))
        resolve = f"/v1/decisions/{given['decision_id']}/resolve"
        [seen] = call("GET", f"/v1/decisions/{given['decision_id']}", key=thief).json()["grants"]
        assert seen["signature"] == ""
        stolen = msgspec.to_builtins([grant(SCOPE)])
        resolved = call("POST", resolve, {"grants": stolen}, key=thief).json()
        assert outcome(resolved)[0] == "ESCALATE"
        mine = call("POST", resolve, {"grants": stolen}, key=bound).json()
        assert outcome(mine)[0] == "ALLOW"
        continued = decide(call, thief, continues=given["decision_id"])
        assert continued["verdict"] == "ESCALATE"
        decide(call, bound, grant(SCOPE), request_id="r1")
        repeated = call("POST", "/v1/decide", body(grant(SCOPE), request_id="r1"), key=thief)

    assert repeated.status_code == 409


def test_a_tool_call_is_granted_to_a_bound_key_only() -> None:
    asked = {
        "name": "refund",
        "request": refund(50_000),
        "grants": msgspec.to_builtins([grant(SCOPE)]),
    }
    with open_service() as call:
        bound = add_key(call.store, "acme", "decide", subjects=BOUND)
        unbound = add_key(call.store, "acme", "decide", seed="unbound")
        answers = [
            call("POST", "/v1/enforce/tool_call", asked, key=key).json()["allowed"]
            for key in (bound, unbound)
        ]

    assert answers == [True, False]


def test_an_admin_revokes_and_the_next_decision_knows(tmp_path: Path) -> None:
    path = tmp_path / "demur.db"
    with gate_over(open_store(path)) as gate, open_service_over(gate) as call:
        admin = add_key(call.store, "acme", "admin")
        bound = add_key(call.store, "acme", "decide", subjects=BOUND)
        assert outcome(decide(call, bound, grant(SCOPE)))[0] == "ALLOW"
        revoked = call("POST", "/v1/grants/g1/revoke", {"note": "cancelled"}, key=admin)
        assert revoked.json() == {
            "grant_id": "g1",
            "tenant": "acme",
            "revoked_at": "2026-11-15T12:00:00.000Z",
            "is_new": True,
        }
        assert call("POST", "/v1/grants/g1/revoke", {}, key=admin).json()["is_new"] is False
        after = decide(call, bound, grant(SCOPE))
        [view] = call("GET", "/v1/grants", key=admin).json()["grants"]

        assert outcome(after) == ("ESCALATE", ["revoked"])
        assert (view["state"], view["grant"]["signature"]) == ("revoked", "")
        assert call("POST", "/v1/grants/g1/revoke", {}, key=bound).status_code == 403
        assert call("GET", "/v1/grants", key=bound).status_code == 403
        assert call("POST", f"/v1/grants/{'g' * 300}/revoke", {}, key=admin).status_code == 422


def test_no_answer_of_the_service_holds_a_signature() -> None:
    signed = grant(SCOPE, uses=1)
    with open_service() as call:
        key = add_key(call.store, "acme", subjects=BOUND)
        record = decide(call, key, signed)
        path = f"/v1/decisions/{record['decision_id']}"
        answers = [
            call("GET", "/v1/decisions", key=key).content,
            call("GET", path, key=key).content,
            call("GET", f"{path}/explain", key=key).content,
            call("POST", f"{path}/replay", key=key).content,
            call("GET", f"{path}/pack", key=key).content,
            call("GET", "/v1/grants", key=key).content,
            call("GET", f"/decisions/{record['decision_id']}", key=key).content,
            json.dumps(record).encode(),
        ]

    assert not any(signed.signature.encode() in answer for answer in answers)
    assert record["grants"][0]["digest"] == signed.compute_digest()


def test_a_record_of_an_earlier_version_is_shown_without_its_signature() -> None:
    signed = grant(SCOPE)
    with open_service() as call:
        admin = add_key(call.store, "acme", "admin")
        reader = add_key(call.store, "acme", "read")
        made = call.service.gate.decide(refund(50_000), grants=[signed], tenant="acme")
        assert made.personal is not None
        # As engine 0.1.0 sealed it.
        old = msgspec.convert(
            {**msgspec.to_builtins(made.personal), "grants": msgspec.to_builtins([signed])},
            Personal,
        )
        sealed = canonical_bytes(msgspec.to_builtins(old))
        record = msgspec.structs.replace(
            made,
            decision_id="01M7FH87G05XE3DVBS9XHS0000",
            sealed=sealed,
            sealed_digest=digest_of_bytes(sealed),
            chain=None,
        )
        call.store.put(record)
        path = f"/v1/decisions/{record.decision_id}"
        shown = call("GET", path, key=reader)
        packs = [call("GET", f"{path}/pack", key=key) for key in (reader, admin)]

    assert signed.signature not in shown.text
    assert shown.json()["grants"][0]["digest"] == signed.compute_digest()
    assert [pack.status_code for pack in packs] == [403, 200]


@pytest.mark.parametrize("subjects", [[""], ["a\nb"], ["x" * 300]])
def test_a_key_is_bound_to_names(subjects: list[str]) -> None:
    with open_service() as call:
        admin = add_key(call.store, "acme", "admin")
        wanted = {"roles": ["decide"], "subjects": subjects}

        assert call("POST", "/v1/keys", wanted, key=admin).status_code == 422
        made = call("POST", "/v1/keys", {"roles": ["decide"], "subjects": BOUND}, key=admin)
        assert made.json()["key"]["subjects"] == BOUND
