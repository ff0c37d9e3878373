"""Attacks on every route and page, taken from their tables: a new one is attacked by itself.

A caller without access gets nothing, no answer holds data of another tenant, no other site changes
anything, and no text of a caller is run, neither as SQL nor as HTML.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import httpx
import msgspec
import pytest
from support.dashboard_site import FORM, HTML, site_of
from support.gates import NOON, Ticking, gate_over, grant, refund
from support.people import AUTHOR, add_person
from support.service_app import Caller, add_key

from demur.observe.metrics import Metrics
from demur.service.authentication import Role, person_principal
from demur.service.calls import ApiRoute
from demur.service.cookies import SESSION_COOKIE, TENANT_COOKIE
from demur.service.dashboard import PAGES
from demur.service.routes import ROUTES
from demur.service.settings import ServiceSettings
from demur.store.opening import open_store
from demur.store.people_tables import PersonChange
from demur.store.verify import verify_chain

MARK = "only-acme-knows-this"
GRANT = "a-grant-of-acme"
EVERY = (*ROUTES, *PAGES)
CLOSED = [route for route in EVERY if route.role is not None]
CHANGES = [route for route in EVERY if route.method not in {"GET", "HEAD"}]
API = [route for route in ROUTES if route.path.startswith("/v1/")]
PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
HOSTILE = (
    "'; DROP TABLE decision_records; --",
    "' OR '1'='1' UNION SELECT token FROM api_keys --",
    '"><probe onload=alert(1)>{{ 7 * 7 }}',
    "\\' OR 1=1; \u202eprobe\u2066 %00 \x00",
    "../../../../etc/passwd",
    "[1,2]" * 40,
    "=HYPERLINK(1)",
)
# Fields that forms of pages may have: a form reads those that it knows.
FIELDS = (
    *(
        "answer",
        "by",
        "days",
        "excerpt",
        "filter",
        "group",
        "key",
        "label",
        "last",
        "limit",
        "login",
    ),
    *("max_amount", "next", "note", "once", "password", "period", "q", "queue", "reason", "role"),
    *("scope", "since", "sort", "state", "tenant", "until", "value", "vote", "zone"),
)
SETTINGS = ServiceSettings(rate=10**6, burst=10**6)


def route_id(route: ApiRoute) -> str:
    return f"{route.method} {route.path}"


class Attacked(NamedTuple):
    """A service with pages, where acme has decisions, and people and keys of acme and another."""

    call: Caller
    decided: str
    waiting: str
    key_id: str
    sessions: Mapping[str, str]
    keys: Mapping[str, str]

    def path_of(self, route: ApiRoute, value: str | None = None) -> str:
        """Return the path of a route, about what acme has or with a hostile value."""
        about = self.waiting if "approv" in route.path else self.decided
        known = {
            "decision_id": about,
            "key_id": self.key_id,
            "grant_id": GRANT,
            "surface": "input",
            "code": "RCE_RISK",
        }
        if route.path.startswith("/download/"):
            known["name"] = "decisions.json"

        def fill(match: re.Match[str]) -> str:
            return quote(known.get(match[1], "nothing") if value is None else value, safe="")

        return PARAMETER.sub(fill, route.path)

    def send(
        self,
        route: ApiRoute,
        session: str | None = None,
        *,
        key: str | None = None,
        path: str | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        cookie: str = "",
    ) -> httpx.Response:
        """Return the answer to a call as a program or, for a page, as a browser makes it."""
        own = dict(HTML) if route in PAGES else {}
        if route.method not in {"GET", "HEAD"}:
            kind = FORM["content-type"] if route in PAGES else route.body_types[0]
            own["content-type"] = kind
            content = body_of(route) if content is None else content
        if session is not None:
            own["cookie"] = f"{SESSION_COOKIE}={self.sessions.get(session, session)}; {cookie}"
        where = self.path_of(route) if path is None else path
        key = None if key is None else self.keys[key]
        return self.call(route.method, where, content=content, headers={**own, **headers}, key=key)

    def state(self) -> Mapping[str, int]:
        """Return what attacks must leave alone."""
        store = self.call.store
        return {
            **store.count_rows(),
            "keys": len(store.list_keys()),
            "sessions": len(store.list_sessions()),
            "events": sum(1 for _ in store.backend.read_events("acme")),
            "revocations": len(store.list_revocations()),
        }


def body_of(route: ApiRoute) -> bytes:
    if route.takes is None:
        return b""
    return json.dumps({} if route.example is None else route.example).encode()


def open_session(call: Caller, login: str, lifetime: timedelta = timedelta(hours=1)) -> str:
    person = next(one for one in call.store.list_people() if one.login == login)
    door = call.service.authenticator
    return door.open_session(person_principal(person), lifetime, generation=person.generation)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgres_url")
        return url
    return str(tmp_path / "records.db")


def make_attacked(call: Caller) -> Attacked:
    store = call.store
    keys = {"acme": add_key(store, "acme", note=MARK), "other": add_key(store, "other")}
    keys |= {
        f"only {role}": add_key(store, "acme", role, seed="only")
        for role in ("decide", "read", "label")
    }
    roles = {"ann": "admin", "rita": "reader", "rob": "reviewer", "amy": "approver"}
    for login, role in roles.items():
        add_person(store, login, tenant="acme", role=role)
    add_person(store, "mallory", tenant="other", role="admin")
    add_person(store, "gone", tenant="acme", role="admin")
    add_person(store, "root", tenant="", role="admin")
    names = (*roles, "mallory", "gone", "root")
    sessions = {login: open_session(call, login) for login in names}
    store.change_person("gone", PersonChange(disabled=True), **AUTHOR)
    # Unknown sessions are looked up by the thousand here.
    call.service.authenticator._cache._pause_s = 0
    request = refund(20, evidence={"ticket_id": MARK}, subject={"type": "user", "id": MARK})
    made = call("POST", "/v1/decide", {"request": request}, key=keys["acme"]).json()
    waits = call("POST", "/v1/decide", {"request": refund(900)}, key=keys["acme"]).json()
    signed = grant({"action": "refund", "tenant": "acme"}, grant_id=GRANT)
    body = {"request": refund(500), "grants": [msgspec.to_builtins(signed)]}
    call("POST", "/v1/decide", body, key=keys["acme"])
    path = f"/v1/decisions/{made['decision_id']}/labels"
    call("POST", path, {"value": "good", "note": MARK}, key=keys["acme"])
    key_id = keys["acme"].split("_")[1]
    return Attacked(call, made["decision_id"], waits["decision_id"], key_id, sessions, keys)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_place(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the address of a store that tests share."""
    if request.param == "sqlite":
        yield ":memory:"
        return
    server = request.getfixturevalue("postgres_server")
    url: str = server.new_database()
    yield url
    server.drop(url)


