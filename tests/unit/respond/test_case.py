import json
from typing import Any, cast

import msgspec
import pytest
from support.gates import finding, opened, refund

from demur.classification import make_decision
from demur.codes.vocabulary import (
    Advice,
    DecisionOutput,
    RefusalClass,
    RetryScope,
    Severity,
    Surface,
    Verdict,
)
from demur.errors import InputError, InputTypeError
from demur.model.decision import Decision
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.respond.case import Audience, make_case, parse_audience, parse_compose_source
from demur.respond.graceful import compose
from demur.respond.template import TemplateGroup


def record(*codes: str, **more: Any) -> DecisionRecord:
    with opened() as gate:
        return gate.decide(refund(), findings=[finding(code, **more) for code in codes])


def test_a_refusal_brings_its_own_facts() -> None:
    case = make_case(
        Refusal.from_code(
            "SKILL_INJECTION",
            "x",
            evidence={"skill": "notes", "missing": ["a", 7]},
            surface=Surface.OUTPUT,
        )
    )

    assert case.codes == ("SKILL_INJECTION", "CONTEXT_INJECTION", "POLICY_VIOLATION")
    assert case.group == TemplateGroup(RefusalClass.HARD_BLOCK, decided=True)
    assert case.next_step is Advice.DO_NOT_RETRY
    assert case.line == "REFUSED: SKILL_INJECTION: x"
    assert case.missing == ("a",)
    assert case.is_hard
    assert case.held_answer
    assert not case.names_trusted


def test_a_refusal_that_offers_no_limits_asks_for_another_request() -> None:
    assert make_case(Refusal.from_code("DESTRUCTIVE_ACTION")).next_step is Advice.CHANGE_REQUEST


def test_an_unknown_code_is_taken_at_its_word() -> None:
    unknown = Refusal(
        code="acme.example/X",
        refusal_class=RefusalClass.SOFT_BLOCK,
        advice=Advice.CHANGE_REQUEST,
        retry_scope=RetryScope.CALL,
        severity=Severity.LOW,
        decided=True,
        registry="acme",
        parent="CONTENT_FRAUD",
    )

    assert make_case(unknown).codes == (
        "acme.example/X",
        "CONTENT_FRAUD",
        "CONTENT_CRIME",
        "CONTENT_OTHER",
    )


def test_the_strictest_and_most_severe_code_speaks_for_a_decision() -> None:
    decided = make_decision(Verdict.DENY, ["RATE_LIMIT", "CONTENT_CSAE", "PROVIDER_TERMS"])

    assert make_case(decided).code == "CONTENT_CSAE"
    assert make_case(decided).names_trusted


def test_a_record_brings_the_evidence_of_its_own_code() -> None:
    found = record("RCE_RISK", evidence={"command": "curl"}, surface=Surface.OUTPUT)
    case = make_case(found)

    assert case.code == "RCE_RISK"
    assert case.evidence == {"command": "curl"}
    assert case.held_answer


def test_help_lines_come_from_the_finding_that_asks_for_them() -> None:
    found = record(
        "CRISIS_ESCALATION", "RCE_RISK", "RATE_LIMIT", evidence={"resources": ["call 988"]}
    )
    case = make_case(found)

    assert case.code == "RCE_RISK"
    assert case.crisis
    assert case.needs_help
    assert "call 988" in case.help


def test_a_sealed_part_that_cannot_be_read_or_was_erased_is_no_obstacle() -> None:
    found = record("RCE_RISK", evidence={"command": "curl"})
    for sealed in (b"?", None):
        assert make_case(msgspec.structs.replace(found, sealed=sealed)).evidence == {}


def test_a_decision_with_an_unknown_code_still_has_a_case() -> None:
    decided = Decision(
        verdict=Verdict.DENY,
        reason_codes=("RATE_LIMIT", "acme.example/X"),
        refusal_class=RefusalClass.HARD_BLOCK,
        decision_output=DecisionOutput.REFUSE_WITH_PATH,
        reason="why",
        what_can_be_done_now="now",
        how_to_proceed="how",
        next_step=Advice.DO_NOT_RETRY,
    )
    case = make_case(decided)

    assert case.codes == ("acme.example/X",)
    assert case.group == TemplateGroup(RefusalClass.HARD_BLOCK, decided=True)
    assert case.retry_scope is None


def test_where_nothing_was_refused_there_is_nothing_to_say() -> None:
    with pytest.raises(InputError, match="nothing was refused: the decision is ALLOW_EXECUTE"):
        make_case(make_decision(Verdict.ALLOW, []))
    with pytest.raises(InputError, match="speaks for an action"):
        make_case(Refusal.from_code("SUCCESS_MEMORY_SIMILAR_ALLOW"))
    with pytest.raises(InputTypeError, match="not `str`"):
        make_case(cast("Any", "RCE_RISK"))


def test_an_audience_goes_by_its_name() -> None:
    assert parse_audience("agent") is Audience.AGENT


@pytest.mark.parametrize(
    ("name", "hint"), [("end-user", "did you mean `end_user`?"), ("cat", "one of end_user, agent")]
)
def test_an_unknown_audience_is_an_error(name: str, hint: str) -> None:
    with pytest.raises(InputError, match="unknown audience") as caught:
        parse_audience(name)

    assert caught.value.help is not None
    assert caught.value.help.startswith(hint)


def test_a_refusal_and_a_decision_come_back_as_they_were() -> None:
    refusal = Refusal.from_code("RATE_LIMIT", evidence={"retry_after": 7})
    decision = make_decision(Verdict.ESCALATE, ["CONTEXT_MISSING"], missing=["order_id"])

    for source in (refusal, decision):
        assert parse_compose_source(json.loads(msgspec.json.encode(source))) == source


def test_a_record_comes_back_with_its_personal_part() -> None:
    with opened() as gate:
        record = gate.decide(refund(), findings=[finding(evidence={"command": "curl"})])
    shown = json.loads(json.dumps(dict(record)))

    assert compose(parse_compose_source(shown)) == compose(record)
    back = parse_compose_source(shown)
    assert isinstance(back, DecisionRecord)
    assert dict(back) == dict(record)
    erased = {**shown, **dict.fromkeys(("request", "findings", "facts", "grants", "scope"))}
    assert compose(parse_compose_source(erased)).code == "RCE_RISK"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"schema_version": "x.v1"}, "unknown schema version `x.v1`"),
        ({}, "object missing required field `verdict`"),
        ({"schema_version": "refusal.v1"}, "object missing required field"),
    ],
)
def test_an_unsupported_source_is_an_error(value: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_compose_source(value)


def test_a_refusal_that_names_limits_offers_them() -> None:
    case = make_case(Refusal.from_code("DESTRUCTIVE_ACTION", evidence={"constraints": ["dry_run"]}))

    assert (case.next_step, case.constraints) == (Advice.ACCEPT_CONSTRAINTS, ("dry_run",))


def test_the_leading_code_of_a_decision_speaks() -> None:
    codes = ["NO_MATCH_DEFAULT_ESCALATE", "SECRET_LEAK"]
    decided = make_decision("ESCALATE", codes, fallback_codes=codes[:1])

    assert make_case(decided).code == "SECRET_LEAK"
    assert make_case(decided).group.refusal_class is RefusalClass.WORKFLOW_BLOCK
