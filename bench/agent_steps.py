"""Count how many ordinary steps of agents the default enforcer refuses, and how many it warns of.

The steps (`agent_steps.json`) were written before a guard read them: prompts, tool calls with their
arguments, results and answers of ten domains.
"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from demur import open_enforcer
from demur.enforce import CallContext, CheckResult, Enforcer

STEPS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def check_step(enforcer: Enforcer, step: dict[str, Any], context: CallContext) -> CheckResult:
    """Return the result of the check that an adapter would make for a step."""
    if "prompt" in step:
        return enforcer.check_prompt(step["prompt"], context)
    if "answer" in step:
        return enforcer.check_answer(step["answer"], context)
    if "result" in step:
        parts = {"arguments": step["arguments"]}
        return enforcer.check_tool_result(step["tool"], step["result"], context, **parts)
    return enforcer.check_tool_call(step["tool"], step["arguments"], context)


def main() -> int:
    """Print a line for each domain, and each refused step; return 1 if any is refused."""
    refused, warned, counts = [], Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/demur.db"
        with open_enforcer(store=store) as enforcer:
            for step in STEPS:
                domain = step["domain"]
                context = CallContext("bench", run=domain, subject={"type": "agent", "id": domain})
                result = check_step(enforcer, step, context)
                counts[domain] += 1
                warned[domain] += bool(result.allowed and result.findings)
                if not result.allowed:
                    refused.append((domain, result.line))
    for domain, count in counts.items():
        held = sum(one == domain for one, _ in refused)
        print(
            f"{domain:<18} {count:>3} steps  {held:>2} refused  {warned[domain]:>2} with warnings"
        )
    print(f"{'all':<18} {len(STEPS):>3} steps  {len(refused):>2} refused")
    for domain, line in refused:
        print(f"  {domain}: {line}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
