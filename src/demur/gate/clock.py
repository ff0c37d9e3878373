"""The edge where time and randomness enter. Everything further in gets them as arguments."""

import os
from collections.abc import Callable
from datetime import UTC, datetime

__all__ = ["Clock", "Entropy", "system_clock", "system_entropy", "format_timestamp"]

Clock = Callable[[], datetime]
Entropy = Callable[[int], bytes]


def system_clock() -> datetime:
    """Return the system time in UTC."""
    return datetime.now(UTC)  # noqa: TID251 - the gate's edge is where the clock enters


def system_entropy(count: int) -> bytes:
    """Return random bytes of the operating system."""
    return os.urandom(count)


def format_timestamp(moment: datetime) -> str:
    """Return a time in the format of records: UTC, milliseconds, `Z`."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"
