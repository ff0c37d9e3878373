from datetime import UTC, datetime
from typing import Any

import pytest

from demur.errors import InputError
from demur.memory.experience import Experience, ActionOutcome
from demur.memory.vector import Vector

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
        ({"expires_at": "soon"}, "`soon` is no time"),
        ({"expires_at": "2026-01-01T00:00:00"}, "no time with an offset"),
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
