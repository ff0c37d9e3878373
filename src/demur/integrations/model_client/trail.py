"""How a response came about: which models were asked, and what was ruled on the way."""

from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from demur.enforce.ruling import Ruling

__all__ = ["Attempt", "Trail", "keep", "keep_ids", "note", "ruling_of", "trail_of"]

_KEPT = "_demur_trail"
# Where the stream helpers of the SDKs keep the stream that they read.
_BEHIND = "_raw_stream"
# The SDKs set these on each response, and read them without a default.
_IDS = ("_request_id", "_workspace_id")
_Object = TypeVar("_Object")


class Attempt(NamedTuple):
    """One model that was asked, with a check result for each choice.

    A model that `failed` neither answered nor refused.
    """

    model: str
    rulings: tuple[Ruling, ...] = ()
    failed: bool = False

    @property
    def ruling(self) -> Ruling | None:
        """The first result that refuses, or else the first."""
        refusing = (one for one in self.rulings if not one.allowed)
        return next(refusing, self.rulings[0] if self.rulings else None)

    @property
    def refused(self) -> bool:
        """Whether every choice is a refusal."""
        return bool(self.rulings) and not any(one.allowed for one in self.rulings)


class Trail(NamedTuple):
    """The check results of one call: for the prompt, for each model, and for the answer."""

    prompt: Ruling | None = None
    attempts: tuple[Attempt, ...] = ()
    answer: Ruling | None = None

    @property
    def ruling(self) -> Ruling | None:
        """The result that decided the call."""
        if self.answer is not None and not self.answer.allowed:
            return self.answer
        if not self.attempts:
            return self.prompt
        last = self._heard
        return None if last is None else last.ruling

    @property
    def served_by(self) -> str | None:
        """The model that answered; None if none was asked or none answered."""
        last = self._heard
        return None if last is None else last.model

    @property
    def _heard(self) -> Attempt | None:
        """The last attempt that answered or refused."""
        return next((one for one in reversed(self.attempts) if not one.failed), None)


def trail_of(response: Any) -> Trail | None:
    """Return the trace of a response, stream or error of a guarded client; None for others."""
    kept = getattr(response, _KEPT, None)
    if kept is None:
        kept = getattr(getattr(response, _BEHIND, None), _KEPT, None)
    return kept if isinstance(kept, Trail) else None


def ruling_of(response: Any) -> Ruling | None:
    """Return the check result that decided a response, stream or error of a guarded client."""
    trail = trail_of(response)
    return None if trail is None else trail.ruling


def note(error: Exception, ruling: Ruling) -> None:
    """Add the refusal line to an error's notes, so that tracebacks show it."""
    if not ruling.allowed:
        error.add_note(ruling.line)


def keep(response: _Object, trail: Trail) -> _Object:
    """Return `response` with its trace as an attribute that the SDK's models do not serialise."""
    with suppress(AttributeError, TypeError):
        object.__setattr__(response, _KEPT, trail)
    return response


def keep_ids(response: _Object, like: Any) -> _Object:
    """Return `response` with the request ids of `source`, or None where it has none."""
    with suppress(AttributeError, TypeError):
        for name in _IDS:
            object.__setattr__(response, name, getattr(like, name, None))
    return response
