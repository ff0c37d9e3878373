import pytest

from demur.memory.shelf import ColumnIndex, GraphIndex, MatrixIndex, NearRow, VectorIndex
from demur.memory.vector import Vector

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
