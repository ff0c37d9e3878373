"""How a response came about: which models were asked, and what was ruled on the way."""

from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from demur.enforce.ruling import CheckResult

__all__ = [
    "ModelAttempt",
    "CallTrace",
    "attach_trace",
    "copy_request_ids",
    "add_refusal_note",
    "read_check_result",
    "read_trace",
]

_TRACE_ATTRIBUTE = "_demur_trail"
# Where the stream helpers of the SDKs keep the stream that they read.
_INNER_STREAM = "_raw_stream"
# The SDKs set these on each response, and read them without a default.
_ID_ATTRIBUTES = ("_request_id", "_workspace_id")
_Object = TypeVar("_Object")


class ModelAttempt(NamedTuple):
    """One model that was asked, with a check result for each choice.

    A model that `failed` neither answered nor refused.
    """

    model: str
    results: tuple[CheckResult, ...] = ()
    failed: bool = False

    @property
    def result(self) -> CheckResult | None:
        """The first result that refuses, or else the first."""
        refusing = (one for one in self.results if not one.allowed)
        return next(refusing, self.results[0] if self.results else None)

    @property
    def is_refused(self) -> bool:
        """Whether every choice is a refusal."""
        return bool(self.results) and not any(one.allowed for one in self.results)


class CallTrace(NamedTuple):
    """The check results of one call: for the prompt, for each model, and for the answer."""

    prompt: CheckResult | None = None
    attempts: tuple[ModelAttempt, ...] = ()
    answer: CheckResult | None = None

    @property
    def result(self) -> CheckResult | None:
        """The result that decided the call."""
        if self.answer is not None and not self.answer.allowed:
            return self.answer
        if not self.attempts:
            return self.prompt
        last = self._last_answered
        return None if last is None else last.result

    @property
    def served_by(self) -> str | None:
        """The model that answered; None if none was asked or none answered."""
        last = self._last_answered
        return None if last is None else last.model

    @property
    def _last_answered(self) -> ModelAttempt | None:
        """The last attempt that answered or refused."""
        return next((one for one in reversed(self.attempts) if not one.failed), None)


def read_trace(response: Any) -> CallTrace | None:
    """Return the trace of a response, stream or error of a guarded client; None for others."""
    kept = getattr(response, _TRACE_ATTRIBUTE, None)
    if kept is None:
        kept = getattr(getattr(response, _INNER_STREAM, None), _TRACE_ATTRIBUTE, None)
    return kept if isinstance(kept, CallTrace) else None


def read_check_result(response: Any) -> CheckResult | None:
    """Return the check result that decided a response, stream or error of a guarded client."""
    trail = read_trace(response)
    return None if trail is None else trail.result


def add_refusal_note(error: Exception, result: CheckResult) -> None:
    """Add the refusal line to an error's notes, so that tracebacks show it."""
    if not result.allowed:
        error.add_note(result.line)


def attach_trace(response: _Object, trace: CallTrace) -> _Object:
    """Return `response` with its trace as an attribute that the SDK's models do not serialise."""
    with suppress(AttributeError, TypeError):
        object.__setattr__(response, _TRACE_ATTRIBUTE, trace)
    return response


def copy_request_ids(response: _Object, source: Any) -> _Object:
    """Return `response` with the request ids of `source`, or None where it has none."""
    with suppress(AttributeError, TypeError):
        for name in _ID_ATTRIBUTES:
            object.__setattr__(response, name, getattr(source, name, None))
    return response
