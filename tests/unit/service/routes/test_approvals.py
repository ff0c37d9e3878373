"""Approvals over HTTP: what is listed, who waits, and how the requester learns what came of it."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from support.gates import gate_over, refund
from support.people import AUTHOR, SERVICE_KEY, add_person
from support.service_app import Caller, add_key, open_service, open_service_over

from demur.grants import KeyRing
from demur.service.authentication import person_principal
from demur.service.cookies import SESSION_COOKIE
from demur.store.opening import open_store
from demur.store.people_tables import PersonChange
from demur.store.rows import ApprovalRow, ApprovalVote

LATER = "2026-11-15T12:00:01.000Z"


def ask(call: Caller, key: str, value: int = 900) -> str:
    record = call("POST", "/v1/decide", {"request": refund(value)}, key=key).json()
    return str(record["decision_id"])


def cast(call: Caller, decision_id: str, vote: Any = "approve", person: str = "ada") -> None:
    if call.store.get_person(person) is None:
        add_person(call.store, person, tenant="acme")
    made = ApprovalVote(decision_id, "acme", f"person:{person}", vote, "because", {}, (), LATER)
    assert call.store.add_vote(made).problem is None


def status(answered: Any) -> dict[str, Any]:
    assert answered.status_code == 200, answered.text
    read: dict[str, Any] = answered.json()
    return read


def test_what_waits_is_listed_for_its_tenant_alone() -> None:
    with open_service() as call:
        acme, globex = add_key(call.store, "acme"), add_key(call.store, "globex")
        first, second = ask(call, acme), ask(call, acme)
        ask(call, globex)

        listed = status(call("GET", "/v1/approvals", key=acme))
        assert [one["decision_id"] for one in listed["approvals"]] == [second, first]
        assert listed["next"] is None
        page = status(call("GET", "/v1/approvals?limit=1", key=acme))
        assert [one["decision_id"] for one in page["approvals"]] == [second]
        rest = status(call("GET", f"/v1/approvals?before={page['next']}", key=acme))
        assert [one["decision_id"] for one in rest["approvals"]] == [first]
        assert status(call("GET", "/v1/approvals?state=declined", key=acme))["approvals"] == []
        assert call("GET", f"/v1/approvals/{first}", key=globex).status_code == 404
        assert call("GET", "/v1/approvals?tenant=globex", key=acme).status_code == 403
        assert call("GET", "/v1/approvals?before=x", key=acme).status_code == 422


def test_one_request_shows_its_votes() -> None:
    with open_service() as call:
        key = add_key(call.store, "acme")
        decision_id = ask(call, key)
        cast(call, decision_id, "decline")
        shown = status(call("GET", f"/v1/approvals/{decision_id}", key=key))

        assert shown["approval"]["state"] == "declined"
        assert shown["approval"]["reason_codes"] == ["REFUND_OVER_ESCALATION_LIMIT"]
        assert [(one["person"], one["note"]) for one in shown["votes"]] == [
            ("person:ada", "because")
        ]
        small = ask(call, key, 20)
        missing = call("GET", f"/v1/approvals/{small}", key=key)
        assert (missing.status_code, missing.json()["detail"]) == (
            404,
            "this decision asked nobody for approval",
        )


def test_roles_are_required() -> None:
    with open_service() as call:
        reader = add_key(call.store, "acme", "read")
        decider = add_key(call.store, "acme", "decide")
        decision_id = ask(call, decider)

        assert call("GET", "/v1/approvals", key=decider).status_code == 403
        assert call("GET", "/v1/approvals").status_code == 401
        path = f"/v1/decisions/{decision_id}/wait?seconds=1"
        assert call("GET", path, key=reader).status_code == 403
        assert call("GET", path).status_code == 401


def test_a_key_waits_only_for_its_own_subjects_and_tenant() -> None:
    with open_service() as call:
        key = add_key(call.store, "acme", "decide")
        decision_id = ask(call, key)
        cast(call, decision_id, "decline")
        path = f"/v1/decisions/{decision_id}/wait"
        for tenant, subjects, expected in (
            ("acme", ["agent:billing"], 200),
            ("acme", ["*"], 200),
            ("acme", ["agent:other"], 404),
            ("globex", ["agent:billing"], 404),
        ):
            own = add_key(call.store, tenant, "decide", subjects=subjects, seed=str(subjects))
            assert call("GET", path, key=own).status_code == expected


@pytest.mark.parametrize("seconds", ["0", "61", "x", "-1"])
def test_the_time_to_wait_is_bounded(seconds: str) -> None:
    with open_service() as call:
        key = add_key(call.store, "acme")
        path = f"/v1/decisions/{ask(call, key)}/wait?seconds={seconds}"
        assert call("GET", path, key=key).status_code == 422


def test_who_waits_learns_of_a_no_with_its_note() -> None:
    with open_service() as call:
        key = add_key(call.store, "acme")
        decision_id = ask(call, key)

        async def both() -> Any:
            path = f"/v1/decisions/{decision_id}/wait?seconds=60"
            headers = {"authorization": f"Bearer {key}"}
            client = ("127.0.0.1", 5000)
            waiting = asyncio.ensure_future(call._called("GET", path, None, headers, client))
            # Once the service waits, a person in another process decides.
            while not call.service.approval_waits._waiting:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0)
            await asyncio.to_thread(cast, call, decision_id, "decline")
            return await waiting

        learned = status(call.run(both()))
        assert learned["settled"] is True
        assert (learned["state"], learned["closed_by"], learned["note"]) == (
            "declined",
            "person:ada",
            "because",
        )
        assert learned["how_to_proceed"] == ("A person said no: do not send the request again.")
        assert call.service.approval_waits._waiting == {}


def test_too_many_waits_are_refused_and_leave_nothing_behind() -> None:
    with open_service_over(gate_over(open_store(":memory:"))) as call:
        waits = call.service.approval_waits
        waits._max_waits_of_caller = 0
        key = add_key(call.store, "acme")
        path = f"/v1/decisions/{ask(call, key)}/wait"
        answered = call("GET", path, key=key)

        assert answered.status_code == 503
        assert answered.headers["retry-after"] == "1"
        assert waits._callers == {}
        call.service.gate.close()


def test_a_service_that_ends_lets_its_callers_go() -> None:
    with open_service() as call:
        key = add_key(call.store, "acme")
        path = f"/v1/decisions/{ask(call, key)}/wait?seconds=60"
        call.service.closing = True
        learned = status(call("GET", path, key=key))

        assert (learned["state"], learned["settled"]) == ("waiting", False)


def test_waiting_ends_where_the_store_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_service() as call:
        key = add_key(call.store, "acme")
        path = f"/v1/decisions/{ask(call, key)}/wait?seconds=60"

        def fail(_: Any) -> list[ApprovalRow]:
            raise OSError

        monkeypatch.setattr(call.store, "find_approvals", fail)
        assert call("GET", path, key=key).status_code == 500


def log_in(call: Caller, login: str, **fields: Any) -> dict[str, str]:
    """Return the headers of a person who is logged in."""
    person = add_person(call.store, login, **{"tenant": "acme", **fields})
    secret = call.service.authenticator.open_session(
        person_principal(person), timedelta(hours=1), generation=person.generation
    )
    return {"cookie": f"{SESSION_COOKIE}={secret}"}


def vote(call: Caller, headers: dict[str, str], decision_id: str, what: str, **body: Any) -> Any:
    return call("POST", f"/v1/approvals/{decision_id}/{what}", body, headers=headers)


@pytest.fixture
def people_call() -> Iterator[Caller]:
    """Yield the caller of a service that has a service key and trusts it."""
    gate = gate_over(open_store(":memory:"), issuers=KeyRing([SERVICE_KEY.issuer.trusted_key()]))
    with gate, open_service_over(gate) as call:
        call.service._service_key = SERVICE_KEY
        yield call


def test_a_person_approves_and_the_caller_goes_on(people_call: Caller) -> None:
    call = people_call
    key, mary = add_key(call.store, "acme", subjects=["*"]), log_in(call, "mary")
    decision_id = ask(call, key)
    done = status(vote(call, mary, decision_id, "approve", note="fine"))
    assert (done["approval"]["state"], done["approval"]["closed_by"]) == (
        "approved",
        "person:mary",
    )
    learned = status(call("GET", f"/v1/decisions/{decision_id}/wait", key=key))
    assert (learned["settled"], learned["note"]) == (True, "fine")
    continued = {"request": refund(900, continues=learned["resolution_id"])}
    record = call("POST", "/v1/decide", continued, key=key).json()
    assert record["verdict"] == "ALLOW"
    again = call("POST", "/v1/decide", continued, key=key).json()
    assert again["verdict"] == "ESCALATE"

    replayed = vote(call, mary, decision_id, "approve", note="fine")
    assert replayed.status_code == 409
    assert replayed.json()["detail"] == "this person voted before: nothing changed"
    assert call("GET", f"/v1/approvals/{decision_id}", key=key).json()["votes"] == done["votes"]


def test_only_people_decide(people_call: Caller) -> None:
    """INVARIANT: no key approves, only a person does."""
    call = people_call
    key = add_key(call.store, "acme", "admin")
    decision_id = ask(call, key)
    bearer = {"authorization": f"Bearer {key}"}
    reviewer = log_in(call, "rita", role="reviewer")
    for headers in (bearer, reviewer):
        for what in ("approve", "decline"):
            assert vote(call, headers, decision_id, what).status_code == 403
    foreign = {**log_in(call, "mary"), "sec-fetch-site": "cross-site"}
    assert vote(call, foreign, decision_id, "approve").status_code == 403
    assert call.store.list_votes(decision_id) == []


def test_an_admin_cannot_ask_as_an_agent_and_approve_it(people_call: Caller) -> None:
    admin = log_in(people_call, "ada", role="admin")
    asked = people_call("POST", "/v1/decide", {"request": refund(900)}, headers=admin)
    assert (asked.status_code, asked.json()["detail"]) == (
        403,
        "this person is bound to other subjects",
    )
    own = refund(900, subject={"type": "user", "id": "ada"})
    made = people_call("POST", "/v1/decide", {"request": own}, headers=admin).json()
    refused = vote(people_call, admin, made["decision_id"], "approve")
    assert refused.json()["evidence"] == {"reason": "own_request"}


def test_what_a_person_may_not_decide(people_call: Caller) -> None:
    call = people_call
    key = add_key(call.store, "acme", subjects=["*"])
    decision_id = ask(call, key)
    elsewhere = log_in(call, "zoe", tenant="globex")
    own = log_in(call, "billing")
    mary = log_in(call, "mary")
    assert vote(call, elsewhere, decision_id, "approve").status_code == 404
    refused = vote(call, own, decision_id, "approve")
    assert (refused.status_code, refused.json()["evidence"]) == (403, {"reason": "own_request"})
    bodies: list[dict[str, Any]] = [{"uses": 2}, {"valid_s": 1}, {"covers": "all"}, {"limits": {}}]
    for body in (*bodies, {"note": "a\nb"}):
        assert vote(call, mary, decision_id, "approve", **body).status_code == 422
    assert vote(call, mary, "0" * 26, "approve").status_code == 404
    said = status(vote(call, mary, decision_id, "decline", note="<b>no</b>"))
    assert said["approval"]["note"] == "<b>no</b>"
    assert vote(call, log_in(call, "john"), decision_id, "approve").status_code == 409


def test_a_person_who_lost_the_role_meanwhile_is_refused(people_call: Caller) -> None:
    call = people_call
    decision_id, mary = ask(call, add_key(call.store, "acme")), log_in(call, "mary")
    # The cache of sessions still knows her.
    assert call("GET", "/v1/approvals", headers=mary).status_code == 200
    call.store.change_person("mary", PersonChange(role="reviewer"), **AUTHOR)
    refused = vote(call, mary, decision_id, "approve")

    assert refused.status_code in {401, 403}
    assert call.store.list_votes(decision_id) == []


def test_an_approval_without_a_service_key_says_so(people_call: Caller) -> None:
    call = people_call
    call.service._service_key = None
    decision_id, mary = ask(call, add_key(call.store, "acme")), log_in(call, "mary")

    assert vote(call, mary, decision_id, "approve").status_code == 422
    assert vote(call, mary, decision_id, "decline").status_code == 200
