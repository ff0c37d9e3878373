from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from support.gates import (
    CORE,
    NOON,
    TEXT,
    Ticking,
    cleanup,
    finding,
    gate_over,
    grant,
    opened,
    refund,
    stored,
)
from support.packs import packed

from demur.audit.diff import Unreplayable
from demur.audit.pack import read_pack
from demur.audit.replay import replay_pack
from demur.audit.report import export_pack, find_cause, render_ticket, report_decision
from demur.errors import InputError
from demur.memory.recall import MemorySettings
from demur.policy.loader import load_policy, parse_policy
from demur.store.backend import StorageError


def test_the_policy_is_the_one_that_decided_not_the_one_of_today(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(TEXT, encoding="utf-8")
    with opened(load_policy(file, registry=CORE)) as gate:
        record = gate.decide(refund(400))
        file.write_text(TEXT.replace("gt: 250", "gt: 999"), encoding="utf-8")
        newer = gate_over(stored(gate), load_policy(file, registry=CORE))
        newer.decide(refund(400))
        pack = export_pack(stored(gate), record)

    assert pack.policy == TEXT
    assert parse_policy(pack.policy, registry=CORE).digest == record.determinism.policy_digest


@pytest.mark.parametrize("missing", ["policy", "registry"])
def test_a_pack_is_not_exported_if_the_store_lacks_a_part(missing: str) -> None:
    with opened() as gate:
        record = gate.decide(refund())
        determinism = msgspec.structs.replace(
            record.determinism, **{f"{missing}_digest": "sha256:none"}
        )
        with pytest.raises(InputError, match=f"does not hold the {missing}") as caught:
            export_pack(stored(gate), msgspec.structs.replace(record, determinism=determinism))

    assert caught.value.where == "sha256:none"


def test_only_the_neighbours_that_the_record_names_are_packed() -> None:
    with opened(memory=MemorySettings(top_k=1)) as gate:
        for value in (400, 4000, 4):
            gate.learn(gate.decide(refund(value)).decision_id, "failure")
        record = gate.decide(refund(400))
        pack = export_pack(stored(gate), record)

    named = record["risk_signals"]["failure_similarity"]["top_k"]
    assert [one.memory_id for one in pack.memory] == [one["memory_id"] for one in named]
    assert len(pack.memory) == 1


def test_an_expired_experience_is_still_evidence_and_a_forgotten_one_is_not() -> None:
    clock = Ticking()
    with opened(memory=MemorySettings(), clock=clock) as gate:
        first = gate.decide(refund(400))
        soon = NOON + timedelta(hours=1)
        lasting = gate.learn(first.decision_id, "failure", expires_at=soon)
        gone = gate.learn(first.decision_id, "success")
        record = gate.decide(refund(400))
        clock.advance(days=1)
        gate.forget([gone.memory_id])
        pack = export_pack(stored(gate), record)
        result = replay_pack(pack)

    assert [one.memory_id for one in pack.memory] == [lasting.memory_id]
    assert result.same
    assert any("1 of 2 experiences were forgotten" in note for note in result.notes)


def test_the_decision_that_was_resolved_comes_along() -> None:
    with opened() as gate:
        asked = gate.decide(cleanup())
        done = gate.resolve(asked.decision_id, accepted=["dry_run"])

        assert export_pack(stored(gate), done).earlier == asked
        assert export_pack(stored(gate), asked).earlier is None


def test_without_the_decision_that_was_resolved_there_is_no_pack() -> None:
    with opened() as gate:
        asked = gate.decide(cleanup())
        done = gate.resolve(asked.decision_id, accepted=["dry_run"])
        lost = msgspec.structs.replace(done, continues="01J")

        with pytest.raises(InputError, match="that was resolved"):
            export_pack(stored(gate), lost)


def test_an_erased_decision_can_be_packed_without_what_was_erased() -> None:
    with opened(memory=MemorySettings()) as gate:
        gate.learn(gate.decide(refund()).decision_id, "failure")
        record = gate.decide(refund())
        store = stored(gate)
        store.erase_subject("default", "agent:billing", by="ops", reason="test")
        erased = store.get(record.decision_id)
        assert erased is not None
        pack = read_pack(packed(gate, erased))

    assert pack.record.personal is None
    assert pack.memory == ()
    [event] = pack.events
    assert (event.kind, event.by, event.reason) == ("erase", "ops", "test")
    with pytest.raises(Unreplayable, match=r"what came in was erased on .* by ops: test"):
        replay_pack(pack)


@pytest.mark.parametrize("kind", ["policy", "registry"])
def test_a_changed_snapshot_is_named_and_never_repeated(kind: str) -> None:
    with opened() as gate:
        record = gate.decide(refund(400))
        store = stored(gate)
        with store.backend._open_write() as execute:
            change = "UPDATE snapshots SET text = replace(text, 'R', 'Q') WHERE kind = :kind"
            assert execute(change, {"kind": kind}).rowcount == 1
        report = report_decision(store, record)

        assert report.changed == (f"the {kind} in the store is not the one that decided",)
        assert all(rule.words is None for rule in report.rules)
        assert "- **Changed** the " in render_ticket(report)
        with pytest.raises(StorageError, match="is not the one that decided"):
            export_pack(store, record)


def test_inputs_that_were_changed_are_named() -> None:
    with opened() as gate:
        record = gate.decide(refund(400))
        assert record.sealed is not None
        changed = msgspec.structs.replace(record, sealed=record.sealed.replace(b"400", b"401"))

        assert report_decision(stored(gate), record).changed == ()
        assert report_decision(stored(gate), changed).changed == (
            "what came in is not what was decided on",
        )


def test_a_report_names_what_decided_and_not_the_rule_that_allowed() -> None:
    with opened() as gate:
        denied = gate.decide(refund(), findings=[finding("RCE_RISK")])
        allowed = gate.decide(refund())
        large = gate.decide(refund(400))
        resolved = gate.resolve(large.decision_id, grants=[grant({"action": "refund"})])
        ticket = render_ticket(report_decision(stored(gate), denied))

    words = "RCE_RISK found by the input guard; rule R_SMALL would allow"
    assert str(find_cause(denied)) == words
    assert "- **Decided** RCE" in ticket
    assert str(find_cause(allowed)) == "by rule R_SMALL"
    assert str(find_cause(large)) == "REFUND_OVER_ESCALATION_LIMIT by rule R_LIMIT"
    assert str(find_cause(resolved)) == ("because REFUND_OVER_ESCALATION_LIMIT was lifted or bound")
