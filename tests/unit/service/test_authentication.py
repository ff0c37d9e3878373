import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gates import NOON, Ticking, entropy_of
from support.service_app import add_key

from demur.errors import InputError
from demur.service.authentication import (
    KEY_ROLES,
    LOCAL,
    NOBODY,
    Authenticator,
    KeyCache,
    Principal,
    Role,
    digest_of,
    make_key,
)
from demur.service.problem import ProblemError
from demur.store.opening import open_store
from demur.store.rows import ApiKey


def doorkeeper(store: object, **more: object) -> Authenticator:
    return Authenticator(store, **{"allow_local": False, "clock": Ticking(), **more})  # type: ignore[arg-type]


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
def test_an_invalid_key_setting_names_its_field(
    tenant: str, roles: list[str], more: dict[str, object], where: str
) -> None:
    with pytest.raises(InputError) as caught:
        make_key(tenant, roles, clock=Ticking(), **more)  # type: ignore[arg-type]

    assert caught.value.where == where


def test_admin_includes_the_other_roles_but_no_other_tenant() -> None:
    admin = Principal("k", "acme", frozenset({Role.ADMIN}))

    assert all(admin.has_role(role) for role in KEY_ROLES)
    assert not admin.has_role(Role.APPROVE)


def test_a_local_caller_makes_no_keys_and_nobody_sees_nothing() -> None:
    assert not LOCAL.has_role(Role.ADMIN)
    assert not any(NOBODY.has_role(role) for role in Role)


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
def test_an_invalid_key_is_rejected(token: str | None) -> None:
    with open_store(":memory:") as store:
        door = doorkeeper(store)
        assert door.cached_principal(token) is None
        with pytest.raises(ProblemError) as caught:
            asyncio.run(door.authenticate(token))

    assert caught.value.status == 401
    assert "www-authenticate" in caught.value.headers


def test_a_malformed_key_costs_no_store_lookup() -> None:
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


@given(st.none() | st.floats(0.001, 48), st.floats(0.001, 48), st.floats(0, 60), st.booleans())
def test_a_session_ends_no_later_than_its_key(
    key_hours: float | None, session_hours: float, after: float, revoked: bool
) -> None:
    """INVARIANT: a session never lets in longer than its key does."""
    now = [NOON]
    with open_store(":memory:") as store:
        lifetime = None if key_hours is None else timedelta(hours=key_hours)
        made = make_key("acme", ["read"], lifetime=lifetime, clock=lambda: NOON)
        store.add_key(made.key)
        door = doorkeeper(store, clock=lambda: now[0])
        caller = Principal(made.key.key_id, "acme", frozenset({Role.READ}))
        secret = door.open_session(caller, timedelta(hours=session_hours))
        if revoked:
            store.revoke_key(made.key.key_id, "2026-11-15T12:00:00.000Z")
        now[0] += timedelta(hours=after)
        session = asyncio.run(door.find_session(secret))
        key = door.cached_principal(made.token)
        door.close()

    assert session is None or key is not None
    if session is not None:
        assert after < session_hours
        assert session.name == made.key.key_id


def test_a_key_that_expires_soon_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with open_store(":memory:") as store:
        for days in (1, 13, 15, None):
            lifetime = None if days is None else timedelta(days=days)
            made = make_key("acme", ["read"], lifetime=lifetime, clock=Ticking())
            store.add_key(made.key)
        door = doorkeeper(store)
        for _ in range(2):
            asyncio.run(door.authenticate(made.token))
            door._cache.expire()
        door.close()

    soon = [one.getMessage() for one in caplog.records if "expires at" in one.getMessage()]
    assert len(soon) == 2
    assert made.token not in caplog.text


def test_without_a_store_there_are_no_keys() -> None:
    made = make_key("acme", ["read"], clock=Ticking())

    with pytest.raises(ProblemError):
        asyncio.run(doorkeeper(None).authenticate(made.token))


