"""Periods that pages look back over, and the buckets that they are cut into."""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

__all__ = [
    "PERIODS",
    "USUAL",
    "WEEK",
    "WEEK_ALONE",
    "Bucket",
    "Period",
    "hour_index",
    "period_named",
]

_HOUR_S = 3600


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """A time range from `start` to before `end`, in the format of records."""

    start: str
    end: str


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """A period that ends now, in steps. Buckets begin on whole multiples of their step in UTC.

    `before` names the previous period, if the two are compared.
    """

    name: str
    label: str
    before: str
    count: int
    step_h: int

    def first(self, now: datetime) -> int:
        """Return the first bucket of the period, as a number of steps since 1970."""
        return hour_index(now) // self.step_h - self.count + 1

    def start(self, now: datetime) -> datetime:
        """Return when the period begins."""
        return _moment(self.first(now) * self.step_h)

    def start_before(self, now: datetime) -> datetime:
        """Return the start of the previous period, or of this one if it is not compared."""
        back = self.count if self.before else 0
        return _moment((self.first(now) - back) * self.step_h)

    def buckets(self, now: datetime) -> list[Bucket]:
        """Return its buckets, oldest first."""
        first = self.first(now)
        return [
            Bucket(start=_text(index * self.step_h), end=_text((index + 1) * self.step_h))
            for index in range(first, first + self.count)
        ]


PERIODS: Mapping[str, Period] = {
    period.name: period
    for period in (
        Period(name="24h", label="24 hours", before="the day before", count=24, step_h=1),
        Period(name="7d", label="7 days", before="the week before", count=28, step_h=6),
        Period(name="30d", label="30 days", before="", count=30, step_h=24),
    )
}
USUAL, WEEK = PERIODS["24h"], PERIODS["7d"]
# The same week without a comparison.
WEEK_ALONE = msgspec.structs.replace(WEEK, name="7d alone", before="")


def period_named(name: str | None) -> Period:
    """Return the period of that name, or the default one."""
    return PERIODS.get(name or "", USUAL)


def hour_index(moment: datetime) -> int:
    """Return the hour of a moment, counted from 1970."""
    return int(moment.timestamp()) // _HOUR_S


def _moment(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * _HOUR_S, UTC)


def _text(hour: int) -> str:
    return _moment(hour).strftime("%Y-%m-%dT%H:00:00.000Z")
