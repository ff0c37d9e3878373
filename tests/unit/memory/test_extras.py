import sys
from collections.abc import Iterator

import pytest

from demur.memory.extras import numpy, usearch
from demur.memory.shelf import Columns, Graph, Matrix, shelve
from demur.memory.vector import Vector

VECTORS = [Vector.of({number: 5}) for number in range(20)]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    numpy.cache_clear()
    usearch.cache_clear()
    yield
    numpy.cache_clear()
    usearch.cache_clear()


def test_with_everything_installed_the_matrix_gives_way_to_the_graph() -> None:
    assert isinstance(shelve(VECTORS, 20), Matrix)
    assert isinstance(shelve(VECTORS, 19), Graph)


def test_without_usearch_exact_search_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)

    assert isinstance(shelve(VECTORS, 1), Matrix)


def test_without_numpy_the_columns_do_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)

    assert usearch() is None
    assert isinstance(shelve(VECTORS, 1), Columns)