def test_only_an_open_door_lets_local_callers_in() -> None:
    door = doorkeeper(None, allow_local=True)

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
        door = doorkeeper(store, allow_local=True, memory_s=0.0)
        assert asyncio.run(door.authenticate(None)) is LOCAL
        token = add_key(store)
        if revoked:
            # A door that somebody locked once stays locked.
            store.revoke_key(token.split("_")[1], "2026-11-15T12:00:00.000Z")

        with pytest.raises(ProblemError, match="an API key is required"):
            asyncio.run(door.authenticate(None))
        door.close()


class Shelf:
    """What is stored, and how often somebody looked."""

    def __init__(self, **page: int) -> None:
        self.page = page
        self.reads = 0
        self.broken = False

    def __call__(self) -> dict[str, int]:
        """Return what is stored."""
        self.reads += 1
        if self.broken:
            raise RuntimeError("gone")
        return dict(self.page)


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.slept.append(seconds)
        self.now += seconds


def book(shelf: Callable[[], dict[str, int]], clock: Clock, memory_s: float = 2.0) -> KeyCache[int]:
    return KeyCache(shelf, memory_s=memory_s, pause_s=0.5, monotonic=clock, sleep=clock.sleep)


def test_nothing_is_known_before_the_first_look() -> None:
    shelf = Shelf(a=1)
    keys = book(shelf, Clock())

    assert keys.get_cached("a") is None
    assert asyncio.run(keys.look_up("a")) == 1
    assert keys.get_cached("a") == 1
    assert shelf.reads == 1


def test_a_cached_key_expires() -> None:
    clock = Clock()
    keys = book(Shelf(a=1), clock)
    asyncio.run(keys.look_up("a"))
    clock.now += 1.9
    assert keys.get_cached("a") == 1

    clock.now += 0.2
    assert keys.get_cached("a") is None


def test_a_flood_of_unknown_keys_reads_the_book_at_a_bounded_rate() -> None:
    clock, shelf = Clock(), Shelf()
    keys = book(shelf, clock)
    for number in range(20):
        assert asyncio.run(keys.look_up(f"made-up-{number}")) is None
        clock.now += 0.1

    assert shelf.reads == 20
    assert clock.slept == pytest.approx([0.4] * 19)


def test_a_failing_store_is_not_queried_more_often() -> None:
    clock, shelf = Clock(), Shelf(a=1)
    shelf.broken = True
    keys = book(shelf, clock)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            asyncio.run(keys.look_up("a"))
    shelf.broken = False

    assert asyncio.run(keys.look_up("a")) == 1
    assert clock.slept == [0.5, 0.5, 0.5]


def test_a_reading_that_began_after_the_question_answers_it() -> None:
    clock, shelf = Clock(), Shelf(a=1)
    keys = book(shelf, clock)
    keys._read_keys(clock.now)
    keys._read_keys(clock.now)

    assert shelf.reads == 1


def test_all_who_ask_at_once_wait_for_one_reading() -> None:
    shelf = Shelf(a=1)
    began, go_on = threading.Event(), threading.Event()

    def slow() -> dict[str, int]:
        began.set()
        assert go_on.wait(10)
        return shelf()

    keys = KeyCache(slow, memory_s=2.0, pause_s=0.0)

    async def ask() -> list[int | None]:
        asking = [asyncio.create_task(keys.look_up("a")) for _ in range(50)]
        await asyncio.sleep(0)
        assert await asyncio.to_thread(began.wait, 10)
        go_on.set()
        return await asyncio.gather(*asking)

    assert asyncio.run(ask()) == [1] * 50
    assert shelf.reads <= 2


def test_a_key_created_during_a_cache_refresh_is_found() -> None:
    shelf = Shelf()
    began, go_on = threading.Event(), threading.Event()

    def slow() -> dict[str, int]:
        page = shelf()
        began.set()
        assert go_on.wait(10)
        return page

    keys = KeyCache(slow, memory_s=2.0, pause_s=0.0)

    async def ask() -> int | None:
        first = asyncio.create_task(keys.look_up("other"))
        assert await asyncio.to_thread(began.wait, 10)
        shelf.page["new"] = 7
        second = asyncio.create_task(keys.look_up("new"))
        await asyncio.sleep(0)
        go_on.set()
        assert await first is None
        return await second

    assert asyncio.run(ask()) == 7


