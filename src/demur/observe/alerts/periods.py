"""Periods of alert rules: `5m`, `1h`, `7d`, as Prometheus writes them."""

from datetime import timedelta

__all__ = ["LONGEST", "parse_period", "spoken", "written"]

_UNITS = {"m": 60, "h": 3600, "d": 86400}
_NAMES = {"m": "minute", "h": "hour", "d": "day"}
LONGEST = timedelta(days=366)


def parse_period(text: object) -> timedelta | None:
    """Return the period that a text names, or None if it is not a period."""
    if not isinstance(text, str) or text[-1:] not in _UNITS:
        return None
    number = text[:-1]
    if not (number.isascii() and number.isdecimal()) or len(number) > 6:
        return None
    period = timedelta(seconds=int(number) * _UNITS[text[-1]])
    return period if timedelta() < period <= LONGEST else None


def written(period: timedelta) -> str:
    """Return a period in the notation of rules."""
    number, unit = _largest(period)
    return f"{number}{unit}"


def spoken(period: timedelta) -> str:
    """Return a period in words: `hour`, `5 minutes`."""
    number, unit = _largest(period)
    return _NAMES[unit] if number == 1 else f"{number} {_NAMES[unit]}s"


def _largest(period: timedelta) -> tuple[int, str]:
    """Return a period in the largest unit that divides it."""
    seconds = int(period.total_seconds())
    unit = next(unit for unit in ("d", "h", "m") if seconds % _UNITS[unit] == 0)
    return seconds // _UNITS[unit], unit
