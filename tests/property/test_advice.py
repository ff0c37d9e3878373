"""Properties of advice: every surface tells the caller the same, and it can be obeyed."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.gates import CORE, finding, opened
from support.property_runs import examples

from demur.classification import make_decision
from demur.codes.vocabulary import Advice, RefusalClass, Surface, Verdict
from demur.emit.envelope import from_envelope
from demur.emit.formats import EMIT_FORMATS
from demur.enforce.result import CheckResult, build_refusal, build_result
from demur.errors import InconsistentError
from demur.integrations.claude_code.hook import Hook, HookStyle, hook_output
from demur.model.decision import Decision
from demur.model.finding import Action
from demur.model.next_steps import HelpSource, next_step
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.policy.loader import parse_policy
from demur.policy.policy import Policy
from demur.respond.graceful import compose, view

REFUSING = [entry.code for entry in CORE if entry.refusal_class is not None]
CODES = st.sampled_from(REFUSING)
DEFAULTS = st.sampled_from(["NO_MATCH_DEFAULT_ESCALATE", "POLICY_VIOLATION", "RCE_RISK"])
CONSTRAINTS = st.lists(
    st.sampled_from(["dry_run", "≤ 5 files", "move it to the trash", "x" * 90, "odd; name"]),
    max_size=2,
    unique=True,
)
MISSING = st.lists(
    st.sampled_from(["approval", "evidence.order_id", "scope", "a field"]), max_size=2, unique=True
)
FINDINGS = st.lists(
    st.builds(
        finding,
        CODES,
        action=st.sampled_from(Action),
        surface=st.sampled_from([Surface.INPUT, Surface.CODE_EXECUTION, Surface.OUTPUT]),
        evidence=st.sampled_from([{}, {"missing": ["path"]}, {"constraints": ["made up"]}]),
    ),
    max_size=3,
)
STAGES = [("HARD_BLOCKS", "DENY"), ("ESCALATIONS", "ESCALATE"), ("REQUIREMENTS", "ABSTAIN")]
TEXT_FORMATS = {name for name, form in EMIT_FORMATS.items() if not form.is_lossless}
ARGUMENTS: dict[str, Any] = {
    "event_id": "e",
    "time": datetime(2027, 1, 31, tzinfo=UTC),
    "source": "urn:x",
}


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Draw a policy with one rule and a default, of any codes that stand together."""
    stage, verdict = draw(st.sampled_from(STAGES))
    then = {
        "verdict": verdict,
        "reason_codes": [draw(CODES)],
        "constraints": draw(CONSTRAINTS),
        "missing": draw(MISSING),
    }
    rule = {"id": "R", "stage": stage, "if": {"action_type": "act"}, "then": then}
    default: dict[str, Any] = {"verdict": draw(st.sampled_from(["ALLOW", "ESCALATE", "DENY"]))}
    if default["verdict"] != "ALLOW":
        default["reason_code"] = draw(DEFAULTS)
    head = {"schema_version": "policy.v1", "policy_id": "p", "policy_version": "1.0.0"}
    return parse_policy(json.dumps({**head, "defaults": default, "rules": [rule]}))


def check_words(refusal: Refusal, decision: Decision | DecisionRecord) -> None:
    """Assert that a refusal and everything made of it say what its decision does."""
    advice = decision.next_step
    assert (refusal.code, refusal.advice) == (decision.leading_code, advice)
    assert refusal.refusal_class is decision.refusal_class
    assert refusal.line.startswith(f"REFUSED: {decision.leading_code}: ")
    step = next_step(refusal, registry=CORE)
    assert step.advice is advice
    assert compose(refusal).next_step is compose(decision).next_step is advice
    assert compose(refusal).code == compose(decision).code == decision.leading_code
    assert view(decision, "agent")["advice"] == view(refusal, "agent")["advice"] == advice
    for name, form in EMIT_FORMATS.items():
        written = form.write(refusal, **{each: ARGUMENTS[each] for each in form.required_arguments})
        read = form.read(written)
        assert read is not None
        assert read.code == refusal.code
        if name not in TEXT_FORMATS:
            assert (read.advice, read.refusal_class) == (advice, refusal.refusal_class)
            assert next_step(read, registry=CORE) == step


@settings(max_examples=examples(300))
@given(policies(), FINDINGS, st.sampled_from(Surface), st.booleans())
def test_every_surface_gives_the_advice_of_the_record(
    policy: Policy, findings: list[Any], surface: Surface, ask: bool
) -> None:
    """INVARIANT: code, class, advice and needs of a result are those of its decision."""
    with opened(policy) as gate:
        record = gate.decide({"action": {"type": "act"}}, findings=findings)
    result = build_result(surface, findings, record, registry=CORE)
    assume(not result.allowed)
    refusal, step = result.refusal, result.next_step
    assert refusal is not None
    assert step is not None

    check_words(refusal, record)
    assert from_envelope(result.envelope) == refusal
    assert result.model_message == f"{result.line}\n{step.sentence}"
    assert refusal.evidence.get("constraints", []) == list(record.constraints)
    assert refusal.evidence.get("missing", []) == list(record.missing)
    words = compose(record)
    for name in (*words.constraints, *words.missing):
        assert name in result.user_text
    hook = Hook("PreToolUse", {"tool_name": "Bash"})
    told = hook_output(hook, result, HookStyle(ask=ask))["hookSpecificOutput"]
    asked = told["permissionDecision"] == "ask"
    assert asked == (ask and result.needs_approval)
    assert told["permissionDecisionReason"] == (
        f"{result.user_text}\n{result.line}" if asked else result.model_message
    )


