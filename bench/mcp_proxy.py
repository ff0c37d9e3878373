"""What the MCP proxy adds to a tool call: the same calls with it and without.

All ways are open at once and asked in turn, so that what else the machine does is the same to
each of them.

Run it: `python bench/mcp_proxy.py [CALLS]`
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx

from demur.integrations.mcp_proxy.guard import ConnectionGuard
from demur.integrations.mcp_proxy.judge import ProxyRules, make_judge

SERVER = """
import json, sys
schema = {"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "integer"}}}
tool = {"name": "echo", "description": "Returns the text.", "inputSchema": schema}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    text = f"{asked.get('params', {}).get('arguments')}"
    result = {"content": [{"type": "text", "text": text}]}
    if asked["method"] == "tools/list":
        result = {"tools": [tool]}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}) + "\\n")
    sys.stdout.flush()
"""
POLICY = """
schema_version: policy.v1
policy_id: bench
policy_version: 1.0.0
rules:
  - {id: R_ECHO, stage: ALLOW_PATHS, if: {action_type: echo}, then: {verdict: ALLOW}}
"""
TEXT = "The quick brown fox jumps over the lazy dog. " * 5
WARM_UP = 50

Ask = Callable[[dict[str, Any]], Any]


@contextmanager
def talking(command: Sequence[str], folder: str) -> Iterator[Ask]:
    """Yield a function that asks and waits for the answer."""
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        source, target = process.stdout, process.stdin
        assert source is not None
        assert target is not None

        def ask(message: dict[str, Any]) -> Any:
            target.write(json.dumps(message) + "\n")
            target.flush()
            return json.loads(source.readline())

        yield ask


@contextmanager
def talking_http(command: Sequence[str], folder: str) -> Iterator[Ask]:
    """Yield a function that asks over HTTP and waits for the answer."""
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        url = next(line for line in lines if "listens on" in line).split()[-1]
        headers = {"accept": "application/json, text/event-stream"}
        with httpx.Client(headers=headers) as http:

            def ask(message: dict[str, Any]) -> Any:
                said = http.post(url, json=message)
                http.headers["mcp-session-id"] = said.headers["mcp-session-id"]
                return json.loads(said.text.partition("data: ")[2])

            ask({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {}})
            yield ask
        process.terminate()


def call(number: int) -> dict[str, Any]:
    """Return a tool call unlike the others."""
    params = {"name": "echo", "arguments": {"text": TEXT, "n": number}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def timed(ways: dict[str, Ask], calls: int) -> dict[str, list[float]]:
    """Return how many microseconds each call took, by way."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for ask in ways.values():
        ask({"jsonrpc": "2.0", "id": "list", "method": "tools/list", "params": {}})
    for number in range(calls + WARM_UP):
        message = call(number)
        for name, ask in ways.items():
            began = time.perf_counter()
            answer = ask(message)
            took[name].append((time.perf_counter() - began) * 1e6)
            assert "refusal" not in str(answer), answer
    return {name: one[WARM_UP:] for name, one in took.items()}


def guarded(calls: int) -> dict[str, list[float]]:
    """Return how many microseconds the guard alone takes, for a call with its result and more."""
    guard = ConnectionGuard(make_judge(None, "bench", ProxyRules(loops=False)), notify=print)

    progress = {"progressToken": 1, "progress": 0.5, "message": "Half of the pages are read."}
    notice = {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}
    told = json.dumps(notice).encode()
    took: dict[str, list[float]] = {"a call and its result": [], "a notification": []}

    async def run() -> None:
        for number in range(calls + WARM_UP):
            raw = json.dumps(call(number)).encode()
            result = {"content": [{"type": "text", "text": TEXT}]}
            back = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
            began = time.perf_counter()
            await guard.from_client(raw)
            await guard.from_server(back)
            between = time.perf_counter()
            await guard.from_server(told)
            took["a call and its result"].append((between - began) * 1e6)
            took["a notification"].append((time.perf_counter() - between) * 1e6)

    asyncio.run(run())
    return {name: one[WARM_UP:] for name, one in took.items()}


def main() -> None:
    """Print what each way takes, and what the proxy adds."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    python = sys.executable
    proxy = [python, "-m", "demur", "mcp", "proxy", "--no-loops"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "server.py").write_text(SERVER, encoding="utf-8")
        (Path(folder) / "policy.yaml").write_text(POLICY, encoding="utf-8")
        for durability in ("full", "normal"):
            settings = f'policy = "policy.yaml"\nstore = "{durability}.db"\n'
            text = f'{settings}durability = "{durability}"\n'
            (Path(folder) / f"{durability}.toml").write_text(text, encoding="utf-8")
        pins = [python, "-m", "demur", "mcp", "pin", "--pins", "pins.json"]
        subprocess.run(
            [*pins, "--", python, "server.py"], cwd=folder, check=True, capture_output=True
        )
        server = [python, "server.py"]
        ways = {
            "the server alone": server,
            "guards, no store": [*proxy, "--", *server],
            "guards and pins, no store": [*proxy, "--pins", "pins.json", "--", *server],
            "gate, store (normal)": [*proxy, "--config", "normal.toml", "--", *server],
            "gate, store (full sync)": [*proxy, "--config", "full.toml", "--", *server],
        }
        with ExitStack() as stack:
            asks = {name: stack.enter_context(talking(way, folder)) for name, way in ways.items()}
            listens = [*proxy, "--listen", "0", "--", *server]
            asks["guards, no store, over HTTP"] = stack.enter_context(talking_http(listens, folder))
            took = timed(asks, calls)
    alone = median(took["the server alone"])
    print(f"{'one tool call':34} {'median':>9} {'p95':>9} {'added':>9}   (µs)")
    for name, one in took.items():
        added = median(one) - alone
        print(f"{name:34} {median(one):9.0f} {quantiles(one, n=20)[-1]:9.0f} {added:9.0f}")
    print("the guard alone, in process")
    for name, one in guarded(calls).items():
        print(f"{name:34} {median(one):9.0f} {quantiles(one, n=20)[-1]:9.0f}")


if __name__ == "__main__":
    main()
