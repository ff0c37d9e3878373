"""The thing under test, and the answers it gives.

A failure is never text: an answer with an `error` was not judged, and counts neither as a
refusal nor as compliance.
"""

import time
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

from demur.errors import DemurError, one_line, shorten
from demur.evals.suite_row import EvalRow

ErrorKind = Literal["timeout", "http", "protocol", "rate_limit", "target"]

MAX_ERROR_LENGTH = 300
MAX_NATIVE_BYTES = 32_768
_MAX_TEXT_LENGTH, _MAX_ITEMS, _MAX_KEYS = 500, 20, 50
_MAX_DEPTH = 12


class TargetAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of a target to a row, its cost, or its error.

    `native` is the provider's own response, limited in size, for signals outside the text.
    `cost` is in the currency of the configured prices. `warnings` are the codes that guards around
    the target only warn of.
    """

    row_id: str
    text: str = ""
    native: Any = None
    error: str | None = None
    error_kind: ErrorKind | None = None
    ms: float = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    attempts: int = 1
    warnings: tuple[str, ...] = ()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(TargetAnswer)


def error_answer(
    row_id: str, kind: ErrorKind, problem: str, *, ms: float = 0, attempts: int = 1
) -> TargetAnswer:
    """Return an answer that carries an error, with the problem on one line."""
    line = shorten(one_line(problem.strip()), MAX_ERROR_LENGTH)
    return TargetAnswer(row_id=row_id, error=line, error_kind=kind, ms=ms, attempts=attempts)


def encode_answer(answer: TargetAnswer) -> bytes:
    """Return an answer as one line of JSON, without the line's end."""
    try:
        return _encoder.encode(answer)
    except UnicodeEncodeError:
        # JSON cannot carry a lone surrogate.
        whole = answer.text.encode(errors="replace").decode()
        return _encoder.encode(msgspec.structs.replace(answer, text=whole, native=None))


def decode_answer(line: bytes) -> TargetAnswer:
    """Return the answer in a line.

    Raises:
        msgspec.MsgspecError: The line is not an answer.
    """
    return _decoder.decode(line)


def limit_size(native: Any) -> Any:
    """Return a JSON value unchanged if it is small, otherwise with long parts truncated.

    The fields that say why a model stopped are short, and stay. Texts and lists of scores are cut.
    """
    try:
        if len(_encoder.encode(native)) <= MAX_NATIVE_BYTES:
            return native
        cut = _truncate_value(native, 0)
        return cut if len(_encoder.encode(cut)) <= MAX_NATIVE_BYTES else None
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return None


def _truncate_value(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT_LENGTH else f"{value[:_MAX_TEXT_LENGTH]}…"
    if depth >= _MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        items = list(value.items())[:_MAX_KEYS]
        return {key: _truncate_value(item, depth + 1) for key, item in items}
    if isinstance(value, list | tuple):
        return [_truncate_value(item, depth + 1) for item in value[:_MAX_ITEMS]]
    return value


class TargetError(DemurError, ValueError):
    """A target that is unknown, or whose options are invalid."""


class EvalTarget(Protocol):
    """The thing that an eval runs against.

    `answer` is called many times concurrently from one event loop, and reports failures as
    answers with an error. `settings` are recorded: everything that identifies the target, and
    no secrets.
    """

    @property
    def name(self) -> str:
        """The name in reports."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The options that identify the target, as JSON values."""

    async def answer(self, row: EvalRow) -> TargetAnswer:
        """Return the answer to a row's prompt."""

    async def close(self) -> None:
        """Close connections and processes."""


def ms_since(began: float) -> float:
    """Return the milliseconds since `time.perf_counter()` was `began`."""
    return round((time.perf_counter() - began) * 1000, 3)
