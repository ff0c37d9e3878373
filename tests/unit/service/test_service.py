import asyncio
import threading

import pytest
from support.gates import Ticking, gate_over
from support.service_app import add_key, open_service

from demur.gate.rate import LocalLimiter
from demur.service.authentication import LOCAL, Principal, Role
from demur.service.problem import ProblemError
from demur.service.service import _MAX_WAITING, Service, limit_log_scan
from demur.service.settings import ServiceSettings
from demur.store.backend import StorageError
from demur.store.opening import open_store
from demur.store.store import Store

CALLER = Principal("k", "acme", frozenset({Role.READ}))


def test_without_a_store_there_is_nothing_to_read() -> None:
    service = Service(gate_over(None))
    with pytest.raises(ProblemError) as caught:
        service.store  # noqa: B018 - asking is the test
    service.close()

    assert caught.value.status == 503


@pytest.mark.parametrize(
    ("settings", "key", "is_open"),
    [
        (ServiceSettings(), False, True),
        (ServiceSettings(hosts=("localhost",)), False, True),
        (ServiceSettings(), True, False),
        (ServiceSettings(host="0.0.0.0"), False, False),  # noqa: S104 - the case in question
        (ServiceSettings(hosts=("demur.example",)), False, False),
    ],
)
def test_only_a_private_service_without_keys_is_open(
    settings: ServiceSettings, key: bool, is_open: bool
) -> None:
    with gate_over(open_store(":memory:")) as gate:
        assert gate.store is not None
        if key:
            token = add_key(gate.store)
            # A door that somebody locked once stays locked.
            gate.store.revoke_key(token.split("_")[1], "2026-11-15T12:00:00.000Z")
        service = Service(gate, settings)
        if is_open:
            assert asyncio.run(service.authenticator.authenticate(None)) is LOCAL
        else:
            with pytest.raises(ProblemError, match="an API key is required"):
                asyncio.run(service.authenticator.authenticate(None))
        service.close()


def test_a_store_that_cannot_tell_about_keys_leaves_the_door_shut() -> None:
    class Broken(Store):
        def list_keys(self) -> list[object]:  # type: ignore[override]
            raise StorageError("gone")

    with open_store(":memory:") as real:
        broken = Broken(real.backend)
        service = Service(gate_over(broken))
        with pytest.raises(StorageError):
            asyncio.run(service.authenticator.authenticate(None))
        assert service.authenticator.cached_principal(None) is None
        service.close()


def test_work_is_done_elsewhere_than_in_the_loop() -> None:
    with open_service() as call:
        done = call.run(call.service.run_blocking(threading.current_thread))

    assert done is not threading.current_thread()


def test_more_than_can_wait_is_turned_away_at_once() -> None:
    go_on = threading.Event()
    with open_service() as call:

        async def flood() -> int:
            jobs = [
                asyncio.create_task(call.service.run_blocking(go_on.wait, 10))
                for _ in range(_MAX_WAITING + 5)
            ]
            await asyncio.sleep(0.05)
            go_on.set()
            ended = await asyncio.gather(*jobs, return_exceptions=True)
            assert await call.service.run_blocking(lambda: True)
            return sum(isinstance(one, ProblemError) and one.status == 503 for one in ended)

        assert call.run(flood()) == 5


def test_work_after_the_end_is_refused_and_not_counted() -> None:
    with open_service() as call:
        call.service.close()
        with pytest.raises(ProblemError, match="shutting down"):
            call.run(call.service.run_blocking(lambda: True))

        assert not any(pool._jobs for pool in call.service._pools)


@pytest.mark.parametrize("shared", [False, True])
def test_a_key_that_calls_too_often_waits_and_others_do_not(shared: bool) -> None:
    limiter = LocalLimiter() if shared else None
    with open_service(ServiceSettings(rate=1, burst=2), limiter=limiter) as call:

        async def count(caller: Principal, times: int) -> None:
            for _ in range(times):
                await call.service.count_call(caller)

        call.run(count(CALLER, 2))
        with pytest.raises(ProblemError) as caught:
            call.run(count(CALLER, 1))
        call.run(count(CALLER._replace(name="other"), 2))
        call.run(count(LOCAL, 10))

    assert caught.value.status == 429
    assert caught.value.headers == {"retry-after": "1"}
    assert caught.value.evidence == {"retry_after": 1}


def test_everything_is_closed_once_and_says_so() -> None:
    closed: list[str] = []
    service = Service(gate_over(None), clock=Ticking())
    service.on_close(lambda: closed.append("a"))
    service.close()
    service.close()

    assert closed == ["a"]
    assert service.closing


def test_each_kind_of_work_has_threads_of_its_own() -> None:
    go_on = threading.Event()
    with open_service() as call:
        service = call.service

        async def flood() -> list[bool]:
            held = [asyncio.create_task(service.run_page(go_on.wait, 10)) for _ in range(20)]
            held += [asyncio.create_task(service.run_log_scan(go_on.wait, 10)) for _ in range(4)]
            await asyncio.sleep(0.05)
            try:
                async with asyncio.timeout(5):
                    return [
                        await service.run_blocking(lambda: True),
                        await asyncio.to_thread(lambda: True),
                    ]
            finally:
                go_on.set()
                await asyncio.gather(*held, return_exceptions=True)

        assert call.run(flood()) == [True, True]


def test_a_log_that_nobody_waits_for_any_more_keeps_its_place_until_its_thread_ends() -> None:
    go_on = threading.Event()
    with open_service() as call:
        service = call.service

        async def given_up() -> None:
            waiting = [
                asyncio.create_task(asyncio.wait_for(service.run_log_scan(go_on.wait, 10), 0.05))
                for _ in range(2)
            ]
            await asyncio.gather(*waiting, return_exceptions=True)
            more = [asyncio.create_task(service.run_log_scan(lambda: True)) for _ in range(2)]
            await asyncio.sleep(0.01)
            with pytest.raises(ProblemError, match="overloaded"), service.reserve_log_slot():
                pass
            with pytest.raises(ProblemError, match="overloaded"):
                await service.run_log_scan(lambda: True)
            go_on.set()
            assert await asyncio.gather(*more) == [True, True]
            with service.reserve_log_slot():
                assert await service.run_log_scan(lambda: True)

        call.run(given_up())


def test_a_log_is_read_up_to_its_size() -> None:
    with open_service(ServiceSettings(largest_log=10)) as call:
        progress = limit_log_scan(call.service)
        progress(160)
        with pytest.raises(ProblemError) as caught:
            progress(1)

    assert caught.value.status == 413


def test_a_log_scan_that_takes_too_long_times_out() -> None:
    with open_service(ServiceSettings(timeout_s=1e-9)) as call:
        progress = limit_log_scan(call.service)
        with pytest.raises(TimeoutError):
            progress(1)


def test_no_log_is_read_after_the_end() -> None:
    with open_service() as call:
        progress = limit_log_scan(call.service)
        progress(1)
        call.service.close()
        with pytest.raises(TimeoutError):
            progress(1)
