"""The time of a log line, out of the forms that logs commonly write it in.

Read only of lines that refuse. A time without a zone is taken for UTC, and one without a
year for the last such day before `now`. What is no time is None, never an error.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import cache

__all__ = ["MAX_HEAD_LENGTH", "parse_line_time", "parse_value_time"]

# The time of a line is at its head; a later one may be quoted.
MAX_HEAD_LENGTH = 200

_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, start=1)}
_MONTH = f"(?P<month>{'|'.join(_MONTH_NAMES)})"
_YEAR = r"(?<!\d)(?P<year>\d{4})"
_DAY = r"(?P<day>\d\d?)"
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d{1,9})?)?"
_COMPACT = r"(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)(?:[.,]\d{1,9})?"
_ZONE = r"(?: ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d(?!\d))|(?P<hours>[+-]\d\d)(?!\d))?"
_TIME_FORMS = (
    # ISO 8601 and its kin: RFC 5424, log4j, Python, Go, nginx.
    rf"{_YEAR}(?P<sep>[-/.])(?P<month>\d\d)(?P=sep)(?P<day>\d\d)[T _]{_CLOCK}{_ZONE}",
    rf"{_YEAR}(?P<month>\d\d)(?P<day>\d\d)T{_COMPACT}{_ZONE}",
    # Apache and nginx access logs.
    rf"(?P<day>\d\d)/{_MONTH}/(?P<year>\d{{4}}):{_CLOCK}{_ZONE}",
    # Mail, and log4j's DATE.
    rf"(?<!\d){_DAY}[ -]{_MONTH}[ -]{_YEAR},? {_CLOCK}{_ZONE}",
    # RFC 3164, and ctime with the year at its end.
    rf"(?<![A-Za-z]){_MONTH} {{1,2}}{_DAY} {_CLOCK}(?: (?P<zone>UTC|GMT))?(?: {_YEAR}(?!\d))?",
    # klog.
    rf"^[IWEFD](?P<month>\d\d)(?P<day>\d\d) {_CLOCK}",
)
_EPOCH = (
    r"(?:^[\[(\"']?|\b(?:ts|time|timestamp|t)=[\"']?)"
    r"(?P<epoch>\d{9,10}(?:\.\d{1,9})?|\d{13}|\d{16}|\d{19})(?![\d.:/-])"
)
_NUMBER = r"\d{9,19}(?:\.\d{1,9})?\Z"
# Seconds, milliseconds, microseconds and nanoseconds since 1970 differ by their size.
_SCALES = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))
_MAX_AHEAD = timedelta(days=1)


@cache
def _compile_forms() -> tuple[re.Pattern[str], ...]:
    # Compiled late: most logs are counted without times.
    return tuple(map(re.compile, _TIME_FORMS))


def parse_line_time(head: str, now: datetime | None = None) -> datetime | None:
    """Return the first time in the head of a line, in UTC."""
    head = head[:MAX_HEAD_LENGTH]
    forms = _compile_forms()
    first = forms[0].match(head)
    if first is not None and (moment := _calendar_time(first, now)) is not None:
        return moment
    found = [match for form in forms for match in form.finditer(head)]
    for match in sorted(found, key=lambda match: match.start()):
        moment = _calendar_time(match, now)
        if moment is not None:
            return moment
    epoch = re.search(_EPOCH, head)
    return None if epoch is None else _epoch_time(float(epoch["epoch"]))


def parse_value_time(value: object, now: datetime | None = None) -> datetime | None:
    """Return the time in a JSON value, in UTC."""
    if isinstance(value, str):
        if re.match(_NUMBER, value):
            return _epoch_time(float(value))
        return parse_line_time(value, now)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _epoch_time(float(value))


def _epoch_time(number: float) -> datetime | None:
    for limit, scale in _SCALES:
        if 0 < number < limit:
            return _time_or_none(lambda: datetime.fromtimestamp(number / scale, UTC))  # noqa: B023 - called at once
    return None


def _calendar_time(match: re.Match[str], now: datetime | None) -> datetime | None:
    parts = match.groupdict()
    month = _MONTHS.get(parts["month"]) or int(parts["month"])
    clock = (int(parts["hour"]), int(parts["minute"]), int(parts["second"] or 0))
    zone = _parse_zone(parts.get("zone") or parts.get("hours"))
    if parts.get("year"):
        year = int(parts["year"])
        return _make_time(year, month, int(parts["day"]), clock, zone)
    if now is None:
        return None
    moment = _make_time(now.year, month, int(parts["day"]), clock, zone)
    if moment is None or moment > now + _MAX_AHEAD:
        return _make_time(now.year - 1, month, int(parts["day"]), clock, zone)
    return moment


def _make_time(
    year: int, month: int, day: int, clock: tuple[int, int, int], zone: timezone
) -> datetime | None:
    hour, minute, second = clock
    # A leap second counts as the second before it.
    return _time_or_none(
        lambda: datetime(year, month, day, hour, minute, min(second, 59), tzinfo=zone).astimezone(
            UTC
        )
    )


def _parse_zone(text: str | None) -> timezone:
    if text is None or text[0] not in "+-":
        return UTC
    hours, minutes = int(text[1:3]), int(text[3:].removeprefix(":") or 0)
    offset = timedelta(hours=hours, minutes=minutes)
    if offset >= timedelta(days=1):
        return UTC
    return timezone(-offset if text[0] == "-" else offset)


def _time_or_none(make: Callable[[], datetime]) -> datetime | None:
    try:
        return make()
    except (ValueError, OverflowError, OSError):
        return None
