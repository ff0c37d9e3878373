"""Moments that enter from outside: they need a time zone, or nobody knows when they were."""

from datetime import UTC, datetime, timedelta

from demur.errors import InputError

__all__ = ["to_utc", "to_milliseconds"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_utc(moment: datetime) -> datetime:
    """Return the same moment in UTC.

    Raises:
        InputError: It has no time zone, or is out of range.
    """
    if moment.tzinfo is None:
        raise InputError("the time needs a time zone", help="like 2027-01-31T12:00:00Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise InputError("the time is out of range") from error


def to_milliseconds(moment: datetime) -> int:
    """Return the whole milliseconds since 1970.

    Raises:
        InputError: It has no time zone, or is out of range.
    """
    return (to_utc(moment) - _EPOCH) // timedelta(milliseconds=1)
