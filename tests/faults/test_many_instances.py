"""Three instances behind a balancer share a database and a Redis; some are killed or cut off."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from faults.conftest import PATIENCE_S, Report
from support.fault_proxy import FaultProxy
from support.gates import TEXT, refund
from support.postgres_server import Server, running_server
from support.redis_server import running_redis
from support.service_process import Process

from demur.store.opening import open_store
from demur.store.verify import verify_chain

INSTANCES = 3
CLIENTS = 6
RATE, BURST = 40, 20
KEY_MEMORY_S = 0.5
USES = 4
PASSWORD = "a sentence that only mary knows"
# The key has no call left, or Redis or the database did not answer in time.
_NOT_COUNTED = (429, 503)


class Balancer:
    """Passes each connection on to the next instance that takes it."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self._turn = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=(near,), daemon=True).start()

    def _pass_on(self, near: socket.socket) -> None:
        with near, suppress(OSError), self._connect() as far:
            back = threading.Thread(target=_pump, args=(far, near), daemon=True)
            back.start()
            _pump(near, far)
            back.join()

    def _connect(self) -> socket.socket:
        for _ in range(INSTANCES):
            self._turn += 1
            with suppress(OSError):
                return socket.create_connection(("127.0.0.1", self.ports[self._turn % INSTANCES]))
        raise ConnectionError("no instance takes connections")


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def run_demur(folder: Path, *words: str, typed: str = "") -> str:
    """Return what a command prints."""
    command = [sys.executable, "-m", "demur", *words]
    done = subprocess.run(
        command, cwd=folder, input=typed, capture_output=True, text=True, check=True
    )
    return done.stdout


class Instance:
    """One service; a proxy of its own stands between it and the database."""

    def __init__(
        self, folder: Path, server: Server, database: str, limiter: str, people_key: Path
    ) -> None:
        folder.mkdir()
        self._folder = folder
        self.proxy = FaultProxy(server.folder / ".s.PGSQL.5432")
        store = f"postgresql://postgres@127.0.0.1:{self.proxy.port}/{database}"
        (folder / "policy.yaml").write_text(TEXT, encoding="utf-8")
        settings = f"""
            store = "{store}"
            deadline_s = 2.0
            [service]
            limiter = "{limiter}"
            rate = {RATE}
            burst = {BURST}
            key_memory_s = {KEY_MEMORY_S}
            [people]
            key = "{people_key}"
        """
        (folder / "demur.toml").write_text(settings, encoding="utf-8")
        self.process = Process(folder, "--port", "0")

    def restart(self) -> None:
        """Kill the service, and start another one."""
        self.process.tell(signal.SIGKILL)
        self.process.close()
        self.process = Process(self._folder, "--port", "0")

    def create_key(self) -> dict[str, Any]:
        """Return a new API key that decides for the agent `billing`."""
        words = ("--tenant", "default", "--role", "decide", "--subject", "agent:billing")
        made = run_demur(self._folder, "keys", "create", "--json", *words)
        return dict(json.loads(made))

    def revoke_key(self, key_id: str) -> None:
        """Revoke an API key."""
        run_demur(self._folder, "keys", "revoke", key_id)

    def add_approver(self, login: str, password: str) -> None:
        """Add a person who approves."""
        words = ("--tenant", "default", "--role", "approver")
        run_demur(self._folder, "people", "add", login, *words, typed=f"{password}\n")

    def close(self) -> None:
        """End the service and its proxy."""
        self.process.close()
        self.proxy.close()


class Cluster:
    """Three instances, their balancer, and the database behind them."""

    def __init__(self, folder: Path, server: Server, limiter: str) -> None:
        self.database = server.new_database()
        name = self.database.partition("@/")[2].partition("?")[0]
        self.instances: list[Instance] = []
        self.balancer = Balancer()
        (folder / "demur.toml").write_text(f'store = "{self.database}"\n', encoding="utf-8")
        run_demur(folder, "people", "init")
        for number in range(INSTANCES):
            key = folder / "people.key"
            self.instances.append(Instance(folder / str(number), server, name, limiter, key))
        self.renew_ports()

    def renew_ports(self) -> None:
        """Tell the balancer where the instances listen now."""
        self.balancer.ports = [one.process.port for one in self.instances]

    def close(self) -> None:
        """End everything."""
        self.balancer.close()
        for one in self.instances:
            one.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_server() as server, running_redis() as limits:
        made = Cluster(tmp_path, server, limits.url)
        try:
            yield made
        finally:
            made.close()


