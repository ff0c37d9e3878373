"""What matched rules, unusable facts and findings amount to."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.registry import Registry
from demur.codes.vocabulary import Obligation, Surface, Verdict
from demur.errors import UnknownCodeError
from demur.model.finding import Action, Finding
from demur.policy.evaluation import Evaluation, InvalidFact, combine_outcomes, verdict_floor
from demur.policy.policy import All, Mode, RuleOutcome, Policy, PolicyRule, ShadowedCode, Stage

CORE = Registry.load()
DEFAULT = RuleOutcome(Verdict.ESCALATE, ("NO_MATCH_DEFAULT_ESCALATE",))


def rule(name: str, verdict: Verdict, *codes: str, **more: Any) -> PolicyRule:
    flags = {key: more.pop(key, False) for key in ("shadow", "reads_findings")}
    return PolicyRule(
        id=name,
        stage=Stage.ESCALATIONS,
        condition=All(()),
        then=RuleOutcome(verdict, codes, **more),
        where="",
        **flags,
    )


def policy(default: RuleOutcome = DEFAULT, *shadows: str) -> Policy:
    marked = tuple(ShadowedCode(code, "why") for code in shadows)
    return Policy("p", "1", Mode.ENFORCE, default, {}, marked, (), "", "", "")


def seen(*codes: str) -> list[Finding]:
    return [Finding(code=code, surface=Surface.INPUT) for code in codes]


ALLOW = rule("a", Verdict.ALLOW)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("RCE_RISK", Verdict.DENY),
        ("SCOPE_MISSING", Verdict.ESCALATE),
        ("PII_DETECTED", Verdict.ESCALATE),
        ("GUARDRAIL_UNAVAILABLE", Verdict.ABSTAIN),
        ("SUCCESS_MEMORY_SIMILAR_ALLOW", Verdict.ALLOW),
    ],
)
def test_a_finding_has_the_floor_of_its_code(code: str, verdict: Verdict) -> None:
    assert verdict_floor(CORE[code]) is verdict
    assert combine_outcomes(policy(), [ALLOW], [], seen(code), CORE).verdict is verdict


def test_nothing_that_matched_is_the_default() -> None:
    assert combine_outcomes(policy(), [], [], [], CORE) == Evaluation(
        Verdict.ESCALATE, ("NO_MATCH_DEFAULT_ESCALATE",), (), defaulted=True
    )


def test_an_ordinary_rule_displaces_the_default() -> None:
    assert combine_outcomes(policy(), [ALLOW], [], [], CORE) == Evaluation(
        Verdict.ALLOW, (), ("a",)
    )


def test_a_rule_that_reads_findings_never_displaces_the_default() -> None:
    reading = rule("f", Verdict.ESCALATE, "SCOPE_MISSING", reads_findings=True)
    alone = combine_outcomes(policy(), [reading], [], [], CORE)
    beside = combine_outcomes(policy(), [reading, ALLOW], [], [], CORE)

    assert alone.defaulted
    assert alone.reason_codes == ("SCOPE_MISSING", "NO_MATCH_DEFAULT_ESCALATE")
    assert not beside.defaulted
    assert beside.reason_codes == ("SCOPE_MISSING",)


def test_a_finding_alone_leaves_the_default() -> None:
    got = combine_outcomes(
        policy(RuleOutcome(Verdict.ALLOW, ())), [], [], seen("PII_DETECTED"), CORE
    )

    assert got == Evaluation(Verdict.ESCALATE, ("PII_DETECTED",), (), defaulted=True)


def test_everything_is_united_in_order_and_stands_once() -> None:
    first = rule(
        "1",
        Verdict.DENY,
        "RCE_RISK",
        "SCOPE_MISSING",
        constraints=("c1", "c2"),
        missing=("m1",),
        obligations=(Obligation.CRISIS_RESOURCES,),
    )
    second = rule(
        "2",
        Verdict.ESCALATE,
        "SCOPE_MISSING",
        "APPROVAL_REQUIRED",
        constraints=("c2", "c3"),
        missing=("m2", "m1"),
        obligations=(Obligation.HUMAN_REVIEW, Obligation.CRISIS_RESOURCES),
    )
    invalid = [InvalidFact("3", "m3"), InvalidFact("4", "m3"), InvalidFact("4", "m1")]

    assert combine_outcomes(
        policy(), [first, second], invalid, seen("PII_DETECTED"), CORE
    ) == Evaluation(
        verdict=Verdict.DENY,
        reason_codes=(
            *("RCE_RISK", "SCOPE_MISSING", "APPROVAL_REQUIRED", "EVIDENCE_INVALID"),
            "PII_DETECTED",
        ),
        matched_rules=("1", "2"),
        invalid=tuple(invalid),
        constraints=("c1", "c2", "c3"),
        missing=("m1", "m2", "m3"),
        obligations=tuple(Obligation),
        defaulted=False,
    )


def test_an_unusable_fact_abstains_and_leaves_a_proven_no() -> None:
    fact = InvalidFact("r", "evidence.a")
    deny = rule("d", Verdict.DENY, "RCE_RISK")

    got = combine_outcomes(policy(), [ALLOW], [fact], [], CORE)
    assert (got.verdict, got.reason_codes, got.missing, got.invalid) == (
        Verdict.ABSTAIN,
        ("EVIDENCE_INVALID",),
        ("evidence.a",),
        (fact,),
    )
    assert combine_outcomes(policy(), [deny], [fact], [], CORE).verdict is Verdict.DENY


def test_a_shadow_rule_is_recorded_and_does_not_count() -> None:
    shadow = rule(
        "s",
        Verdict.DENY,
        "RCE_RISK",
        shadow=True,
        constraints=("c",),
        missing=("m",),
        obligations=(Obligation.HUMAN_REVIEW,),
    )
    got = combine_outcomes(policy(), [shadow, ALLOW], [], [], CORE)

    assert got == Evaluation(Verdict.ALLOW, (), ("a",), shadow_rules=("s",))
    assert combine_outcomes(policy(), [shadow], [], [], CORE).defaulted


def test_a_shadowed_code_is_recorded_and_does_not_count() -> None:
    findings = seen("PII_DETECTED", "SCOPE_MISSING", "PII_DETECTED")
    got = combine_outcomes(policy(DEFAULT, "PII_DETECTED"), [ALLOW], [], findings, CORE)

    assert got.shadowed_codes == ("PII_DETECTED",)
    assert got.reason_codes == ("SCOPE_MISSING",)
    quiet = combine_outcomes(
        policy(DEFAULT, "PII_DETECTED"), [ALLOW], [], seen("PII_DETECTED"), CORE
    )
    assert quiet.verdict is Verdict.ALLOW


def test_a_shadow_hides_only_what_guards_saw() -> None:
    same = rule("p", Verdict.ESCALATE, "PII_DETECTED")

    assert combine_outcomes(policy(DEFAULT, "PII_DETECTED"), [same], [], [], CORE).reason_codes == (
        "PII_DETECTED",
    )


def test_a_finding_of_no_known_code_is_an_error() -> None:
    with pytest.raises(UnknownCodeError):
        combine_outcomes(policy(), [], [], seen("NOBODY_KNOWS"), CORE)


ROWS = st.builds(
    lambda verdict, shadow, reads: rule(
        "r", verdict, "SCOPE_MISSING", shadow=shadow, reads_findings=reads
    ),
    st.sampled_from(Verdict),
    st.booleans(),
    st.booleans(),
)
CODES = st.lists(st.sampled_from(["RCE_RISK", "PII_DETECTED", "GUARDRAIL_UNAVAILABLE"]))


@given(st.lists(ROWS), CODES, st.booleans())
def test_the_verdict_is_the_strictest_of_its_parts(
    rules: list[PolicyRule], codes: list[str], broken: bool
) -> None:
    invalid = [InvalidFact("r", "x")] if broken else []
    got = combine_outcomes(policy(), rules, invalid, seen(*codes), CORE)
    counted = [one for one in rules if not one.shadow]
    parts = [one.then.verdict for one in counted] + [verdict_floor(CORE[code]) for code in codes]
    parts += [Verdict.ABSTAIN] if broken else []
    parts += [Verdict.ESCALATE] if all(one.reads_findings for one in counted) else []
    order = ["ALLOW", "ESCALATE", "ABSTAIN", "DENY"]

    assert got.verdict == max(parts, key=order.index)


@pytest.mark.parametrize(
    ("code", "action", "verdict"),
    [
        ("RCE_RISK", Action.ESCALATE, Verdict.ESCALATE),
        ("PII_DETECTED", Action.ESCALATE, Verdict.ESCALATE),
        ("SUCCESS_MEMORY_SIMILAR_ALLOW", Action.ESCALATE, Verdict.ALLOW),
        ("GUARDRAIL_UNAVAILABLE", Action.WARN, Verdict.ABSTAIN),
        ("GUARDRAIL_UNAVAILABLE", Action.ESCALATE, Verdict.ABSTAIN),
    ],
)
def test_a_guard_may_ask_for_less_but_not_for_nothing(
    code: str, action: Action, verdict: Verdict
) -> None:
    assert verdict_floor(CORE[code], action) is verdict


def test_a_warning_counts_for_nothing_unless_it_obliges() -> None:
    warned = [
        Finding(code=code, surface=Surface.OUTPUT, action=Action.WARN)
        for code in ("OUTPUT_FORBIDDEN", "CRISIS_ESCALATION", "GUARDRAIL_UNAVAILABLE")
    ]
    got = combine_outcomes(policy(), [], [], warned, CORE)

    assert "OUTPUT_FORBIDDEN" not in got.reason_codes
    assert {"CRISIS_ESCALATION", "GUARDRAIL_UNAVAILABLE"} <= set(got.reason_codes)
