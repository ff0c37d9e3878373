import msgspec
import pytest
from gates import CORE, POLICY, cleanup, opened, refund, stored

from demur.audit.exporting import export_pack
from demur.audit.pack import Pack, PackError
from demur.audit.recorded import recorded_input
from demur.audit.remaking import rebuild_record
from demur.gate.engine import DecisionEngine
from demur.model.record import DecisionRecord

ENGINE = DecisionEngine(POLICY, registry=CORE)


def remade(pack: Pack) -> DecisionRecord:
    personal = pack.record.personal
    assert personal is not None
    question = recorded_input(pack.record, ENGINE)
    return rebuild_record(pack, personal, ENGINE, question)


def test_a_record_is_made_again_byte_for_byte() -> None:
    with opened() as gate:
        for request in (refund(), refund(400, request_id="r"), cleanup(), refund("x")):
            record = gate.decide(request)
            again = remade(export_pack(stored(gate), record))

            assert again.open_bytes() == record.open_bytes()
            assert again.sealed == record.sealed
            assert again.chain is None


def test_a_resolution_is_made_again_byte_for_byte() -> None:
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
