"""Load over HTTP: as much as goes with `wrk` or a client of our own, or at a steady rate."""

import asyncio
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

__all__ = ["Call", "Latency", "cpu_seconds", "most", "steadily", "tool"]


class Call(NamedTuple):
    """A call that is made again and again."""

    url: str
    body: Any
    headers: Mapping[str, str] = {}

    @property
    def raw(self) -> bytes:
        """The call as it goes over the wire."""
        parts = urlsplit(self.url)
        body = msgspec.json.encode(self.body)
        lines = [f"POST {parts.path} HTTP/1.1", f"host: {parts.netloc}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        lines += ["content-type: application/json", f"content-length: {len(body)}", "", ""]
        return "\r\n".join(lines).encode() + body


class Latency(NamedTuple):
    """How long answers took, in seconds, and how many came a second."""

    p50: float
    p99: float
    rate: float


def tool() -> str:
    """Return what makes the load."""
    return "wrk" if shutil.which("wrk") else "a client in Python"


def most(call: Call, clients: int, seconds: float) -> float:
    """Return how many calls a second are answered at most."""
    if shutil.which("wrk"):
        return _wrk(call, clients, seconds)
    return asyncio.run(_closed(call, clients, seconds))


def _wrk(call: Call, clients: int, seconds: float) -> float:
    with _script(call) as path:
        words = ("-t1", f"-c{clients}", f"-d{max(1, round(seconds))}", "-s", str(path), call.url)
        ran = subprocess.run(["wrk", *words], capture_output=True, text=True, check=True)  # noqa: S607 - wherever it is
    if "Non-2xx" in ran.stdout or "Socket errors" in ran.stdout:
        raise SystemExit(f"{call.url} refused calls:\n{ran.stdout}")
    found = re.search(r"Requests/sec:\s+([\d.]+)", ran.stdout)
    assert found is not None
    return float(found[1])


@contextmanager
def _script(call: Call) -> Iterator[Path]:
    headers = {"content-type": "application/json", **call.headers}
    lines = ['wrk.method = "POST"']
    lines += [f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items()]
    lines.append(f"wrk.body = [==[{msgspec.json.encode(call.body).decode()}]==]")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "call.lua"
        path.write_text("\n".join(lines), encoding="utf-8")
        yield path


class _Connection:
    """One connection that is kept."""

    def __init__(self, call: Call) -> None:
        parts = urlsplit(call.url)
        self._address = (parts.hostname, parts.port)
        self._raw = call.raw
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self) -> None:
        """Make one call, and read its answer."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(*self._address)
        self._writer.write(self._raw)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise SystemExit(f"a call was refused: {head[:200]!r}")
        found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        assert found is not None
        await self._reader.readexactly(int(found[1]))

    def close(self) -> None:
        """Let go of it."""
        if self._writer is not None:
            self._writer.close()


async def _closed(call: Call, clients: int, seconds: float) -> float:
    """Every client asks again once it is answered."""
    end = time.perf_counter() + seconds
    answered = count()

    async def client() -> None:
        connection = _Connection(call)
        while time.perf_counter() < end:
            await connection.ask()
            next(answered)
        connection.close()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return next(answered) / (time.perf_counter() - began)


def steadily(call: Call, clients: int, rate: float, seconds: float) -> Latency:
    """Return how long answers take at a rate that does not wait for them.

    An answer is measured from when its call was due, so that a stall counts for all whom it
    made wait.
    """
    return asyncio.run(_open(call, clients, rate, seconds))


async def _open(call: Call, clients: int, rate: float, seconds: float) -> Latency:
    total = max(100, round(rate * seconds))
    numbers = iter(range(total))
    taken: list[float] = []
    began = time.perf_counter() + 0.1

    async def client() -> None:
        connection = _Connection(call)
        for number in numbers:
            due = began + number / rate
            early = due - time.perf_counter()
            if early > 0:
                await asyncio.sleep(early)
            await connection.ask()
            taken.append(time.perf_counter() - due)
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    taken.sort()
    return Latency(
        taken[len(taken) // 2],
        taken[len(taken) * 99 // 100],
        total / (time.perf_counter() - began),
    )


def cpu_seconds(pid: int) -> float | None:
    """Return how long a process has kept a processor busy; None where that is not told."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / 100
