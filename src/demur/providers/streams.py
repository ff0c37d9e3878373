"""Refusals in streams: feed the events, ask at any time."""

from typing import Any

from demur.codes.registry import Registry
from demur.model.refusal import Refusal
from demur.providers.normalize import make_accumulator, normalize_stream

__all__ = ["StreamReader"]


class StreamReader:
    """Finds a refusal in a live stream. Feed it each event and read `refusal` at any time.

    Accepts the events of OpenAI (chat and Responses), Anthropic, Gemini and Bedrock, and of
    servers with the same formats. If the stream breaks off, the events so far count. The
    text of the answer is not kept.
    """

    def __init__(self, *, registry: Registry | None = None) -> None:
        self._accumulator = make_accumulator()
        self._registry = registry

    def feed(self, event: Any) -> "StreamReader":
        """Feed one event and return the reader. Never raises."""
        self._accumulator.feed(event)
        return self

    @property
    def refusal(self) -> Refusal | None:
        """The refusal in the events so far, or None."""
        return normalize_stream(self._accumulator, registry=self._registry)