@pytest.fixture(scope="module")
def attacked(shared_place: str) -> Iterator[Attacked]:
    """Yield a service that no attack of these tests may change, on each database."""
    with (
        gate_over(open_store(shared_place)) as gate,
        site_of(gate, SETTINGS, clock=Ticking(NOON), metrics=Metrics()) as site,
    ):
        yield make_attacked(site.call)


def refused_entry(answer: httpx.Response) -> bool:
    """Return whether a caller was not let in, or led to the login."""
    to_login = answer.status_code == 303 and answer.headers["location"].startswith("/login")
    return answer.status_code == 401 or to_login


# -- who is let in -----------------------------------------------------------------------------


@pytest.mark.parametrize("route", CLOSED, ids=route_id)
def test_nobody_enters_without_a_key_or_with_a_session_that_ended(
    attacked: Attacked, route: ApiRoute
) -> None:
    before = attacked.state()
    closed = open_session(attacked.call, "ann")
    attacked.call.service.authenticator.close_session(closed)
    expired = open_session(attacked.call, "ann", timedelta(seconds=-1))
    made_up = f"session_{'a' * 52}"

    assert refused_entry(attacked.send(route))
    for session in (closed, expired, made_up, "", "ann'--"):
        answer = attacked.send(route, session)
        assert refused_entry(answer), (session, answer.text[:200])
        assert MARK not in answer.text
    assert {**attacked.state(), "sessions": 0} == {**before, "sessions": 0}


@pytest.mark.parametrize("route", CLOSED, ids=route_id)
def test_a_role_that_is_missing_is_refused(attacked: Attacked, route: ApiRoute) -> None:
    before = attacked.state()
    lacking: dict[Role, list[tuple[str | None, str | None]]] = {
        Role.DECIDE: [("rita", None), ("amy", None), (None, "only read")],
        Role.READ: [(None, "only decide"), (None, "only label")],
        Role.LABEL: [("rita", None), (None, "only read")],
        Role.APPROVE: [("rita", None), ("rob", None), (None, "acme")],
        Role.ADMIN: [("amy", None), ("rob", None), (None, "only decide")],
    }
    assert route.role is not None
    for session, key in lacking[route.role]:
        answer = attacked.send(route, session, key=key)
        assert answer.status_code == 403, (session, key, answer.text[:200])
        assert MARK not in answer.text
    assert attacked.state() == before


@pytest.mark.parametrize("route", CLOSED, ids=route_id)
def test_a_person_who_was_disabled_is_out(attacked: Attacked, route: ApiRoute) -> None:
    assert refused_entry(attacked.send(route, "gone"))


# -- other sites, other tenants ----------------------------------------------------------------


@pytest.mark.parametrize("route", CHANGES, ids=route_id)
def test_another_site_changes_nothing(attacked: Attacked, route: ApiRoute) -> None:
    before = attacked.state()
    for name, value in (
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ):
        answer = attacked.send(route, "ann", headers={name: value})
        assert answer.status_code == 403, (name, value, answer.text[:200])
        assert "cross-site" in answer.text
    assert attacked.state() == before


