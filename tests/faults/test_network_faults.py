"""The network to PostgreSQL fails: refusals in time, and nothing acknowledged is lost."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest
from faults.conftest import PATIENCE_S, REQUEST, Report, decide_allowed
from faults.writer import POLICY
from support.fault_proxy import FAULTS, FaultProxy, running_proxy
from support.postgres_server import Server, running_server

from demur.codes.vocabulary import Verdict
from demur.gate.gate import Gate
from demur.policy.loader import parse_policy
from demur.store.opening import open_store
from demur.store.store import Store
from demur.store.verify import verify_chain

if TYPE_CHECKING:
    from demur.model.record import DecisionRecord

CALLERS = 4


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture
def proxy(own_server: Server) -> Iterator[FaultProxy]:
    with running_proxy(own_server.folder / ".s.PGSQL.5432") as running:
        yield running


def through(proxy: FaultProxy, url: str) -> str:
    """Return the address of a database through the proxy."""
    database = url.partition("?")[0].rpartition("/")[2]
    return f"postgresql://postgres@127.0.0.1:{proxy.port}/{database}"


class Load:
    """Callers that decide until they are told to stop."""

    def __init__(self, gate: Gate) -> None:
        self.records: list[DecisionRecord] = []
        self._gate = gate
        self._stop = threading.Event()
        self._came = threading.Condition()
        self._threads = [threading.Thread(target=self._decide) for _ in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def _decide(self) -> None:
        while not self._stop.is_set():
            record = self._gate.decide(REQUEST)
            with self._came:
                self.records.append(record)
                self._came.notify_all()

    def await_verdict(self, verdict: Verdict, count: int) -> None:
        """Wait for so many more decisions with a verdict."""
        with self._came:
            start = len(self.records)

            def came() -> bool:
                new = self.records[start:]
                return sum(record.verdict is verdict for record in new) >= count

            assert self._came.wait_for(came, PATIENCE_S)

    def join(self) -> None:
        """Stop all callers."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


@contextmanager
def loaded_gate(url: str) -> Iterator[tuple[Load, Store]]:
    store = open_store(url, deadline_s=2.0)
    with Gate(parse_policy(POLICY), store) as gate:
        load = Load(gate)
        try:
            yield load, store
        finally:
            load.join()


@pytest.mark.parametrize(
    "rounds", [pytest.param(1, id="short"), pytest.param(12, id="full", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("fault", FAULTS)
def test_acknowledged_decisions_survive_a_network_fault(
    own_server: Server, proxy: FaultProxy, fault: str, rounds: int, report_counts: Report
) -> None:
    url = own_server.new_database()
    with loaded_gate(through(proxy, url)) as (load, _):
        for _ in range(rounds):
            load.await_verdict(Verdict.ALLOW, 20)
            proxy.start_fault(fault)
            # Slow answers are answers; all other faults refuse.
            load.await_verdict(Verdict.ALLOW if fault == "delay" else Verdict.ABSTAIN, CALLERS)
            proxy.heal()
        load.await_verdict(Verdict.ALLOW, 20)
    with open_store(url) as store:
        rows = list(store.backend.read_chain("default", 1, None))
        verification = verify_chain(store.backend)

    refused = [record for record in load.records if record.verdict is not Verdict.ALLOW]
    acknowledged = {record.decision_id for record in load.records if record not in refused}
    assert {row.decision_id for row in rows if row.confirmed} <= acknowledged
    assert {record.reason_codes for record in refused} <= {("STORAGE_UNAVAILABLE",)}
    assert verification.holds, verification.breaks
    report_counts(acknowledged, [row.decision_id for row in rows])


def backends(url: str) -> list[int]:
    """Return the server's processes that serve demur's connections to a database."""
    query = """
        SELECT pid FROM pg_stat_activity
        WHERE application_name = 'demur' AND datname = current_database()
    """
    with psycopg.connect(url) as connection:
        return [pid for (pid,) in connection.execute(query)]


def limit_rights(url: str, rights: str) -> str:
    """Return the address for a role that has not all rights on the server's processes."""
    name = "limited_" + url.partition("?")[0].rpartition("/")[2]
    ends = "FUNCTION pg_terminate_backend(integer, bigint)"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN".encode())
        connection.execute(f"GRANT ALL ON SCHEMA public TO {name}".encode())
        if rights == "cannot end":
            connection.execute(f"REVOKE EXECUTE ON {ends} FROM PUBLIC".encode())
        if rights == "cannot see":
            # A session that acts as another role does not see its own row.
            connection.execute(f"CREATE ROLE {name}_owner ROLE {name}".encode())
            connection.execute(f"GRANT ALL ON SCHEMA public TO {name}_owner".encode())
            connection.execute(f"ALTER ROLE {name} SET role = {name}_owner".encode())
    return url.replace("postgres@", f"{name}@")


def await_end(url: str, pids: list[int]) -> None:
    """Wait until the server's processes are gone."""
    patience = time.monotonic() + PATIENCE_S
    while not set(backends(url)).isdisjoint(pids):
        assert time.monotonic() < patience
        time.sleep(0.02)


@pytest.mark.parametrize("rights", ["all", "its own", "cannot end", "cannot see"])
def test_a_hung_backend_refuses_within_the_deadline_and_is_left(
    own_server: Server, rights: str, report_counts: Report
) -> None:
    url = own_server.new_database()
    if rights != "all":
        url = limit_rights(url, rights)
    with Gate(parse_policy(POLICY), open_store(url, deadline_s=0.5)) as gate:
        assert gate.store is not None
        records = [decide_allowed(gate)]
        hung = backends(url)
        for pid in hung:
            os.kill(pid, signal.SIGSTOP)
        try:
            refused = gate.decide(REQUEST)
            # The hung ones stay as they are; demur takes other connections.
            records.append(decide_allowed(gate))
        finally:
            for pid in hung:
                os.kill(pid, signal.SIGCONT)
        # The hung ones have ended, and a later decision marks what they stored before.
        await_end(url, hung)
        records.append(decide_allowed(gate))
        rows = gate.store.backend.read_chain("default", 1, None)
        stored = {row.decision_id: row.confirmed for row in rows}
        assert verify_chain(gate.store.backend).holds

    # The server had the statement of the refused one already, and carries it out if nobody ends it.
    if rights.startswith("cannot"):
        assert not all(stored.values())
    acknowledged = [record.decision_id for record in records]
    assert [one for one, confirmed in stored.items() if confirmed] == acknowledged
    assert refused.reason_codes == ("STORAGE_UNAVAILABLE",)
    report_counts(acknowledged, stored)
