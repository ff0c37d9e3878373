"""The service over real sockets: deciding durably beside lumyn's, guards, and waiting times.

Before anything is measured, both services have to give the same verdicts. Lumyn is run
without its memory, and measured as it comes otherwise: its store is not durable.
"""

import argparse
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

from http_load import Call, cpu_seconds, most, steadily, tool
from peers import _lumyn_policy, demur_policy
from table import Table, amount
from workload import requests, rules

from demur.service.authentication import make_key
from demur.store.opening import open_store

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = 8
AT_LEAST = 20
GUARDED = 5_000
WAIT_RATIO = 10
LOAD = 0.7
TEXT = "please summarise the quarterly report for the board and list the three main risks"
_SERVE = """
import sys
from demur.cli.main import main
sys.exit(main(["serve", *sys.argv[1:]]))
"""
_LUMYN = """
import functools, importlib, sys, uvicorn
core = importlib.import_module("lumyn.core.decide")
core.LumynConfig = functools.partial(core.LumynConfig, memory_enabled=False)
import lumyn.api.app as api
uvicorn.run(api.create_app(), port=int(sys.argv[1]), log_level="error", access_log=False)
"""


class Served(NamedTuple):
    """A service that runs."""

    url: str
    pid: int
    headers: dict[str, str]

    def call(self, path: str, body: Any) -> Call:
        """Return a call to it."""
        return Call(f"{self.url}{path}", body, self.headers)


class Rated(NamedTuple):
    """What a service answered at most: calls a second, and calls a second of processor time."""

    rate: float
    by_core: float | None


def main() -> int:
    """Print the table; the status says whether all aims were met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", help="where the databases go (default: a temporary folder)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each load lasts")
    parser.add_argument("--lumyn", default=str(ROOT / ".venv-bench/bin/python"), metavar="PYTHON")
    options = parser.parse_args()
    print(f"load by {tool()}, {CLIENTS} clients, best of {options.rounds}")
    table = Table("what", "demur", "peer")
    with tempfile.TemporaryDirectory(dir=options.dir) as folder, demur(Path(folder)) as ours:
        deciding(table, options, Path(folder), ours)
        guarding(table, options, ours)
    print(f"aims not met: {table.missed}")
    return 1 if table.missed else 0


# -- what is measured --------------------------------------------------------------------------


def deciding(table: Table, options: argparse.Namespace, folder: Path, ours: Served) -> None:
    """Measure `POST /v1/decide`, stored durably before it is answered."""
    [request] = requests(1, 1)
    mine = ours.call("/v1/decide", {"request": request})
    if not _has_lumyn(options.lumyn):
        print(f"lumyn is not installed for {options.lumyn}: its rows are left out")
        _rows(table, "decide, SQLite full", _rated(options, ours, mine))
    else:
        with lumyn(options.lumyn, folder) as theirs:
            other = theirs.call("/v1/decide", request)
            _agree(mine, other)
            best, peer = _rated(options, ours, mine), _rated(options, theirs, other)
        table.row(
            "decide, SQLite full, against lumyn serve",
            f"{best.rate:,.0f}/s",
            f"{peer.rate:,.0f}/s",
            ratio=best.rate / peer.rate,
            at_least=AT_LEAST,
        )
        _rows(table, "decide, SQLite full", best)
    _waiting(table, options, "decide", mine, _rated(options, ours, mine).rate)


def guarding(table: Table, options: argparse.Namespace, ours: Served) -> None:
    """Measure `POST /v1/guard/input`."""
    call = ours.call("/v1/guard/input", {"event": TEXT})
    _asked(call)
    best = _rated(options, ours, call)
    _rows(table, "guard input", best, GUARDED)
    _waiting(table, options, "guard input", call, best.rate)


def _rated(options: argparse.Namespace, served: Served, call: Call) -> Rated:
    """Return the best round: others are at work on this machine, too."""
    rounds = []
    for _ in range(options.rounds):
        before = cpu_seconds(served.pid)
        rate = most(call, CLIENTS, options.seconds)
        after = cpu_seconds(served.pid)
        busy = None if before is None or after is None else (after - before) / options.seconds
        rounds.append(Rated(rate, rate / busy if busy else None))
    return Rated(max(one.rate for one in rounds), max((one.by_core or 0.0) for one in rounds))


def _rows(table: Table, what: str, best: Rated, aim: float | None = None) -> None:
    table.row(f"{what}, {CLIENTS} clients", f"{best.rate:,.0f}/s")
    table.row(
        f"{what}, a second of one core",
        f"{best.by_core or 0:,.0f}/s",
        ratio=None if aim is None or best.by_core is None else best.by_core / aim,
        at_least=None if aim is None else 1.0,
    )


def _waiting(table: Table, options: argparse.Namespace, what: str, call: Call, rate: float) -> None:
    found = min(
        (steadily(call, 4 * CLIENTS, LOAD * rate, options.seconds) for _ in range(options.rounds)),
        key=lambda one: one.p99 / one.p50,
    )
    table.row(
        f"{what}, p99 against p50 at {LOAD:.0%} load ({found.rate:,.0f}/s)",
        amount(found.p99),
        amount(found.p50),
        ratio=found.p99 / found.p50,
        at_most=WAIT_RATIO,
    )


def _agree(*calls: Call) -> None:
    verdicts = {_asked(call)["verdict"] for call in calls}
    if len(verdicts) != 1:
        sys.exit(f"the services do not agree: {verdicts}")


def _asked(call: Call) -> Any:
    headers = {"content-type": "application/json", **call.headers}
    request = Request(call.url, json.dumps(call.body).encode(), headers)  # noqa: S310 - our own
    with urlopen(request, timeout=300) as answered:  # noqa: S310 - our own service
        return json.loads(answered.read())


# -- the services ------------------------------------------------------------------------------


@contextmanager
def demur(folder: Path) -> Iterator[Served]:
    """Yield demur's service, with keys and metrics, as `demur serve` runs it."""
    made = make_key("bench", ["decide"])
    with open_store(folder / "demur.db") as store:
        store.add_key(made.key)
    limits = "rate = 1000000\nburst = 1000000\ntimeout_s = 300\nbudget_cpu_s = 86400\n"
    limits += "budget_bytes = 1000000000000\n"
    with started(folder, limits) as served:
        yield served._replace(headers={"authorization": f"Bearer {made.token}"})


