"""Events of a streamed run of the OpenAI Agents SDK, without text that nobody looked at."""

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from agents import RawResponsesStreamEvent
from openai.types.responses import ResponseTextDeltaEvent

from demur.enforce.answer_stream import AnswerStream
from demur.enforce.ruling import Ruling
from demur.integrations.openai_agents.form import get

__all__ = ["Guarding", "Refusal", "RuleOnce", "released"]

_DELTA: Final = "response.output_text.delta"
_DONE = "response.output_text.done"
_PART = "output_text"


class RuleOnce(Protocol):
    """Checks a text unless it was checked before; `cut` means that the text was broken off."""

    async def __call__(
        self, text: str, rule: Callable[[], Awaitable[Ruling]], *, cut: bool = False
    ) -> Ruling:
        """Return the check result of the text, an earlier one if there is any."""


class Guarding(NamedTuple):
    """The checks of streamed texts and of whole texts; `check_once` avoids repeating them."""

    stream: Callable[[], AnswerStream]
    whole: Callable[[str], Awaitable[Ruling]]
    once: RuleOnce


class Refusal(NamedTuple):
    """Marks the end of a stream whose answer was refused."""

    ruling: Ruling


class _Answer:
    """A text that is being streamed, and the event to copy for its pieces."""

    def __init__(self, stream: AnswerStream, form: Any) -> None:
        self.stream = stream
        self._form = form
        self._shown = 0

    def add(self, piece: str) -> Any:
        """Return the event to show after a piece, or None."""
        shown = self.stream.add(piece)
        self._shown += len(shown)
        return self._event(shown)

    async def end(self, rule_once: RuleOnce) -> tuple[Ruling, Any]:
        """Return the check result of the text, and the last event to show, or None."""
        stream = self.stream
        text, cut = stream.text, stream.stopped
        ruling = await rule_once(text, stream.aend, cut=cut)
        # Not `stream.rest`: it is set only if this stream ran the check.
        said = f"\n\n{ruling.words}" if self._shown else ruling.words
        return ruling, self._event(text[self._shown :] if ruling.allowed else said)

    def _event(self, text: str) -> Any:
        if not text:
            return None
        # Token log probabilities would spell the text that is held back.
        data = self._form.data.model_copy(update={"delta": text, "logprobs": []})
        return dataclasses.replace(self._form, data=data)


async def released(events: AsyncIterator[Any], guarding: Guarding) -> AsyncIterator[Any]:
    """Yield the cleared events; after a refusal the last one is a `RefusedEnd`.

    A text is checked before the first event that holds all of it, whether or not it also came
    in pieces.
    """
    answer: _Answer | None = None
    async for event in events:
        piece = _piece(event)
        if piece is not None:
            answer = answer or _Answer(guarding.stream(), event)
            shown = answer.add(piece)
            if shown is not None:
                yield shown
        if answer is not None and (answer.stream.stopped or _may_repeat(event)):
            ruling, rest = await answer.end(guarding.once)
            answer = None
            if rest is not None:
                yield rest
            if not ruling.allowed:
                yield Refusal(ruling)
                return
        if piece is None:
            refused = await _refused(event, guarding)
            if refused is not None:
                yield _said(refused.words)
                yield Refusal(refused)
                return
            yield event


async def _refused(event: Any, guarding: Guarding) -> Ruling | None:
    """Return the check result that refuses an event, or None."""
    for text in _texts(event):
        ruling = await guarding.once(text, partial(guarding.whole, text))
        if not ruling.allowed:
            return ruling
    return None


def _piece(event: Any) -> str | None:
    """Return the piece of text in an event, or None."""
    data: Any = getattr(event, "data", None)
    return data.delta if getattr(data, "type", None) == _DELTA else None


def _may_repeat(event: Any) -> bool:
    """Return whether an event may hold text that was streamed before it."""
    kind: str = getattr(getattr(event, "data", None), "type", event.type)
    return not kind.endswith(".delta")


def _texts(event: Any) -> Iterator[str]:
    """Yield the complete texts in an event, one for each part or message."""
    data = get(event, "data")
    if get(data, "type") == _DONE and data.text:
        yield data.text
    messages = [
        {"content": [get(data, "part")]},
        get(data, "item"),
        *(get(get(data, "response"), "output") or ()),
        get(get(event, "item"), "raw_item"),
    ]
    for message in messages:
        parts = get(message, "content")
        texts = [
            get(part, "text")
            for part in (parts if isinstance(parts, list) else ())
            if get(part, "type") == _PART
        ]
        whole = "\n".join(text for text in texts if isinstance(text, str))
        if whole:
            yield whole


def _said(text: str) -> Any:
    """Return a text event for the words of a refusal when there is none to copy."""
    data = ResponseTextDeltaEvent(
        content_index=0,
        delta=text,
        item_id="demur",
        logprobs=[],
        output_index=0,
        sequence_number=0,
        type=_DELTA,
    )
    return RawResponsesStreamEvent(data=data)
