"""What the first checks of a process cost, in CPU time of fresh processes.

Each figure is the median of some processes. `--cold` also measures with an empty cache, where
rules are parsed and compiled; `--learned` also loads the models of `demur-models`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

AIM_MS = 50.0
_PROCESS = """
import json, sys, time
taken, last = {}, time.process_time()
def lap(name):
    global last
    now = time.process_time()
    taken[name] = (now - last) * 1000
    last = time.process_time()
from demur.enforce.enforcer import AGENT_SURFACES, Enforcer
from demur.gate.pipeline import standard_pipeline
lap("import")
pipeline = standard_pipeline(*AGENT_SURFACES, learned=sys.argv[1] == "learned")
enforcer = Enforcer(pipeline=pipeline)
lap("open")
if sys.argv[2] == "warm":
    enforcer.warm()
    lap("warm()")
enforcer.check_prompt("Where is my order? It should have come on Monday.")
lap("first prompt")
enforcer.check_answer("It is on its way, and the courier comes today.")
lap("first answer")
enforcer.check_tool_call("find_order", {"order_id": "A-17"})
lap("first tool call")
enforcer.check_tool_call("bash", {"command": "ls -la"})
lap("first command")
enforcer.check_tool_result("find_order", "Order A-17 left the house on Tuesday.")
lap("first tool result")
print(json.dumps(taken))
"""


def main() -> int:
    """Print the figures; the status says whether the first prompt meets its aim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=7)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--learned", action="store_true")
    options = parser.parse_args()
    learned = "learned" if options.learned else "rules"
    with tempfile.TemporaryDirectory() as folder:
        if options.cold:
            print_figures("with an empty cache", [run_process(learned, "", folder)])
        run_process(learned, "", folder)
        usual = [run_process(learned, "", folder) for _ in range(options.processes)]
        print_figures("with a full cache", usual)
        warm = [run_process(learned, "warm", folder) for _ in range(options.processes)]
        print_figures("with a full cache, after `warm()`", warm)
    return 0 if statistics.median(one["first prompt"] for one in usual) <= AIM_MS else 1


def run_process(learned: str, warm: str, folder: str) -> dict[str, float]:
    """Return the milliseconds of CPU time that a fresh process takes for each of its firsts."""
    command = [sys.executable, "-c", _PROCESS, learned, warm]
    env = {**os.environ, "DEMUR_CACHE": f"{folder}/cache"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def print_figures(title: str, runs: list[dict[str, float]]) -> None:
    """Print the median of each first."""
    print(f"{title}, ms of CPU time:")
    for name in runs[0]:
        print(f"  {name:20}{statistics.median(run[name] for run in runs):9.1f}")


if __name__ == "__main__":
    sys.exit(main())
