from datetime import UTC, datetime, timedelta, timezone

import pytest

from demur.gate.clock import system_clock, system_entropy, format_timestamp


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC), "2026-01-02T03:04:05.678Z"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00.000Z"),
        (
            datetime(2026, 1, 2, 1, tzinfo=timezone(timedelta(hours=2))),
            "2026-01-01T23:00:00.000Z",
        ),
    ],
)
def test_a_moment_is_written_in_utc_with_milliseconds(moment: datetime, written: str) -> None:
    assert format_timestamp(moment) == written


def test_the_machine_has_a_clock_in_utc_and_fresh_randomness() -> None:
    assert system_clock().tzinfo is UTC
    assert system_clock() <= system_clock()
    assert len(system_entropy(16)) == 16
    assert system_entropy(16) != system_entropy(16)
