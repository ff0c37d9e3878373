"""The noisy neighbour: how long a tenant waits for decisions while another sends dear texts.

    python bench/neighbours.py [--seconds N] [--rounds N] [--kind NAME]

Six callers of one tenant send the dearest texts that there are, each its next one as soon as it is
answered, whatever the answer. Beside them, another tenant decides at a steady rate. Both waits are
measured in turns, alone and beside, against `demur serve` as it comes. The budgets of the sender
are so large that they never end its load, unless `--budgets` leaves them as they come.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from http_load import Call, Latency, steadily
from service import started
from table import Table, amount
from workload import requests

from demur.service.authentication import make_key
from demur.store.opening import open_store

CALLERS = 6
RATE = 40
AT_MOST = 5
SIZE = 100_000


class Noise(NamedTuple):
    """What the noisy tenant sends: a route, and its body; without a body it reads."""

    path: str
    body: Any = None


def _guard(surface: str, text: str) -> Noise:
    return Noise(f"/v1/guard/{surface}", {"event": text})


def _tool_call(command: str) -> Noise:
    return Noise("/v1/enforce/tool_call", {"name": "bash", "arguments": {"command": command}})


# Each kind is the dearest of `bench/guards_hostile.py` and of its size for one part of demur.
KINDS: dict[str, Callable[[], Noise]] = {
    "100 KB of quotes, command guard": lambda: _guard("code_execution", "\"' " * (SIZE // 3)),
    "100 KB of backticks, command guard": lambda: _guard("code_execution", "`" * SIZE),
    "100 KB of pipes, tool call": lambda: _tool_call("a|" * (SIZE // 2)),
    "1 KB of pipes, tool call": lambda: _tool_call("a|" * 500),
    "1 MB of prose, input guard": lambda: _guard("input", "ignore the previous words " * 38_000),
    "1 MB of arguments, tool call": lambda: Noise(
        "/v1/enforce/tool_call", {"name": "save", "arguments": {"rows": ["a b"] * 130_000}}
    ),
    "1 MB of evidence, decide": lambda: Noise(
        "/v1/decide",
        {"request": {"action": {"type": "x"}, "evidence": {"rows": ["a b"] * 130_000}}},
    ),
    "1 MB of text, detect": lambda: Noise("/v1/detect", {"response": "I cannot help. " * 65_000}),
    "1 MB of refusals, parse": lambda: Noise("/v1/parse", {"text": "REFUSED: X: y\n" * 60_000}),
    "500 decisions, find": lambda: Noise("/v1/decisions?limit=500"),
}


def main() -> int:
    """Print the table; the status says whether the aim was met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each load lasts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", choices=[*KINDS], action="append")
    parser.add_argument("--budgets", action="store_true", help="leave the budgets as they come")
    parser.add_argument("--send", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.send:
        asyncio.run(_send_noise(*options.send))
        return 0
    print(f"{CALLERS} callers of one tenant; another decides {RATE} times a second")
    table = Table("the other tenant, beside", "beside", "alone")
    limits = "rate = 1000000\nburst = 1000000\n"
    if not options.budgets:
        limits += "budget_bytes = 1000000000000\nbudget_cpu_s = 86400\n"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = [make_key(tenant, ["decide", "read"]) for tenant in ("quiet", "loud")]
        with open_store(folder / "demur.db") as store:
            for one in keys:
                store.add_key(one.key)
        quiet, loud = ({"authorization": f"Bearer {one.token}"} for one in keys)
        with started(folder, limits) as served:
            [request] = requests(1, 1)
            call = Call(f"{served.url}/v1/decide", {"request": request}, quiet)
            # There is something to find, and all is loaded.
            steadily(call._replace(headers=loud), 2, 500, 2)
            steadily(call, 2, RATE, options.seconds)
            for kind in options.kind or KINDS:
                _measure(table, options, kind, call, f"{served.url} {loud['authorization']}")
    print(f"aims not met: {table.missed}")
    return 1 if table.missed else 0


def _measure(table: Table, options: argparse.Namespace, kind: str, call: Call, target: str) -> None:
    alone: list[Latency] = []
    beside: list[Latency] = []
    answers: Counter[str] = Counter()
    for _ in range(options.rounds):
        alone.append(steadily(call, 4, RATE, options.seconds))
        with _noise(kind, target, answers):
            beside.append(steadily(call, 4, RATE, options.seconds))
    for name, aim in (("p50", None), ("p99", AT_MOST)):
        quiet, loud = (median(getattr(one, name) for one in part) for part in (alone, beside))
        label = f"{kind}: {name}"
        table.row(label, amount(loud), amount(quiet), ratio=loud / quiet, at_most=aim)
    print(f"  answers to the callers: {dict(answers)}")


@contextmanager
def _noise(kind: str, target: str, answers: Counter[str]) -> Iterator[None]:
    """Have a process of its own send noise, until the end."""
    url, _, key = target.partition(" ")
    command = [sys.executable, __file__, "--send", kind, url, key]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.stdin.close()
            answers.update(json.loads(process.stdout.read()))


async def _send_noise(kind: str, url: str, key: str) -> None:
    """Send noise until the standard input ends, and print how it was answered."""
    noise = KINDS[kind]()
    raw = Call(f"{url}{noise.path}", noise.body, {"authorization": key}).raw
    if noise.body is None:
        lines = [f"GET {noise.path} HTTP/1.1", "host: localhost", f"authorization: {key}", "", ""]
        raw = "\r\n".join(lines).encode()
    host, _, port = url.rpartition("/")[2].partition(":")
    answers: Counter[str] = Counter()

    async def call_again() -> None:
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(host, int(port))
                while True:
                    writer.write(raw)
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = int(head.lower().partition(b"content-length: ")[2].split()[0])
                    await reader.readexactly(length)
                    answers[head.split()[1].decode()] += 1

    callers = [asyncio.create_task(call_again()) for _ in range(CALLERS)]
    await asyncio.sleep(0.5)
    print(flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for caller in callers:
        caller.cancel()
    print(json.dumps(answers))


if __name__ == "__main__":
    sys.exit(main())
