"""Policies: YAML in, a checked value, and compiled functions that evaluate requests."""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.policy.cases import (
        CaseResult,
        CaseTableError,
        PolicyCase,
        load_cases,
        parse_cases,
        run_cases,
        unmatched_rules,
    )
    from demur.policy.evaluation import CompiledPolicy, Evaluation
    from demur.policy.lint import PolicyDiagnostic, lint_policy
    from demur.policy.loader import load_policy, parse_policy, policy_schema
    from demur.policy.lumyn import ImportedPolicy, import_policy
    from demur.policy.policy import Mode, Policy, PolicyRule, RuleOutcome, Stage, describe_condition

__all__ = [
    "CaseResult",
    "CaseTableError",
    "CompiledPolicy",
    "Evaluation",
    "ImportedPolicy",
    "Mode",
    "Policy",
    "PolicyCase",
    "PolicyDiagnostic",
    "PolicyRule",
    "RuleOutcome",
    "Stage",
    "describe_condition",
    "import_policy",
    "lint_policy",
    "load_cases",
    "load_policy",
    "parse_cases",
    "parse_policy",
    "policy_schema",
    "run_cases",
    "unmatched_rules",
]

_HOMES = {
    "demur.policy.cases": (
        "CaseResult CaseTableError PolicyCase load_cases parse_cases run_cases unmatched_rules"
    ),
    "demur.policy.evaluation": "CompiledPolicy Evaluation",
    "demur.policy.lint": "PolicyDiagnostic lint_policy",
    "demur.policy.loader": "load_policy parse_policy policy_schema",
    "demur.policy.lumyn": "ImportedPolicy import_policy",
    "demur.policy.policy": "Mode Policy PolicyRule RuleOutcome Stage describe_condition",
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
