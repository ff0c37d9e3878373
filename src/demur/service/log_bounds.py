"""How long a log may be read, and how much of it, by whoever sent it."""

import time
from collections.abc import Callable

from demur.service.problem import invalid
from demur.service.service import Service

__all__ = ["bounded"]

# A log shrinks to a tenth; what shrinks to a thousandth was made to be large.
_MOST_EXPANSION = 16


def bounded(service: Service) -> Callable[[int], None]:
    """Return what hears how much of a log was read, and ends it where that is too much.

    The time counts from now on. What it raises is a `ProblemError` for a log that is too large
    when it is unpacked, and a `TimeoutError` for one that takes too long, or longer than the
    service is there.
    """
    largest = service.settings.largest_log * _MOST_EXPANSION
    end = time.monotonic() + service.settings.timeout_s
    left = [largest]

    def progress(read: int) -> None:
        left[0] -= read
        if left[0] < 0:
            raise invalid(
                413,
                f"a log has at most {largest} bytes once it is unpacked",
                help="demur triage counts it",
            )
        if service.ended or time.monotonic() > end:
            # Whoever asked was told so; the thread has to hear of it, too.
            raise TimeoutError

    return progress
