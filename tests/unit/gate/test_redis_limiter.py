import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from support.redis_server import RedisServer, running_redis

from demur.errors import InputError
from demur.gate.rate import LimiterUnavailableError, LocalLimiter, RedisLimiter
from demur.guards import rate
from demur.guards.rate import RateConfig, RateLimit, apply_limit

TEN = RateLimit(count=10, per_s=3600)

WORKER = """
import sys
from demur.gate.rate import RedisLimiter
from demur.guards import rate
from demur.guards.rate import RateLimit
url, count = sys.argv[1:]
limiter = RedisLimiter.from_url(url, timeout_s=10)
limit = RateLimit(count=int(count), per_s=3600)
uses = (use for _ in range(200) for use in limiter.take_units("a", [limit]).uses)
print(sum(not list(rate.check(use, rate.RateConfig())) for use in uses))
limiter.close()
"""


@contextmanager
def limiter_on(server: RedisServer, **settings: Any) -> Iterator[RedisLimiter]:
    limiter = RedisLimiter.from_url(server.url, **{"timeout_s": 10, **settings})
    try:
        yield limiter
    finally:
        limiter.close()


def admitted(limiter: RedisLimiter, key: str, *limits: RateLimit, cost: int = 1) -> bool:
    taken = limiter.take_units(key, limits, cost)
    return not any(list(rate.check(use, RateConfig())) for use in taken.uses)


def test_it_admits_the_limit_and_no_more(redis_server: RedisServer) -> None:
    with limiter_on(redis_server) as limiter:
        assert sum(admitted(limiter, "a", TEN) for _ in range(30)) == 10
        assert limiter.take_units("a", [TEN]).counted == "redis"
        assert admitted(limiter, "b", TEN)


def test_the_time_is_the_servers(redis_server: RedisServer) -> None:
    with limiter_on(redis_server) as limiter, redis.Redis.from_url(redis_server.url) as client:
        seconds, _ = client.time()
        [use] = limiter.take_units("a", [TEN]).uses

    assert 0 <= use.now_s - seconds < 60


def test_of_several_limits_all_count_a_use_or_none(redis_server: RedisServer) -> None:
    tokens = RateLimit(count=100, per_s=3600, unit="tokens")
    with limiter_on(redis_server) as limiter:
        assert sum(admitted(limiter, "a", TEN, tokens, cost=4) for _ in range(9)) == 2
        assert admitted(limiter, "a", tokens, cost=92)
        assert admitted(limiter, "a", TEN, cost=2)


def test_a_use_is_one_round_trip(redis_server: RedisServer) -> None:
    tokens = RateLimit(count=100, per_s=3600, unit="tokens")
    with limiter_on(redis_server) as limiter, redis.Redis.from_url(redis_server.url) as client:
        limiter.take_units("a", [TEN, tokens])
        before = client.info("stats")["total_commands_processed"]
        limiter.take_units("a", [TEN, tokens])
        after = client.info("stats")["total_commands_processed"]

    # The script, its two reads and two writes, the time, and the question itself.
    assert after - before == 7


def test_neither_keys_nor_counts_stay_for_ever(redis_server: RedisServer) -> None:
    with limiter_on(redis_server) as limiter, redis.Redis.from_url(redis_server.url) as client:
        limiter.take_units("mary@example.com", [TEN, RateLimit(count=1, per_s=1)])
        kept = client.keys()
        expiries = [client.pttl(key) for key in kept]

    assert len(kept) == 2
    assert not [key for key in kept if b"mary" in key]
    assert all(0 < expiry <= 3_660_000 for expiry in expiries)


@given(
    st.lists(
        st.tuples(st.floats(0, 1e4), st.integers(0, 8), st.integers(0, 1)), min_size=1, max_size=15
    ),
    st.integers(1, 40),
    st.floats(0.01, 1e4),
    st.integers(1, 8),
)
def test_the_server_reckons_as_we_do(
    shared_redis: RedisServer,
    uses: list[tuple[float, int, int]],
    count: int,
    per_s: float,
    burst: int,
) -> None:
    limits = [RateLimit(count=count, per_s=per_s, burst=burst), TEN]
    shared_redis.flush()
    now = 1.75e9
    with limiter_on(shared_redis, clock=lambda: now) as limiter:
        states: dict[str, Any] = {}
        for gap, cost, key in uses:
            now += gap
            taken = limiter.take_units(str(key), limits, cost)
            expected = [states.get(f"{key} {n}", taken.uses[n].state) for n in range(2)]
            assert [use.state for use in taken.uses] == expected
            reckonings = [apply_limit(use.limit, use.state, use.now_s, cost) for use in taken.uses]
            if all(one.admitted for one in reckonings):
                states |= {f"{key} {n}": one.state for n, one in enumerate(reckonings)}


def test_eight_threads_get_no_more_than_one_would(redis_server: RedisServer) -> None:
    counts = [0] * 8
    with limiter_on(redis_server) as limiter:

        def work(number: int) -> None:
            counts[number] = sum(admitted(limiter, "a", TEN) for _ in range(40))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert sum(counts) == 10


def test_eight_processes_get_no_more_than_one_would(redis_server: RedisServer) -> None:
    command = [sys.executable, "-c", WORKER, redis_server.url, "300"]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    counts = [int(worker.communicate(timeout=60)[0]) for worker in workers]

    assert sum(counts) == 300
    assert sum(count > 0 for count in counts) > 1


