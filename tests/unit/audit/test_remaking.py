import msgspec
import pytest
from gates import CORE, POLICY, cleanup, opened, refund, stored

from demur.audit.exporting import pack_of
from demur.audit.pack import Pack, PackError
from demur.audit.recorded import recorded_question
from demur.audit.remaking import remake
from demur.gate.engine import Engine
from demur.model.record import DecisionRecord

ENGINE = Engine(POLICY, registry=CORE)


def remade(pack: Pack) -> DecisionRecord:
    personal = pack.record.personal
    assert personal is not None
    question = recorded_question(pack.record, ENGINE)
    return remake(pack, personal, ENGINE, question)


def test_a_record_is_made_again_byte_for_byte() -> None:
    with opened() as gate:
        for request in (refund(), refund(400, request_id="r"), cleanup(), refund("x")):
            record = gate.decide(request)
            again = remade(pack_of(stored(gate), record))

            assert again.open_bytes() == record.open_bytes()
            assert again.sealed == record.sealed
            assert again.chain is None


def test_a_resolution_is_made_again_byte_for_byte() -> None:
    with opened() as gate:
        asked = gate.decide(cleanup())
        done = gate.resolve(asked.decision_id, accepted=["dry_run"])
        again = remade(pack_of(stored(gate), done))

    assert msgspec.structs.replace(again, sealed=None, sealed_digest="") == msgspec.structs.replace(
        done, sealed=None, sealed_digest="", chain=None
    )


def test_a_decision_that_contradicts_itself_cannot_be_resolved() -> None:
    with opened() as gate:
        asked = gate.decide(cleanup())
        done = gate.resolve(asked.decision_id, accepted=["dry_run"])
        pack = pack_of(stored(gate), done)
    odd = msgspec.structs.replace(asked, reason_codes=())

    with pytest.raises(PackError, match="cannot be judged") as caught:
        remade(pack._replace(earlier=odd))

    assert caught.value.where == "earlier.json"
