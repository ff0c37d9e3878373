"""Periods that pages look back over, and the buckets that they are cut into."""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

__all__ = [
    "PERIODS",
    "DEFAULT_PERIOD",
    "WEEK",
    "WEEK_UNCOMPARED",
    "TimeBucket",
    "LookbackPeriod",
    "hour_index",
    "find_period",
]

_HOUR_S = 3600


class TimeBucket(msgspec.Struct, frozen=True, kw_only=True):
    """A time range from `start_time` to before `end`, in the format of records."""

    start: str
    end: str


class LookbackPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """A period that ends now, in steps. Buckets begin on whole multiples of their step in UTC.

    `before` names the previous period, if the two are compared.
    """

    name: str
    label: str
    before: str
    count: int
    step_h: int

    def first_step(self, now: datetime) -> int:
        """Return the first bucket of the period, as a number of steps since 1970."""
        return hour_index(now) // self.step_h - self.count + 1

    def start_time(self, now: datetime) -> datetime:
        """Return when the period begins."""
        return _hour_time(self.first_step(now) * self.step_h)

    def compared_start(self, now: datetime) -> datetime:
        """Return the start of the previous period, or of this one if it is not compared."""
        back = self.count if self.before else 0
        return _hour_time((self.first_step(now) - back) * self.step_h)

    def buckets(self, now: datetime) -> list[TimeBucket]:
        """Return its buckets, oldest first."""
        first = self.first_step(now)
        return [
            TimeBucket(
                start=_hour_text(index * self.step_h), end=_hour_text((index + 1) * self.step_h)
            )
            for index in range(first, first + self.count)
        ]


PERIODS: Mapping[str, LookbackPeriod] = {
    period.name: period
    for period in (
        LookbackPeriod(name="24h", label="24 hours", before="the day before", count=24, step_h=1),
        LookbackPeriod(name="7d", label="7 days", before="the week before", count=28, step_h=6),
        LookbackPeriod(name="30d", label="30 days", before="", count=30, step_h=24),
    )
}
DEFAULT_PERIOD, WEEK = PERIODS["24h"], PERIODS["7d"]
# The same week without a comparison.
WEEK_UNCOMPARED = msgspec.structs.replace(WEEK, name="7d alone", before="")


def find_period(name: str | None) -> LookbackPeriod:
    """Return the period of that name, or the default one."""
    return PERIODS.get(name or "", DEFAULT_PERIOD)


def hour_index(moment: datetime) -> int:
    """Return the hour of a moment, counted from 1970."""
    return int(moment.timestamp()) // _HOUR_S


def _hour_time(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * _HOUR_S, UTC)


def _hour_text(hour: int) -> str:
    return _hour_time(hour).strftime("%Y-%m-%dT%H:00:00.000Z")
