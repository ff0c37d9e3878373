import math
from datetime import UTC, datetime
from typing import Any

import pytest

from demur.errors import InputError
from demur.memory.experience import (
    MAX_NORM,
    MAX_SIZE,
    ActionOutcome,
    Experience,
    Vector,
    cosine_score,
)

ROW: dict[str, Any] = {
    "memory_id": "m1",
    "tenant": "acme",
    "decision_id": "d1",
    "outcome": "failure",
    "severity": 4,
    "note": "charged back",
    "action_type": "refund",
    "projection": "p",
    "vector": Vector.from_values({1: 2}).to_bytes(),
    "created_at": "2026-01-01T00:00:00Z",
    "expires_at": "2026-02-01T00:00:00+01:00",
}


def test_a_row_of_the_database_is_an_experience() -> None:
    one = Experience.from_fields(ROW)

    assert one.outcome is ActionOutcome.FAILURE
    assert one.vector == Vector.from_values({1: 2})
    assert one.severity == 4
    assert one.summary == "refund, severity 4: charged back"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"outcome": "FAILED"}, "outcome `FAILED` is neither"),
        ({"severity": 6}, "severity `6` is not one of"),
        ({"severity": 0}, "severity `0` is not one of"),
        ({"vector": b""}, "a stored vector is cut short"),
        ({"expires_at": "soon"}, "`soon` is not a time"),
        ({"expires_at": "2026-01-01T00:00:00"}, "not a time with an offset"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        Experience.from_fields(ROW | fields)

    assert caught.value.where == "experience `m1`"


def test_an_experience_expires_at_its_time() -> None:
    one = Experience.from_fields(ROW)

    assert not one.is_expired(datetime(2026, 1, 31, 22, 59, tzinfo=UTC))
    assert one.is_expired(datetime(2026, 1, 31, 23, 0, tzinfo=UTC))


def test_without_a_time_it_is_kept_for_ever() -> None:
    one = Experience.from_fields(ROW | {"expires_at": None})

    assert one.expiry is None
    assert not one.is_expired(datetime(9999, 1, 1, tzinfo=UTC))


def test_a_summary_is_one_short_line() -> None:
    one = Experience.from_fields(ROW | {"outcome": "success", "note": "a\nb" + "x" * 500})

    assert one.summary.startswith("refund: a\\nb")
    assert len(one.summary) < 210
    assert Experience.from_fields(ROW | {"note": ""}).summary == "refund, severity 4"


def test_a_vector_comes_back_from_its_bytes() -> None:
    vector = Vector.from_values({3: -7, 0: 2, 500: 4096 - 100})

    assert Vector.from_bytes(vector.to_bytes()) == vector
    assert dict(vector.items()) == {0: 2, 3: -7, 500: 3996}
    assert vector.norm == 4 + 49 + 3996**2


def test_zeros_leave_no_trace() -> None:
    assert Vector.from_values({1: 5, 2: 0}) == Vector.from_values({1: 5})
    assert Vector.from_values({}).size == 0
    assert Vector.from_values({9: 1}).size == 10


def test_a_vector_is_no_longer_than_floats_are_exact() -> None:
    longest = math.isqrt(MAX_NORM)

    assert Vector.from_values({0: longest}).norm == MAX_NORM
    with pytest.raises(InputError, match="the squares of a vector sum to"):
        Vector.from_values({0: longest, 1: 1})


@pytest.mark.parametrize("place", [-1, MAX_SIZE])
def test_a_place_outside_is_refused(place: int) -> None:
    with pytest.raises(InputError, match="places from 0 to 65534"):
        Vector.from_values({place: 1, 5: 1})


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "cut short"),
        (Vector.from_values({1: 2}).raw[:-1], "cut short"),
        (Vector.from_values({1: 2}).raw + b"\0", "damaged"),
        (b"\2" + Vector.from_values({1: 2}).raw[1:], "another version"),
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
        (MAX_NORM - 1, MAX_NORM, MAX_NORM, 1.0),
        (1, 4, 250_000_000_000, 0.000001),
    ],
)
def test_the_cosine_has_six_decimals(dot: int, one: int, other: int, score: float) -> None:
    assert cosine_score(dot, one, other) == score


def test_the_dot_product_takes_shared_places_alone() -> None:
    assert Vector.from_values({1: 2, 2: 3}).dot(Vector.from_values({2: -5, 7: 9})) == -15
