import math

import pytest

from demur.errors import InputError
from demur.memory.vector import LARGEST_NORM, LARGEST_SIZE, Vector, cosine


def test_a_vector_comes_back_from_its_bytes() -> None:
    vector = Vector.of({3: -7, 0: 2, 500: 4096 - 100})

    assert Vector.from_bytes(vector.to_bytes()) == vector
    assert dict(vector.items()) == {0: 2, 3: -7, 500: 3996}
    assert vector.norm == 4 + 49 + 3996**2


def test_zeros_leave_no_trace() -> None:
    assert Vector.of({1: 5, 2: 0}) == Vector.of({1: 5})
    assert Vector.of({}).size == 0
    assert Vector.of({9: 1}).size == 10


def test_a_vector_is_no_longer_than_floats_are_exact() -> None:
    longest = math.isqrt(LARGEST_NORM)

    assert Vector.of({0: longest}).norm == LARGEST_NORM
    with pytest.raises(InputError, match="the squares of a vector sum to"):
        Vector.of({0: longest, 1: 1})


@pytest.mark.parametrize("place", [-1, LARGEST_SIZE])
def test_a_place_outside_is_refused(place: int) -> None:
    with pytest.raises(InputError, match="places from 0 to 65534"):
        Vector.of({place: 1, 5: 1})


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "cut short"),
        (Vector.of({1: 2}).raw[:-1], "cut short"),
        (Vector.of({1: 2}).raw + b"\0", "damaged"),
        (b"\2" + Vector.of({1: 2}).raw[1:], "another version"),
        (b"\1\2\0" + b"\5\0\1\0" + b"\1\0\1\0", "damaged"),
        (b"\1\1\0" + b"\5\0" + b"\0\0", "damaged"),
        (b"\1\1\0" + b"\5\0" + b"\xff\x7f", "the squares of a vector sum to"),
    ],
    ids=["empty", "cut", "longer", "version", "unsorted", "a zero", "too long"],
)
def test_damaged_bytes_are_refused(raw: bytes, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Vector.from_bytes(raw)


@pytest.mark.parametrize(
    ("dot", "one", "other", "score"),
    [
        (25, 25, 25, 1.0),
        (0, 25, 25, 0.0),
        (-5, 25, 25, 0.0),
        (0, 0, 25, 0.0),
        (1, 1, 2, 0.707107),
        (1, 1, 3, 0.57735),
        (LARGEST_NORM - 1, LARGEST_NORM, LARGEST_NORM, 1.0),
        (1, 4, 250_000_000_000, 0.000001),
    ],
)
def test_the_cosine_has_six_decimals(dot: int, one: int, other: int, score: float) -> None:
    assert cosine(dot, one, other) == score


def test_the_dot_product_takes_shared_places_alone() -> None:
    assert Vector.of({1: 2, 2: 3}).dot(Vector.of({2: -5, 7: 9})) == -15
