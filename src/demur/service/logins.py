"""Limits on login attempts: for each address, and for all addresses together.

A key that is already cached is not counted, so that a flood of made-up keys locks no user out.
"""

import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil

from demur.codes.reason_code import ReasonCode
from demur.service.buckets import Buckets
from demur.service.problem import ProblemError

__all__ = ["Logins"]

_RATE, _BURST = 1, 20
_RATE_OF_ALL, _BURST_OF_ALL = 20, 100
_MOST_ADDRESSES = 10_000
# A host usually owns a whole IPv6 network of this prefix, so it counts as one address.
_PREFIX = 64


class Logins:
    """Limits login attempts. Not safe to share between threads.

    A key that is already cached is not counted, so that a flood of made-up keys locks nobody out.
    """

    def __init__(self, *, seconds: Callable[[], float] = time.monotonic) -> None:
        self._each = Buckets(_RATE, _BURST, most=_MOST_ADDRESSES, seconds=seconds)
        self._all = Buckets(_RATE_OF_ALL, _BURST_OF_ALL, seconds=seconds)

    def count(self, address: str) -> None:
        """Count an attempt from an address.

        Raises:
            ProblemError: There were too many attempts lately.
        """
        wait = self._each.wait(_source(address)) or self._all.wait("")
        if wait:
            raise ProblemError(
                429,
                ReasonCode.RATE_LIMIT,
                "too many login attempts",
                headers={"retry-after": str(max(1, ceil(wait)))},
            )


def _source(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return ""
    if isinstance(parsed, IPv6Address):
        return str(ip_network((parsed, _PREFIX), strict=False))
    return str(parsed)
