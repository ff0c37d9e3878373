from datetime import timedelta

import pytest

from demur.observe.alerts.periods import parse_period, describe_period, format_period


@pytest.mark.parametrize(
    ("text", "period", "words"),
    [
        ("1m", timedelta(minutes=1), "minute"),
        ("90m", timedelta(minutes=90), "90 minutes"),
        ("1h", timedelta(hours=1), "hour"),
        ("7d", timedelta(days=7), "7 days"),
    ],
)
def test_a_period_is_read_and_written_alike(text: str, period: timedelta, words: str) -> None:
    assert parse_period(text) == period
    assert format_period(period) == text
    assert describe_period(period) == words


def test_a_period_is_written_in_its_largest_unit() -> None:
    assert format_period(timedelta(minutes=120)) == "2h"
    assert format_period(timedelta(hours=48)) == "2d"


@pytest.mark.parametrize("text", ["", "h", "1", "0m", "-1h", "1.5h", "1w", "367d", "²h", 5, None])
def test_what_is_no_period_is_none(text: object) -> None:
    assert parse_period(text) is None
