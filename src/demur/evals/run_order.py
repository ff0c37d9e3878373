"""Which rows of a suite a run asks, and in which order: by a seed, the same each time."""

import hashlib
from collections.abc import Sequence

from demur.evals.suite_row import EvalRow

__all__ = ["select_rows"]


def select_rows(
    rows: Sequence[EvalRow], *, seed: int | None, limit: int | None
) -> Sequence[EvalRow]:
    """Return the rows to ask: in the suite's order or sampled by `seed`, at most `limit`.

    A row and its twin are sampled together, so that both sides are equally represented.
    """
    if seed is None:
        return rows if limit is None else rows[:limit]
    drawn = sorted(rows, key=lambda row: (_sample_key(row, seed), row.id))
    return drawn if limit is None else drawn[:limit]


def _sample_key(row: EvalRow, seed: int) -> bytes:
    pair = row.id if row.twin is None else min(row.id, row.twin)
    return hashlib.blake2b(f"{seed}\n{pair}".encode(errors="replace"), digest_size=16).digest()
