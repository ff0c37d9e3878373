"""Scenarios played by the Vercel AI SDK and LangChain.js, against a service with their enforcer."""

import json
import os
import re
import shutil
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from demur.emit.envelope import from_envelope
from demur.enforce.enforcer import Enforcer
from demur.gate.gate import Gate
from demur.policy.loader import parse_policy
from demur.service.app import build_app
from demur.service.server import ApiServer, bind_listener
from demur.service.service import Service
from demur.service.settings import ServiceSettings
from demur.testing.conformance import SCENARIO_POLICY
from demur.testing.scenarios import (
    AnswerTurn,
    CheckPoint,
    FrameworkDriver,
    ModelTurn,
    Scenario,
    ScenarioResult,
    ScenarioTools,
    ToolTurn,
)

__all__ = ["DRIVERS", "TypeScriptDriver"]

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients/typescript"
# From this version on, Node runs TypeScript by itself.
_MIN_NODE = (22, 18)
_PATIENCE_S = 60


def _find_node() -> str:
    """Return a Node that is new enough: the named one, the one on the path, or that of `make`.

    Raises:
        ModuleNotFoundError: There is none, or the frameworks are not installed.
    """
    for name in (os.environ.get("NODE", "node"), str(ROOT / ".node/node_modules/.bin/node")):
        node = shutil.which(name)
        if node is None or not (CLIENT / "node_modules/ai").is_dir():
            continue
        ran = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
        if tuple(map(int, re.findall(r"\d+", ran.stdout))) >= _MIN_NODE:
            return node
    raise ModuleNotFoundError("the TypeScript package is not set up: run `make test-typescript`")


_NODE = _find_node()


class _SwitchedService(NamedTuple):
    """A service that enforces by one enforcer after the other, and its address."""

    service: Service
    url: str

    def use(self, enforcer: Enforcer) -> str:
        """Enforce by this enforcer from now on, and return the address."""
        assert enforcer.gate is not None
        self.service.gate = enforcer.gate
        self.service.enforcer = self.service.heavy_enforcer = enforcer
        return self.url


@cache
def _start_service() -> _SwitchedService:
    """Return a service that listens for as long as this process lives."""
    settings = ServiceSettings(port=0, drain_s=0.0)
    ready = threading.Event()
    listener = bind_listener(settings)
    service = Service(Gate(parse_policy(SCENARIO_POLICY)), settings)
    server = ApiServer(build_app(service), settings, listener, lambda _: ready.set())
    run = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    run.start()
    assert ready.wait(_PATIENCE_S)
    return _SwitchedService(service, f"http://127.0.0.1:{listener.getsockname()[1]}")


@cache
def _start_runner() -> "subprocess.Popen[str]":
    """Return the process that runs scenarios; it ends with its input."""
    return subprocess.Popen(
        [_NODE, "test/scenarios.ts"],
        cwd=CLIENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


class TypeScriptDriver:
    """An agent of a framework in TypeScript."""

    points = frozenset(CheckPoint)
    ends_runs = True

    def __init__(self, name: str, *, streams: bool = False) -> None:
        self.name = f"{name}-stream" if streams else name
        # What was shown of a stream cannot be answered again.
        self.skipped = frozenset({"answer given again"} if streams else ())
        self._framework = name
        self._streams = streams

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        given = {
            "driver": self._framework,
            "prompt": scenario.prompt,
            "streams": self._streams or scenario.point is CheckPoint.STREAM,
            "turns": [_turn(turn) for turn in scenario.turns],
            "tools": tools.names,
            "returns": dict(scenario.returns),
        }
        answer = _ask({**given, "url": _start_service().use(enforcer)})
        for name, arguments in answer.pop("ran"):
            tools.run(name, arguments)
        assert "error" not in answer, answer["error"]
        return ScenarioResult(from_envelope(answer.pop("refusal")), **answer)


def _ask(given: Any) -> dict[str, Any]:
    runner = _start_runner()
    assert runner.stdin is not None
    assert runner.stdout is not None
    runner.stdin.write(json.dumps(given) + "\n")
    runner.stdin.flush()
    answer: dict[str, Any] = json.loads(runner.stdout.readline())
    return answer


def _turn(turn: ModelTurn) -> dict[str, Any]:
    if isinstance(turn, AnswerTurn):
        return {"pieces": turn.pieces}
    return {"calls": turn.calls} if isinstance(turn, ToolTurn) else {}


DRIVERS: tuple[FrameworkDriver, ...] = tuple(
    TypeScriptDriver(name, streams=streams)
    for name in ("ai-sdk", "langchain-js")
    for streams in (False, True)
)