@pytest.mark.parametrize("route", CLOSED, ids=route_id)
def test_another_tenant_learns_nothing(attacked: Attacked, route: ApiRoute) -> None:
    before = attacked.state()
    answers = [attacked.send(route, "mallory")]
    if any(field.name == "tenant" for field in route.query):
        path = f"{attacked.path_of(route)}?tenant=acme"
        named = attacked.send(route, "mallory", path=path)
        assert named.status_code == 403
        answers.append(named)
    for answer in answers:
        assert MARK not in answer.text
        if "{decision_id}" not in route.path:
            assert attacked.decided not in answer.text
            assert attacked.waiting not in answer.text
    if "{decision_id}" in route.path or "{key_id}" in route.path:
        # A form is read before the decision is looked for.
        expected = {404, 422} if route in PAGES else {404}
        assert answers[0].status_code in expected, answers[0].text[:200]
    after = attacked.state()
    # Its own decisions, keys and sessions are its business.
    assert after["events"] == before["events"]


# -- texts that want to be run -------------------------------------------------------------------


@pytest.mark.parametrize("route", API, ids=route_id)
def test_an_unknown_parameter_is_refused(attacked: Attacked, route: ApiRoute) -> None:
    before = attacked.state()
    answer = attacked.send(route, "ann", path=f"{attacked.path_of(route)}?surprise=1")

    assert (answer.status_code, "surprise" in answer.text) == (422, True), answer.text[:200]
    assert attacked.state() == before


def replace_texts(value: Any, text: str) -> Any:
    """Return plain JSON in which each text is another one; keys stay."""
    if isinstance(value, dict):
        return {key: replace_texts(item, text) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replace_texts(item, text) for item in value]
    return text if isinstance(value, str) else value


def check_answer(answer: httpx.Response, what: str) -> None:
    assert answer.status_code < 500, (what, answer.text[:300])
    assert answer.headers["x-content-type-options"] == "nosniff"
    if answer.headers.get("content-type", "").startswith("text/html"):
        assert "<probe" not in answer.text, what
        assert "{{ 7" not in answer.text or "{{ 7 * 7 }}" in answer.text
    if answer.headers.get("content-type", "").startswith("text/csv"):
        cells = [cell for row in csv.reader(io.StringIO(answer.text)) for cell in row]
        assert not [cell for cell in cells if cell[:1] in {"=", "+", "@"}], what
    if answer.status_code in range(300, 400) and "location" in answer.headers:
        assert answer.headers["location"].startswith("/"), what
        assert not answer.headers["location"].startswith("//"), what


@pytest.fixture
def victim(place: str) -> Iterator[Attacked]:
    """Yield a service whose data an attack may change, on each database."""
    with (
        gate_over(open_store(place)) as gate,
        site_of(gate, SETTINGS, clock=Ticking(NOON), metrics=Metrics()) as site,
    ):
        yield make_attacked(site.call)


def attack_with(
    victim: Attacked, route: ApiRoute, text: str
) -> Iterator[tuple[str, httpx.Response]]:
    """Yield what was attacked and the answer: the path, each parameter, and all texts of a body."""
    plain = victim.path_of(route)
    if "{" in route.path:
        yield "path", victim.send(route, "ann", path=victim.path_of(route, text))
    names = [field.name for field in route.query] or list(FIELDS if route in PAGES else ())
    if names:
        together = urlencode(dict.fromkeys(names, text), errors="replace")
        yield "all parameters", victim.send(route, "ann", path=f"{plain}?{together}")
    for name in names if route in ROUTES else ():
        path = f"{plain}?{urlencode({name: text}, errors='replace')}"
        yield name, victim.send(route, "ann", path=path)
    if route in PAGES:
        cookie = f"{TENANT_COOKIE}={quote(text, safe='')}"
        yield "cookie", victim.send(route, "root", cookie=cookie)
    if route.method in {"GET", "HEAD"}:
        return
    if route in PAGES:
        body = urlencode(dict.fromkeys(FIELDS[:20], text), errors="replace").encode()
        yield "form", victim.send(route, "ann", content=body)
    elif route.takes is not None:
        example = {} if route.example is None else route.example
        body = json.dumps(replace_texts(example, text)).encode()
        yield "body", victim.send(route, "ann", content=body)
        yield "bare body", victim.send(route, "ann", content=json.dumps(text).encode())


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_is_run(victim: Attacked, text: str) -> None:
    records = victim.call.store.count_rows()["records"]
    leave_out = {"POST /logout"}
    for route in (route for route in EVERY if route_id(route) not in leave_out):
        for part, answer in attack_with(victim, route, text):
            check_answer(answer, f"{route_id(route)}: {part}")

    # What the attacks left behind is shown and saved as text.
    for route in (route for route in EVERY if route.method == "GET" and not route.waits_s):
        for path in (victim.path_of(route), f"{victim.path_of(route)}?until=2100-01-01"):
            known = route in PAGES or "?" not in path or "until" in str(route.query)
            if known:
                check_answer(victim.send(route, "root", path=path), f"{route_id(route)}: after")
    store = victim.call.store
    assert store.count_rows()["records"] >= records
    assert verify_chain(store.backend).holds
    decided = store.get(victim.decided, "acme")
    assert decided is not None
    assert decided.sealed is not None
