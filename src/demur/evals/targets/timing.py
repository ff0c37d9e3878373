"""How long something took, as answers say it."""

import time

__all__ = ["ms_since"]


def ms_since(began: float) -> float:
    """Return the milliseconds since `time.perf_counter()` was `began`."""
    return round((time.perf_counter() - began) * 1000, 3)
