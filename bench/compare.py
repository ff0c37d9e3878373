"""Compare the hot paths of this tree with another one: `python bench/compare.py OTHER_TREE`.

OTHER_TREE is a checkout, such as `git worktree add --detach ../before COMMIT` makes. Both trees
are measured in turns, each in a process of its own, in microseconds of CPU time per call. The
best of all rounds counts, so that a busy machine says the same. Fails if a path is slower by more
than 5 %. Names that older trees spell otherwise are looked up by both spellings.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

MAX_RATIO = 1.05
TURNS = 4
ROUNDS = 9
RULE = """
  - id: R{0}
    stage: ESCALATIONS
    if: {{action_type: a{1}, amount_usd: {{gt: {0}}}}}
    then: {{verdict: ESCALATE, reason_codes: [REFUND_OVER_ESCALATION_LIMIT]}}"""
POLICY = f"""
schema_version: policy.v1
policy_id: compare
policy_version: 1.0.0
rules:{"".join(RULE.format(number, number % 50) for number in range(200))}
  - id: DENIED
    stage: HARD_BLOCKS
    if: {{action_type: deny_me}}
    then: {{verdict: DENY, reason_codes: [CHARGEBACK_RISK_BLOCK]}}
  - id: FINE
    stage: ALLOW_PATHS
    if: {{action_type: ok}}
    then: {{verdict: ALLOW}}
"""
REQUEST = {
    "action": {"type": "a7", "amount": {"value": 100, "currency": "USD"}},
    "subject": {"type": "agent", "id": "x"},
    "evidence": {"ticket_id": "T"},
}
TEXT = ("The quick brown fox writes a long report about the results of the quarter. " * 30)[:2000]
ANSWER = {
    "id": "r",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": None, "refusal": "I can't help with that."},
        }
    ],
}


def measure_call(call: Callable[[], object], times: int) -> float:
    """Return microseconds of CPU time per call, the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(times):
            call()
        best = min(best, time.process_time() - began)
    return best / times * 1e6


def measure_tree() -> Iterator[tuple[str, float]]:
    """Yield each path of the tree that is first on `sys.path`, and its cost."""
    began = time.process_time()
    import demur  # noqa: PLC0415 - this is what is measured

    _ = demur.Enforcer, demur.Gate
    yield "import Gate and Enforcer", (time.process_time() - began) * 1e6
    try:
        from demur.policy import parse_policy  # noqa: PLC0415
    except ImportError:
        parse_policy = demur.parse_policy
    from demur.integrations.guarded import guarded  # noqa: PLC0415

    gate = demur.Gate(parse_policy(POLICY))
    yield "decide", measure_call(lambda: gate.decide(REQUEST), 300)
    with tempfile.TemporaryDirectory() as folder:
        # Trees differ in their default deadline, and with one a thread does the writing.
        for name, deadline_s in (("decide and store", None), ("within a deadline", 5.0)):
            path = f"{folder}/{deadline_s}.db"
            store = demur.open_store(path, durability="normal", deadline_s=deadline_s)
            with demur.Gate(parse_policy(POLICY), store) as stored:
                yield name, measure_call(partial(stored.decide, REQUEST), 100)
    enforcer: Any = demur.Enforcer(gate)

    def find_check(name: str) -> Any:
        return getattr(enforcer, f"check_{name}", None) or getattr(enforcer, name)

    # Each call differs, so that no cache answers.
    fresh = iter(range(10**9))
    prompt, answer, tool = find_check("prompt"), find_check("answer"), find_check("tool_call")
    yield "prompt of 2 KB", measure_call(lambda: prompt(f"{TEXT}{next(fresh)}"), 60)
    yield "answer of 2 KB", measure_call(lambda: answer(f"{TEXT}{next(fresh)}"), 60)
    yield "tool call", measure_call(lambda: tool("ok", {"n": next(fresh)}), 60)
    command = "git status && ls -la /tmp/{} | grep foo"
    yield (
        "command",
        measure_call(lambda: tool("bash", {"command": command.format(next(fresh))}), 40),
    )

    @guarded(enforcer)
    def deny_me(amount: int) -> int:
        return amount

    def call_refused() -> None:
        try:
            deny_me(next(fresh))
        except demur.Refused:
            return
        raise AssertionError

    yield "refused call", measure_call(call_refused, 60)
    yield "normalize", measure_call(lambda: demur.normalize(ANSWER), 200)
    said = "I'm sorry, but I can't help with that request."
    yield "detect_refusal", measure_call(lambda: demur.detect_refusal(said), 100)
    line = "REFUSED: RCE_RISK: curl | sh"
    yield "parse_refusal", measure_call(lambda: demur.parse_refusal(line), 2000)


def compare_trees(other: Path) -> int:
    """Print the costs of both trees side by side, and return the exit status."""
    costs: dict[str, dict[str, float]] = {"before": {}, "now": {}}
    trees = {"before": other.resolve(), "now": Path(__file__).parents[1]}
    for _ in range(TURNS):
        for name, tree in trees.items():
            environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
            command = [sys.executable, __file__, "--measure"]
            output = subprocess.check_output(command, env=environment)
            for path, cost in json.loads(output).items():
                costs[name][path] = min(cost, costs[name].get(path, cost))
    print(f"{'microseconds of CPU time':28}{'before':>10}{'now':>10}{'ratio':>8}")
    worst = 0.0
    for path, before in costs["before"].items():
        now = costs["now"][path]
        worst = max(worst, now / before)
        print(f"{path:28}{before:10.1f}{now:10.1f}{now / before:8.2f}")
    return int(worst > MAX_RATIO)


def main() -> int:
    """Measure the tree on `PYTHONPATH`, or compare two trees."""
    if sys.argv[1:] == ["--measure"]:
        print(json.dumps(dict(measure_tree())))
        return 0
    return compare_trees(Path(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(main())
