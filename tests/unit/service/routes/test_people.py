"""People over HTTP and on their page: what an admin may do, and what nobody may."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.dashboard_site import Site, site_of
from support.gates import Ticking, gate_over
from support.people import AUTHOR, add_person, person
from support.property_runs import examples
from support.service_app import add_key

from demur.errors import InputError
from demur.service.authentication import person_principal
from demur.service.calls import ApiCall
from demur.service.people import Passwords
from demur.service.problem import ProblemError
from demur.service.routes.people import add_checked_person, change_checked_person
from demur.store.opening import open_store
from demur.store.people_tables import PersonChange

CHEAP = Passwords(time_cost=1, memory_cost=8, parallelism=1)
PASSWORD = "correct horse battery staple"
HASH = CHEAP.hash(PASSWORD)
NEW = {"login": "ann", "role": "reader", "password": PASSWORD}


@pytest.fixture(params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Site]:
    """Yield pages with an admin of all tenants, one of acme, and an approver of each tenant."""
    is_file = request.param == "sqlite"
    url = str(tmp_path / "demur.db") if is_file else request.getfixturevalue("postgres_url")
    with gate_over(open_store(url)) as gate, site_of(gate, clock=Ticking()) as opened:
        opened.call.service.passwords = CHEAP
        store = opened.call.store
        for login, role, tenant in (
            ("root", "admin", ""),
            ("boss", "admin", "acme"),
            ("mary", "approver", "acme"),
            ("paul", "approver", "globex"),
        ):
            add_person(store, login, role, tenant=tenant, password_hash=HASH)
        yield opened


def logged_in(site: Site, login: str) -> dict[str, Any]:
    answer = site.send("/login", {"login": login, "password": PASSWORD})
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


def post(site: Site, path: str, body: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
    return site.call("POST", path, body, headers=headers)


def test_an_admin_adds_lists_and_changes_people(site: Site) -> None:
    root = logged_in(site, "root")
    added = post(site, "/v1/people", {**NEW, "tenant": "globex", "groups": ["night"]}, root)
    changed = post(site, "/v1/people/ann", {"role": "reviewer", "note": "a note"}, root)
    disabled = post(site, "/v1/people/paul", {"disabled": True}, root)
    found = site.call("GET", "/v1/people?tenant=globex", headers=root).json()["people"]

    assert added.status_code == 201
    assert "password" not in added.text
    assert changed.json()["role"] == "reviewer"
    assert disabled.json()["disabled_at"] is not None
    assert [(one["login"], one["groups"]) for one in found] == [("ann", ["night"]), ("paul", [])]
    assert site.send("/login", {"login": "ann", "password": PASSWORD}).status_code == 303


def test_an_admin_of_one_tenant_sees_and_changes_nobody_else(site: Site) -> None:
    boss = logged_in(site, "boss")
    people = site.call("GET", "/v1/people", headers=boss).json()["people"]
    own = post(site, "/v1/people", NEW, boss)
    elsewhere = [
        post(site, "/v1/people", {**NEW, "login": f"x{one}", "tenant": tenant}, boss)
        for one, tenant in enumerate(("", "globex"))
    ]
    changes = [
        post(site, f"/v1/people/{login}", {"role": "admin"}, boss)
        for login in ("paul", "root", "nobody")
    ]

    assert [one["login"] for one in people] == ["boss", "mary"]
    assert own.json()["tenant"] == "acme"
    assert [one.status_code for one in elsewhere] == [403, 403]
    assert [(one.status_code, one.json()["detail"]) for one in changes] == [
        (404, "there is no such person")
    ] * 3
    assert site.call("GET", "/v1/people?tenant=globex", headers=boss).status_code == 403


@pytest.mark.parametrize("role", ["reader", "reviewer", "approver"])
def test_nobody_raises_their_own_role(site: Site, role: str) -> None:
    site.call.store.change_person("mary", PersonChange(role=role), **AUTHOR)
    site.call.service.authenticator.expire()
    mary = logged_in(site, "mary")

    assert post(site, "/v1/people/mary", {"role": "admin"}, mary).status_code == 403
    assert post(site, "/v1/people", NEW, mary).status_code == 403
    form = {"do": "role", "login": "mary", "role": "admin"}
    assert site.send("/people", form, **mary).status_code == 403
    keys = post(site, "/v1/keys", {"roles": ["admin"]}, mary)
    assert keys.status_code == 403
    mary_now = site.call.store.get_person("mary")
    assert mary_now is not None
    assert mary_now.role == role


def test_a_key_of_an_admin_lists_people_and_changes_none(site: Site) -> None:
    key = add_key(site.call.store, "", "admin")
    listed = site.call("GET", "/v1/people", key=key)
    added = site.call("POST", "/v1/people", NEW, key=key)
    changed = site.call("POST", "/v1/people/mary", {"role": "admin"}, key=key)

    assert listed.status_code == 200
    assert "$argon2" not in listed.text
    assert (added.status_code, changed.status_code) == (403, 403)
    assert "only a person who is logged in" in added.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {**NEW, "role": "king"},
        {**NEW, "role": "approve"},
        {**NEW, "password": "short"},
        {**NEW, "login": "a b"},
        {**NEW, "login": "person:mary"},
        {**NEW, "groups": ["a b"]},
        {**NEW, "king": True},
        {**NEW, "login": "mary"},
    ],
)
def test_a_person_that_cannot_be_added_is_an_error_of_the_caller(
    site: Site, body: dict[str, Any]
) -> None:
    answer = post(site, "/v1/people", body, logged_in(site, "root"))

    assert answer.status_code == 422
    assert len(site.call.store.list_people()) == 4


def test_no_role_of_a_key_approves(site: Site) -> None:
    answer = post(site, "/v1/keys", {"roles": ["approve"]}, logged_in(site, "root"))

    assert answer.status_code == 422
    assert site.call.store.list_keys() == []


def test_the_page_adds_and_changes_people(site: Site) -> None:
    root = logged_in(site, "root")
    form = {**NEW, "do": "add", "tenant": "globex", "groups": "night finance", "note": "<b>"}
    assert site.send("/people", form, **root).headers["location"] == "/people"
    site.send(
        "/people", {"do": "role", "login": "ann", "role": "reviewer", "groups": "day"}, **root
    )
    site.send("/people", {"do": "disable", "login": "mary"}, **root)
    for unclear in ({"login": "mary"}, {"do": "Enable", "login": "mary"}):
        assert site.send("/people", unclear, **root).status_code == 422
    page = site.open("/people", **root)
    ann, mary = site.call.store.get_person("ann"), site.call.store.get_person("mary")

    assert "5 people" in page.text
    assert ann is not None
    assert (ann.role, ann.groups, ann.note) == ("reviewer", "day", "<b>")
    assert mary is not None
    assert mary.disabled_at is not None
    site.send("/people", {"do": "enable", "login": "mary"}, **root)
    mary = site.call.store.get_person("mary")
    assert mary is not None
    assert mary.disabled_at is None


def test_the_page_says_what_is_wrong_and_shows_no_password(site: Site) -> None:
    boss = logged_in(site, "boss")
    answer = site.send("/people", {**NEW, "do": "add", "login": "MARY"}, **boss)
    short = site.send("/people", {**NEW, "do": "add", "password": "tooshort!!"}, **boss)
    foreign = site.send("/people", {"do": "disable", "login": "paul"}, **boss)

    assert (answer.status_code, short.status_code, foreign.status_code) == (422, 422, 404)
    assert "There is a person `mary` already" in answer.text
    assert PASSWORD not in answer.text
    assert "tooshort" not in short.text
    assert "paul" not in answer.text
    assert "$argon2" not in site.get("/people", **boss).text


def test_an_admin_key_looks_at_the_page_and_changes_nothing(site: Site) -> None:
    key = add_key(site.call.store, "acme", "admin")
    site.call.service.authenticator.expire()
    bearer: dict[str, Any] = {"authorization": f"Bearer {key}"}

    assert "you can look and change nothing" in site.open("/people", **bearer).text
    assert site.send("/people", {**NEW, "do": "add"}, **bearer).status_code == 403


@settings(max_examples=examples(60))
@given(
    st.sampled_from(["", "acme", "globex"]),
    st.sampled_from(["", "acme", "globex", None]),
    st.sampled_from(["mary", "paul", "root", "nobody"]),
)
def test_a_change_stays_in_the_tenant_of_the_admin(
    own: str, wanted: str | None, login: str
) -> None:
    """INVARIANT: an admin of one tenant changes nobody of another."""
    tenants = {"mary": "acme", "paul": "globex", "root": ""}
    with gate_over(open_store(":memory:")) as gate, site_of(gate, clock=Ticking()) as opened:
        service = opened.call.service
        service.passwords = CHEAP
        for name, tenant in tenants.items():
            add_person(service.store, name, tenant=tenant)
        caller = person_principal(person("boss", "admin", tenant=own))
        call = ApiCall(service, caller, {}, {})
        try:
            added = add_checked_person(call, "ann", "reader", tenant=wanted, password=PASSWORD)
        except ProblemError:
            assert own not in {"", wanted}
        else:
            assert own in {"", added.tenant}
        try:
            changed = change_checked_person(call, login, PersonChange(note="changed"))
        except (ProblemError, InputError):
            assert login == "nobody" or own not in {"", tenants[login]}
        else:
            assert own in {"", changed.tenant}
