"""People who log in by password: on both databases, and against those who should not get in."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.dashboard_site import Site, site_of
from support.gates import NOON, Ticking, gate_over
from support.people import AUTHOR, SERVICE_KEY, add_person
from support.property_runs import examples
from support.service_app import add_key

from demur.errors import GrantError, InputError
from demur.gate.people import PeopleSettings
from demur.service.authentication import Authenticator, person_principal
from demur.service.people import (
    MAX_PASSWORD_LENGTH,
    MIN_PASSWORD_LENGTH,
    Passwords,
    change_password,
    log_in_person,
    make_change,
    make_person,
)
from demur.service.settings import ServiceSettings
from demur.store.opening import open_store
from demur.store.people_tables import Person, PersonChange
from demur.store.store import Store

# As cheap as Argon2 gets: tests are not about how long it takes.
CHEAP = Passwords(time_cost=1, memory_cost=8, parallelism=1)
PASSWORD = "correct horse battery staple"
HASH = CHEAP.hash(PASSWORD)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    is_file = request.param == "sqlite"
    url = str(tmp_path / "demur.db") if is_file else request.getfixturevalue("postgres_url")
    with open_store(url) as opened:
        yield opened


@pytest.fixture
def site(store: Store) -> Iterator[Site]:
    """Yield the pages of a service with one approver, Mary, and cheap hashes."""
    add_person(store, "mary", "approver", tenant="acme", password_hash=HASH)
    with gate_over(store) as gate, site_of(gate, clock=Ticking()) as site:
        site.call.service.passwords = CHEAP
        yield site


def log_in(site: Site, login: str = "mary", password: str = PASSWORD, **headers: str) -> Any:
    return site.send("/login", {"login": login, "password": password, "next": "/"}, **headers)


def session_of(answer: httpx.Response) -> str:
    assert answer.status_code == 303, answer.text
    pair: str = answer.headers["set-cookie"].partition(";")[0]
    return pair


def is_in(site: Site, cookie: str) -> bool:
    site.call.service.authenticator.expire()
    return site.get("/decisions", cookie=cookie).status_code == 200


def test_a_person_logs_in_sees_their_tenant_and_logs_out(site: Site) -> None:
    cookie = session_of(log_in(site, " Mary "))
    page = site.open("/decisions", cookie=cookie)
    out = site.send("/logout", {}, cookie=cookie)

    assert "Tenant acme" in page.text
    assert "mary" in page.text
    assert out.headers["location"] == "/login"
    assert not is_in(site, cookie)


@pytest.mark.parametrize(
    ("login", "password"),
    [
        ("mary", "wrong horse battery staple"),
        ("mary", ""),
        ("mary", "nobody has this password"),
        ("nobody", PASSWORD),
        ("nobody", "nobody has this password"),
        ("", ""),
        ("mary' OR 1=1 --", PASSWORD),
        ("mary\0", PASSWORD),
        ("m\u00e4ry", PASSWORD),
        ("mary" * 1000, PASSWORD * 1000),
    ],
)
def test_who_has_not_both_is_told_the_same(site: Site, login: str, password: str) -> None:
    answer = log_in(site, login, password)

    assert answer.status_code == 401
    assert "do not belong together" in answer.text
    assert "set-cookie" not in answer.headers


def test_an_unknown_name_takes_the_work_of_a_known_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = Passwords(time_cost=1, memory_cost=8, parallelism=1)
    add_person(store, "mary", password_hash=passwords.hash(PASSWORD))
    add_person(store, "ann", password_hash=passwords.hash(PASSWORD))
    add_person(store, "elsewhere", issuer="https://id.example", oidc_subject="7")
    store.change_person("ann", PersonChange(disabled=True), **AUTHOR)
    verified: list[str] = []
    hasher = passwords._hasher
    verify = hasher.verify

    def count(stored: str, password: bytes) -> bool:
        verified.append(stored.rpartition("$")[0].rpartition("$")[0])
        return bool(verify(stored, password))

    monkeypatch.setattr(type(hasher), "verify", staticmethod(count))
    for login in ("mary", "ann", "elsewhere", "nobody", "no login at all!"):
        found = log_in_person(store, passwords, login, PASSWORD)
        assert (found is not None) == (login == "mary")

    # One hash each, all with the same parameters.
    assert len(verified) == 5
    assert len(set(verified)) == 1


def test_a_hash_with_weaker_parameters_is_replaced_at_the_next_login(store: Store) -> None:
    add_person(store, password_hash=HASH)
    stronger = Passwords(time_cost=2, memory_cost=16, parallelism=1)
    assert log_in_person(store, stronger, "mary", "wrong horse battery staple") is None
    before = store.get_person("mary")
    assert log_in_person(store, stronger, "mary", PASSWORD) is not None
    after = store.get_person("mary")

    assert before is not None
    assert after is not None
    assert before.password_hash == HASH
    assert after.password_hash is not None
    assert after.password_hash.startswith("$argon2id$")
    assert "m=16,t=2" in after.password_hash
    assert after.generation == before.generation
    assert log_in_person(store, stronger, "mary", PASSWORD) is not None


def test_passwords_are_hashed_with_the_parameters_of_the_library_by_default() -> None:
    passwords = Passwords()

    assert passwords.hash(PASSWORD).startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert passwords.is_outdated(HASH)


@pytest.mark.parametrize(
    "password", ["", "short", "x" * (MIN_PASSWORD_LENGTH - 1), "x" * 1001, "a long one with \0"]
)
def test_a_password_of_another_length_is_refused(password: str) -> None:
    with pytest.raises(InputError, match="at least 12 characters"):
        CHEAP.hash(password)
    assert MAX_PASSWORD_LENGTH == 1000


def test_one_letter_in_two_spellings_is_one_password() -> None:
    assert CHEAP.verify(CHEAP.hash("cafe\u0301 au lait bien"), "caf\u00e9 au lait bien")
    assert not CHEAP.verify("no hash at all", PASSWORD)


PASSWORDS = st.sampled_from([PASSWORD, "another long password", "nobody has this password", ""])


@settings(max_examples=examples(60))
@given(st.sampled_from(["mary", "ann", "nobody", ""]), PASSWORDS, st.booleans(), st.booleans())
def test_nobody_gets_in_by_the_password_of_another(
    login: str, password: str, disabled: bool, has_password: bool
) -> None:
    """INVARIANT: nobody logs in without a password of their own."""
    with open_store(":memory:") as opened:
        add_person(opened, "mary", password_hash=HASH if has_password else None)
        add_person(opened, "ann", password_hash=CHEAP.hash("another long password"))
        if disabled:
            opened.change_person("mary", PersonChange(disabled=True), **AUTHOR)
        found = log_in_person(opened, CHEAP, login, password)

    own = {"ann": "another long password"}
    if has_password and not disabled:
        own["mary"] = PASSWORD
    assert (None if found is None else found.login) == (
        login if own.get(login) == password else None
    )


@pytest.mark.parametrize(
    "change",
    [
        PersonChange(disabled=True),
        PersonChange(role="reader"),
        PersonChange(password_hash=CHEAP.hash("another long password")),
    ],
)
def test_an_open_session_ends_with_what_it_was_opened_by(site: Site, change: PersonChange) -> None:
    cookie = session_of(log_in(site))
    assert is_in(site, cookie)
    site.call.store.change_person("mary", change, **AUTHOR)

    assert not is_in(site, cookie)


def test_a_login_that_overlaps_a_change_opens_no_session(site: Site) -> None:
    """The password is right, and the person is disabled before the session is stored."""
    store, door = site.call.store, site.call.service.authenticator
    person = log_in_person(store, CHEAP, "mary", PASSWORD)
    assert person is not None
    store.change_person("mary", PersonChange(disabled=True), **AUTHOR)
    store.change_person("mary", PersonChange(disabled=False), **AUTHOR)
    from_before = _open(door, person)

    assert not is_in(site, f"demur_session={from_before}")


def _open(door: Authenticator, person: Person) -> str:
    return door.open_session(
        person_principal(person), timedelta(hours=1), generation=person.generation
    )


def test_a_session_that_was_there_before_a_login_is_not_gone_on_with(site: Site) -> None:
    mine = session_of(log_in(site))
    planted = "demur_session=session_" + "a" * 52
    answers = [log_in(site, cookie=cookie) for cookie in (mine, planted)]

    cookies = {mine, planted, *map(session_of, answers)}
    assert len(cookies) == 4
    assert not is_in(site, mine)
    assert not is_in(site, planted)
    assert all(is_in(site, session_of(one)) for one in answers)


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ],
)
@pytest.mark.parametrize("path", ["/login", "/logout", "/account", "/people"])
def test_forms_of_other_sites_are_refused(site: Site, path: str, headers: dict[str, str]) -> None:
    cookie = session_of(log_in(site))
    fields = {"login": "mary", "password": PASSWORD}
    answer = site.send(path, fields, cookie=cookie, **headers)

    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert is_in(site, cookie)


def test_attempts_of_a_person_are_limited_by_address(store: Store) -> None:
    add_person(store, password_hash=HASH)
    with (
        gate_over(store) as gate,
        site_of(gate, ServiceSettings(proxies=("127.0.0.1",)), clock=Ticking()) as site,
    ):
        site.call.service.passwords = CHEAP
        guess = {"login": "mary", "password": "wrong horse battery staple"}
        here = {"x-forwarded-for": "10.0.0.1"}
        answers = [site.send("/login", guess, **here).status_code for _ in range(30)]
        other = site.send(
            "/login", {**guess, "password": PASSWORD}, **{"x-forwarded-for": "10.9.9.9"}
        )

    assert answers[0] == 401
    assert answers[-1] == 429
    assert other.status_code == 303


def test_the_first_person_ends_open_local_access(store: Store) -> None:
    with gate_over(store) as gate, site_of(gate, clock=Ticking()) as site:
        assert site.get("/decisions").status_code == 200
        assert "Nobody needs to log in yet" in site.open("/login").text
        add_person(store, "mary", "reader", password_hash=HASH)
        site.call.service.authenticator.expire()

        assert site.get("/decisions").status_code == 303
        page = site.open("/login")
        assert {one.attrs["name"] for one in page.all("input")} == {"next", "login", "password"}
        store.change_person("mary", PersonChange(disabled=True), **AUTHOR)
        site.call.service.authenticator.expire()
        assert site.get("/decisions").status_code == 303


def test_the_login_asks_for_what_there_is(store: Store) -> None:
    add_key(store, "acme", "read")
    with gate_over(store) as gate, site_of(gate, clock=Ticking()) as site:
        asked = {one.attrs["name"] for one in site.open("/login").all("input")}
        add_person(store)
        site.call.service.authenticator.expire()
        both = {one.attrs["name"] for one in site.open("/login").all("input")}

    assert asked == {"next", "key"}
    assert both == {"next", "key", "login", "password"}


def test_a_person_changes_the_password_and_the_other_sessions_end(site: Site) -> None:
    here, elsewhere = session_of(log_in(site)), session_of(log_in(site))
    new = "a sentence of my own"
    fields = {"password": PASSWORD, "new": new, "again": new}
    answer = site.send("/account", fields, cookie=here)

    assert answer.headers["location"] == "/account"
    assert is_in(site, session_of(answer))
    assert not is_in(site, here)
    assert not is_in(site, elsewhere)
    assert log_in(site).status_code == 401
    assert log_in(site, password=new).status_code == 303


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"password": "wrong horse battery staple"}, "The present password is wrong."),
        ({"again": "something else"}, "The new passwords differ."),
        ({"new": "short", "again": "short"}, "A password has at least 12 characters."),
    ],
)
def test_a_password_is_not_changed_without_the_present_one(
    site: Site, fields: dict[str, str], problem: str
) -> None:
    cookie = session_of(log_in(site))
    new = "a sentence of my own"
    sent = {"password": PASSWORD, "new": new, "again": new, **fields}
    answer = site.send("/account", sent, cookie=cookie)

    assert answer.status_code == 422
    assert problem in answer.text
    assert is_in(site, cookie)
    assert log_in(site).status_code == 303


def test_a_key_has_no_account_to_change(site: Site) -> None:
    key = add_key(site.call.store, "acme", "read")
    cookie = session_of(site.send("/login", {"key": key}))

    assert "not logged in as a person" in site.open("/account", cookie=cookie).text
    assert site.send("/account", {"password": "x"}, cookie=cookie).status_code == 403


def test_another_password_is_for_people_who_have_one() -> None:
    with open_store(":memory:") as opened:
        add_person(opened, "ann", issuer="https://id.example", oidc_subject="7")
        now = AUTHOR["now"]
        with pytest.raises(InputError, match=r"logs in at https://id\.example"):
            change_password(opened, CHEAP, "ann", PASSWORD, by="tests", now=now)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"login": ""}, "login"),
        ({"login": "mary ann"}, "login"),
        ({"login": "person:mary"}, "login"),
        ({"login": "-mary"}, "login"),
        ({"login": "m" * 101}, "login"),
        ({"role": "king"}, "role"),
        ({"role": "approve"}, "role"),
        ({"tenant": "a\nb"}, "tenant"),
        ({"groups": ["a b"]}, "groups"),
        ({"groups": [f"g{one}" for one in range(51)]}, "groups"),
        ({"note": "x" * 201}, "note"),
    ],
)
def test_a_person_that_cannot_be_added_says_what_is_wrong(
    fields: dict[str, Any], where: str
) -> None:
    usual = {"login": "mary", "role": "reader", "tenant": "acme", "now": AUTHOR["now"]}

    with pytest.raises(InputError) as caught:
        make_person(**{**usual, **fields})
    assert caught.value.where == where
    if where in {"role", "groups", "note"}:
        with pytest.raises(InputError):
            make_change(**fields)


def test_the_service_key_is_read_at_its_first_use(tmp_path: Path) -> None:
    path = tmp_path / "people.key"
    people = PeopleSettings(key=str(path))
    with gate_over(open_store(":memory:")) as gate, site_of(gate, people=people) as site:
        with pytest.raises(GrantError, match="there is no service key"):
            site.call.service.require_service_key()
        path.write_bytes(SERVICE_KEY.to_json())
        path.chmod(0o600)

        key = site.call.service.require_service_key()
        assert key.issuer == SERVICE_KEY.issuer
        assert site.call.service.require_service_key() is key


def test_a_person_asks_for_nothing_beyond_the_role(site: Site) -> None:
    cookie = {"cookie": session_of(log_in(site))}
    request = {"request": {"action": {"type": "refund"}}}

    assert site.call("GET", "/v1/decisions", headers=cookie).status_code == 200
    decided = site.call("POST", "/v1/decide", request, headers=cookie)
    assert (decided.status_code, decided.json()["detail"]) == (
        403,
        "this person has no role `decide`",
    )
    assert site.call("GET", "/v1/keys", headers=cookie).status_code == 403
    assert site.call("GET", "/v1/people", headers=cookie).status_code == 403
    assert site.get("/people", **cookie).status_code == 403
    others = site.call("GET", "/v1/decisions?tenant=other", headers=cookie)
    assert others.status_code == 403


def test_a_person_is_bound_to_their_own_name(store: Store) -> None:
    add_person(store, "root", "admin", tenant="", password_hash=HASH)
    with gate_over(store) as gate, site_of(gate, clock=Ticking(NOON)) as site:
        site.call.service.passwords = CHEAP
        cookie = session_of(log_in(site, "root"))
        principal = site.call.service.authenticator.cached_session(cookie.partition("=")[2])
        principal = principal or asyncio.run(
            site.call.service.authenticator.find_session(cookie.partition("=")[2])
        )

    assert principal is not None
    assert principal.subjects == frozenset({"user:root", "person:root"})
    assert (principal.name, principal.tenant, principal.person) == ("person:root", None, "root")
