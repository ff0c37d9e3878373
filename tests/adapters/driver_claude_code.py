"""The stage of Claude Code: the real CLI, which runs the hook command that its settings name.

The command asks a process that is kept warm; here that is the driver, with the scenario's enforcer.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from adapters.claude_api import claude_api
from adapters.driver_claude_agent import SERVER, played, seen_of, session, turns_of

from demur.enforce.context import drive
from demur.enforce.enforcer import Enforcer
from demur.integrations.claude_code.daemon import serve_daemon
from demur.integrations.claude_code.daemon_client import socket_path
from demur.integrations.claude_code.hook import CARRIED, Hook, judge_steps
from demur.integrations.claude_code.settings import add_hooks
from demur.testing.scenarios import (
    CheckPoint,
    FrameworkDriver,
    Scenario,
    ScenarioResult,
    ScenarioTools,
)

__all__ = ["DRIVERS", "ClaudeCodeDriver"]

_COMMAND = (sys.executable, "-I", "-m", "demur", "hook", "claude-code")


class _SceneJudge(NamedTuple):
    """Judges by the enforcer of a scenario."""

    enforcer: Enforcer
    is_fresh: bool = True

    def judge(self, hook: Hook, _project: str) -> dict[str, Any]:
        enforcer = Enforcer.coerce(self.enforcer, carried=CARRIED)
        return drive(judge_steps(hook, enforcer, own_servers={SERVER}))


class ClaudeCodeDriver:
    """Runs scenarios in a session of the real CLI with command hooks."""

    name = "claude-code"
    points = frozenset({CheckPoint.PROMPT, CheckPoint.TOOL_CALL, CheckPoint.TOOL_RESULT})
    # The CLI takes no changed prompt.
    skipped = frozenset({"secret in a prompt"})
    ends_runs = True

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        with TemporaryDirectory() as name, claude_api(list(turns_of(scenario))) as api:
            folder = Path(name)
            options = session(folder, api, tools)
            with _warm(folder / "state", enforcer, options.env):
                options.settings = str(_settings(folder))
                return seen_of(asyncio.run(played(scenario.prompt, options)), api)


def _settings(folder: Path) -> Path:
    words = [*_COMMAND, "--warm", "--state", str(folder / "state")]
    path = folder / "settings.json"
    path.write_text(json.dumps(add_hooks({}, words)))
    return path


@contextmanager
def _warm(state: Path, enforcer: Enforcer, environment: Mapping[str, str]) -> Iterator[None]:
    """Listen where the hook command asks."""
    state.mkdir(mode=0o700)
    words = [*_COMMAND, "--serve", "--state", str(state), "--budget=20.0"]
    path = socket_path(state, words, {**os.environ, **environment})
    thread = threading.Thread(
        target=serve_daemon, args=(path, _SceneJudge(enforcer)), kwargs={"idle_s": 60}
    )
    thread.start()
    try:
        while not path.exists() and thread.is_alive():
            time.sleep(0.01)
        yield
    finally:
        path.unlink(missing_ok=True)
        thread.join()


DRIVERS: tuple[FrameworkDriver, ...] = (ClaudeCodeDriver(),)
