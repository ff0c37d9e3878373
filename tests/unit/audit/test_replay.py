import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.gates import (
    CORE,
    KEY,
    NOON,
    POLICY,
    RING,
    TEXT,
    Ticking,
    cleanup,
    entropy_of,
    finding,
    gate_over,
    grant,
    opened,
    refund,
    stored,
)
from support.packs import Members, changed_record, changed_sealed, forged, packed

from demur.audit.diff import Unreplayable, recorded_input
from demur.audit.pack import Pack, PackError, read_pack, read_zip, write_pack
from demur.audit.replay import (
    ReplayResult,
    RescoreResult,
    check_heads,
    rebuild_record,
    replay_pack,
    rescore_memory,
)
from demur.audit.report import export_pack
from demur.canonical import canonical_bytes, digest_of_bytes
from demur.gate.engine import DecisionEngine
from demur.gate.gate import Gate
from demur.gate.redaction import find_profile
from demur.memory.projection import EmbeddingProjection
from demur.memory.recall import MemorySettings, Recall
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.policy.policy import Mode
from demur.store.rows import ChainHead
from demur.version import ENGINE_VERSION


@pytest.fixture
def gate() -> Iterator[Gate]:
    with opened(memory=MemorySettings(lift=True)) as gate:
        yield gate


@pytest.fixture
def raw(gate: Gate) -> bytes:
    return packed(gate, gate.decide(refund(400)))


def replayed(gate: Gate, record: DecisionRecord) -> ReplayResult:
    return replay_pack(read_pack(packed(gate, record)))


def fields(raw: bytes) -> list[str]:
    return [difference.field for difference in replay_pack(read_pack(raw)).differences]


# -- the same decision comes out ---------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "beside"),
    [
        (refund(), {}),
        (refund(400), {}),
        (refund(0.000002), {}),
        (refund("19.90"), {}),
        (refund("many"), {}),
        (refund(evidence={}), {}),
        (refund(evidence={"ticket_id": "T-ä", "chargeback_risk": 0.95}), {}),
        (refund(context_ref={"context_id": "c", "score": 0.000001}), {}),
        (refund(request_id="r1", tenant={"id": "acme"}, extensions={"a": [1, {"b": None}]}), {}),
        ({"action": {"type": "elsewhere"}}, {}),
        (refund(), {"findings": [finding(), finding("JAILBREAK_WRAPPER", detail="as if")]}),
        (refund(), {"signals": {"model": 0.25}}),
        (refund(400), {"grants": [grant({"action": "refund"})]}),
        (refund(400), {"grants": [grant({"action": "purchase"}, grant_id="g2")]}),
        (cleanup(), {"accepted": ["dry_run"]}),
        (cleanup(), {"accepted": ["something else"]}),
    ],
    ids=lambda value: json.dumps(value, default=str)[:60],
)
def test_a_decision_comes_out_again(
    gate: Gate, request_: dict[str, Any], beside: dict[str, Any]
) -> None:
    result = replayed(gate, gate.decide(request_, **beside))

    assert result.differences == ()
    assert result.same


SIGNAL_POLICY = parse_policy(
    TEXT
    + """
  - id: R_FRAUD
    stage: HARD_BLOCKS
    if: {action_type: refund, signals.fraud: {gt: 0.9}, signals.note: {ne: fine}}
    then: {verdict: DENY, reason_codes: [CHARGEBACK_RISK_BLOCK]}
""",
    registry=CORE,
)


@pytest.mark.parametrize(
    ("signals", "verdict"),
    [
        ({"fraud": 0.95, "note": "odd"}, "DENY"),
        ({"fraud": 0.1, "note": "odd"}, "ALLOW"),
        ({"fraud": "high", "note": "odd"}, "ABSTAIN"),
        ({"fraud": 0.95}, "ABSTAIN"),
    ],
)
def test_a_decision_by_signals_comes_out_again(signals: dict[str, Any], verdict: str) -> None:
    with opened(SIGNAL_POLICY) as gate:
        record = gate.decide(refund(), signals=signals)
        result = replayed(gate, record)

    assert (record.verdict, record["risk_signals"]) == (verdict, signals)
    assert {f"signals.{name}": value for name, value in signals.items()}.items() <= (
        record["facts"].items()
    )
    assert result.same


