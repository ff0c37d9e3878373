"""`demur policy show`: print a policy in plain words, stage by stage."""

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

from demur.cli.options import add_registry_option
from demur.cli.terminal import Paint
from demur.codes.default import default_registry
from demur.codes.vocabulary import Verdict
from demur.errors import one_line
from demur.policy.implication import can_apply
from demur.policy.loader import load_policy
from demur.policy.policy import RuleOutcome, Policy, PolicyRule, Stage
from demur.policy.words import describe_condition

__all__ = ["configure_policy_show", "run_policy_show"]

_VERDICT_COLOURS = {
    Verdict.ALLOW: "green",
    Verdict.ESCALATE: "yellow",
    Verdict.ABSTAIN: "blue",
    Verdict.DENY: "red",
}


def configure_policy_show(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("policy", metavar="POLICY", help="a policy file")
    parser.add_argument("--action", metavar="TYPE", help="only rules that can apply to this action")
    add_registry_option(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run_policy_show(args: argparse.Namespace) -> int:
    """Print the policy."""
    policy = load_policy(args.policy, registry=default_registry(*args.registry))
    rules = [
        rule
        for rule in policy.rules
        if args.action is None or can_apply(rule.condition, args.action)
    ]
    if args.json:
        print(json.dumps(_policy_to_json(policy, rules), indent=2))
        return 0
    print("\n".join(_format_policy(policy, rules, args.action, Paint())))
    return 0


def _policy_to_json(policy: Policy, rules: Sequence[PolicyRule]) -> dict[str, Any]:
    return {
        "policy_id": policy.policy_id,
        "policy_version": policy.policy_version,
        "mode": policy.mode,
        "digest": policy.digest,
        "default": _outcome_to_json(policy.default),
        "rates": dict(policy.rates),
        "shadow": [shadow._asdict() for shadow in policy.shadows],
        "rules": [
            {
                "id": rule.id,
                "stage": rule.stage,
                "shadow": rule.shadow,
                "if": describe_condition(rule.condition),
                "then": _outcome_to_json(rule.then),
                "where": rule.where,
            }
            for rule in rules
        ],
    }


def _outcome_to_json(then: RuleOutcome) -> dict[str, Any]:
    """Return an outcome without its empty fields."""
    fields = {key: value for key, value in then._asdict().items() if value}
    return {"verdict": then.verdict, "reason_codes": list(then.reason_codes), **fields}


def _format_policy(
    policy: Policy, rules: Sequence[PolicyRule], action: str | None, paint: Paint
) -> Iterator[str]:
    name = one_line(f"{policy.policy_id} {policy.policy_version}")
    yield f"{paint(name, 'bold')} ({policy.mode})"
    yield paint(f"digest  {policy.digest}", "dim")
    yield f"default {_format_outcome(policy.default, paint)}"
    if policy.rates:
        rates = ", ".join(f"1 {name} = {rate} USD" for name, rate in sorted(policy.rates.items()))
        yield f"rates   {rates}"
    for shadow in policy.shadows:
        yield f"shadow  {one_line(f'{shadow.code}: {shadow.reason}')}"
    for stage in Stage:
        yield from _format_stage(stage, [rule for rule in rules if rule.stage is stage], paint)
    yield ""
    of = f"{len(rules)} of {len(policy.rules)} rules"
    yield paint(of if action is None else one_line(f"{of} can apply to `{action}`"), "dim")


def _format_stage(stage: Stage, rules: Sequence[PolicyRule], paint: Paint) -> Iterator[str]:
    if rules:
        yield ""
        yield paint(stage, "bold")
    space = max((len(one_line(rule.id)) for rule in rules), default=0)
    for rule in rules:
        trial = " (shadow: does not count)" if rule.shadow else ""
        name = one_line(rule.id).ljust(space)
        yield f"  {paint(name, 'cyan')}  {_format_outcome(rule.then, paint)}{trial}"
        yield f"    if {one_line(describe_condition(rule.condition))}"


def _format_outcome(then: RuleOutcome, paint: Paint) -> str:
    verdict = paint(then.verdict, _VERDICT_COLOURS[then.verdict])
    codes = f"{verdict}  {', '.join(then.reason_codes)}".rstrip()
    limits = f"; {one_line(', '.join(then.constraints))}" if then.constraints else ""
    return f"{codes}{limits}"
