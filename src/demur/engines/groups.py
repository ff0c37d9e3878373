"""Cut a list of pieces into tasks for an engine."""

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["MOST_TASKS", "groups"]

Item = TypeVar("Item")
# Enough to keep a large cluster busy, few enough for one machine to collect the results.
MOST_TASKS = 2_000


def groups(items: Sequence[Item], most: int = MOST_TASKS) -> list[tuple[Item, ...]]:
    """Split the items into at most this many groups, with neighbours in different groups."""
    number = min(len(items), most)
    return [tuple(items[start::number]) for start in range(number)]
