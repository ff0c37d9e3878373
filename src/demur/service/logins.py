"""Limits on login attempts: for each address, and for all addresses together.

A key that is already cached is not counted, so that a flood of made-up keys locks no user out.
"""

import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil

from demur.codes.reason_code import ReasonCode
from demur.service.buckets import RateBuckets
from demur.service.problem import ProblemError

__all__ = ["LoginLimiter"]

_LOGIN_RATE, _LOGIN_BURST = 1, 20
_TOTAL_LOGIN_RATE, _TOTAL_LOGIN_BURST = 20, 100
_MAX_ADDRESSES = 10_000
# A host usually owns a whole IPv6 network of this prefix, so it counts as one address.
_IPV6_PREFIX_LENGTH = 64


class LoginLimiter:
    """Limits login attempts. Not safe to share between threads.

    A key that is already cached is not counted, so that a flood of made-up keys locks nobody out.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._each = RateBuckets(
            _LOGIN_RATE, _LOGIN_BURST, max_keys=_MAX_ADDRESSES, monotonic=monotonic
        )
        self._all = RateBuckets(_TOTAL_LOGIN_RATE, _TOTAL_LOGIN_BURST, monotonic=monotonic)

    def count_attempt(self, address: str) -> None:
        """Count an attempt from an address.

        Raises:
            ProblemError: There were too many attempts lately.
        """
        wait = self._each.wait_for(_source_network(address)) or self._all.wait_for("")
        if wait:
            raise ProblemError(
                429,
                ReasonCode.RATE_LIMIT,
                "too many login attempts",
                headers={"retry-after": str(max(1, ceil(wait)))},
            )


def _source_network(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return ""
    if isinstance(parsed, IPv6Address):
        return str(ip_network((parsed, _IPV6_PREFIX_LENGTH), strict=False))
    return str(parsed)
