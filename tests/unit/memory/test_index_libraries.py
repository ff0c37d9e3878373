import sys
from collections.abc import Iterator

import pytest

from demur.memory.experience import Vector
from demur.memory.index import (
    ColumnIndex,
    GraphIndex,
    MatrixIndex,
    build_vector_index,
    load_numpy,
    load_usearch,
)

VECTORS = [Vector.from_values({number: 5}) for number in range(20)]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    load_numpy.cache_clear()
    load_usearch.cache_clear()
    yield
    load_numpy.cache_clear()
    load_usearch.cache_clear()


def test_with_everything_installed_the_matrix_gives_way_to_the_graph() -> None:
    assert isinstance(build_vector_index(VECTORS, 20), MatrixIndex)
    assert isinstance(build_vector_index(VECTORS, 19), GraphIndex)


def test_without_usearch_exact_search_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)

    assert isinstance(build_vector_index(VECTORS, 1), MatrixIndex)


def test_without_numpy_the_columns_do_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)

    assert load_usearch() is None
    assert isinstance(build_vector_index(VECTORS, 1), ColumnIndex)
