"""What of a model's stream of events may leave, event by event.

Events leave in their order, and none before the text that stands before it was judged; calls
of tools leave only with all of an answer. Where nothing more may leave, the provider is not
listened to any further.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from demur.enforce.ruling import Refused, CheckResult
from demur.integrations.model_client.form import OpenStream
from demur.integrations.model_client.held import AnswerBuffer, EventPortion, EventRewriter
from demur.integrations.model_client.settings import ModelClientSettings
from demur.integrations.model_client.steps import Steps
from demur.integrations.model_client.trail import attach_trace, add_refusal_note
from demur.providers.streams import StreamReader

__all__ = ["EventStreamFilter", "StreamEventFormat"]


class StreamEventFormat(EventRewriter, Protocol):
    """How the events of one API carry text. Each stream gets its own instance."""

    def is_plain_delta(self, event: Any) -> bool:
        """Return whether an event only adds to an answer, and so carries no refusal."""

    def split_event(self, event: Any) -> Sequence[EventPortion]:
        """Return the content of an event, answer by answer."""

    def note_sent(self, event: Any) -> None:
        """Note that an event was sent; a refusal must close what it opened."""

    def build_refusal_events(
        self, answer: Hashable, result: CheckResult, words: str
    ) -> Sequence[Any]:
        """Return the events that end an answer with a refusal, after those already sent."""

    def is_complete(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:
        """Return whether the stream is complete once these answers have ended."""


class EventStreamFilter:
    """Takes the events of one stream and returns those that are cleared."""

    def __init__(
        self,
        event_format: StreamEventFormat,
        open_stream: OpenStream,
        settings: ModelClientSettings,
        *,
        is_async: bool,
    ) -> None:
        self._format = event_format
        self._settings = settings
        self._prompt = open_stream.turn.text
        self._is_async = is_async
        self._reader = StreamReader()
        self._buffers: dict[Hashable, AnswerBuffer] = {}
        self._refused: set[Hashable] = set()
        self._finished = False
        self.trace = open_stream.trace
        self.is_over = False

    def feed(self, event: Any) -> Steps[list[Any]]:
        """Take an event and return the events to send now.

        Raises:
            Refused: The answer is refused, and the settings ask for an exception.
        """
        if not self._format.is_plain_delta(event):
            self._reader.feed(event)
        out: list[Any] = []
        for portion in self._format.split_event(event):
            out += yield from self._feed_portion(portion)
            if self.is_over:
                break
        return out

    def finish(self) -> Steps[list[Any]]:
        """Return the events to send after the end of the stream."""
        out: list[Any] = []
        for name, answer in self._buffers.items():
            if not answer.is_complete and name not in self._refused:
                out += yield from self._end_answer(name, answer)
        yield from self.check_model_refusal()
        return out

    def check_model_refusal(self) -> Steps[None]:
        """Check for a refusal by the model: once, and not after demur refused the answer."""
        if self._finished or self._refused:
            return
        self._finished = True
        # An answer with tool calls goes on, so its text is no refusal.
        texts = [
            "" if one.has_calls else one.stream.text
            for one in self._buffers.values()
            if one.stream is not None
        ]
        answer: Any = self._reader.refusal
        rulings: list[CheckResult] = []
        for text in texts or [""]:
            ruling = yield self._make_check("model", answer, text=text or None, prompt=self._prompt)
            rulings.append(ruling)
            # A typed refusal applies to the whole stream; record it once.
            answer = None
        self._set_attempt_results(rulings)

    def check_error(self, error: Exception) -> Steps[None]:
        """Check whether an error that broke the stream is a refusal."""
        self._finished = True
        ruling = yield self._make_check("model", error, prompt=self._prompt)
        if ruling.findings:
            add_refusal_note(error, ruling)
            self._set_attempt_results([ruling])
        attach_trace(error, self.trace)

    @property
    def is_complete(self) -> bool:
        """Whether every answer that began has ended."""
        return bool(self._buffers) and all(one.is_complete for one in self._buffers.values())

    def _feed_portion(self, portion: EventPortion) -> Steps[list[Any]]:
        name, event = portion.answer, portion.event
        if name in self._refused:
            return []
        if name is None:
            return self._pass_unrelated(event)
        answer = self._buffers.setdefault(
            name, AnswerBuffer(self._format, self._open_answer_stream)
        )
        if answer.is_complete:
            # Text after the end is never checked, so it is dropped.
            rest = self._format.strip_text(event) if portion.text else event
            return self._note_sent(
                [rest] if rest is not None and answer.only_repeats(portion) else []
            )
        if portion.is_last and portion.text:
            # Send the text first, then the event that ends the answer.
            more = self._format.make_text_event(portion.part, portion.text)
            answer.add_portion(portion._replace(event=more, is_last=False))
            portion = portion._replace(event=self._format.strip_text(event), text="")
        answer.add_portion(portion)
        if portion.is_last or answer.is_stopped:
            return (yield from self._end_answer(name, answer))
        return self._note_sent(answer.release_events())

    def _pass_unrelated(self, event: Any) -> list[Any]:
        """Return an event that belongs to no answer; hold it while an answer is held back."""
        holding = next((one for one in self._buffers.values() if one.is_holding), None)
        if holding is None:
            return self._note_sent([event])
        holding.add_portion(EventPortion(event))
        return []

    def _end_answer(self, name: Hashable, buffer: AnswerBuffer) -> Steps[list[Any]]:
        stream = buffer.stream
        if stream is None:
            buffer.allow_all("")
            return self._note_sent(buffer.release_events())
        ruling = yield stream.afinish if self._is_async else stream.finish
        if not ruling.allowed:
            return self._refuse_answer(name, buffer, ruling, stream.remaining_text)
        if self.trace.answer is None:
            self.trace = self.trace._replace(answer=ruling)
        buffer.allow_all(stream.remaining_text)
        return self._note_sent(buffer.release_events())

    def _refuse_answer(
        self, name: Hashable, buffer: AnswerBuffer, result: CheckResult, words: str
    ) -> list[Any]:
        self.trace = self.trace._replace(answer=result)
        self._refused.add(name)
        if self._settings.on_refusal == "raise":
            raise attach_trace(Refused(result), self.trace)
        out = self._note_sent(buffer.release_events())
        buffer.drop_held()
        out += self._format.build_refusal_events(name, result, words)
        ended = {one for one, other in self._buffers.items() if other.is_complete}
        self.is_over = self._format.is_complete(self._refused, ended)
        return out

    def _note_sent(self, events: list[Any]) -> list[Any]:
        for event in events:
            self._format.note_sent(event)
        return events

    def _open_answer_stream(self) -> Any:
        return self._settings.enforcer.stream_answer(self._settings.context, prompt=self._prompt)

    def _set_attempt_results(self, results: Iterable[CheckResult]) -> None:
        *before, last = self.trace.attempts
        attempts = (*before, last._replace(results=tuple(results)))
        self.trace = self.trace._replace(attempts=attempts)

    def _make_check(self, check_name: str, *arguments: Any, **named: Any) -> Callable[[], Any]:
        method = getattr(
            self._settings.enforcer, f"a{check_name}" if self._is_async else check_name
        )
        return partial(method, *arguments, self._settings.context, **named)
