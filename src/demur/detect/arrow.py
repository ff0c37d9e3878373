"""Detect over a whole Arrow batch, by its shape alone: Arrow is the caller's, not ours.

Whatever holds named columns with `to_pylist` will do. The result is columns too, ready for
`pyarrow.table(columns)` or `pyarrow.RecordBatch.from_pydict(columns)`.
"""

from typing import Any

from demur.detect.detector import detect_refusal
from demur.detect.signal import RefusalSignal
from demur.errors import InputError

__all__ = ["detect_batch"]


def detect_batch(
    batch: Any, response: str = "response", prompt: str | None = None
) -> dict[str, list[Any]]:
    """Return the signals as columns, one for each field and one row for each row of `batch`.

    A response that is null stays null in each column. `prompt` names the column of prompts.

    Raises:
        InputError: The batch has no such column, or it holds something else than text.
    """
    responses = _read_column(batch, response)
    prompts = _read_column(batch, prompt) if prompt is not None else [None] * len(responses)
    rows = [
        None if said is None else _detect_row(said, asked, response)
        for said, asked in zip(responses, prompts, strict=True)
    ]
    return {
        "kind": [None if row is None else str(row.kind) for row in rows],
        "confidence": [None if row is None else row.confidence for row in rows],
        "code": [None if row is None else row.code for row in rows],
        "language": [None if row is None else row.language for row in rows],
        "basis": [None if row is None else str(row.basis) for row in rows],
        "truncated": [None if row is None else row.truncated for row in rows],
    }


def _read_column(batch: Any, name: str) -> list[Any]:
    try:
        values = list(batch.column(name).to_pylist())
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise InputError(f"the batch has no column `{name}`") from error
    return values


def _detect_row(response: Any, prompt: Any, name: str) -> RefusalSignal:
    if not isinstance(response, str):
        raise InputError(f"the column `{name}` holds `{type(response).__name__}`, not text")
    return detect_refusal(response, prompt if isinstance(prompt, str) else None)
