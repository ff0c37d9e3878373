"""Tenants cannot read each other: shown route by route; a route that is not in the table fails."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
from support.gates import grant, refund
from support.people import add_person
from support.service_app import Caller, add_key, open_service

from demur.observe.metrics import Metrics
from demur.service.calls import ApiRoute
from demur.service.routes import ROUTES
from demur.store.events import OTHER_KINDS

MARK = "only-acme-knows-this"


class TenantSetup(NamedTuple):
    """A service where acme has a decision, and somebody of another tenant with all roles."""

    call: Caller
    acme: str
    other: str
    decision_id: str
    key_id: str

    def asks(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Return what the other tenant is answered."""
        return self.call(method, path, body, key=self.other)


@pytest.fixture
def setup() -> Iterator[TenantSetup]:
    with open_service(metrics=Metrics()) as call:
        acme, other = add_key(call.store, "acme", note=MARK), add_key(call.store, "other")
        body = {"request": refund(500, evidence={"ticket_id": MARK}, request_id="r1")}
        made = call("POST", "/v1/decide", body, key=acme).json()
        label = {"value": "good", "note": MARK}
        path = f"/v1/decisions/{made['decision_id']}"
        assert call("POST", f"{path}/labels", label, key=acme).status_code == 201
        signed = grant({"action": "refund", "tenant": "acme"}, grant_id=MARK)
        with_grant = {"request": refund(500), "grants": [msgspec.to_builtins(signed)]}
        call("POST", "/v1/decide", with_grant, key=acme)
        yield TenantSetup(call, acme, other, made["decision_id"], acme.split("_")[1])


def unknown(
    method: str, part: str = "", body: Any = None
) -> Callable[[TenantSetup], httpx.Response]:
    """Return the case of a decision that is as unknown as one that never was."""

    def asked(setup: TenantSetup) -> httpx.Response:
        known = setup.asks(method, f"/v1/decisions/{setup.decision_id}{part}", body)
        never = setup.asks(method, f"/v1/decisions/01M7FH87G05XE3DVBS9XHS0H7C{part}", body)
        assert (known.status_code, known.content) == (never.status_code, never.content)
        assert known.status_code == 404
        return known

    return asked


def refused(method: str, path: str, body: Any = None) -> Callable[[TenantSetup], httpx.Response]:
    """Return the case of a tenant that is named and may not be."""

    def asked(setup: TenantSetup) -> httpx.Response:
        answered = setup.asks(method, path.format(**setup._asdict()), body)
        assert answered.status_code in {403, 404}
        return answered

    return asked


def lists_approvals(setup: TenantSetup) -> httpx.Response:
    assert setup.asks("GET", "/v1/approvals?tenant=acme").status_code == 403
    answered = setup.asks("GET", "/v1/approvals")
    assert answered.json() == {"approvals": [], "next": None}
    own = setup.call("GET", "/v1/approvals", key=setup.acme).json()
    assert setup.decision_id in [one["decision_id"] for one in own["approvals"]]
    return answered


def unknown_approval(setup: TenantSetup) -> httpx.Response:
    known, never = (
        setup.asks("GET", f"/v1/approvals/{decision_id}")
        for decision_id in (setup.decision_id, "01M7FH87G05XE3DVBS9XHS0H7C")
    )
    assert (known.status_code, known.content) == (never.status_code, never.content)
    assert known.status_code == 404
    return known


def reports_guards(setup: TenantSetup) -> httpx.Response:
    assert setup.asks("GET", "/v1/guards?tenant=acme").status_code == 403
    return setup.asks("GET", "/v1/guards")


def erases(setup: TenantSetup) -> httpx.Response:
    """Search for what acme holds: another tenant finds none of it, and erases none."""
    order = {"identifier": MARK, "reason": "x"}
    foreign = setup.asks("POST", "/v1/erasures?tenant=acme", order)
    assert foreign.status_code == 403
    answered = setup.asks("POST", "/v1/erasures", order)
    assert (answered.status_code, answered.json()["records"]) == (200, 0)
    record = setup.call.store.get(setup.decision_id)
    assert record is not None
    assert record.sealed is not None
    return foreign


def previews_erasure(setup: TenantSetup) -> httpx.Response:
    foreign = setup.asks("POST", "/v1/erasures/preview?tenant=acme", {"identifier": MARK})
    assert foreign.status_code == 403
    answered = setup.asks("POST", "/v1/erasures/preview", {"identifier": MARK})
    assert (answered.json()["records"], answered.json()["others"]) == (
        0,
        dict.fromkeys(OTHER_KINDS, 0),
    )
    return answered


