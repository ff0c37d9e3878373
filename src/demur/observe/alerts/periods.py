"""Periods of alert rules: `5m`, `1h`, `7d`, as Prometheus writes them."""

from datetime import timedelta

__all__ = ["MAX_PERIOD", "parse_period", "describe_period", "format_period"]

_UNIT_SECONDS = {"m": 60, "h": 3600, "d": 86400}
_UNIT_NAMES = {"m": "minute", "h": "hour", "d": "day"}
MAX_PERIOD = timedelta(days=366)


def parse_period(text: object) -> timedelta | None:
    """Return the period that a text names, or None if it is not a period."""
    if not isinstance(text, str) or text[-1:] not in _UNIT_SECONDS:
        return None
    number = text[:-1]
    if not (number.isascii() and number.isdecimal()) or len(number) > 6:
        return None
    period = timedelta(seconds=int(number) * _UNIT_SECONDS[text[-1]])
    return period if timedelta() < period <= MAX_PERIOD else None


def format_period(period: timedelta) -> str:
    """Return a period in the notation of rules."""
    number, unit = _largest_unit(period)
    return f"{number}{unit}"


def describe_period(period: timedelta) -> str:
    """Return a period in words: `hour`, `5 minutes`."""
    number, unit = _largest_unit(period)
    return _UNIT_NAMES[unit] if number == 1 else f"{number} {_UNIT_NAMES[unit]}s"


def _largest_unit(period: timedelta) -> tuple[int, str]:
    """Return a period in the largest unit that divides it."""
    seconds = int(period.total_seconds())
    unit = next(unit for unit in ("d", "h", "m") if seconds % _UNIT_SECONDS[unit] == 0)
    return seconds // _UNIT_SECONDS[unit], unit