def test_a_count_that_somebody_spoiled_is_begun_anew(redis_server: RedisServer) -> None:
    with limiter_on(redis_server) as limiter, redis.Redis.from_url(redis_server.url) as client:
        limiter.take_units("a", [TEN])
        [place] = client.keys()
        client.set(place, "rubbish and more")

        assert limiter.take_units("a", [TEN]).uses[0].state.level == 0


def test_without_redis_nothing_is_admitted(tmp_path: Any) -> None:
    limiter = RedisLimiter.from_url(f"unix://{tmp_path}/nothing", timeout_s=0.1)

    with pytest.raises(LimiterUnavailableError, match="cannot be reached") as caught:
        limiter.take_units("a", [TEN])
    assert caught.value.help is not None
    assert limiter.is_degraded


def test_without_redis_it_counts_here_if_so_configured(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    where = f"unix://{tmp_path}/nothing"
    limiter = RedisLimiter.from_url(where, timeout_s=0.1, on_failure="local")
    with caplog.at_level(logging.WARNING, "demur"):
        assert sum(admitted(limiter, "a", TEN) for _ in range(30)) == 10

    taken = limiter.take_units("a", [TEN])
    assert (taken.counted, taken.fallback, limiter.is_degraded) == ("process", True, True)
    assert [record.getMessage() for record in caplog.records] == [
        "Redis does not answer (ConnectionError): rate limits are counted in this process"
    ]


def test_an_outage_does_not_cost_each_use_a_timeout() -> None:
    calls = []

    class Silent(redis.Redis):
        def evalsha(self, *_: Any, **__: Any) -> Any:
            calls.append(1)
            raise redis.TimeoutError

    limiter = RedisLimiter(Silent(), on_failure="local", pause_s=60, local=LocalLimiter())
    for _ in range(5):
        assert limiter.take_units("a", [TEN]).fallback
    limiter.close()

    assert len(calls) == 1


def test_it_finds_its_way_back(caplog: pytest.LogCaptureFixture) -> None:
    with running_redis() as server, limiter_on(server, on_failure="local", pause_s=0) as limiter:
        assert limiter.take_units("a", [TEN]).counted == "redis"
        server.stop()
        assert limiter.take_units("a", [TEN]).counted == "process"
        server.start()
        with caplog.at_level(logging.WARNING, "demur"):
            taken = limiter.take_units("a", [TEN])

        assert taken.counted == "redis"
        assert not limiter.is_degraded
        assert "Redis answers again" in caplog.text


def test_a_server_that_was_restarted_is_not_even_noticed() -> None:
    with running_redis() as server, limiter_on(server) as limiter:
        limiter.take_units("a", [TEN])
        server.stop()
        server.start()

        assert limiter.take_units("a", [TEN]).counted == "redis"


def test_a_key_of_another_kind_fails_closed(redis_server: RedisServer) -> None:
    with (
        limiter_on(redis_server, pause_s=0) as limiter,
        redis.Redis.from_url(redis_server.url) as client,
    ):
        limiter.take_units("a", [TEN])
        [place] = client.keys()
        client.delete(place)
        client.rpush(place, "x")

        with pytest.raises(LimiterUnavailableError):
            limiter.take_units("a", [TEN])


def test_an_invalid_use_is_not_sent(tmp_path: Any) -> None:
    limiter = RedisLimiter.from_url(f"unix://{tmp_path}/nothing")

    with pytest.raises(InputError, match="costs from 0"):
        limiter.take_units("a", [TEN], cost=-1)
    assert not limiter.is_degraded


def test_an_odd_key_is_a_key(redis_server: RedisServer) -> None:
    with limiter_on(redis_server) as limiter:
        for key in ("", "\ud800", "x" * 10_000, "a\x00{b}"):
            assert limiter.take_units(key, [TEN]).uses[0].state.level == 0
            assert limiter.take_units(key, [TEN]).uses[0].state.level == pytest.approx(1, abs=0.1)


def test_no_limit_is_nothing_to_count(redis_server: RedisServer) -> None:
    with limiter_on(redis_server) as limiter:
        assert limiter.take_units("a", []).uses == ()


@pytest.mark.parametrize("url", ["", "localhost", "http://localhost"])
def test_an_invalid_redis_url_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="not a Redis URL"):
        RedisLimiter.from_url(url)


def test_an_unknown_way_to_fail_is_refused() -> None:
    with pytest.raises(InputError, match="unknown `on_failure` value `ajar`"):
        RedisLimiter.from_url("redis://localhost", on_failure="ajar")


def test_a_hanging_server_costs_no_more_than_the_timeout(redis_server: RedisServer) -> None:
    with limiter_on(redis_server, timeout_s=0.1) as limiter:
        limiter.take_units("a", [TEN])
        with redis.Redis.from_url(redis_server.url) as other:
            other.execute_command("CLIENT", "PAUSE", "2000", "ALL")
        began = time.monotonic()
        with pytest.raises(LimiterUnavailableError, match="TimeoutError"):
            limiter.take_units("a", [TEN])

        assert time.monotonic() - began < 1.5
    time.sleep(2)