def test_a_signal_that_redaction_changed_is_not_replayable() -> None:
    request = refund(evidence={"ticket_id": "T-1", "password": "hunter22"})
    with opened(SIGNAL_POLICY) as gate:
        record = gate.decide(request, signals={"fraud": 0.95, "note": "hunter22"})

        assert "hunter22" not in str(record.sealed)
        with pytest.raises(Unreplayable, match=r"nothing is guessed") as caught:
            replayed(gate, record)
    assert caught.value.where == "signals.note"


@pytest.mark.parametrize("settings", [{"mode": Mode.ADVISORY}, {"attempts": 1}], ids=repr)
def test_the_operators_choices_come_out_again(settings: dict[str, Any]) -> None:
    with opened(**settings) as gate:
        assert replayed(gate, gate.decide(refund(400))).same


def test_replay_reproduces_the_signals_of_memory(gate: Gate) -> None:
    gate.learn(gate.decide(refund(20)).decision_id, "failure", severity=5)
    blocked = gate.decide(refund(20))
    gate.learn(gate.decide(refund(4000)).decision_id, "success")
    lifted = gate.decide({**refund(4000), "evidence": {"ticket_id": "T-2"}})

    assert blocked.reason_codes == ("FAILURE_MEMORY_SIMILAR_BLOCK",)
    for record in (blocked, lifted):
        result = replayed(gate, record)
        assert result.same
        assert any("memory scores were computed again" in note for note in result.notes)


def test_a_chain_of_attempts_comes_out_again(gate: Gate) -> None:
    first = gate.decide(refund(400))
    second = gate.decide(refund(400, continues=first.decision_id))
    third = gate.decide(
        refund(400, continues=second.decision_id), grants=[grant({"action": "refund"})]
    )
    fourth = gate.decide(refund(400, continues=third.decision_id))

    assert not fourth.attempts_left
    assert all(replayed(gate, record).same for record in (first, second, third, fourth))


def test_a_resolution_comes_out_again(gate: Gate) -> None:
    asked = gate.decide(refund(400))
    nothing = gate.resolve(asked.decision_id)
    done = gate.resolve(nothing.decision_id, grants=[grant({"action": "refund"})])

    assert done.verdict == "ALLOW"
    for record in (nothing, done):
        result = replayed(gate, record)
        assert result.differences == ()
        assert any("taken as recorded" in note for note in result.notes)


def test_a_resolution_under_stricter_redaction_comes_out_again() -> None:
    with opened() as gate:
        asked = gate.decide(cleanup(evidence={"note": "call me", "kept": 1}))
        strict = find_profile("default", ["evidence.note"])
        later = gate_over(stored(gate), redaction=strict, entropy=entropy_of("later"))
        done = later.resolve(asked.decision_id, accepted=["dry_run"])

        assert done.redaction is not None
        assert done.redaction.removed == ("evidence.note",)
        assert replayed(gate, done).differences == ()


def test_a_grant_that_counts_only_later_comes_out_again() -> None:
    with opened(keys=None) as gate:
        asked = gate.decide(refund(400), grants=[grant({"action": "refund"})])
        trusting = gate_over(stored(gate), entropy=entropy_of("later"))
        done = trusting.resolve(asked.decision_id, grants=[grant({"action": "refund"})])

        assert (asked.verdict, done.verdict) == ("ESCALATE", "ALLOW")
        assert replayed(gate, asked).differences == ()
        assert replayed(gate, done).differences == ()


def test_a_grant_that_expired_since_still_counted_then() -> None:
    clock = Ticking()
    with opened(clock=clock) as gate:
        record = gate.decide(refund(400), grants=[grant({"action": "refund"})])
        late = NOON + timedelta(hours=2)
        clock.now = late
        expired = gate.decide(refund(400), grants=[grant({"action": "refund"})])

        assert (record.verdict, expired.verdict) == ("ALLOW", "ESCALATE")
        assert replayed(gate, record).same
        assert replayed(gate, expired).same


