"""An answer of a target to a row, or the reason why there is none.

A failure is never text: an answer with an `error` was not judged, and counts neither as a
refusal nor as compliance.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from demur.errors import one_line

__all__ = [
    "LARGEST_NATIVE",
    "LONGEST_ERROR",
    "Answer",
    "ErrorKind",
    "bounded",
    "decode_answer",
    "encode_answer",
    "failed",
]

ErrorKind = Literal["timeout", "http", "protocol", "rate_limit", "target"]

LONGEST_ERROR = 300
LARGEST_NATIVE = 32_768
_LONGEST_TEXT = 500
_MOST_ITEMS = 20
_MOST_KEYS = 50
_DEEPEST = 12


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of a target to a row, its cost, or its error.

    `native` is the provider's own response, limited in size, for signals outside the text.
    `cost` is in the currency of the configured prices.
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


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Answer)


def failed(
    row_id: str, kind: ErrorKind, problem: str, *, ms: float = 0, attempts: int = 1
) -> Answer:
    """Return an answer that carries an error, with the problem on one line."""
    line = one_line(problem.strip())
    if len(line) > LONGEST_ERROR:
        line = f"{line[: LONGEST_ERROR - 1]}…"
    return Answer(row_id=row_id, error=line, error_kind=kind, ms=ms, attempts=attempts)


def encode_answer(answer: Answer) -> bytes:
    """Return an answer as one line of JSON, without the line's end."""
    try:
        return _encoder.encode(answer)
    except UnicodeEncodeError:
        # JSON cannot carry a lone surrogate.
        whole = answer.text.encode(errors="replace").decode()
        return _encoder.encode(msgspec.structs.replace(answer, text=whole, native=None))


def decode_answer(line: bytes) -> Answer:
    """Return the answer in a line.

    Raises:
        msgspec.MsgspecError: The line is not an answer.
    """
    return _decoder.decode(line)


def bounded(native: Any) -> Any:
    """Return a JSON value unchanged if it is small, otherwise with long parts truncated.

    The fields that say why a model stopped are short, and stay. Texts and lists of scores are cut.
    """
    try:
        if len(_encoder.encode(native)) <= LARGEST_NATIVE:
            return native
        cut = _cut(native, 0)
        return cut if len(_encoder.encode(cut)) <= LARGEST_NATIVE else None
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return None


def _cut(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}…"
    if depth >= _DEEPEST:
        return None
    if isinstance(value, Mapping):
        return {key: _cut(item, depth + 1) for key, item in list(value.items())[:_MOST_KEYS]}
    if isinstance(value, list | tuple):
        return [_cut(item, depth + 1) for item in value[:_MOST_ITEMS]]
    return value
