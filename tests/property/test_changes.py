"""Properties of changed texts and of a person's approval."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.gates import finding, opened
from support.sample_guards import seeing

from demur.codes.vocabulary import Surface
from demur.enforce.changes import CHANGEABLE, find_sensitive
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.opening import read_agent_policy
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.model.finding import Action, Span
from demur.policy.loader import parse_policy

AGENT_RULES = parse_policy(read_agent_policy())
ADA = CallContext("test", subject={"type": "user", "id": "ada"})
SECRETS = ["AKIAQ3EGRIFLV7XY2ABC", "4539 1488 0343 6467", "DE02 1203 0000 0000 2020 51"]
PIECES = st.sampled_from([*SECRETS, " and ", "the key is ", "\n", "é", "card: ", "x" * 40])
TEXTS = st.lists(PIECES, max_size=12).map("".join)
CODES = st.sampled_from(["SECRET_LEAK", "TOPIC_DENIED", "RCE_RISK", "APPROVAL_REQUIRED"])
WAITING = {"APPROVAL_REQUIRED", "EXFILTRATION_RISK", "UNAPPROVED_DESTRUCTION"}
REFUSING = ["TOPIC_DENIED", "RCE_RISK", "PERMISSION_DENIED", "RATE_LIMIT", "CONTEXT_MISSING"]
BOTH = {"SECRET_LEAK", "PII_DETECTED"}


def holds_any(value: Any) -> bool:
    found = find_sensitive(value, Surface.INPUT, BOTH)[1]
    return any(one.action is not Action.WARN for one in found)


@given(TEXTS, st.sampled_from(["redact", "mask"]))
def test_nothing_that_is_taken_out_is_left(text: str, action: str) -> None:
    enforcer = Enforcer(on_finding=action)
    result = enforcer.check_tool_result("read", text)

    assert result.allowed
    assert not holds_any(result.apply_changes(text))
    assert (result.changes is not None) == holds_any(text)


@given(TEXTS, st.lists(st.integers(1, 30), max_size=8), st.sampled_from(["redact", "mask"]))
def test_a_stream_leaks_nothing_that_is_taken_out(text: str, sizes: list[int], action: str) -> None:
    enforcer = Enforcer(on_finding=action)
    stream, shown, at = enforcer.stream_answer(), "", 0
    for size in (*sizes, len(text)):
        shown += stream.feed(text[at : at + size])
        at += size
        assert not holds_any(shown)
    result = stream.finish()

    if result.allowed:
        assert not holds_any(shown + stream.remaining_text)


@given(st.sets(st.sampled_from(sorted(CHANGEABLE))), TEXTS)
def test_only_carried_surfaces_are_changed(carried: set[Surface], text: str) -> None:
    """INVARIANT: no text is changed on a surface where the caller would pass on the old one."""
    enforcer = Enforcer.coerce(Enforcer(on_finding="redact"), carried=carried)
    results = {
        Surface.INPUT: enforcer.check_prompt(text),
        Surface.OUTPUT: enforcer.check_answer(text),
        Surface.TOOL_CALL: enforcer.check_tool_call("note", {"body": text}),
        Surface.TOOL_RESULT: enforcer.check_tool_result("read", text),
        Surface.RETRIEVAL: enforcer.check_event("retrieval", {"text": text}, action="read"),
    }

    assert {surface for surface, result in results.items() if result.changes is not None} <= carried


@given(st.lists(st.builds(finding, CODES, action=st.sampled_from(Action)), min_size=1, max_size=3))
def test_a_mark_of_a_guard_changes_nothing(findings: list[Any]) -> None:
    """INVARIANT: only the enforcer says that a text was changed, never a guard."""
    codes = tuple({one.code for one in findings})
    plain = [replace(one, span=Span(start=0, end=1)) for one in findings]
    marked = [replace(one, evidence={"on_finding": "redact"}) for one in plain]
    results: list[Any] = []
    for seen in (plain, marked):
        pipeline = GuardPipeline([GuardStep(seeing(*seen, codes=codes))])
        with opened(AGENT_RULES) as gate:
            enforcer = Enforcer(gate, pipeline=pipeline, on_finding={"PII_DETECTED": "redact"})
            results.append(enforcer.check_prompt(f"x {SECRETS[1]}"))

    assert results[0].allowed == results[1].allowed
    assert results[0].record.constraints == results[1].record.constraints


@given(
    st.lists(st.sampled_from([*sorted(WAITING), *REFUSING]), min_size=1, max_size=3, unique=True),
    st.booleans(),
)
def test_a_yes_lifts_what_waits_for_one(codes: list[str], named: bool) -> None:
    """INVARIANT: a person's approval lifts only what waits for approval and nothing else."""
    seen = [finding(code, surface=Surface.TOOL_CALL) for code in codes]
    guard = seeing(*seen, codes=tuple(codes), surface=Surface.TOOL_CALL)
    with opened(AGENT_RULES) as gate:
        enforcer = Enforcer(gate, pipeline=GuardPipeline([GuardStep(guard)]))
        refused = enforcer.check_tool_call("act", {"n": 1}, ADA)
        grants = enforcer.approve(refused, "ada" if named else "bob")
        result = enforcer.check_tool_call("act", {"n": 1}, ADA, grants=grants)

    assert result.allowed == WAITING.issuperset(codes)
    assert all(WAITING.issuperset(grant.codes) for grant in grants)


@given(st.sampled_from(["redact", "mask"]), st.sampled_from(["TOPIC_DENIED", "PII_DETECTED"]))
def test_a_change_lifts_no_rule_of_a_policy(action: str, code: str) -> None:
    """INVARIANT: taking a text out lifts only what was found in it."""
    policy = parse_policy(
        f"""
        schema_version: policy.v1
        policy_id: closed
        policy_version: 1.0.0
        rules:
          - id: R_CLOSED
            stage: HARD_BLOCKS
            if: {{ action_type: {{ in: [generate, note] }} }}
            then: {{ verdict: DENY, reason_codes: [{code}] }}
        """
    )
    with opened(policy) as gate:
        enforcer = Enforcer(gate, on_finding=action)
        for text in ("hello", f"the key is {SECRETS[0]}"):
            results: list[Any] = [
                enforcer.check_prompt(text),
                enforcer.check_tool_call("note", {"a": text}),
            ]
            for result in results:
                assert not result.allowed
                assert result.changes is None
                assert not result.record.constraints