@settings(max_examples=examples(200))
@given(policies(), FINDINGS)
def test_a_code_that_was_found_leads_before_the_code_of_a_default(
    policy: Policy, findings: list[Any]
) -> None:
    with opened(policy) as gate:
        record = gate.decide({"action": {"type": "other"}}, findings=findings)
    result = build_result(Surface.TOOL_CALL, findings, record, registry=CORE)
    assume(not result.allowed)
    found = {one.code for one in findings} & set(record.reason_codes)
    assert result.refusal is not None

    assert result.refusal.code in (found or set(record.reason_codes))
    assert compose(record).code == compose(result.refusal).code == result.refusal.code


@settings(max_examples=examples(300))
@given(FINDINGS, st.sampled_from(Surface))
def test_findings_alone_lead_to_the_same_decision_as_a_gate_that_allows(
    findings: list[Any], surface: Surface
) -> None:
    policy = parse_policy(
        "{schema_version: policy.v1, policy_id: p, policy_version: 1.0.0,"
        " defaults: {verdict: ALLOW}, rules: []}"
    )
    alone = build_result(surface, findings, None, registry=CORE)
    with opened(policy) as gate:
        record = gate.decide({"action": {"type": "act"}}, findings=findings)
    decided = build_result(surface, findings, record, registry=CORE)
    assume(not alone.allowed and not decided.allowed)

    assert alone.refusal is not None
    assert decided.refusal is not None
    for field in ("code", "refusal_class", "advice", "decided", "surface"):
        assert getattr(alone.refusal, field) == getattr(decided.refusal, field)
    for name in ("missing", "constraints"):
        assert alone.refusal.evidence.get(name) == decided.refusal.evidence.get(name)
    assert (alone.outcome, alone.could_not_judge) == (decided.outcome, decided.could_not_judge)


@settings(max_examples=examples(300))
@given(
    st.sampled_from(Verdict),
    st.lists(CODES, min_size=1, max_size=3, unique=True),
    CONSTRAINTS,
    MISSING,
    st.data(),
)
def test_every_decision_has_advice_that_can_be_obeyed(
    verdict: Verdict,
    codes: list[str],
    constraints: list[str],
    missing: list[str],
    data: st.DataObject,
) -> None:
    """INVARIANT: a refusal advises to accept constraints only if it names them."""
    fallback = data.draw(st.lists(st.sampled_from(codes), max_size=1))
    try:
        decision = make_decision(
            verdict,
            codes,
            constraints=constraints,
            missing=missing,
            attempts_left=data.draw(st.booleans()),
            fallback_codes=fallback,
        )
    except InconsistentError:
        assume(False)
        raise
    assume(decision.verdict is not Verdict.ALLOW)
    refusal = build_refusal([finding(code) for code in codes], decision, CORE)
    step = next_step(refusal, registry=CORE)

    check_words(refusal, decision)
    assert (step.advice is Advice.ACCEPT_CONSTRAINTS) <= bool(constraints)
    assert step.sentence.startswith("Accept ") <= bool(constraints)
    assert step.sentence.startswith("Supply ") <= bool(missing)
    assert step.sentence.startswith("Have it approved ") <= (step.ask is HelpSource.APPROVER)
    if decision.refusal_class is RefusalClass.HARD_BLOCK:
        assert "approved" not in step.sentence


@given(st.lists(st.builds(finding, CODES, action=st.sampled_from(Action)), min_size=1, max_size=3))
def test_approval_never_replaces_a_check(findings: list[Any]) -> None:
    """INVARIANT: nobody is asked to approve a call that a guard could not judge."""
    result: CheckResult = build_result(Surface.TOOL_CALL, findings, None, registry=CORE)

    if any(not CORE[one.code].decided for one in findings):
        assert not result.needs_approval
        assert result.could_not_judge or result.is_hard


@given(
    CODES, st.sampled_from([*Advice, None]), st.sampled_from([*RefusalClass, None]), st.booleans()
)
def test_an_envelope_cannot_make_its_advice_looser(
    code: str, advice: Advice | None, refusal_class: RefusalClass | None, offers: bool
) -> None:
    evidence = {"constraints": ["dry_run"]} if offers else {}
    usual = Refusal.from_code(code, evidence=evidence)
    envelope = {**EMIT_FORMATS["envelope"].write(usual), "advice": advice}
    read = from_envelope({**envelope, "refusal_class": refusal_class})
    assert read is not None

    entry = CORE[code]
    stops = {None, Advice.DO_NOT_RETRY, Advice.ESCALATE_OPERATOR}
    if entry.advice in {Advice.DO_NOT_RETRY, Advice.CHANGE_REQUEST, Advice.REQUEST_APPROVAL}:
        allowed = {entry.advice, *stops}
        if refusal_class is RefusalClass.HARD_BLOCK:
            allowed |= {Advice.CHANGE_REQUEST, Advice.RESET_CONTEXT}
        elif entry.refusal_class is RefusalClass.SOFT_BLOCK and offers:
            allowed |= {Advice.ACCEPT_CONSTRAINTS}
        assert read.advice in allowed
    assert (read.advice is Advice.ACCEPT_CONSTRAINTS) <= offers
