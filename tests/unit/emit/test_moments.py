from datetime import UTC, datetime, timedelta, timezone

import pytest

from demur.emit.moments import to_utc, to_milliseconds
from demur.errors import InputError


def test_a_moment_is_the_same_in_utc() -> None:
    berlin = datetime(2027, 1, 31, 13, tzinfo=timezone(timedelta(hours=1)))

    assert to_utc(berlin).isoformat() == "2027-01-31T12:00:00+00:00"


def test_milliseconds_are_whole_and_may_lie_before_the_epoch() -> None:
    assert to_milliseconds(datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC)) == 1000
    assert to_milliseconds(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == -1000


@pytest.mark.parametrize(
    ("moment", "problem"),
    [
        (datetime(2027, 1, 31), "time zone"),  # noqa: DTZ001 - what must be refused
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "out of range"),
    ],
)
def test_a_moment_that_cannot_be_told_is_refused(moment: datetime, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        to_utc(moment)
