import json
from typing import Any

import pytest

from demur.canonical import canonical_bytes
from demur.errors import InputError
from demur.memory.experience import Experience, ActionOutcome
from demur.memory.index import MemoryIndex
from demur.memory.recall import SIGNALS, Recall, recall_similar
from demur.memory.settings import MemorySettings
from demur.memory.vector import Vector

EAST = Vector.from_values({0: 10})


def one(memory_id: str, outcome: ActionOutcome, vector: Vector, severity: int = 3) -> Experience:
    return Experience(
        memory_id=memory_id,
        outcome=outcome,
        action_type="refund",
        projection="p",
        vector=vector,
        created_at="2026-01-01T00:00:00Z",
        severity=severity,
    )


def test_with_nothing_similar_all_is_uncertain() -> None:
    assert recall_similar(MemoryIndex([]), EAST, MemorySettings()).uncertainty_score == 1.0


def test_the_nearest_of_either_outcome_sets_the_uncertainty() -> None:
    failure = one("f", ActionOutcome.FAILURE, Vector.from_values({0: 1, 1: 1}), severity=2)
    success = one("s", ActionOutcome.SUCCESS, Vector.from_values({0: 10, 1: 2}))
    index = MemoryIndex([failure, success])
    found = recall_similar(index, EAST, MemorySettings())

    assert found.uncertainty_score == 0.019419
    assert found.grave_score == 0.0
    assert recall_similar(index, EAST, MemorySettings(block_severity=2)).grave_score == 0.707107
    assert found.digest == index.digest
    assert found.exact


def test_signals_are_plain_json_and_can_be_read_back() -> None:
    found = recall_similar(
        MemoryIndex([one("f", ActionOutcome.FAILURE, EAST)]), EAST, MemorySettings()
    )
    signals = json.loads(canonical_bytes(found.risk_signals()))

    assert tuple(signals) == SIGNALS
    assert Recall.from_signals(signals, found.digest) == found
    assert signals["success_similarity"] == {"score": 0, "top_k": []}
    assert signals["failure_similarity"] == {
        "score": 1,
        "top_k": [
            {"memory_id": "f", "label": "failure", "score": 1, "summary": "refund, severity 3"}
        ],
    }


@pytest.mark.parametrize("signals", [{}, {"failure_similarity": {"score": "high"}}])
def test_signals_that_cannot_be_read_are_refused(signals: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="what memory recalled cannot be read"):
        Recall.from_signals(signals, "sha256:0")
