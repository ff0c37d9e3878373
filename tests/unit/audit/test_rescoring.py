import msgspec
import pytest
from gates import cleanup, opened, refund, stored

from demur.audit.exporting import export_pack
from demur.audit.pack import Pack, PackError
from demur.audit.rescoring import RescoreResult, rescore_memory
from demur.gate.gate import Gate
from demur.memory.projection import EmbeddingProjection
from demur.memory.recall import Recall
from demur.memory.settings import MemorySettings

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
    assert scored(pack) == RescoreResult((), ("3 of 3 scores of memory were computed again",))


def test_a_score_that_was_made_up_is_found(pack: Pack) -> None:
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
    recall = msgspec.structs.replace(recalled(pack), grave_score=0.1, uncertainty_score=0.9)

    assert [difference.field for difference in scored(pack, recall).differences] == [
        "risk_signals: uncertainty_score",
        "risk_signals: grave_failure_score",
    ]


def test_what_is_forgotten_is_taken_as_recorded_and_noted(pack: Pack) -> None:
    found = scored(pack._replace(memory=pack.memory[1:]))

    assert found.differences == ()
    assert found.notes[0].startswith("1 of 3 experiences are not remembered any more")
    assert scored(pack._replace(memory=())).notes == (
        "3 of 3 experiences are not remembered any more: scores as recorded",
    )


def test_vectors_of_another_projection_are_not_compared() -> None:
    model = EmbeddingProjection("toy.v1", lambda text: [float(len(text)), 1.0])
    with opened(memory=SETTINGS, projection=model) as gate:
        pack = remembering(gate)
    found = scored(pack)

    assert found.differences == ()
    assert found.notes == ("3 vectors are of another projection: their scores are as recorded",)


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
