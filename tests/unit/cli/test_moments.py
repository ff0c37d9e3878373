from datetime import UTC, datetime, timedelta

import pytest

from demur.cli.moments import parse_time, parse_period
from demur.errors import InputError

NOON = datetime(2027, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "length"),
    [("30m", timedelta(minutes=30)), ("8h", timedelta(hours=8)), ("10000d", timedelta(10_000))],
)
def test_a_period_is_a_number_and_a_unit(text: str, length: timedelta) -> None:
    assert parse_period(text) == length


@pytest.mark.parametrize("text", ["", "m", "8", "8w", "-1d", "1.5h", "0d", "10001d", "٣d"])
def test_anything_else_is_no_period(text: str) -> None:
    with pytest.raises(InputError, match="is not a period"):
        parse_period(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2027-01-30", datetime(2027, 1, 30, tzinfo=UTC)),
        ("2027-01-30T10:00", datetime(2027, 1, 30, 10, tzinfo=UTC)),
        ("2027-01-30T10:00+02:00", datetime(2027, 1, 30, 8, tzinfo=UTC)),
        ("2027-01-30T10:00Z", datetime(2027, 1, 30, 10, tzinfo=UTC)),
        ("7d", NOON - timedelta(days=7)),
    ],
)
def test_a_moment_is_a_day_a_time_or_how_long_ago(text: str, wanted: datetime) -> None:
    assert parse_time(text, NOON) == wanted


@pytest.mark.parametrize("text", ["", "soon", "2027-13-01", "0001-01-01T00:00+23:00", "d"])
def test_anything_else_is_no_time(text: str) -> None:
    with pytest.raises(InputError, match="is not a time"):
        parse_time(text, NOON)
