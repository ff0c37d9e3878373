"""PostgreSQL goes away under load and comes back: refusals meanwhile, and nothing lost."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
from faults.writer import POLICY
from support.postgres_server import Server, running_server

from demur.codes.vocabulary import Verdict
from demur.gate.gate import Gate
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.store.opening import open_store
from demur.store.verify import verify_chain

REQUEST = {"action": {"type": "refund", "amount": {"value": 20, "currency": "USD"}}}


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.mark.parametrize(
    "restarts", [pytest.param(1, id="short"), pytest.param(8, id="full", marks=pytest.mark.slow)]
)
def test_a_restart_under_load_loses_nothing(own_server: Server, restarts: int) -> None:
    records: list[DecisionRecord] = []
    done = threading.Event()
    with Gate(parse_policy(POLICY), open_store(own_server.new_database())) as gate:

        def load() -> None:
            while not done.is_set():
                records.append(gate.decide(REQUEST))

        callers = [threading.Thread(target=load) for _ in range(4)]
        for caller in callers:
            caller.start()
        for _ in range(restarts):
            time.sleep(0.3)
            own_server.stop()
            time.sleep(0.2)
            own_server.start()
            time.sleep(0.5)
        done.set()
        for caller in callers:
            caller.join()
        assert gate.store is not None
        stored = {record.decision_id for record in gate.store.find_records()}
        verification = verify_chain(gate.store.backend)

    allowed = {record.decision_id for record in records if record.verdict is Verdict.ALLOW}
    refused = [record for record in records if record.verdict is not Verdict.ALLOW]
    assert allowed
    assert {record.reason_codes for record in refused} <= {("STORAGE_UNAVAILABLE",)}
    assert allowed <= stored
    assert verification.holds, verification.breaks


@pytest.fixture
def slow_server() -> Iterator[Server]:
    """Lend a server that brings its log to disk only where a commit waits for it."""
    lazy = ("-c", "wal_writer_delay=10s", "-c", "wal_writer_flush_after=1GB")
    with running_server("-c", "fsync=off", *lazy) as server:
        yield server


def test_a_crash_loses_nothing_that_was_acknowledged(slow_server: Server) -> None:
    url = slow_server.new_database()
    with Gate(parse_policy(POLICY), open_store(url)) as gate:
        assert gate.store is not None
        first = gate.decide(REQUEST)
        heads = gate.store.list_heads()
        last = gate.decide({**REQUEST, "request_id": "r-1"})
        slow_server.crash()
    slow_server.start()
    with Gate(parse_policy(POLICY), open_store(url)) as gate:
        assert gate.store is not None
        again = gate.decide({**REQUEST, "request_id": "r-1"})
        stored = [record.decision_id for record in gate.store.find_records()]
        verification = verify_chain(gate.store.backend, heads=heads)

    assert sorted(stored) == sorted([first.decision_id, last.decision_id])
    assert again.decision_id == last.decision_id
    assert verification.holds, verification.breaks


def test_a_head_that_an_anchor_names_survives_a_crash(slow_server: Server) -> None:
    url = slow_server.new_database()
    with open_store(url) as store:
        with Gate(parse_policy(POLICY), open_store(url, durability="normal")) as gate:
            gate.decide(REQUEST)  # seen by all, and not on disk yet
        heads = store.list_heads(durable=True)
        slow_server.crash()
    slow_server.start()
    with open_store(url) as store:
        assert len(heads) == 1
        assert store.list_heads() == heads


def test_the_same_request_from_64_tasks_is_decided_once(own_server: Server) -> None:
    with Gate(parse_policy(POLICY), open_store(own_server.new_database())) as gate:

        async def ask() -> list[DecisionRecord]:
            asked = {**REQUEST, "request_id": "r-1"}
            return await asyncio.gather(*(gate.adecide(asked) for _ in range(64)))

        records = asyncio.run(ask())

        assert gate.store is not None
        assert len({record.decision_id for record in records}) == 1
        assert len(list(gate.store.find_records())) == 1
