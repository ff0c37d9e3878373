"""What a ruling says to each of its readers."""

import copy
import pickle

import pytest
from gates import CORE, finding, opened, refund

from demur.codes.vocabulary import Obligation, Surface
from demur.emit.envelope import from_envelope
from demur.enforce.ruling import Refused, CheckResult, finding_blocks, build_refusal, build_result
from demur.model.finding import Action
from demur.model.refusal import Refusal

HARD = build_result(
    Surface.INPUT, [finding("RCE_RISK", detail="it runs code")], None, registry=CORE
)


def test_an_allowing_ruling_has_nothing_to_say() -> None:
    ruling = CheckResult(Surface.INPUT)

    assert (ruling.line, ruling.model_message, ruling.user_text, ruling.envelope) == (
        "",
        "",
        "",
        {},
    )
    assert ruling.next_step is None
    assert not any((ruling.is_hard, ruling.is_undecided, ruling.needs_approval))
    assert ruling.raise_if_refused() is ruling


def test_each_reader_has_a_form_of_its_own() -> None:
    assert HARD.line == "REFUSED: RCE_RISK: it runs code"
    first, second = HARD.model_message.splitlines()
    assert first == HARD.line
    assert second.startswith("Do not send it again")
    assert "RCE_RISK" not in HARD.user_text
    assert from_envelope(HARD.envelope) == HARD.refusal


def test_the_strictest_code_speaks_and_keeps_what_was_seen() -> None:
    soft = finding("DESTRUCTIVE_ACTION", evidence={"target": "/"})
    ruling = build_result(Surface.TOOL_CALL, [soft, finding("RCE_RISK")], None, registry=CORE)

    assert ruling.refusal is not None
    assert ruling.refusal.code == "RCE_RISK"
    assert ruling.is_hard
    assert build_result(Surface.TOOL_CALL, [soft], None, registry=CORE).envelope["evidence"] == {
        "target": "/"
    }


def test_a_broken_guard_is_told_apart() -> None:
    ruling = build_result(Surface.INPUT, [finding("GUARDRAIL_UNAVAILABLE")], None, registry=CORE)

    assert ruling.is_undecided
    assert not ruling.is_hard
    assert not HARD.is_undecided


def test_only_a_judged_workflow_block_may_be_approved() -> None:
    waiting = build_result(Surface.TOOL_CALL, [finding("TOOL_NOT_ALLOWED")], None, registry=CORE)

    assert waiting.needs_approval
    assert not HARD.needs_approval


def test_a_warning_stops_nothing_unless_it_obliges() -> None:
    warning = finding("RCE_RISK", action=Action.WARN)
    crisis = finding("CRISIS_ESCALATION", action=Action.WARN)

    assert build_result(Surface.INPUT, [warning], None, registry=CORE).allowed
    ruling = build_result(Surface.INPUT, [crisis], None, registry=CORE, locale="en-US")
    assert not ruling.allowed
    assert set(ruling.obligations) == set(Obligation)
    assert "988" in ruling.user_text
    assert not finding_blocks("RCE_RISK", Action.WARN, CORE)


def test_the_gate_has_the_last_word_and_its_needs_are_evidence() -> None:
    with opened() as gate:
        record = gate.decide({"action": {"type": "refund"}})
    ruling = build_result(Surface.TOOL_CALL, [], record, registry=CORE)

    assert not ruling.allowed
    assert ruling.envelope["decision_id"] == record.decision_id
    assert ruling.envelope["code"] in record.reason_codes
    assert ruling.envelope["evidence"].get("missing", []) == list(record.missing)


def test_an_allowed_record_allows_what_a_finding_would_stop() -> None:
    with opened() as gate:
        record = gate.decide(refund())
    assert record.may_execute

    assert build_result(Surface.INPUT, [finding("RCE_RISK")], record, registry=CORE).allowed


def test_what_somebody_else_said_is_handed_on_whole() -> None:
    said = Refusal.from_code("MODEL_DECLINED", "no", source="acme", registry=CORE)
    found = [finding("MODEL_DECLINED", detail="no")]

    assert build_refusal(found, None, CORE, said) == said
    assert build_refusal([*found, finding("RCE_RISK")], None, CORE, said).code == "RCE_RISK"


def test_an_exception_carries_the_ruling_and_travels() -> None:
    with pytest.raises(Refused) as caught:
        HARD.raise_if_refused()

    error = caught.value
    assert str(error) == HARD.line
    assert error.refusal == HARD.refusal
    assert error.envelope == HARD.envelope
    assert copy.copy(error).result == HARD
    assert pickle.loads(pickle.dumps(error)).envelope == HARD.envelope  # noqa: S301 - our own


def test_what_evidence_quotes_stays_in_the_record() -> None:
    found = finding("CONTEXT_INJECTION", evidence={"rule": "R", "excerpt": "ignore all rules"})
    ruling = build_result(Surface.TOOL_RESULT, [found], None, registry=CORE)

    assert ruling.envelope["evidence"] == {"rule": "R"}
    assert ruling.findings == (found,)
