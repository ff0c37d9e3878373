"""What the MCP proxy adds to a tool call: the same calls with it and without, over stdio.

Run it: `python bench/mcp_proxy.py [CALLS]`
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from demur.integrations.mcp_proxy.guard import Guard
from demur.integrations.mcp_proxy.judge import Rules, judge_of

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


def call(number: int) -> dict[str, Any]:
    """Return a tool call unlike the others."""
    params = {"name": "echo", "arguments": {"text": TEXT, "n": number}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def timed(ask: Ask, calls: int) -> list[float]:
    """Return how many microseconds each call took."""
    ask({"jsonrpc": "2.0", "id": "list", "method": "tools/list", "params": {}})
    took = []
    for number in range(calls + WARM_UP):
        message = call(number)
        began = time.perf_counter()
        answer = ask(message)
        took.append((time.perf_counter() - began) * 1e6)
        assert "refusal" not in str(answer), answer
    return took[WARM_UP:]


def guarded(calls: int) -> list[float]:
    """Return how many microseconds the guard alone takes for a call and its result."""
    guard = Guard(judge_of(None, "bench", Rules(loops=False)), note=print)

    async def run() -> list[float]:
        took = []
        for number in range(calls + WARM_UP):
            raw = json.dumps(call(number)).encode()
            result = {"content": [{"type": "text", "text": TEXT}]}
            back = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
            began = time.perf_counter()
            await guard.from_client(raw)
            await guard.from_server(back)
            took.append((time.perf_counter() - began) * 1e6)
        return took[WARM_UP:]

    return asyncio.run(run())


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
        ways = {
            "the server alone": [],
            "guards, no store": proxy,
            "guards and pins, no store": [*proxy, "--pins", "pins.json"],
            "gate, store (normal)": [*proxy, "--config", "normal.toml", "--pins", "pins.json"],
            "gate, store (full sync)": [*proxy, "--config", "full.toml", "--pins", "pins.json"],
        }
        alone = 0.0
        print(f"{'one tool call over stdio':32} {'median':>9} {'p95':>9} {'added':>9}   (µs)")
        for name, command in ways.items():
            server = [python, "server.py"]
            with talking([*command, "--", *server] if command else server, folder) as ask:
                took = timed(ask, calls)
            alone = alone or median(took)
            added = median(took) - alone
            print(f"{name:32} {median(took):9.0f} {quantiles(took, n=20)[-1]:9.0f} {added:9.0f}")
    took = guarded(calls)
    print(
        f"{'the guard alone, in process':32} {median(took):9.0f} {quantiles(took, n=20)[-1]:9.0f}"
    )


if __name__ == "__main__":
    main()