def test_redaction_of_uncompared_fields_does_not_change_a_replay(gate: Gate) -> None:
    request = refund(400, extensions={"api_token": "T-1-secret"})
    request["subject"] = {**request["subject"], "note": "T-1-secret"}
    record = gate.decide(request)

    assert record.redaction is not None
    assert record.redaction.removed
    assert replayed(gate, record).same


# -- it cannot be made again -------------------------------------------------------------


def unreplayable(raw: bytes) -> str | None:
    with pytest.raises(Unreplayable) as caught:
        replay_pack(read_pack(raw))
    return caught.value.where


def test_an_erased_decision_cannot_be_replayed(gate: Gate) -> None:
    record = gate.decide(refund(400))
    stored(gate).erase_subject("default", "agent:billing", by="ops", reason="test")
    erased = stored(gate).get(record.decision_id)
    assert erased is not None

    assert unreplayable(packed(gate, erased)) == "sealed"


def test_a_decision_on_what_redaction_removed_cannot_be_replayed() -> None:
    with opened(redaction=find_profile("strict")) as gate:
        assert unreplayable(packed(gate, gate.decide(refund()))) == "evidence"


def test_a_decision_of_demur_itself_cannot_be_replayed(gate: Gate) -> None:
    gate.decide(refund(1, request_id="r"))

    assert unreplayable(packed(gate, gate.decide(refund(2, request_id="r")))) == "basis"


def test_a_resolution_without_what_it_resolves_cannot_be_replayed(gate: Gate) -> None:
    asked = gate.decide(cleanup())
    done = gate.resolve(asked.decision_id, accepted=["dry_run"])
    raw = packed(gate, done)

    def drop(members: Members) -> None:
        del members["earlier.json"]

    def erase(members: Members) -> None:
        line = json.loads(members["earlier.json"])
        members["earlier.json"] = canonical_bytes({**line, "sealed": None})

    assert unreplayable(forged(raw, drop)) == "earlier.json"
    assert unreplayable(forged(raw, erase)) == "earlier.json"


def test_a_request_that_redaction_left_without_a_needed_part_cannot_be_replayed(
    raw: bytes,
) -> None:
    redaction = {"profile": "own", "removed": ["action.intent"]}
    request = {"action": {"type": "refund", "intent": 7}}
    forgery = changed_sealed(changed_record(raw, redaction=redaction), request=request)

    assert unreplayable(forgery) == "action.intent"


# -- forgeries in which everything fits together -----------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"verdict": "ALLOW"}, "verdict"),
        ({"decision_output": "REFUSE_WITH_PATH"}, "decision_output"),
        ({"refusal_class": "HARD_BLOCK"}, "refusal_class"),
        ({"reason_codes": []}, "reason_codes"),
        ({"reason_codes": ["REFUND_OVER_ESCALATION_LIMIT", "RCE_RISK"]}, "reason_codes"),
        ({"matched_rules": None}, "matched_rules"),
        ({"matched_rules": [{"rule_id": "R_LIMIT", "stage": "HARD_BLOCKS"}]}, "matched_rules"),
        ({"shadow_rules": None}, "shadow_rules"),
        ({"obligations": None}, "obligations"),
        ({"missing": ["evidence.x"]}, "missing"),
        ({"reason": "Because."}, "reason"),
        ({"next_step": "retry_later"}, "next_step"),
        ({"explanation": {"summary": "S", "details": "D"}}, "explanation.summary"),
        ({"action_type": "purchase"}, "action_type"),
        ({"amount": {"value": 4, "currency": "USD"}}, "amount.value"),
        ({"request_id": "r9"}, "request_id"),
        ({"enforced": False}, "enforced"),
        ({"context_ref": {"context_id": "c"}}, "context_ref"),
        ({"invalid": [{"rule_id": "R_LIMIT", "path": "x"}]}, "invalid"),
        ({"lifted_by": ["g1"]}, "lifted_by"),
        ({"resolved_codes": ["REFUND_OVER_ESCALATION_LIMIT"]}, "resolved_codes"),
        ({"tenant": "acme"}, "sealed.scope"),
        ({"created_at": "2026-11-15T12:00:00+00:00"}, "created_at"),
    ],
    ids=repr,
)
def test_a_forged_field_of_the_record_is_named(
    raw: bytes, change: dict[str, Any], field: str
) -> None:
    assert field in fields(changed_record(raw, **change))


