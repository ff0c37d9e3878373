"""Refusals in streams: feed the events, ask at any time."""

from typing import Any

from demur.codes.registry import Registry
from demur.model.refusal import Refusal
from demur.providers.normalize import gatherer, normalize_gathered

__all__ = ["StreamReader"]


class StreamReader:
    """Reads a stream as it comes. Feed it each event; `refusal` says what is known so far.

    Takes the events of OpenAI (chat and Responses), Anthropic, Gemini and Bedrock, and of
    anything that speaks their formats. A stream that breaks off gives an answer from what
    was there. Nothing of the answer's words is kept.
    """

    def __init__(self, *, registry: Registry | None = None) -> None:
        self._gatherer = gatherer()
        self._registry = registry

    def feed(self, event: Any) -> "StreamReader":
        """Take in one event, and return the reader. Never raises."""
        self._gatherer.feed(event)
        return self

    @property
    def refusal(self) -> Refusal | None:
        """The refusal that the events so far carry, or None."""
        return normalize_gathered(self._gatherer, registry=self._registry)
