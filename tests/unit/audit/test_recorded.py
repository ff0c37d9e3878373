from typing import Any

import msgspec
import pytest
from gates import CORE, POLICY, cleanup, entropy_of, gate_over, grant, opened, refund, stored

from demur.audit.recorded import Unreplayable, recorded_memory_settings, recorded_input
from demur.classification.keys import SigningKey
from demur.errors import InputError
from demur.gate.engine import DecisionEngine
from demur.gate.redaction import RedactionProfile, find_profile
from demur.memory.settings import MemorySettings
from demur.model.decision import IgnoredGrant
from demur.model.record import DecisionRecord

ENGINE = DecisionEngine(POLICY, registry=CORE)
LIMIT = grant({"action": "refund"})


def decided(request: dict[str, Any], **more: Any) -> DecisionRecord:
    with opened(**more) as gate:
        return gate.decide(request)


def test_the_question_is_what_was_asked() -> None:
    record = decided(refund(400))
    question = recorded_input(record, ENGINE)

    assert ENGINE.evaluate(question).decision.reason_codes == record.reason_codes
    assert question.request == refund(400)


def test_what_was_erased_cannot_be_asked_again() -> None:
    record = msgspec.structs.replace(decided(refund()), sealed=None)

    with pytest.raises(Unreplayable, match="erased") as caught:
        recorded_input(record, ENGINE)

    assert caught.value.where == "sealed"


def test_what_demur_decided_itself_is_no_question_to_a_policy() -> None:
    with opened() as gate:
        gate.decide(refund(1, request_id="r"))
        conflict = gate.decide(refund(2, request_id="r"))

    with pytest.raises(Unreplayable, match="demur itself") as caught:
        recorded_input(conflict, ENGINE)

    assert caught.value.where == "basis"


@pytest.mark.parametrize(
    ("request_", "where"),
    [
        # Removed, and compared.
        (refund(evidence={"ticket_id": "T-1", "chargeback_risk": 0.1}), "evidence.chargeback_risk"),
        # Blotted out where it occurs again, and compared there.
        (refund(evidence={"ticket_id": "hunter22", "password": "hunter22"}), "evidence.ticket_id"),
        (
            refund(evidence={"ticket_id": ["x", "hunter22"], "pin": "hunter22"}),
            "evidence.ticket_id",
        ),
        # Blotted out of a name: any field beside it may be the one that is gone.
        (refund(evidence={"chargeback_risks": 1, "password": "chargeback"}), "evidence"),
    ],
)
def test_what_redaction_took_from_the_policy_is_not_guessed(
    request_: dict[str, Any], where: str
) -> None:
    profile = find_profile("default", ["evidence.chargeback_risk"])
    record = decided(request_, redaction=profile)

    with pytest.raises(Unreplayable, match="nothing is guessed") as caught:
        recorded_input(record, ENGINE)

    assert caught.value.where is not None
    assert where in caught.value.where.split(", ")


def test_what_redaction_took_from_nobody_is_no_loss() -> None:
    profile = RedactionProfile("own", paths=("evidence.note", "extensions"))
    request = refund(400, extensions={"x": 1})
    request["evidence"] |= {"note": "call me", "password": "hunter22"}
    record = decided(request, redaction=profile)

    assert record.redaction is not None
    assert len(record.redaction.removed) == 3
    question = recorded_input(record, ENGINE)
    assert ENGINE.evaluate(question).decision.verdict == "ESCALATE"


def test_a_name_blotted_out_at_the_top_leaves_nothing_to_stand_on() -> None:
    record = decided(refund(evidence={"ticket_id": "T-1", "password": "hunter22"}))
    personal = record.personal
    assert personal is not None
    changed = msgspec.structs.replace(personal, request={**personal.request, "[removed]ce": {}})
    forged = msgspec.structs.replace(record, sealed=msgspec.json.encode(changed))

    with pytest.raises(Unreplayable, match="removed names") as caught:
        recorded_input(forged, ENGINE)

    assert caught.value.where == "request"


def test_a_marker_that_the_caller_wrote_is_no_redaction() -> None:
    record = decided(refund(evidence={"ticket_id": "[removed]"}))

    assert recorded_input(record, ENGINE).request["evidence"]["ticket_id"] == "[removed]"