@pytest.mark.parametrize(
    ("part", "change", "field"),
    [
        ("policy", {"policy_id": "other"}, "policy.policy_id"),
        ("policy", {"policy_version": "9"}, "policy.policy_version"),
        ("policy", {"mode": "advisory"}, "enforced"),
        ("determinism", {"registry_version": "9"}, "determinism.registry_version"),
        ("determinism", {"memory_settings": {"lift": True}}, "determinism.memory_settings"),
    ],
)
def test_a_forged_reference_is_named(
    raw: bytes, part: str, change: dict[str, Any], field: str
) -> None:
    whole = {**json.loads(read_zip(raw)["record.json"])[part], **change}

    assert field in fields(changed_record(raw, **{part: whole}))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"request": refund(4)}, "verdict"),
        ({"request": refund(401)}, "amount.value"),
        ({"request": refund(400, subject={"type": "user", "id": "eve"})}, "sealed.requester"),
        ({"requester": "user:eve"}, "sealed.requester"),
        ({"scope": {"action": "*"}}, "sealed.scope"),
        ({"facts": {}}, "sealed.facts"),
        ({"findings": [finding("EXFILTRATION_RISK")]}, "reason_codes"),
        ({"grants": [grant({"action": "refund"})]}, "lifted_by"),
        ({"risk_signals": {"model": 1}}, "sealed.inputs_digest"),
        ({"inputs_digest": "sha256:0"}, "sealed.inputs_digest"),
        ({"fingerprint": "sha256:0"}, "sealed.fingerprint"),
        ({"salt": "00"}, "sealed.fingerprint"),
    ],
    ids=repr,
)
def test_a_forged_field_of_what_came_in_is_named(
    raw: bytes, change: dict[str, Any], field: str
) -> None:
    assert field in fields(changed_sealed(raw, **change))


def test_a_request_that_names_its_tenant_is_of_no_other(gate: Gate) -> None:
    raw = packed(gate, gate.decide(refund(20, tenant={"id": "acme"})))

    assert fields(changed_record(raw, tenant="other")) == ["tenant"]


def rewrite(name: str, text: str) -> Callable[[Members], None]:
    return lambda members: members.update({name: text.encode()})


def test_another_policy_or_registry_is_refused(raw: bytes) -> None:
    for name, text in (
        ("policy.yaml", TEXT.replace("gt: 250", "gt: 999")),
        ("registry.json", read_zip(raw)["registry.json"].decode() + " "),
    ):
        with pytest.raises(PackError, match=r"not the (policy|registry) that") as caught:
            replay_pack(read_pack(forged(raw, rewrite(name, text))))
        assert caught.value.where == name


def test_a_policy_that_was_only_spaced_otherwise_is_the_same(raw: bytes) -> None:
    spaced = f"# The desk's rules.\n{TEXT}\n"

    assert replay_pack(read_pack(forged(raw, rewrite("policy.yaml", spaced)))).same


def test_a_policy_or_registry_that_cannot_be_used_is_refused(raw: bytes) -> None:
    with pytest.raises(PackError, match="cannot be used") as caught:
        replay_pack(read_pack(forged(raw, rewrite("policy.yaml", "rules: 7"))))
    assert (caught.value.where or "").startswith("policy.yaml")

    def change(members: Members) -> None:
        members["registry.json"] = b"{}"
        record = json.loads(members["record.json"])
        record["determinism"]["registry_digest"] = digest_of_bytes(b"{}")
        members["record.json"] = canonical_bytes(record)

    with pytest.raises(PackError, match="cannot be used") as caught:
        replay_pack(read_pack(forged(raw, change)))
    assert (caught.value.where or "").startswith("registry.json")


