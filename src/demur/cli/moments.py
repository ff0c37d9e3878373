"""Parse periods and times as people type them: `7d`, `2027-01-31`, `2027-01-31T12:00Z`."""

from datetime import UTC, datetime, timedelta

from demur.errors import InputError

__all__ = ["parse_time", "parse_period"]

_SECONDS_PER_UNIT = {"m": 60, "h": 3600, "d": 86400}
_MAX_PERIOD = 10_000


def parse_period(text: str) -> timedelta:
    """Parse a period like `30m`, `8h` or `7d`.

    Raises:
        InputError: The text is not a period.
    """
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdecimal()) or unit not in _SECONDS_PER_UNIT:
        raise InputError(f"`{text}` is not a period", help="like 30m, 8h or 7d")
    if not 0 < int(number) <= _MAX_PERIOD:
        raise InputError(
            f"`{text}` is not a period", help=f"from 1 to {_MAX_PERIOD} minutes, hours or days"
        )
    return timedelta(seconds=int(number) * _SECONDS_PER_UNIT[unit])


def parse_time(text: str, now: datetime) -> datetime:
    """Parse a date, a time (UTC unless it names a zone), or a period before `now`.

    Raises:
        InputError: The text is not a time.
    """
    if text[-1:] in _SECONDS_PER_UNIT and text[:-1].isdecimal():
        return now - parse_period(text)
    try:
        named = datetime.fromisoformat(text)
        return named.replace(tzinfo=UTC) if named.tzinfo is None else named.astimezone(UTC)
    except (ValueError, OverflowError):
        help_text = "like 2027-01-31, 2027-01-31T12:00Z, or 7d for seven days ago"
        raise InputError(f"`{text}` is not a time", help=help_text) from None
