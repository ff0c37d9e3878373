"""The history of an agent's tool calls, and what makes two calls the same.

A call keeps the marks it is compared by, so that a history that grows by one call is judged
without reading the others again. `CallHistory.add` keeps a window of calls and the totals of
those that left it.
"""

import json
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec
import re2

from demur.errors import InputError, InputTypeError
from demur.scan.fold import fold_text

__all__ = ["RecordedCall", "CallHistory", "CallTotals"]

# Parts that change in every answer: request ids, times, addresses in memory.
_PASSING = (
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b0x[0-9a-f]+\b"
    r"|(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[t ])?[0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"(?:[.,][0-9]+)?(?:z|[+-][0-9]{2}:?[0-9]{2})?"
)
_VOLATILE = re2.compile(_PASSING)
# In arguments also parts that differ between tries: counters, and ids without a form.
_NOISE = re2.compile(rf"{_PASSING}|\b[0-9a-f]*[0-9][0-9a-f]{{11,}}\b|[0-9]+(?:[.][0-9]+)?")
# In error messages also quoted arguments.
_QUOTED = re2.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|[^\s]*[/\\][^\s]*|[^\s]*[0-9][^\s]*|\S+\.\w+")
_MAX_COMPARED = 4000
_MAX_JSON = 100_000
# JSON inside JSON is parsed this deep, and stays a text beyond.
_MAX_JSON_DEPTH = 3
_FAILURE = re2.compile(
    r"^[\"']?(?:error|exception|traceback|fatal|failed|failure|timeout|timed out|denied"
    r"|unauthori[sz]ed|forbidden|not found|no such|no (?:results?|matches|data|records)|cannot"
    r"|could not|unable to|permission denied|access denied|invalid|unknown|[45][0-9]{2}\b)"
    r"|^[a-z.]*(?:error|exception)\b|\"(?:is_?error|error)\" ?: ?(?:true|\"[^\"]|\{)"
    r"|\"(?:ok|success)\" ?: ?false|^(?:\[\]|\{\}|none)$"
)


def _check_amount(what: str, value: Any, *, none: bool) -> None:
    if none and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputTypeError.wrong_type(what, "a number", value)
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{what} must be a number from 0 up")


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One call: the tool, its arguments, and its result once it has run.

    `at_s` is when it began, in seconds of any clock; `failed` says that it ended in an error,
    where the host knows. A call that has not run yet has no result.
    """

    name: str
    arguments: Any = None
    result: Any = None
    at_s: float | None = None
    tokens: int = 0
    cost: float = 0
    failed: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputTypeError.wrong_type("the name of a call", "a string", self.name)
        for field in ("at_s", "tokens", "cost"):
            _check_amount(f"`{field}` of a call", getattr(self, field), none=field == "at_s")

    @cached_property
    def exact_arguments(self) -> str:
        """The arguments as one text, the same for any spelling and order of keys."""
        return _canonical_text(self.arguments)

    @cached_property
    def argument_trigrams(self) -> frozenset[str]:
        """The trigrams of the arguments, without ids and numbers, for measuring similarity."""
        text = _NOISE.sub("#", self.exact_arguments[:_MAX_COMPARED])
        return frozenset(text[i : i + 3] for i in range(max(1, len(text) - 2)))

    @cached_property
    def outcome(self) -> str | None:
        """The result without what changes by itself, or None if there is none yet."""
        if self.result is None:
            return None
        return str(_VOLATILE.sub("#", _canonical_text(self.result)[:_MAX_COMPARED]))

    @cached_property
    def failure_message(self) -> str | None:
        """The outcome of a failed call, without quoted arguments; else None."""
        return str(_QUOTED.sub("#", self.outcome or "")) if self.is_failure else None

    @cached_property
    def is_failure(self) -> bool:
        """Whether the call ended in an error, or found nothing."""
        if self.failed or self.result is None:
            return self.failed
        return bool(_FAILURE.search(_canonical_text(self.result)[:_MAX_COMPARED]))

    def argument_similarity(self, other: "RecordedCall") -> float:
        """Return how alike the arguments are, from 0 to 1; 1 if only ids and numbers differ."""
        shared = len(self.argument_trigrams & other.argument_trigrams)
        return 2 * shared / (len(self.argument_trigrams) + len(other.argument_trigrams))


class CallTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of calls, and when the first and the last of them began."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0
    since_s: float | None = None
    until_s: float | None = None

    def __post_init__(self) -> None:
        for field in ("calls", "tokens", "cost", "since_s", "until_s"):
            _check_amount(f"`{field}`", getattr(self, field), none=field.endswith("_s"))

    def with_call(self, call: RecordedCall) -> "CallTotals":
        """Return the totals with `call` added."""
        times = [at for at in (self.since_s, self.until_s, call.at_s) if at is not None]
        return CallTotals(
            calls=self.calls + 1,
            tokens=self.tokens + call.tokens,
            cost=self.cost + call.cost,
            since_s=min(times, default=None),
            until_s=max(times, default=None),
        )


class CallHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The calls so far, oldest first, and the totals of those before them."""

    calls: tuple[RecordedCall, ...] = ()
    earlier: CallTotals = CallTotals()

    def __post_init__(self) -> None:
        if not all(isinstance(call, RecordedCall) for call in self.calls):
            raise InputError("a history holds calls", help="`RecordedCall(name=...)`")

    def add(self, call: RecordedCall, *, keep: int = 64) -> "CallHistory":
        """Return the history with `call` added: the last `keep` calls, and totals of the rest."""
        calls = (*self.calls, call)
        earlier = self.earlier
        for old in calls[:-keep]:
            earlier = earlier.with_call(old)
        return CallHistory(calls=calls[-keep:], earlier=earlier)


def _canonical_text(value: Any) -> str:
    """Return a value as one text, the same for all spellings of it.

    A text that holds JSON is read as such, so that the order of its keys makes no difference.
    """
    try:
        folded = _fold_value(value, _MAX_JSON_DEPTH)
        if isinstance(folded, str):
            return folded
        return json.dumps(folded, sort_keys=True, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError("a call has arguments or a result that are no JSON") from error


def _fold_value(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        held = _json_in(value) if depth else None
        try:
            return _fold_text(value) if held is None else _fold_value(held, depth - 1)
        except RecursionError:
            # Nested too deep: treat it as plain text.
            return _fold_text(value)
    if isinstance(value, Mapping):
        return {_fold_key(key): _fold_value(item, depth) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fold_value(item, depth) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    raise InputTypeError.wrong_type("a value", "JSON", value)


def _fold_key(key: Any) -> Any:
    return _fold_text(key) if isinstance(key, str) else key


def _fold_text(text: str) -> str:
    """Return a text without case, look-alikes, invisible characters and extra white space."""
    return fold_text(text).data.decode("latin-1").strip()


def _json_in(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the object or list that a text holds as JSON, or None."""
    inside = text.strip()
    if not 1 < len(inside) <= _MAX_JSON or inside[0] + inside[-1] not in {"{}", "[]"}:
        return None
    try:
        return json.loads(inside)  # type: ignore[no-any-return] # it begins as an object or a list
    except (ValueError, RecursionError):
        return None
