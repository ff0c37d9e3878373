"""How often strangers may try to log in: each address for itself, and all of them together.

Whoever comes with a key that is in the book already is not counted, so that a flood of
made-up keys keeps nobody out.
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
# Who has one address of IPv6 has all that begin like it.
_PREFIX = 64


class Logins:
    """Counts tries to log in. To be used in one thread."""

    def __init__(self, *, seconds: Callable[[], float] = time.monotonic) -> None:
        self._each = Buckets(_RATE, _BURST, most=_MOST_ADDRESSES, seconds=seconds)
        self._all = Buckets(_RATE_OF_ALL, _BURST_OF_ALL, seconds=seconds)

    def count(self, address: str) -> None:
        """Count a try from an address.

        Raises:
            ProblemError: There were too many lately.
        """
        wait = self._each.wait(_source(address)) or self._all.wait("")
        if wait:
            raise ProblemError(
                429,
                ReasonCode.RATE_LIMIT,
                "there were too many tries to log in",
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
