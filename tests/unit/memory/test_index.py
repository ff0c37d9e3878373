from datetime import UTC, datetime
from typing import Any

import pytest

from demur.errors import InputError
from demur.memory.experience import ActionOutcome, Experience, Vector
from demur.memory.index import (
    ColumnIndex,
    GraphIndex,
    MatrixIndex,
    MemoryIndex,
    NearRow,
    VectorIndex,
)

EAST = Vector.from_values({0: 10})


def one(memory_id: str, outcome: str = "failure", **more: Any) -> Experience:
    fields: dict[str, Any] = {
        "memory_id": memory_id,
        "outcome": ActionOutcome(outcome),
        "action_type": "refund",
        "projection": "p",
        "vector": EAST,
        "created_at": "2026-01-01T00:00:00Z",
    }
    return Experience(**(fields | more))


def test_nothing_is_like_an_empty_memory() -> None:
    hits = MemoryIndex([]).search(EAST)

    assert hits.failure.score == hits.success.score == hits.severe == 0.0
    assert hits.failure.top_k == ()
    assert hits.exact


def test_neighbours_come_by_score_and_then_by_id() -> None:
    near = Vector.from_values({0: 10, 1: 2})
    index = MemoryIndex([one("c"), one("b", vector=near), one("a"), one("d", severity=1)])

    assert [(n.memory_id, n.score) for n in index.search(EAST).failure.top_k] == [
        ("a", 1.0),
        ("c", 1.0),
        ("d", 1.0),
        ("b", 0.980581),
    ]
    assert len(index.search(EAST, 2).failure.top_k) == 2


def test_outcomes_are_kept_apart() -> None:
    index = MemoryIndex(
        [one("f", vector=Vector.from_values({0: 1, 1: 1})), one("s", "success", note="fine")]
    )
    hits = index.search(EAST)

    assert hits.failure.score == 0.707107
    assert [n.label for n in hits.failure.top_k] == ["failure"]
    assert hits.success.score == 1.0
    assert [n.summary for n in hits.success.top_k] == ["refund: fine"]


def test_a_crowd_of_mild_failures_does_not_hide_a_grave_one() -> None:
    crowd = [one(f"mild{number}", severity=1) for number in range(20)]
    grave = one("grave", severity=5, vector=Vector.from_values({0: 10, 1: 1}))
    hits = MemoryIndex([*crowd, grave]).search(EAST, 3, min_severity=3)

    assert hits.failure.score == 1.0
    assert hits.severe == 0.995037
    assert [n.memory_id for n in hits.failure.top_k] == ["mild0", "mild1", "grave"]


def test_without_a_grave_failure_nothing_is_grave() -> None:
    assert MemoryIndex([one("mild", severity=2)]).search(EAST, min_severity=3).severe == 0.0


def test_a_large_index_says_that_it_may_miss_something() -> None:
    crowd = [one(f"m{number:02}", vector=Vector.from_values({number: 9})) for number in range(30)]
    index = MemoryIndex(crowd, exact_up_to=10)

    assert not index.search(EAST).exact
    assert index.search(EAST).failure.top_k[0].memory_id == "m00"


def test_two_experiences_under_one_id_are_refused() -> None:
    with pytest.raises(InputError, match="two experiences have this id") as caught:
        MemoryIndex([one("a"), one("a", "success")])

    assert caught.value.where == "experience `a`"


def test_projections_are_never_mixed() -> None:
    with pytest.raises(InputError, match="made by the projection `q`, not by `p`"):
        MemoryIndex([one("a"), one("b", projection="q")])
    with pytest.raises(InputError, match="made by the projection `p`, not by `q`"):
        MemoryIndex([one("a")], projection="q")

    assert MemoryIndex([one("a")]).projection == "p"
    assert MemoryIndex([], projection="p").projection == "p"
    assert MemoryIndex([]).projection is None


@pytest.mark.parametrize(
    "other",
    [
        one("b"),
        one("a", "success"),
        one("a", severity=4),
        one("a", vector=Vector.from_values({0: 11})),
        one("a", projection="q"),
    ],
    ids=["id", "outcome", "severity", "vector", "projection"],
)
def test_whatever_can_move_a_decision_changes_the_digest(other: Experience) -> None:
    assert MemoryIndex([other]).digest != MemoryIndex([one("a")]).digest
    assert MemoryIndex([one("a", note="edited")]).digest == MemoryIndex([one("a")]).digest


def test_a_snapshot_holds_until_the_first_expires() -> None:
    index = MemoryIndex(
        [
            one("a", expires_at="2026-03-01T00:00:00Z"),
            one("b", expires_at="2026-03-01T00:30:00+01:00"),
            one("c"),
        ]
    )

    assert index.expires_at == datetime(2026, 2, 28, 23, 30, tzinfo=UTC)
    assert MemoryIndex([one("c")]).expires_at is None
    assert len(index) == 3


VECTORS = [
    Vector.from_values({0: 3, 1: 4}),
    Vector.from_values({0: -3, 1: -4}),
    Vector.from_values({1: 1}),
    Vector.from_values({}),
    Vector.from_values({0: 6, 1: 8}),
    Vector.from_values({2: 9}),
]
EXACT = [MatrixIndex, ColumnIndex]


@pytest.mark.parametrize("kind", EXACT)
def test_rows_that_tie_all_come_back(kind: type[MatrixIndex] | type[ColumnIndex]) -> None:
    shelf: VectorIndex = kind(VECTORS)

    assert shelf.exact
    assert shelf.find_nearest(Vector.from_values({0: 3, 1: 4}), 1) == [
        NearRow(0, 25),
        NearRow(4, 50),
    ]


@pytest.mark.parametrize("kind", EXACT)
def test_rows_that_point_elsewhere_never_do(kind: type[MatrixIndex] | type[ColumnIndex]) -> None:
    assert {
        near.row for near in kind(VECTORS).find_nearest(Vector.from_values({0: 3, 1: 4}), 6)
    } == {0, 2, 4}


@pytest.mark.parametrize("kind", EXACT)
def test_a_query_may_reach_beyond_the_shelf(kind: type[MatrixIndex] | type[ColumnIndex]) -> None:
    assert kind(VECTORS).find_nearest(Vector.from_values({1: 2, 60_000: 7}), 2) == [
        NearRow(0, 8),
        NearRow(2, 2),
        NearRow(4, 16),
    ]


@pytest.mark.parametrize("kind", [*EXACT, GraphIndex])
def test_a_query_that_points_nowhere_finds_nothing(
    kind: type[MatrixIndex] | type[ColumnIndex] | type[GraphIndex],
) -> None:
    assert kind(VECTORS).find_nearest(Vector.from_values({}), 3) == []


@pytest.mark.parametrize("kind", [*EXACT, GraphIndex])
def test_a_shelf_of_one_vector_that_is_empty_finds_nothing(
    kind: type[MatrixIndex] | type[ColumnIndex] | type[GraphIndex],
) -> None:
    assert kind([Vector.from_values({})]).find_nearest(Vector.from_values({0: 1}), 3) == []


def test_the_graph_finds_the_nearest_with_exact_products() -> None:
    vectors = [Vector.from_values({number: 50, number + 1: 3, 299: 1}) for number in range(200)]
    shelf = GraphIndex(vectors)
    found = {
        near.row: near.dot for near in shelf.find_nearest(Vector.from_values({70: 10, 71: 1}), 5)
    }

    assert not shelf.exact
    assert found[70] == 503
    assert found[71] == 50
    assert all(found.values())