def reports(path: str) -> Callable[[TenantSetup], httpx.Response]:
    """Return the case of a report: the other tenant's is empty, and it names no other tenant."""

    def asked(setup: TenantSetup) -> httpx.Response:
        assert setup.asks("GET", f"{path}?tenant=acme").status_code == 403
        own = setup.call("GET", f"{path}?until=2100-01-01", key=setup.acme)
        assert own.status_code == 200
        assert "refund" in own.text
        answered = setup.asks("GET", f"{path}?until=2100-01-01")
        assert answered.status_code == 200
        assert "refund" not in answered.text
        assert "acme" not in answered.text
        return answered

    return asked


def decides(setup: TenantSetup) -> httpx.Response:
    claimed = setup.asks("POST", "/v1/decide", {"request": refund(tenant={"id": "acme"})})
    assert claimed.status_code == 422
    continued = setup.asks("POST", "/v1/decide", {"request": refund(continues=setup.decision_id)})
    assert continued.status_code == 422
    # A request id is each tenant's own.
    return setup.asks("POST", "/v1/decide", {"request": refund(1, request_id="r1")})


def finds(setup: TenantSetup) -> httpx.Response:
    named = setup.asks("GET", "/v1/decisions?tenant=acme")
    assert named.status_code == 403
    by_id = setup.asks("GET", f"/v1/decisions?request_id=r1&before={'Z' * 26}")
    assert by_id.json()["decisions"] == []
    return setup.asks("GET", "/v1/decisions")


def counts(setup: TenantSetup) -> httpx.Response:
    assert setup.asks("GET", "/v1/stats?tenant=acme").status_code == 403
    answered = setup.asks("GET", "/v1/stats")
    assert answered.json()["decisions"] == 0
    return answered


def responds(setup: TenantSetup) -> httpx.Response:
    answered = setup.asks("POST", "/v1/respond", {"decision_id": setup.decision_id})
    assert answered.status_code == 404
    return answered


def lists_keys(setup: TenantSetup) -> httpx.Response:
    assert setup.asks("GET", "/v1/keys?tenant=acme").status_code == 403
    answered = setup.asks("GET", "/v1/keys")
    assert {key["tenant"] for key in answered.json()["keys"]} == {"other"}
    return answered


def lists_people(setup: TenantSetup) -> httpx.Response:
    add_person(setup.call.store, tenant="acme", note=MARK)
    add_person(setup.call.store, "paul", tenant="other")
    assert setup.asks("GET", "/v1/people?tenant=acme").status_code == 403
    answered = setup.asks("GET", "/v1/people")
    assert [person["login"] for person in answered.json()["people"]] == ["paul"]
    return answered


def lists_grants(setup: TenantSetup) -> httpx.Response:
    assert setup.asks("GET", "/v1/grants?tenant=acme").status_code == 403
    own = setup.call("GET", "/v1/grants", key=setup.acme)
    assert [view["grant_id"] for view in own.json()["grants"]] == [MARK]
    return setup.asks("GET", "/v1/grants")


def revokes_grant(setup: TenantSetup) -> httpx.Response:
    path = f"/v1/grants/{MARK}/revoke"
    assert setup.asks("POST", f"{path}?tenant=acme", {}).status_code == 403
    # It revokes an id of its own, and says nothing on another tenant's grant of the same id.
    assert setup.asks("POST", path, {}).json()["tenant"] == "other"
    own = setup.call("GET", "/v1/grants", key=setup.acme).json()["grants"]
    assert [view["state"] for view in own] == ["good"]
    return setup.asks("POST", "/v1/grants/another/revoke", {})


def the_same_for_all(
    method: str, path: str, body: Any = None
) -> Callable[[TenantSetup], httpx.Response]:
    """Return the case of a route that has nothing of any tenant."""

    def asked(setup: TenantSetup) -> httpx.Response:
        mine = setup.asks(method, path, body)
        theirs = setup.call(method, path, body, key=setup.acme)
        assert (mine.status_code, mine.content) == (theirs.status_code, theirs.content)
        return mine

    return asked


def counts_log(setup: TenantSetup) -> httpx.Response:
    kind = {"content-type": "text/plain"}
    log = b"REFUSED: RCE_RISK: mine"
    return setup.call("POST", "/v1/triage", content=log, headers=kind, key=setup.other)


def enforces(surface: str, body: Any, **more: Any) -> Callable[[TenantSetup], httpx.Response]:
    """Return the case of a check: one tenant cannot speak for another, or continue its request."""

    def asked(setup: TenantSetup) -> httpx.Response:
        path = f"/v1/enforce/{surface}"
        for part in ({"tenant": {"id": "acme"}}, {"continues": setup.decision_id}):
            claimed = {**body, **more, "request": {"action": {"type": "generate"}, **part}}
            if "request" in more:
                refused = setup.asks("POST", path, claimed)
                # Another tenant is an invalid request, its decision one that is not found.
                assert refused.status_code == 422 or refused.json()["allowed"] is False
        return setup.asks("POST", path, body)

    return asked


