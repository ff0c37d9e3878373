"""Cut a list of pieces into tasks for an engine."""

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["MAX_TASKS", "split_into_groups"]

Item = TypeVar("Item")
# Enough to keep a large cluster busy, few enough for one machine to collect the results.
MAX_TASKS = 2_000


def split_into_groups(items: Sequence[Item], max_groups: int = MAX_TASKS) -> list[tuple[Item, ...]]:
    """Split the items into at most this many groups, with neighbours in different groups."""
    number = min(len(items), max_groups)
    return [tuple(items[start::number]) for start in range(number)]
