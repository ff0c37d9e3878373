from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.property_runs import examples
from support.small_policies import CORE, REQUESTS, SMALL_POLICIES, policy_of, rule

from demur.codes.lint_rules import LintLevel
from demur.codes.vocabulary import Surface
from demur.errors import Problem
from demur.model.finding import Action, Finding
from demur.policy.evaluation import CompiledPolicy
from demur.policy.lint import LINT_LEVELS, PolicyDiagnostic, diagnose_problem, lint_policy
from demur.policy.loader import load_policy, parse_policy
from demur.policy.policy import Policy

EXAMPLE = Path(__file__).parents[3] / "examples/policies/support.yaml"
A, B = {"action_type": "x"}, {"action_type": "x", "request_id": {"exists": True}}


def diagnostics(*rules: dict[str, Any], **head: Any) -> list[PolicyDiagnostic]:
    return lint_policy(policy_of(*rules, **head), CORE)


def names(*rules: dict[str, Any], **head: Any) -> list[str]:
    return [diagnostic.rule for diagnostic in diagnostics(*rules, **head)]


def test_there_is_nothing_to_diagnostic_on_the_example() -> None:
    assert lint_policy(load_policy(EXAMPLE), CORE) == []


def test_a_rule_that_another_always_covers_is_unreachable() -> None:
    [diagnostic] = diagnostics(rule(A, "DENY", ["RCE_RISK", "SCOPE_MISSING"]), rule(B, "DENY"))

    assert (diagnostic.rule, diagnostic.level) == ("unreachable-rule", LintLevel.ERROR)
    assert "rule `R1` can never change anything: rule `R0` matches" in diagnostic.message


def test_where_two_rules_say_the_same_the_second_is_unreachable() -> None:
    [diagnostic] = diagnostics(rule(A), rule(A))

    assert diagnostic.rule == "unreachable-rule"
    assert "rule `R1` can never" in diagnostic.message


def test_the_first_of_two_is_unreachable_if_the_second_says_more() -> None:
    [diagnostic] = diagnostics(rule(A), rule(A, codes=["SCOPE_MISSING", "RATE_LIMIT"]))

    assert "rule `R0` can never" in diagnostic.message


@pytest.mark.parametrize(
    "wider",
    [
        rule(A, "DENY", ["RCE_RISK"], shadow=True),
        rule(B, "DENY", ["RCE_RISK"], id="OTHER"),
    ],
)
def test_a_rule_on_trial_or_a_narrower_one_covers_nothing(wider: dict[str, Any]) -> None:
    assert names(wider, rule(A)) == []


def test_a_rule_with_an_obligation_of_its_own_is_not_dead() -> None:
    strict = rule(A, "DENY", ["RCE_RISK", "SCOPE_MISSING"])

    assert names(strict, rule(B, "DENY", obligations=["human_review"])) == []


def test_a_verdict_that_a_stricter_rule_always_beats_is_shadowed() -> None:
    [diagnostic] = diagnostics(rule(A, "DENY", ["RCE_RISK"]), rule(B, "ALLOW"))

    # An ALLOW without codes adds nothing at all.
    assert diagnostic.rule == "unreachable-rule"
    [diagnostic] = diagnostics(rule(A, "DENY", ["RCE_RISK"]), rule(B))
    assert (diagnostic.rule, diagnostic.level) == ("shadowed-by-stricter", LintLevel.WARNING)
    assert "the ESCALATE of rule `R1` can never win" in diagnostic.message


def test_a_narrower_rule_with_a_code_of_its_own_is_fine() -> None:
    assert names(rule(A), rule(B, codes=["RATE_LIMIT"])) == []


def test_a_finding_whose_warning_binds_speaks_for_itself() -> None:
    seen = {"findings.codes": {"contains": "CRISIS_ESCALATION"}}

    assert names(rule({**A, **seen}, codes=["CRISIS_ESCALATION"])) == ["unreachable-rule"]
    assert names(rule({**A, **seen}, "DENY", codes=["CRISIS_ESCALATION"])) == []


@pytest.mark.parametrize("code", ["DESTRUCTIVE_ACTION", "RCE_RISK"])
def test_a_rule_may_refuse_where_a_guard_only_warns(code: str) -> None:
    seen = {"findings.codes": {"contains": code}}

    assert names(rule({**A, **seen}, codes=[code])) == []


def test_the_same_condition_twice_is_one_rule_in_two() -> None:
    [diagnostic] = diagnostics(rule(A), rule({"all": [A]}, codes=["RATE_LIMIT"]))

    assert (diagnostic.rule, diagnostic.level) == ("duplicate-condition", LintLevel.WARNING)
    assert diagnostic.message == "rules `R0` and `R1` have the same condition and verdict"