@pytest.mark.parametrize(
    ("forgery", "where"),
    [
        (lambda raw: changed_sealed(raw, request={"action": {}}), "sealed.json"),
        (lambda raw: changed_sealed(raw, request=7), "sealed.json"),
        (lambda raw: changed_sealed(raw, findings=[finding("NO_SUCH_CODE")]), "sealed.json"),
        (lambda raw: changed_record(raw, created_at="yesterday"), "record.json"),
        (lambda raw: changed_record(raw, created_at="0001-01-01T00:00:00+23:00"), "record.json"),
        (lambda raw: forged(raw, _mode("off")), "record.json"),
        (lambda raw: forged(raw, _memory({"block": 7})), "record.json"),
    ],
)
def test_parts_that_cannot_be_used_are_named(
    raw: bytes, forgery: Callable[[bytes], bytes], where: str
) -> None:
    with pytest.raises(PackError) as caught:
        replay_pack(read_pack(forgery(raw)))

    assert caught.value.where == where


def _mode(mode: str) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        record = json.loads(members["record.json"])
        record["policy"]["mode"] = mode
        members["record.json"] = canonical_bytes(record)

    return change


def _memory(settings: dict[str, Any]) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        record = json.loads(members["record.json"])
        record["determinism"]["memory_settings"] = settings
        members["record.json"] = canonical_bytes(record)

    return change


def test_a_resolution_of_another_decision_is_found(gate: Gate) -> None:
    asked, other = gate.decide(cleanup()), gate.decide(cleanup(evidence={"a": 1}))
    done = export_pack(stored(gate), gate.resolve(asked.decision_id, accepted=["dry_run"]))
    forgery = read_pack(write_pack(done._replace(earlier=other)))

    assert {difference.field for difference in replay_pack(forgery).differences} >= {
        "continues",
        "root_id",
    }


def test_vectors_that_were_changed_are_found(gate: Gate) -> None:
    gate.learn(gate.decide(refund(400)).decision_id, "failure")
    pack = export_pack(stored(gate), gate.decide(refund(400)))
    far = gate.learn(gate.decide(cleanup()).decision_id, "failure")
    memory = (msgspec.structs.replace(pack.memory[0], vector=far.vector),)
    result = replay_pack(read_pack(write_pack(pack._replace(memory=memory))))

    assert any(field.startswith("risk_signals: ") for field, *_ in result.differences)


# -- versions, signatures and heads ------------------------------------------------------


def test_another_engine_is_named(raw: bytes) -> None:
    record = json.loads(read_zip(raw)["record.json"])
    older = changed_record(raw, determinism={**record["determinism"], "engine_version": "0.0.1"})
    result = replay_pack(read_pack(older))

    assert result.same
    assert result.notes == (f"decided by engine 0.0.1, replayed by engine {ENGINE_VERSION}",)


def test_notes_say_who_signed_and_whether_that_was_checked(gate: Gate) -> None:
    signed = write_pack(export_pack(stored(gate), gate.decide(refund())), KEY)

    assert replay_pack(read_pack(signed, RING)).notes == ("signed by user:mary",)
    assert "without `--keys`" in replay_pack(read_pack(signed)).notes[0]


def test_a_decision_that_was_never_stored_has_no_place() -> None:
    with opened() as gate:
        kept = gate.decide(refund())
        pack = export_pack(stored(gate), kept)
        record = gate_over(None).decide(refund(400))
    loose = read_pack(write_pack(pack._replace(record=record)))

    assert replay_pack(loose).same
    assert replay_pack(loose).notes == (
        "the pack does not say where the record stands in its chain",
    )
    with pytest.raises(PackError, match="does not say where"):
        check_heads(loose.record, [])


