"""Events of a streamed run of the OpenAI Agents SDK, without text that nobody looked at."""

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from demur.gate.answer_stream import AnswerStream
from demur.gate.ruling import Ruling

__all__ = ["Refusal", "RuleOnce", "released"]

_DELTA = "response.output_text.delta"


class RuleOnce(Protocol):
    """From a text, and what would rule on it, to the ruling; `cut` says that it was broken off."""

    async def __call__(
        self, text: str, rule: Callable[[], Awaitable[Ruling]], *, cut: bool = False
    ) -> Ruling:
        """Return the ruling on the text, that of another who asked before if there is one."""


class Refusal(NamedTuple):
    """Stands for the end of a stream: the answer was refused."""

    ruling: Ruling


class _Answer:
    """A text that is being streamed, and the event in whose form its pieces go out."""

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
        """Return the ruling on the text, and the last event to show, or None."""
        stream = self.stream
        text, cut = stream.text, stream.stopped
        ruling = await rule_once(text, stream.aend, cut=cut)
        # Not `rest`, which is there only where it was this stream that asked.
        said = f"\n\n{ruling.words}" if self._shown else ruling.words
        return ruling, self._event(text[self._shown :] if ruling.allowed else said)

    def _event(self, text: str) -> Any:
        if not text:
            return None
        # What is known of single tokens is left out: it spells the text, too.
        data = self._form.data.model_copy(update={"delta": text, "logprobs": []})
        return dataclasses.replace(self._form, data=data)


async def released(
    events: AsyncIterator[Any],
    guarding: Callable[[], AnswerStream],
    rule_once: RuleOnce,
) -> AsyncIterator[Any]:
    """Yield what of `events` may be shown; a `Refusal`, if there is one, is the last.

    Every text has a stream of its own from `guarding`, and `rule_once` sees to it that what
    others have ruled on is not put on record twice.
    """
    answer: _Answer | None = None
    async for event in events:
        piece = _piece(event)
        if piece is not None:
            answer = answer or _Answer(guarding(), event)
            shown = answer.add(piece)
            if shown is not None:
                yield shown
        if answer is not None and (answer.stream.stopped or _may_repeat(event)):
            ruling, rest = await answer.end(rule_once)
            answer = None
            if rest is not None:
                yield rest
            if not ruling.allowed:
                yield Refusal(ruling)
                return
        if piece is None:
            yield event


def _piece(event: Any) -> str | None:
    """Return the piece of text in an event, or None."""
    data: Any = getattr(event, "data", None)
    return data.delta if getattr(data, "type", None) == _DELTA else None


def _may_repeat(event: Any) -> bool:
    """Return whether an event may hold text that was streamed before it."""
    kind: str = getattr(getattr(event, "data", None), "type", event.type)
    return not kind.endswith(".delta")