def reminded() -> DecisionRecord:
    with opened(memory=MemorySettings()) as gate:
        gate.learn(gate.decide(refund(400)).decision_id, "failure")
        return gate.decide(refund(400))


def test_the_settings_of_memory_are_those_of_then() -> None:
    assert recorded_memory_settings(reminded()) == MemorySettings()
    assert recorded_memory_settings(decided(refund())) is None


@pytest.mark.parametrize("settings", [{"block": 7}, {"block": "high"}, None])
def test_settings_of_memory_have_to_be_there_and_usable(settings: dict[str, Any] | None) -> None:
    record = reminded()
    determinism = msgspec.structs.replace(record.determinism, memory_settings=settings)

    with pytest.raises(InputError, match="no settings of a memory"):
        recorded_memory_settings(msgspec.structs.replace(record, determinism=determinism))


def test_signals_of_memory_have_to_be_there() -> None:
    record = reminded()
    personal = record.personal
    assert personal is not None
    bare = msgspec.json.encode(msgspec.structs.replace(personal, risk_signals={}))

    with pytest.raises(InputError, match="what memory recalled"):
        recorded_input(msgspec.structs.replace(record, sealed=bare), ENGINE)


def test_a_grant_that_was_not_believed_is_not_believed_again() -> None:
    stranger = SigningKey.from_randomness(bytes([7]) * 32, key_id="k7", holder="user:eve")
    fake = msgspec.structs.replace(LIMIT, grant_id="fake", key_id=stranger.key_id)
    with opened() as gate:
        record = gate.decide(refund(400), grants=[LIMIT, fake])

    judged = recorded_input(record, ENGINE).judged_grants
    assert judged == {"g1": None, "fake": "unknown_key"}


def test_whether_a_genuine_grant_reaches_a_decision_is_judged_anew() -> None:
    other = grant({"action": "purchase"}, grant_id="g2")
    with opened() as gate:
        record = gate.decide(refund(400), grants=[other])

    assert [ignored.why for ignored in record.ignored_grants] == ["out_of_scope"]
    assert recorded_input(record, ENGINE).judged_grants == {"g2": None}


def test_two_grants_of_one_id_cannot_be_told_apart() -> None:
    twin = msgspec.structs.replace(LIMIT, signature="AAAA")
    with opened() as gate:
        record = gate.decide(refund(400), grants=[LIMIT, twin])
        twice = gate.decide(refund(400), grants=[LIMIT, LIMIT])

    assert recorded_input(twice, ENGINE).judged_grants == {"g1": None}
    with pytest.raises(Unreplayable, match="two grants have one id") as caught:
        recorded_input(record, ENGINE)
    assert caught.value.where == "grants"


def test_what_was_found_out_before_a_resolution_does_not_count_in_it() -> None:
    with opened(keys=None) as gate:
        before = gate.decide(refund(400), grants=[LIMIT])
        trusting = gate_over(stored(gate), entropy=entropy_of("another"))
        after = trusting.resolve(before.decision_id, grants=[LIMIT])

    assert [ignored.why for ignored in before.ignored_grants] == ["unknown_key"]
    assert (after.verdict, after.lifted_by) == ("ALLOW", ("g1",))
    assert recorded_input(after, ENGINE).judged_grants == {"g1": None}


def test_a_resolution_is_a_question_without_a_look_at_what_was_removed() -> None:
    profile = RedactionProfile("own", paths=("evidence",))
    with opened(redaction=profile) as gate:
        asked = gate.decide(cleanup(evidence={"chargeback_risk": 1}))
        done = gate.resolve(asked.decision_id, accepted=["dry_run"])

    assert recorded_input(done, ENGINE).accepted == ("dry_run",)


def test_what_is_said_of_a_grant_that_did_not_come_in_is_passed_over() -> None:
    with opened() as gate:
        record = gate.decide(refund(400), grants=[LIMIT])
    stray = (IgnoredGrant(grant_id="g9", why="revoked"),)

    question = recorded_input(msgspec.structs.replace(record, ignored_grants=stray), ENGINE)
    assert question.judged_grants == {"g1": None}
