"""What one evaluation of a policy costs as unrelated rules are added, in one interleaved run.

Ten rules an action; requests spread over some of the actions. Each action has a function of
its own, so the spread shows what the machine's caches make of it.
"""

import json
import statistics
import time
from typing import Any

from demur.codes import Registry
from demur.policy.evaluation import CompiledPolicy
from demur.policy.loader import parse_policy

ROUNDS = 40
REQUESTS = 200
RULES_AN_ACTION = 10
SIZES = (10, 1_000, 10_000)
SPREADS = (1, 10, 100, 200)
KINDS: tuple[tuple[str, str, list[str]], ...] = (
    ("REQUIREMENTS", "ESCALATE", ["CONTEXT_MISSING"]),
    ("HARD_BLOCKS", "DENY", ["CHARGEBACK_RISK_BLOCK"]),
    ("ESCALATIONS", "ESCALATE", ["REFUND_OVER_ESCALATION_LIMIT"]),
    ("ALLOW_PATHS", "ALLOW", []),
)


def rule(action: int, number: int) -> dict[str, Any]:
    """Return one rule; the four kinds take turns."""
    conditions: tuple[dict[str, Any], ...] = (
        {"evidence.ticket": {"missing": True}},
        {f"evidence.risk{number % 3}": {"gt": 0.9}},
        {"amount_usd": {"gt": 250 + number}},
        {"amount_usd": {"lte": 50 + number}, "evidence.risk1": {"lt": 0.5}},
    )
    stage, verdict, codes = KINDS[number % 4]
    return {
        "id": f"R{action}_{number}",
        "stage": stage,
        "if": {"action_type": f"action.{action}", **conditions[number % 4]},
        "then": {"verdict": verdict, "reason_codes": codes},
    }


def policy(size: int, registry: Registry) -> CompiledPolicy:
    """Return a policy of `size` rules, ten an action."""
    actions = range(size // RULES_AN_ACTION)
    rules = [rule(action, number) for action in actions for number in range(RULES_AN_ACTION)]
    head = {"schema_version": "policy.v1", "policy_id": "bench", "policy_version": "1"}
    return CompiledPolicy(parse_policy(json.dumps({**head, "rules": rules}), registry=registry))


def requests(spread: int) -> list[dict[str, Any]]:
    """Return requests over `spread` actions, small and large amounts mixed."""
    return [
        {
            "action": {
                "type": f"action.{number % spread}",
                "amount": {"value": 20 + number * 7 % 400, "currency": "USD"},
            },
            "evidence": {"ticket": "T1", "risk0": 0.1, "risk1": 0.2, "risk2": 0.3},
        }
        for number in range(REQUESTS)
    ]


def seconds(compiled: CompiledPolicy, asked: list[dict[str, Any]]) -> float:
    """Return the seconds that one evaluation takes, over all requests."""
    start = time.perf_counter()
    for request in asked:
        compiled.evaluate(request)
    return (time.perf_counter() - start) / len(asked)


def main() -> None:
    """Print the table."""
    registry = Registry.load()
    policies = {size: policy(size, registry) for size in SIZES}
    rows = [
        (size, spread)
        for size in SIZES
        for spread in SPREADS
        if spread <= max(1, size // RULES_AN_ACTION)
    ]
    samples: dict[tuple[int, int], list[float]] = {row: [] for row in rows}
    for _ in range(ROUNDS):
        for size, spread in rows:
            samples[size, spread].append(seconds(policies[size], requests(spread)))
    base = statistics.median(samples[SIZES[0], 1])
    print(f"{'evaluate: rules':>16}{'actions asked':>16}{'median':>12}{'ratio':>8}")
    for (size, spread), taken in samples.items():
        median = statistics.median(taken)
        print(f"{size:>16,}{spread:>16}{median * 1e6:>10.2f}µs{median / base:>8.2f}")


if __name__ == "__main__":
    main()
