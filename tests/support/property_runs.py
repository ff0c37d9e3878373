"""How many examples property tests run: a quarter in `make test`, all in `make test-slow`."""

import os

__all__ = ["PROFILE", "examples"]

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")


def examples(count: int) -> int:
    """Return how many of `count` examples to run under the current profile."""
    return max(10, count // 4) if PROFILE == "quick" else count