@contextmanager
def started(folder: Path, settings: str) -> Iterator[Served]:
    """Yield demur's service over the store in a folder; `settings` are those of `[service]`."""
    (folder / "policy.yaml").write_text(demur_policy(rules(10)), encoding="utf-8")
    (folder / "demur.toml").write_text(f"[service]\n{settings}", encoding="utf-8")
    command = [sys.executable, "-c", _SERVE, "--port", "0", "--json"]
    with _running(command, folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], 60)[0]:
            sys.exit("demur's service did not start")
        yield Served(json.loads(process.stdout.readline())["url"], process.pid, {})


@contextmanager
def lumyn(python: str, folder: Path) -> Iterator[Served]:
    """Yield lumyn's service over the same rules."""
    policy = folder / "lumyn.json"
    policy.write_text(json.dumps(_lumyn_policy(rules(10))), encoding="utf-8")
    port = 18_642
    environment = {
        "LUMYN_POLICY_PATH": str(policy),
        "LUMYN_STORAGE_URL": f"sqlite:///{str(folder / 'lumyn.db').lstrip('/')}",
    }
    command = [python, "-c", _LUMYN, str(port)]
    # It writes a line for each decision.
    more = {"env": {**os.environ, **environment}, "stdout": subprocess.DEVNULL}
    with _running(command, folder, **more, stderr=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{port}"
        patience = time.monotonic() + 60
        while True:
            try:
                with urlopen(f"{url}/healthz", timeout=5):  # noqa: S310 - our own machine
                    break
            except OSError:
                if time.monotonic() > patience or process.poll() is not None:
                    sys.exit("lumyn's service did not start")
                time.sleep(0.1)
        yield Served(url, process.pid, {})


@contextmanager
def _running(
    command: Sequence[str], folder: Path, **more: Any
) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(command, cwd=folder, **more) as process:
        try:
            yield process
        finally:
            process.kill()


def _has_lumyn(python: str) -> bool:
    if shutil.which(python) is None:
        return False
    command = [python, "-c", "import lumyn, uvicorn"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