def test_heads_confirm_what_they_can(gate: Gate) -> None:
    records = [gate.decide(refund(value)) for value in (1, 2, 3)]
    heads = [
        ChainHead("default", r.chain.seq, r.chain.hash) for r in records if r.chain is not None
    ]
    elsewhere = ChainHead("acme", 2, "sha256:" + "0" * 64)
    second = records[1]

    assert check_heads(second, [elsewhere, heads[1]]) == (
        "a head confirms the record at place 2 of its chain",
    )
    assert "up to the record before, place 1" in check_heads(second, [heads[0]])[0]
    assert "no head covers place 2" in check_heads(second, [elsewhere, heads[2]])[0]


def test_a_head_of_another_record_gives_a_forged_chain_away(gate: Gate) -> None:
    first, second = gate.decide(refund(1)), gate.decide(refund(2))
    assert first.chain is not None
    assert second.chain is not None
    forgery = read_pack(changed_record(packed(gate, second), enforced=False)).record

    with pytest.raises(PackError, match="head of place 2 is of another record"):
        check_heads(forgery, [ChainHead("default", 2, second.chain.hash)])
    with pytest.raises(PackError, match="head of place 1 is of another chain"):
        check_heads(second, [ChainHead("default", 1, second.chain.hash)])


def test_the_example_of_the_guide_replays() -> None:
    policy = parse_policy(TEXT, registry=CORE)
    with opened(policy) as gate:
        result = replayed(gate, gate.decide(refund(400)))

    assert result.replayed == msgspec.structs.replace(
        result.record, chain=None, sealed=result.replayed.sealed
    )
    assert result.replayed.sealed == result.record.sealed


ENGINE = DecisionEngine(POLICY, registry=CORE)


def remade(pack: Pack) -> DecisionRecord:
    personal = pack.record.personal
    assert personal is not None
    question = recorded_input(pack.record, ENGINE)
    return rebuild_record(pack, personal, ENGINE, question)


def test_a_record_is_rebuilt_byte_for_byte() -> None:
    with opened() as gate:
        for request in (refund(), refund(400, request_id="r"), cleanup(), refund("x")):
            record = gate.decide(request)
            again = remade(export_pack(stored(gate), record))

            assert again.open_bytes() == record.open_bytes()
            assert again.sealed == record.sealed
            assert again.chain is None


def test_a_resolution_is_rebuilt_byte_for_byte() -> None:
    with opened() as gate:
        asked = gate.decide(cleanup())
        done = gate.resolve(asked.decision_id, accepted=["dry_run"])
        again = remade(export_pack(stored(gate), done))

    assert msgspec.structs.replace(again, sealed=None, sealed_digest="") == msgspec.structs.replace(
        done, sealed=None, sealed_digest="", chain=None
    )


def test_a_decision_that_contradicts_itself_cannot_be_resolved() -> None:
    with opened() as gate:
        asked = gate.decide(cleanup())
        done = gate.resolve(asked.decision_id, accepted=["dry_run"])
        pack = export_pack(stored(gate), done)
    odd = msgspec.structs.replace(asked, reason_codes=())

    with pytest.raises(PackError, match="cannot be judged") as caught:
        remade(pack._replace(earlier=odd))

    assert caught.value.where == "earlier.json"


SETTINGS = MemorySettings()


def remembering(gate: Gate) -> Pack:
    """Return the pack of a decision that reminds of two failures and a success."""
    for value, outcome, severity in ((4000, "failure", 5), (300, "failure", 1), (20, "success", 3)):
        gate.learn(gate.decide(refund(value)).decision_id, outcome, severity=severity)
    return export_pack(stored(gate), gate.decide(refund(380)))


@pytest.fixture(scope="module")
def pack() -> Pack:
    with opened(memory=SETTINGS) as gate:
        return remembering(gate)


def recalled(pack: Pack) -> Recall:
    personal = pack.record.personal
    assert personal is not None
    return Recall.from_signals(personal.risk_signals, "")


