import pytest

from demur.memory.shelf import Columns, Graph, Matrix, Near, Shelf
from demur.memory.vector import Vector

VECTORS = [
    Vector.of({0: 3, 1: 4}),
    Vector.of({0: -3, 1: -4}),
    Vector.of({1: 1}),
    Vector.of({}),
    Vector.of({0: 6, 1: 8}),
    Vector.of({2: 9}),
]
EXACT = [Matrix, Columns]


@pytest.mark.parametrize("kind", EXACT)
def test_rows_that_tie_all_come_back(kind: type[Matrix] | type[Columns]) -> None:
    shelf: Shelf = kind(VECTORS)

    assert shelf.exact
    assert shelf.nearest(Vector.of({0: 3, 1: 4}), 1) == [Near(0, 25), Near(4, 50)]


@pytest.mark.parametrize("kind", EXACT)
def test_rows_that_point_elsewhere_never_do(kind: type[Matrix] | type[Columns]) -> None:
    assert {near.row for near in kind(VECTORS).nearest(Vector.of({0: 3, 1: 4}), 6)} == {0, 2, 4}


@pytest.mark.parametrize("kind", EXACT)
def test_a_query_may_reach_beyond_the_shelf(kind: type[Matrix] | type[Columns]) -> None:
    assert kind(VECTORS).nearest(Vector.of({1: 2, 60_000: 7}), 2) == [
        Near(0, 8),
        Near(2, 2),
        Near(4, 16),
    ]


@pytest.mark.parametrize("kind", [*EXACT, Graph])
def test_a_query_that_points_nowhere_finds_nothing(
    kind: type[Matrix] | type[Columns] | type[Graph],
) -> None:
    assert kind(VECTORS).nearest(Vector.of({}), 3) == []


@pytest.mark.parametrize("kind", [*EXACT, Graph])
def test_a_shelf_of_one_vector_that_is_empty_finds_nothing(
    kind: type[Matrix] | type[Columns] | type[Graph],
) -> None:
    assert kind([Vector.of({})]).nearest(Vector.of({0: 1}), 3) == []


def test_the_graph_finds_the_nearest_with_exact_products() -> None:
    vectors = [Vector.of({number: 50, number + 1: 3, 299: 1}) for number in range(200)]
    shelf = Graph(vectors)
    found = {near.row: near.dot for near in shelf.nearest(Vector.of({70: 10, 71: 1}), 5)}

    assert not shelf.exact
    assert found[70] == 503
    assert found[71] == 50
    assert all(found.values())
