"""People and their keys, on each database."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.people import AUTHOR, person

from demur.errors import InputError
from demur.store.opening import open_store
from demur.store.people_tables import PersonChange, PersonKey
from demur.store.rows import LoginSession
from demur.store.store import Store
from demur.store.verify import verify_chain

NOW = "2026-11-15T12:00:00.000Z"


@pytest.fixture(params=["sqlite", "postgresql"])
def people(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Return a store in each database."""
    is_file = request.param == "sqlite"
    url = str(tmp_path / "demur.db") if is_file else request.getfixturevalue("postgres_url")
    with open_store(url) as store:
        yield store


def key(number: int = 1, login: str = "mary", **fields: Any) -> PersonKey:
    usual: dict[str, Any] = {
        "tenant": "default",
        "algorithm": "ed25519",
        "public_key": "public",
        "sealed_secret": "sealed",
        "issuer": "issuer:1",
        "certificate": "certificate",
        "created_at": NOW,
    }
    return PersonKey(key_id=f"person:{login}:{number}", login=login, **{**usual, **fields})


def session(digest: str, login: str, generation: int) -> LoginSession:
    ends = "2027-11-15T12:00:00.000Z"
    return LoginSession(digest, f"person:{login}", NOW, ends, login, generation)


def events(store: Store, tenant: str = "default") -> list[dict[str, Any]]:
    rows = store.backend.read_events(tenant)
    return [{"kind": row.kind, **msgspec.json.decode(row.event)["what"]} for row in rows]


def test_people_are_kept_by_login_and_by_tenant(people: Store) -> None:
    mary = person(groups="night finance", note="from 9 to 5")
    people.add_person(mary, **AUTHOR)
    ann = person("ann", "reader", tenant="acme", issuer="https://id.example", oidc_subject="7")
    people.add_person(ann, **AUTHOR)

    assert people.get_person("mary") == mary
    assert people.get_person("nobody") is None
    assert people.list_people() == [ann, mary]
    assert people.list_people("acme") == [ann]
    assert people.find_oidc_person("https://id.example", "7") == ann
    assert people.find_oidc_person("https://other.example", "7") is None


def test_a_login_is_taken_once_in_all_tenants(people: Store) -> None:
    people.add_person(person(), **AUTHOR)

    with pytest.raises(InputError, match="already"):
        people.add_person(person(tenant="acme", role="admin"), **AUTHOR)

    assert [one.role for one in people.list_people()] == ["approver"]
    assert events(people, "acme") == []


def test_each_change_is_a_link_of_the_chain_without_the_password(people: Store) -> None:
    people.add_person(person(groups="night"), **AUTHOR)
    change = PersonChange(role="reader", groups="", password_hash="$argon2id$secret")
    people.change_person("mary", change, **AUTHOR)
    people.change_person("mary", PersonChange(), **AUTHOR)

    assert events(people) == [
        {"kind": "person_added", "login": "mary", "role": "approver", "groups": ["night"]},
        {
            "kind": "person_changed",
            "login": "mary",
            "changed": ["groups", "password", "role"],
            "role": "reader",
            "groups": [],
        },
    ]
    assert verify_chain(people.backend, "default").holds


def test_people_of_all_tenants_are_on_record_in_the_chain_of_the_default_tenant(
    people: Store,
) -> None:
    people.add_person(person(tenant=""), **AUTHOR)

    assert [one["login"] for one in events(people)] == ["mary"]
    assert people.list_people("default") == []


@pytest.mark.parametrize(
    ("change", "ends"),
    [
        (PersonChange(disabled=True), True),
        (PersonChange(role="reader"), True),
        (PersonChange(password_hash="other"), True),
        (PersonChange(groups="night", note="a note"), False),
        (PersonChange(role="approver", disabled=False), False),
    ],
)
def test_what_takes_power_from_a_person_ends_their_sessions(
    people: Store, change: PersonChange, ends: bool
) -> None:
    for login in ("mary", "ann"):
        people.add_person(person(login), **AUTHOR)
        people.add_session(session(f"of {login}", login, 1))

    after = people.change_person("mary", change, **AUTHOR)

    assert after.generation == (2 if ends else 1)
    kept = sorted(one.person for one in people.list_sessions())
    assert kept == (["ann"] if ends else ["ann", "mary"])


@pytest.mark.parametrize("change", [PersonChange(disabled=True), PersonChange(role="reviewer")])
def test_a_person_who_may_no_longer_sign_loses_the_key_in_the_same_write(
    people: Store, change: PersonChange
) -> None:
    for login in ("mary", "ann"):
        people.add_person(person(login), **AUTHOR)
        assert people.add_person_key(key(login=login)) == key(login=login)

    people.change_person("mary", change, **{**AUTHOR, "now": "2026-11-16T00:00:00.000Z"})

    assert [one.retired_at for one in people.list_person_keys("mary")] == [
        "2026-11-16T00:00:00.000Z"
    ]
    assert [one.retired_at for one in people.list_person_keys("ann")] == [None]
    last = events(people)[-1]
    assert last == {"kind": "person_key_retired", "login": "mary", "keys": ["person:mary:1"]}
    assert people.add_person_key(key(2)) is None


def test_a_person_has_one_key_at_a_time(people: Store) -> None:
    people.add_person(person(), **AUTHOR)
    first = people.add_person_key(key())

    assert people.add_person_key(key(2)) == first
    second = key(2, issuer="issuer:2")
    assert people.add_person_key(second, replace=True) == second
    # Another process that replaces it at the same time gets the same key.
    late = key(2, issuer="issuer:2", public_key="late")
    assert people.add_person_key(late, replace=True) == second
    found = people.find_person_keys(["person:mary:1", "person:mary:2", "person:mary:3"])
    assert sorted((one.key_id, one.retired_at) for one in found) == [
        ("person:mary:1", NOW),
        ("person:mary:2", None),
    ]


def test_two_processes_that_make_a_key_at_once_agree_on_one(people: Store) -> None:
    people.add_person(person(), **AUTHOR)
    keys = [key(number, public_key=str(number)) for number in (1, 2)]
    with ThreadPoolExecutor(2) as threads:
        stored = list(threads.map(people.add_person_key, keys))

    assert stored[0] == stored[1]
    assert people.list_person_keys("mary") == [stored[0]]


def test_nobody_has_a_key_without_being_known(people: Store) -> None:
    assert people.add_person_key(key()) is None


def test_a_change_of_nobody_says_so(people: Store) -> None:
    with pytest.raises(InputError, match="no person"):
        people.change_person("mary", PersonChange(role="admin"), **AUTHOR)


def test_a_change_says_who_and_why(people: Store) -> None:
    with pytest.raises(InputError, match="who did it and why"):
        people.add_person(person(), by="", reason="", now=NOW)


def test_a_stronger_hash_never_replaces_a_changed_password(people: Store) -> None:
    people.add_person(person(password_hash="old"), **AUTHOR)
    people.rehash_password("mary", "old", "stronger")
    people.rehash_password("mary", "old", "late")

    found = people.get_person("mary")
    assert found is not None
    assert (found.password_hash, found.generation) == ("stronger", 1)