def streams(setup: TenantSetup) -> httpx.Response:
    kind = {"content-type": "application/x-ndjson"}
    path, lines = "/v1/enforce/answer/stream", b'{}\n{"text": "Hello."}\n'
    return setup.call("POST", path, content=lines, headers=kind, key=setup.other)


_PERSON = {"login": "mary", "role": "admin", "password": "a first sentence to log in with"}
CASES: dict[str, Callable[[TenantSetup], httpx.Response]] = {
    "decide": decides,
    "resolve": unknown("POST", "/resolve", {"accepted": ["dry_run"]}),
    "enforce prompt": enforces("prompt", {"text": "hello"}, request={}),
    "enforce answer": enforces("answer", {"text": "hello"}),
    "enforce model": enforces("model", {"text": "I can't help with that."}),
    "enforce tool call": enforces("tool_call", {"name": "ls"}, request={}),
    "enforce tool result": enforces("tool_result", {"name": "ls", "result": "x"}),
    "enforce retrieval": enforces("retrieval", {"text": "hello"}),
    "enforce compaction": enforces("compaction", {"before": [], "after": []}),
    "enforce answer stream": streams,
    "guard": the_same_for_all("POST", "/v1/guard/input", {"event": "hello"}),
    "normalize": the_same_for_all("POST", "/v1/normalize", {}),
    "detect": the_same_for_all("POST", "/v1/detect", {"response": "No."}),
    "respond": responds,
    "find decisions": finds,
    "get decision": unknown("GET"),
    "explain decision": unknown("GET", "/explain"),
    "replay decision": unknown("POST", "/replay"),
    "export decision": unknown("GET", "/pack"),
    "list labels": unknown("GET", "/labels"),
    "add label": unknown("POST", "/labels", {"value": "good"}),
    "learn outcome": unknown("POST", "/outcome", {"outcome": "success"}),
    "stats": counts,
    "parse": the_same_for_all("POST", "/v1/parse", {"text": "REFUSED: RCE_RISK: x"}),
    "format": the_same_for_all("POST", "/v1/format", {"code": "RCE_RISK", "detail": "x"}),
    "list codes": the_same_for_all("GET", "/v1/codes"),
    "get code": the_same_for_all("GET", "/v1/codes/RCE_RISK"),
    "list grants": lists_grants,
    "revoke grant": revokes_grant,
    "list approvals": lists_approvals,
    "get approval": unknown_approval,
    "approve decision": refused("POST", "/v1/approvals/{decision_id}/approve", {}),
    "decline decision": refused("POST", "/v1/approvals/{decision_id}/decline", {}),
    "wait for approval": unknown("GET", "/wait?seconds=1"),
    "guard report": reports_guards,
    "preview erasure": previews_erasure,
    "erase identifier": erases,
    "report period": reports("/v1/report"),
    "report period as csv": reports("/v1/report.csv"),
    "list keys": lists_keys,
    "make key": refused("POST", "/v1/keys", {"roles": ["read"], "tenant": "acme"}),
    "revoke key": refused("DELETE", "/v1/keys/{key_id}"),
    "list people": lists_people,
    "add person": refused("POST", "/v1/people", {**_PERSON, "tenant": "acme"}),
    "change person": refused("POST", "/v1/people/mary", {"role": "admin"}),
    "metrics": refused("GET", "/metrics"),
    "health": the_same_for_all("GET", "/health"),
    "healthz": the_same_for_all("GET", "/healthz"),
    "ready": the_same_for_all("GET", "/ready"),
    "openapi": the_same_for_all("GET", "/openapi.json"),
    "triage": counts_log,
}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_no_route_tells_one_tenant_about_another(route: ApiRoute, setup: TenantSetup) -> None:
    answered = CASES[route.name](setup)

    assert MARK not in answered.text
    assert setup.decision_id not in answered.text
    after = setup.call("GET", f"/v1/decisions/{setup.decision_id}/labels", key=setup.acme).json()
    assert len(after["labels"]) == 1
    assert setup.call("GET", "/v1/codes/RCE_RISK", key=setup.acme).status_code == 200


@pytest.mark.parametrize("route", [route for route in ROUTES if route.role], ids=lambda r: r.name)
def test_no_route_answers_without_a_key_or_the_role(route: ApiRoute, setup: TenantSetup) -> None:
    path = route.path.replace("{surface}", "input").replace("{code:path}", "RCE_RISK")
    path = path.format(
        decision_id=setup.decision_id, key_id=setup.key_id, grant_id=MARK, login="mary"
    )
    body = route.example if route.method == "POST" else None
    nothing = add_key(setup.call.store, "acme", "label" if route.role != "label" else "read")
    setup.call.service.authenticator.allow_local = False

    assert setup.call(route.method, path, body).status_code == 401
    assert setup.call(route.method, path, body, key="demur_no").status_code == 401
    assert setup.call(route.method, path, body, key=nothing).status_code == 403
