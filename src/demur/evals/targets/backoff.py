"""How long to wait before a request is sent again, and how often."""

import hashlib
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

__all__ = ["MAX_WAIT_S", "parse_retry_after", "retry_wait"]

MAX_WAIT_S = 60.0
_FIRST_WAIT_S = 0.5


def retry_wait(attempt: int, retry_after_s: float | None, key: str) -> float:
    """Return the seconds to wait before attempt number `attempt`, which is 2 for the first retry.

    The server's own request counts, up to a maximum. Otherwise the time doubles with each
    attempt, and a digest of `key` spreads requests that failed together.
    """
    if retry_after_s is not None:
        return min(retry_after_s, MAX_WAIT_S)
    drawn = hashlib.sha256(f"{attempt}\n{key}".encode(errors="replace")).digest()[0]
    whole: float = _FIRST_WAIT_S * 2 ** min(attempt - 2, 10)
    return min(whole * (0.5 + drawn / 510), MAX_WAIT_S)


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, or None if it does not say.

    A date is compared with the server's own `Date`, so that clocks need not agree.
    """
    word = headers.get("retry-after", "").strip()
    seconds: float | None
    try:
        seconds = float(word)
    except ValueError:
        seconds = _seconds_between(headers.get("date", ""), word)
    # Ignore NaN and times in the past.
    return seconds if seconds is not None and seconds >= 0 else None


def _seconds_between(now: str, then: str) -> float | None:
    try:
        return (parsedate_to_datetime(then) - parsedate_to_datetime(now)).total_seconds()
    except (TypeError, ValueError):
        return None