def scored(pack: Pack, recall: Recall | None = None) -> RescoreResult:
    personal = pack.record.personal
    assert personal is not None
    return rescore_memory(personal.request, recall or recalled(pack), SETTINGS, pack.memory)


def test_recorded_scores_come_out_again_to_the_last_digit(pack: Pack) -> None:
    assert len(pack.memory) == 3
    assert scored(pack) == RescoreResult((), ("3 of 3 memory scores were computed again",))


def test_rescoring_finds_a_forged_score(pack: Pack) -> None:
    recall = recalled(pack)
    first, *rest = recall.failure.top_k
    higher = msgspec.structs.replace(first, score=1.0)
    failure = msgspec.structs.replace(recall.failure, top_k=(higher, *rest))
    found = scored(pack, msgspec.structs.replace(recall, failure=failure))

    assert [difference.field for difference in found.differences] == [
        f"risk_signals: {first.memory_id} score",
        "risk_signals: failure_similarity",
        "risk_signals: uncertainty_score",
    ]
    assert found.differences[0].recorded == 1.0
    assert found.differences[0].replayed == first.score


def test_an_outcome_that_was_turned_round_is_found(pack: Pack) -> None:
    first = pack.memory[0]
    turned = msgspec.structs.replace(first, outcome="success")
    found = scored(pack._replace(memory=(turned, *pack.memory[1:])))

    assert [difference.field for difference in found.differences] == [
        f"risk_signals: {first.memory_id} label"
    ]


def test_signals_have_to_follow_from_the_neighbours(pack: Pack) -> None:
    recall = msgspec.structs.replace(recalled(pack), severe_score=0.1, uncertainty_score=0.9)

    assert [difference.field for difference in scored(pack, recall).differences] == [
        "risk_signals: uncertainty_score",
        "risk_signals: grave_failure_score",
    ]


def test_scores_of_forgotten_experiences_are_taken_as_recorded_and_noted(pack: Pack) -> None:
    found = scored(pack._replace(memory=pack.memory[1:]))

    assert found.differences == ()
    assert found.notes[0].startswith("1 of 3 experiences were forgotten")
    assert scored(pack._replace(memory=())).notes == (
        "3 of 3 experiences were forgotten: scores as recorded",
    )


def test_vectors_of_another_projection_are_not_compared() -> None:
    model = EmbeddingProjection("toy.v1", lambda text: [float(len(text)), 1.0])
    with opened(memory=SETTINGS, projection=model) as gate:
        pack = remembering(gate)
    found = scored(pack)

    assert found.differences == ()
    assert found.notes == ("3 vectors are of another projection: scores as recorded",)


def test_experiences_that_the_record_does_not_name_are_refused(pack: Pack) -> None:
    stranger = msgspec.structs.replace(pack.memory[0], memory_id="m0")

    for memory in ((stranger,), (*pack.memory, pack.memory[0])):
        with pytest.raises(PackError, match="not the experiences") as caught:
            scored(pack._replace(memory=memory))
        assert caught.value.where == "memory.json"


def test_a_damaged_vector_is_refused(pack: Pack) -> None:
    damaged = msgspec.structs.replace(pack.memory[0], vector=b"\x01")

    with pytest.raises(PackError, match="cut short") as caught:
        scored(pack._replace(memory=(damaged,)))

    assert caught.value.where == "memory.json"


def test_a_memory_that_knows_nothing_alike_is_scored_too() -> None:
    with opened(memory=SETTINGS) as gate:
        gate.learn(gate.decide(refund()).decision_id, "success")
        pack = export_pack(stored(gate), gate.decide(cleanup()))

    assert scored(pack).differences == ()


def test_a_decision_of_the_first_engine_replays_and_the_note_says_what_this_one_decides() -> None:
    golden = Path(__file__).parents[2] / "golden/engine_0.1.0/packs"
    resolved = replay_pack(read_pack((golden / "denied.zip").read_bytes()))

    assert resolved.same
    assert resolved.notes[:2] == (
        "decided by engine 0.1.0, and replayed as that engine decides",
        f"engine {ENGINE_VERSION} would decide the same",
    )
