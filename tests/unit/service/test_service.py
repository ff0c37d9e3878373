import asyncio
import threading
from contextlib import ExitStack

import pytest
from support.gates import Ticking, gate_over, refund
from support.service_app import add_key, open_service

from demur.gate.rate import LocalLimiter
from demur.service.authentication import LOCAL, Principal, Role
from demur.service.problem import ProblemError
from demur.service.service import _MAX_LOGS, _MAX_WAITING, Service
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
            pages, pool = service.page_pool, service.heavy_pool
            held = [asyncio.create_task(pages.run(go_on.wait, 10)) for _ in range(20)]
            held += [asyncio.create_task(pool.run("k", go_on.wait, 10)) for _ in range(4)]
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


def test_no_more_logs_than_fit_are_read_at_once() -> None:
    with open_service() as call, ExitStack() as open_logs:
        for _ in range(_MAX_LOGS):
            open_logs.enter_context(call.service.reserve_log_slot())
        with pytest.raises(ProblemError, match="overloaded"), call.service.reserve_log_slot():
            pass
        open_logs.close()
        with call.service.reserve_log_slot():
            pass


def test_a_spent_budget_is_a_429_that_names_it() -> None:
    with open_service(ServiceSettings(budget_bytes=1000, budget_cpu_s=0.5)) as call:
        key, other = (add_key(call.store, "acme", seed=seed) for seed in "ab")
        big = {"request": {"action": {"type": "x"}, "evidence": {"text": "a" * 2000}}}

        assert call("POST", "/v1/decide", big, key=key).status_code == 200
        refused = call("POST", "/v1/decide", {"request": refund(20)}, key=key)

        assert refused.status_code == 429
        assert refused.json()["where"] == "budget_bytes"
        assert int(refused.headers["retry-after"]) >= 1
        assert call("POST", "/v1/decide", {"request": refund(20)}, key=other).status_code == 200


def test_processor_time_of_threads_and_of_the_loop_is_charged() -> None:
    with open_service(ServiceSettings(budget_cpu_s=1e-6)) as call:
        for path, body in (
            ("/v1/stats", None),
            ("/v1/decide", {"request": refund(20)}),
            ("/v1/detect", {"response": "no " * 4000}),
            ("/v1/guard/input", {"event": "no " * 4000}),
        ):
            key = add_key(call.store, "acme", seed=path)
            method = "GET" if body is None else "POST"
            assert call(method, path, body, key=key).status_code == 200
            refused = call(method, path, body, key=key)
            assert (refused.status_code, refused.json()["where"]) == (429, "budget_cpu_s")
