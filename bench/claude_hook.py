"""What the hook of Claude Code costs: each event is a process, beside one that does nothing.

Cold: it judges by itself. Warm: it asks the process that is kept ready. All sides take turns, with
bytecode of their own that is written first, as in an installed program. Time is what somebody
waits; work is what a processor does meanwhile, which a busy machine changes least.

Run it: `python bench/claude_hook.py [ROUNDS]`
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from table import amount

ROUNDS = 15
PATIENCE_S = 60
HOOK = ("-I", "-m", "demur", "hook", "claude-code")
CALL = {"tool_name": "Bash", "tool_input": {"command": "git status"}}
EVENTS: Mapping[str, Mapping[str, Any]] = {
    "SessionStart": {"source": "startup"},
    "UserPromptSubmit": {"prompt": "Please tidy up the tests of the parser."},
    "PreToolUse": CALL,
    "PostToolUse": {**CALL, "tool_response": {"stdout": "nothing to commit\n", "stderr": ""}},
}


class Took(NamedTuple):
    """How long a process ran, and what it cost the processor, in seconds."""

    time: float
    work: float


class Machine:
    """Runs Python in a folder of its own; each event belongs to a session of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = {
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "CLAUDE_PROJECT_DIR": str(folder),
        }
        self._events = 0

    def python(self, *words: str, given: bytes = b"") -> Took:
        """Return what it took to run Python; it has to end well."""
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        assert process.stdin is not None
        with process.stdin:
            process.stdin.write(given)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{' '.join(words)}: status {process.returncode}")
        return Took(time.perf_counter() - began, usage.ru_utime + usage.ru_stime)

    def hook(self, event: str, state: str, *words: str) -> Took:
        """Return what an event took."""
        self._events += 1
        members = {"hook_event_name": event, "session_id": f"s{self._events}", **EVENTS[event]}
        where = ("--state", str(self._folder / state))
        return self.python(*HOOK, *where, *words, given=json.dumps(members).encode())

    def warm_up(self, state: str) -> None:
        """Start the process that is kept ready, and wait until it listens."""
        self.hook("PreToolUse", state, "--warm")
        until = time.monotonic() + PATIENCE_S
        while not list((self._folder / state).glob("*.sock")) and time.monotonic() < until:
            time.sleep(0.05)

    def cool_down(self, state: str) -> None:
        """Let the process that is kept ready go, which it does without its socket."""
        for path in (self._folder / state).glob("*.sock"):
            path.unlink()
        time.sleep(1.5)


def main(words: Sequence[str]) -> None:
    """Print the medians."""
    rounds = int(words[0]) if words else ROUNDS
    with tempfile.TemporaryDirectory() as name:
        machine = Machine(Path(name))
        sides: dict[str, Callable[[], Took]] = {
            "python -c pass": partial(machine.python, "-c", "pass"),
            "import demur": partial(machine.python, "-c", "import demur"),
        }
        for event in EVENTS:
            sides[f"{event}, cold"] = partial(machine.hook, event, "cold")
        for event in EVENTS:
            sides[f"{event}, warm"] = partial(machine.hook, event, "warm", "--warm")
        for side in sides.values():
            side()
        machine.warm_up("warm")
        taken: dict[str, list[Took]] = {side_name: [] for side_name in sides}
        for _ in range(rounds):
            for side_name, side in sides.items():
                taken[side_name].append(side())
        machine.cool_down("warm")
    print(f"{'median of ' + str(rounds) + ' rounds':28}{'time':>10}{'least':>10}{'work':>10}")
    for side_name, took in taken.items():
        cells = (
            median(one.time for one in took),
            min(one.time for one in took),
            median(one.work for one in took),
        )
        print(f"{side_name:28}" + "".join(f"{amount(cell):>10}" for cell in cells))


if __name__ == "__main__":
    main(sys.argv[1:])