def test_a_trial_of_another_verdict_is_no_duplicate() -> None:
    assert names(rule(A), rule(A, codes=["RATE_LIMIT"], shadow=True)) == []


def test_a_field_that_nobody_asks_for_is_uncovered() -> None:
    [diagnostic] = diagnostics(rule({**A, "evidence.risk": {"gt": 1}}, "DENY"))

    assert (diagnostic.rule, diagnostic.level) == ("uncovered-field", LintLevel.WARNING)
    assert diagnostic.message.startswith("a request without `evidence.risk` passes rule `R0`")
    assert diagnostic.help is not None
    assert "`evidence.risk: {missing: true}`" in diagnostic.help


def test_a_field_read_by_negation_is_an_error() -> None:
    [diagnostic] = diagnostics(rule({**A, "evidence.check": {"ne": "passed"}}, "DENY"))

    assert (diagnostic.rule, diagnostic.level) == ("negated-field", LintLevel.ERROR)


@pytest.mark.parametrize(
    "harmless",
    [
        rule({"evidence.risk": {"lt": 1}}, "ALLOW"),
        rule({"evidence.risk": {"gt": 1}}, shadow=True),
        rule({"evidence.risk": {"missing": True}}),
    ],
)
def test_rules_that_stop_nothing_need_not_be_covered(harmless: dict[str, Any]) -> None:
    assert names(harmless) == []


def test_a_policy_that_says_nothing_is_remarked_on() -> None:
    [diagnostic] = diagnostics()

    assert (diagnostic.rule, diagnostic.where) == ("no-rules", "small.yaml")
    assert diagnostic.help == "every request gets the default, ESCALATE"


def test_allowing_by_default_is_remarked_on() -> None:
    assert names(rule(A), defaults={"verdict": "ALLOW"}) == ["default-allow"]


def test_codes_are_judged_as_everywhere() -> None:
    found = diagnostics(
        rule(A, "DENY", ["OLD_FRAUD_BLOCK"]),
        rule({"action_type": "y"}, codes=["CONTEXT_MISSING"]),
        defaults={"verdict": "DENY", "reason_code": "POLICY_VIOLATION"},
    )

    assert {(diagnostic.rule, diagnostic.message.partition(":")[0]) for diagnostic in found} == {
        ("broad-code", "the default"),
        ("deprecated-code", "rule `R0`"),
        ("broad-code", "rule `R1`"),
    }


def test_diagnostics_stand_in_the_order_of_the_lines() -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("missing: true", "exists: true")
    found = lint_policy(parse_policy(text, "p.yaml", registry=CORE), CORE)
    lines = [int(diagnostic.where.split(":")[1]) for diagnostic in found]

    assert len(lines) > 4
    assert lines == sorted(lines)


def test_a_policy_that_does_not_load_is_a_remark() -> None:
    diagnostic = diagnose_problem(Problem("p.yaml:1:1", "the file is empty"))

    assert diagnostic == (
        "invalid-policy",
        LintLevel.ERROR,
        "p.yaml:1:1",
        "the file is empty",
        None,
    )


def test_the_ids_of_lints_are_sorted_kebab_case() -> None:
    assert list(LINT_LEVELS) == sorted(LINT_LEVELS)
    assert all(name.replace("-", "").islower() for name in LINT_LEVELS)


FINDINGS = st.lists(
    st.builds(
        Finding,
        code=st.sampled_from(["RCE_RISK", "RATE_LIMIT", "CRISIS_ESCALATION"]),
        surface=st.just(Surface.INPUT),
        action=st.sampled_from(Action),
    ),
    max_size=2,
)


@settings(max_examples=examples(200))
@given(SMALL_POLICIES, REQUESTS, FINDINGS)
def test_an_unreachable_rule_can_go_and_a_shadowed_one_never_wins(
    policy: Policy, request: dict[str, Any], findings: list[Finding]
) -> None:
    whole = CompiledPolicy(policy, registry=CORE).evaluate(request, findings)
    by_where = {row.where: row for row in policy.rules}
    for diagnostic in lint_policy(policy, CORE):
        if diagnostic.rule == "unreachable-rule":
            gone = by_where[diagnostic.where]
            rules = tuple(row for row in policy.rules if row is not gone)
            rest = CompiledPolicy(policy._replace(rules=rules), registry=CORE)
            without = rest.evaluate(request, findings)
            assert without.verdict == whole.verdict
            assert without.defaulted == whole.defaulted
            assert set(without.reason_codes) == set(whole.reason_codes)
            assert set(without.missing) == set(whole.missing)
        elif diagnostic.rule == "shadowed-by-stricter":
            beaten = by_where[diagnostic.where]
            if beaten.id in whole.matched_rules:
                assert whole.verdict.precedence > beaten.then.verdict.precedence