class Clients:
    """Clients that ask for each decision until they get it, and count what they were admitted."""

    def __init__(self, url: str, key: str) -> None:
        self.decided: dict[str, str] = {}
        self.admitted = 0
        self._url, self._headers = url, {"authorization": f"Bearer {key}", "connection": "close"}
        self._lock = threading.Lock()
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the clients work meanwhile."""
        threads = [threading.Thread(target=self._work, args=(n,)) for n in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(PATIENCE_S)
            assert not any(thread.is_alive() for thread in threads)

    def wait_for(self, decisions: int) -> None:
        """Wait until so many decisions were answered."""
        patience = time.monotonic() + PATIENCE_S
        while len(self.decided) < decisions:
            assert time.monotonic() < patience
            time.sleep(0.02)

    def _work(self, client: int) -> None:
        number = 0
        while not self._stop.is_set():
            request = f"c{client}-{number}"
            decision = self._ask(request)
            if decision is not None:
                with self._lock:
                    self.decided[request] = decision
                number += 1

    def _ask(self, request: str) -> str | None:
        body = {"request": refund(20, request_id=request)}
        try:
            answer = httpx.post(
                f"{self._url}/v1/decide", json=body, headers=self._headers, timeout=30
            )
        except httpx.HTTPError:
            return None
        with self._lock:
            self.admitted += answer.status_code not in _NOT_COUNTED
        if answer.status_code in _NOT_COUNTED:
            self._stop.wait(0.05)
        return answer.json()["decision_id"] if answer.status_code == 200 else None


@pytest.mark.parametrize(
    "rounds", [pytest.param(3, id="short"), pytest.param(90, id="full", marks=pytest.mark.slow)]
)
def test_instances_that_are_killed_and_cut_off_lose_nothing_and_keep_the_rate(
    cluster: Cluster, rounds: int, report_counts: Report
) -> None:
    key = cluster.instances[0].create_key()
    clients = Clients(cluster.balancer.url, key["token"])
    began = time.monotonic()
    with clients.running():
        for number in range(rounds):
            drawn = sha256(f"{rounds}/{number}".encode()).digest()
            clients.wait_for(len(clients.decided) + 10)
            victim = cluster.instances[drawn[0] % INSTANCES]
            fault = ("kill", "cut", "half-open")[drawn[1] % 3]
            if fault == "kill":
                victim.restart()
                cluster.renew_ports()
            else:
                victim.proxy.start_fault(fault)
                time.sleep(0.1 + drawn[2] / 256)
                victim.proxy.heal()
        clients.wait_for(len(clients.decided) + 10)
    elapsed = time.monotonic() - began

    with open_store(cluster.database) as store:
        stored = {record.decision_id: record.request_id for record in store.find_records()}
        verification = verify_chain(store.backend)
    report_counts(clients.decided.values(), stored.keys())
    assert {stored[one]: one for one in clients.decided.values()} == clients.decided
    assert verification.holds, verification.breaks
    # Redis counts by its own clock, so nothing is added for the instances.
    assert clients.admitted <= BURST + RATE * elapsed


def test_a_revoked_key_is_refused_by_every_instance(cluster: Cluster) -> None:
    key = cluster.instances[0].create_key()
    headers = {"authorization": f"Bearer {key['token']}"}

    def ask(one: Instance) -> int:
        url, body = f"{one.process.url}/v1/decide", {"request": refund(20)}
        while True:
            found = httpx.post(url, json=body, headers=headers, timeout=PATIENCE_S).status_code
            if found not in _NOT_COUNTED:
                return found

    def list_statuses() -> list[int]:
        return [ask(one) for one in cluster.instances]

    assert list_statuses() == [200] * INSTANCES
    cluster.instances[0].revoke_key(key["key_id"])
    time.sleep(1.0)
    assert list_statuses() == [401] * INSTANCES


def test_an_approval_given_at_one_instance_holds_at_all_and_is_used_as_often_as_it_says(
    cluster: Cluster,
) -> None:
    first, second, third = cluster.instances
    key = first.create_key()
    headers = {"authorization": f"Bearer {key['token']}"}
    first.add_approver("mary", PASSWORD)
    with (
        httpx.Client(headers=headers, timeout=PATIENCE_S) as agent,
        httpx.Client(timeout=PATIENCE_S) as mary,
        ThreadPoolExecutor() as pool,
    ):
        decided = agent.post(f"{first.process.url}/v1/decide", json={"request": refund(400)})
        decision = decided.json()["decision_id"]
        path = f"{first.process.url}/v1/decisions/{decision}/wait"
        waiting = pool.submit(agent.get, path, params={"seconds": 30})
        login = mary.post(
            f"{second.process.url}/login", data={"login": "mary", "password": PASSWORD}
        )
        assert login.status_code == 303
        # Live pages are read from the store, and so is the login, at every instance.
        assert decision in mary.get(f"{second.process.url}/approvals").text
        assert decision in mary.get(f"{third.process.url}/approvals").text
        approval = {"covers": "scope", "uses": USES, "note": "fine"}
        path = f"{third.process.url}/v1/approvals/{decision}/approve"
        mary.post(path, json=approval).raise_for_status()
        answer = waiting.result(PATIENCE_S).json()
        assert (answer["state"], answer["closed_by"]) == ("approved", "person:mary")
        assert "approved" in mary.get(f"{first.process.url}/approvals/{decision}").text

        def ask(number: int) -> str:
            # The same request is decided once, so asking again takes no second use.
            request = refund(400, request_id=f"r-{number}", continues=answer["resolution_id"])
            url = cluster.instances[number % INSTANCES].process.url
            while True:
                asked = agent.post(f"{url}/v1/decide", json={"request": request})
                if asked.status_code not in _NOT_COUNTED:
                    return str(asked.json()["verdict"])

        verdicts = Counter(pool.map(ask, range(3 * USES)))

    with open_store(cluster.database) as store:
        lifted = [record.basis for record in store.find_records() if record.lifted_by]
        assert verify_chain(store.backend).holds
    assert verdicts == {"ALLOW": USES, "ESCALATE": 2 * USES}
    # A resolution runs nothing, and takes no use.
    assert Counter(lifted) == {"resolution": 1, "request": USES}
