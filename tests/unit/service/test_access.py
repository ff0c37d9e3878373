import asyncio
from datetime import timedelta

import pytest
from gates import NOON, Ticking, entropy_of
from served import add_key

from demur.errors import InputError
from demur.service.access import LOCAL, NOBODY, Authenticator, Principal, Role, digest_of, make_key
from demur.service.problem import ProblemError
from demur.store.opening import open_store
from demur.store.rows import ApiKey


def doorkeeper(store: object, **more: object) -> Authenticator:
    return Authenticator(store, **{"open_to_local": False, "clock": Ticking(), **more})  # type: ignore[arg-type]


def test_a_key_names_its_id_and_holds_256_random_bits() -> None:
    made = make_key("acme", ["read", "decide", "read"], entropy=entropy_of(), clock=Ticking())

    prefix, key_id, secret = made.token.split("_")
    assert (prefix, key_id) == ("demur", made.key.key_id)
    assert len(secret) * 5 >= 256
    assert made.key.roles == "decide read"
    assert made.key.digest == digest_of(made.token)
    assert made.token not in str(made.key)
    assert secret not in str(made.key)


@pytest.mark.parametrize(
    ("tenant", "roles", "more", "where"),
    [
        ("acme", [], {}, "roles"),
        ("acme", ["king"], {}, "roles"),
        ("a\nb", ["read"], {}, "tenant"),
        ("x" * 300, ["read"], {}, "tenant"),
        ("acme", ["read"], {"note": "\x1b[31m"}, "note"),
        ("acme", ["read"], {"note": "x" * 201}, "note"),
        ("acme", ["read"], {"lifetime": timedelta.max}, "days"),
    ],
)
def test_a_key_that_cannot_be_made_says_why(
    tenant: str, roles: list[str], more: dict[str, object], where: str
) -> None:
    with pytest.raises(InputError) as caught:
        make_key(tenant, roles, clock=Ticking(), **more)  # type: ignore[arg-type]

    assert caught.value.where == where


def test_admin_includes_the_other_roles_but_no_other_tenant() -> None:
    admin = Principal("k", "acme", frozenset({Role.ADMIN}))

    assert all(admin.has_role(role) for role in Role)
    assert admin.can_see_tenant("acme")
    assert not admin.can_see_tenant("other")
    assert admin.default_tenant == "acme"


def test_a_local_caller_makes_no_keys_and_nobody_sees_nothing() -> None:
    assert not LOCAL.has_role(Role.ADMIN)
    assert LOCAL.can_see_tenant("anybody")
    assert LOCAL.default_tenant == "default"
    assert not any(NOBODY.has_role(role) for role in Role)
    assert not NOBODY.can_see_tenant("default")


def test_a_key_is_known_by_its_digest_alone() -> None:
    with open_store(":memory:") as store:
        token = add_key(store, "acme", "read")
        door = doorkeeper(store)

        caller = asyncio.run(door.authenticate(token))
        assert door.cached_principal(token) is caller
        assert asyncio.run(door.authenticate(token)) is caller
    assert caller.tenant == "acme"
    assert caller.roles == {Role.READ}


def test_a_key_of_all_tenants_has_none() -> None:
    with open_store(":memory:") as store:
        token = add_key(store, "", "decide")

        assert asyncio.run(doorkeeper(store).authenticate(token)).tenant is None


def test_a_role_that_this_version_does_not_know_grants_nothing() -> None:
    made = make_key("acme", ["read"], clock=Ticking())
    with open_store(":memory:") as store:
        store.add_key(made.key._replace(roles="read fly"))

        assert asyncio.run(doorkeeper(store).authenticate(made.token)).roles == {Role.READ}


@pytest.mark.parametrize(
    "token", [None, "", "x", "demur_short_x", f"demur_{'a' * 8}_{'b' * 52}", "demur_\u0661" * 9]
)
def test_what_is_no_key_is_turned_away(token: str | None) -> None:
    with open_store(":memory:") as store:
        door = doorkeeper(store)
        assert door.cached_principal(token) is None
        with pytest.raises(ProblemError) as caught:
            asyncio.run(door.authenticate(token))

    assert caught.value.status == 401
    assert "www-authenticate" in caught.value.headers


def test_what_cannot_be_a_key_costs_no_look_into_the_store() -> None:
    class Watched:
        reads = 0

        def keys(self) -> list[ApiKey]:
            self.reads += 1
            return []

    store = Watched()
    door = doorkeeper(store)
    for token in (None, "x", "demur_aaaaaaaa_0000"):
        with pytest.raises(ProblemError):
            asyncio.run(door.authenticate(token))

    assert store.reads == 0


def test_a_revoked_key_is_unknown_once_the_memory_ends() -> None:
    with open_store(":memory:") as store:
        token = add_key(store)
        key_id = token.split("_")[1]
        door = doorkeeper(store, memory_s=0.0)
        asyncio.run(door.authenticate(token))
        store.revoke_key(key_id, "2026-11-15T12:00:00.000Z")

        with pytest.raises(ProblemError):
            asyncio.run(door.authenticate(token))


def test_a_key_ends_at_its_time_to_the_moment() -> None:
    clock = Ticking()
    with open_store(":memory:") as store:
        token = add_key(store, lifetime=timedelta(hours=1))
        door = doorkeeper(store, clock=clock, memory_s=10_000.0)
        asyncio.run(door.authenticate(token))
        clock.now = NOON + timedelta(minutes=59, seconds=59)
        assert door.cached_principal(token) is not None
        clock.now = NOON + timedelta(hours=1)

        assert door.cached_principal(token) is None


def test_without_a_store_there_are_no_keys() -> None:
    made = make_key("acme", ["read"], clock=Ticking())

    with pytest.raises(ProblemError):
        asyncio.run(doorkeeper(None).authenticate(made.token))


def test_only_an_open_door_lets_local_callers_in() -> None:
    door = doorkeeper(None, open_to_local=True)

    assert asyncio.run(door.authenticate(None)) is LOCAL
    assert door.cached_principal(None) is LOCAL
    assert door.cached_principal(None, is_local=False) is None
    with pytest.raises(ProblemError, match="an API key is required"):
        asyncio.run(door.authenticate(None, is_local=False))
    with pytest.raises(ProblemError, match="an API key is required"):
        asyncio.run(doorkeeper(None).authenticate(None))


@pytest.mark.parametrize("revoked", [False, True])
def test_the_first_key_closes_an_open_door_while_it_is_open(revoked: bool) -> None:
    with open_store(":memory:") as store:
        door = doorkeeper(store, open_to_local=True, memory_s=0.0)
        assert asyncio.run(door.authenticate(None)) is LOCAL
        token = add_key(store)
        if revoked:
            # A door that somebody locked once stays locked.
            store.revoke_key(token.split("_")[1], "2026-11-15T12:00:00.000Z")

        with pytest.raises(ProblemError, match="an API key is required"):
            asyncio.run(door.authenticate(None))
        door.close()