def test_a_reading_that_began_before_the_cache_expired_does_not_count() -> None:
    shelf = Shelf(session=1)
    began, go_on = threading.Event(), threading.Event()

    def slow() -> dict[str, int]:
        page = dict(shelf())
        began.set()
        assert go_on.wait(10)
        return page

    keys = KeyCache(slow, memory_s=2.0, pause_s=0.0)

    async def ask() -> int | None:
        first = asyncio.create_task(keys.look_up("session"))
        assert await asyncio.to_thread(began.wait, 10)
        del shelf.page["session"]
        keys.expire()
        go_on.set()
        assert await first == 1
        assert keys.get_cached("session") is None
        return await keys.look_up("session")

    assert asyncio.run(ask()) is None


def test_one_who_gives_up_does_not_stop_the_others() -> None:
    def slow() -> dict[str, int]:
        time.sleep(0.05)
        return {"a": 1}

    keys = KeyCache(slow, memory_s=2.0)

    async def ask() -> int | None:
        hasty = asyncio.create_task(keys.look_up("a"))
        patient = asyncio.create_task(keys.look_up("a"))
        await asyncio.sleep(0)
        hasty.cancel()
        return await patient

    assert asyncio.run(ask()) == 1


def test_a_store_error_reaches_the_waiting_caller() -> None:
    shelf = Shelf()
    shelf.broken = True
    keys = KeyCache(shelf, memory_s=2.0)

    with pytest.raises(RuntimeError, match="gone"):
        asyncio.run(keys.look_up("a"))


def test_a_loop_that_ends_meanwhile_leaves_nothing_behind() -> None:
    keys = KeyCache(lambda: {"a": 1}, memory_s=2.0)

    async def leave() -> None:
        reading = asyncio.create_task(keys.look_up("a"))
        await asyncio.sleep(0)
        assert keys._reading is not None
        keys._reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(leave())

    assert asyncio.run(keys.look_up("a")) == 1


def test_a_book_is_empty_only_as_long_as_it_is_good() -> None:
    clock, shelf = Clock(), Shelf()
    keys = book(shelf, clock)
    assert not keys.is_cached_empty()
    assert asyncio.run(keys.is_empty())
    assert keys.is_cached_empty()

    clock.now += 2.0
    assert not keys.is_cached_empty()
    shelf.page["a"] = 1
    assert not asyncio.run(keys.is_empty())
    assert not keys.is_cached_empty()


def test_a_book_is_read_while_everything_else_waits() -> None:
    keys = KeyCache(lambda: {"a": 1}, memory_s=2.0)
    go_on = threading.Event()

    async def ask() -> int | None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        others = [asyncio.create_task(asyncio.to_thread(go_on.wait, 10)) for _ in range(3)]
        try:
            async with asyncio.timeout(5):
                return await keys.look_up("a")
        finally:
            go_on.set()
            await asyncio.gather(*others)

    assert asyncio.run(ask()) == 1
    keys.close()


class Ended(asyncio.Future[None]):
    """A reading that has ended, and was not cleared away yet."""

    looks = 0

    def done(self) -> bool:
        """Return that it has ended, but not for ever."""
        self.looks += 1
        assert self.looks < 100
        return True


def test_a_reading_that_has_just_ended_is_not_waited_for() -> None:
    keys = KeyCache(lambda: {"a": 1}, memory_s=2.0)

    async def ask() -> int | None:
        keys._reading = ended = Ended()
        ended.add_done_callback(keys._finish_reading)
        ended.set_result(None)
        return await keys.look_up("a")

    assert asyncio.run(ask()) == 1
    keys.close()
