"""Limits on the time and size of an uploaded log."""

import time
from collections.abc import Callable

from demur.service.problem import invalid_request
from demur.service.service import Service

__all__ = ["limit_log_scan"]

# Logs compress to about a tenth. One that expands far more is a decompression bomb.
_MAX_EXPANSION = 16


def limit_log_scan(service: Service) -> Callable[[int], None]:
    """Return a progress callback that stops the scan of a log beyond its limits.

    The time counts from now on. The callback raises `ProblemError` for a log that is too large
    when unpacked, and `TimeoutError` for one that takes too long or outlives the service.
    """
    largest = service.settings.largest_log * _MAX_EXPANSION
    end = time.monotonic() + service.settings.timeout_s
    left = [largest]

    def progress(read: int) -> None:
        left[0] -= read
        if left[0] < 0:
            raise invalid_request(
                413,
                f"the unpacked log must not exceed {largest} bytes",
                help="use `demur triage` for larger logs",
            )
        if service.ended or time.monotonic() > end:
            # The caller has its answer already; this ends the thread, too.
            raise TimeoutError

    return progress
