"""Filter a model's stream of events: hold events back until their text is cleared.

Events keep their order. None leaves before the text ahead of it was checked, and tool calls
leave only with the complete answer. After a refusal the provider's stream is closed.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from demur.enforce.changes import TextChanges
from demur.enforce.context import Steps
from demur.enforce.result import CheckResult, Refused
from demur.integrations._kit.model_api import (
    ModelClientSettings,
    OpenStream,
    add_refusal_note,
    attach_trace,
    change_model,
)
from demur.providers.normalization import StreamReader

if TYPE_CHECKING:
    from demur.enforce.streams import AnswerStream


class PartText(NamedTuple):
    """Text of one part of an answer: a choice, a block, or a content part."""

    part: Hashable
    text: str


class EventPortion(NamedTuple):
    """The content of an event for one answer; for none if `answer` is None.

    The event adds `text` to a `part` of the answer. `whole_texts` repeat complete parts. With
    `has_calls`, it belongs to a tool call of the client, and is held until the whole answer is
    checked. `is_last` ends the answer.
    """

    event: Any
    answer: Hashable = 0
    part: Hashable = None
    text: str = ""
    whole_texts: tuple[PartText, ...] = ()
    has_calls: bool = False
    is_last: bool = False


class StreamEventFormat(Protocol):
    """How the events of one API carry text. Each stream gets its own instance."""

    def is_plain_delta(self, event: Any) -> bool:
        """Return whether an event only adds to an answer, and so carries no refusal."""

    def split_event(self, event: Any) -> Sequence[EventPortion]:
        """Return the content of an event, answer by answer."""

    def strip_text(self, event: Any) -> Any | None:
        """Return an event without its text; None if nothing else is in it."""

    def make_text_event(self, part: Hashable, text: str) -> Any:
        """Return an event that adds text to a part."""

    def note_sent(self, event: Any) -> None:
        """Note that an event was sent; a refusal must close what it opened."""

    def build_refusal_events(
        self, answer: Hashable, result: CheckResult, words: str
    ) -> Sequence[Any]:
        """Return the events that end an answer with a refusal, after those already sent."""

    def is_complete(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:
        """Return whether the stream is complete once these answers have ended."""


class _HeldEvent:
    """An event that waits until the answer is cleared up to a position."""

    def __init__(self, portion: EventPortion, end_position: int) -> None:
        self.event = portion.event
        self.part = portion.part
        self.text = portion.text
        self.has_calls = portion.has_calls
        self.end_position = end_position
        self.is_partly_sent = False


class AnswerBuffer:
    """The events of one answer, held until their text is cleared. All text is checked as one."""

    def __init__(
        self, event_format: StreamEventFormat, open_stream: Callable[[], "AnswerStream"]
    ) -> None:
        self._format = event_format
        self._open_stream = open_stream
        self._held_events: deque[_HeldEvent] = deque()
        self._texts: dict[Hashable, str] = {}
        self._text_length = 0
        self._cleared_length = 0
        self._last_part: Hashable = None
        self.stream: AnswerStream | None = None
        self.is_complete = False
        self.has_calls = False

    @property
    def is_stopped(self) -> bool:
        """Whether the guards stopped the answer."""
        return self.stream is not None and self.stream.is_stopped

    @property
    def is_holding(self) -> bool:
        """Whether any event is held back."""
        return bool(self._held_events)

    def add_portion(self, portion: EventPortion) -> None:
        """Take in the content of an event."""
        self.has_calls = self.has_calls or portion.has_calls
        if portion.text:
            self._texts[portion.part] = self._texts.get(portion.part, "") + portion.text
            self._last_part = portion.part
            self._add_text(portion.text)
        for part, text in portion.whole_texts:
            before = self._texts.get(part, "")
            if text not in self._texts.values():
                self._texts[part] = text
                self._add_text(text.removeprefix(before))
        self._held_events.append(_HeldEvent(portion, self._text_length))

    def release_events(self) -> list[Any]:
        """Return the events that are cleared now, in order."""
        out: list[Any] = []
        while self._held_events:
            first = self._held_events[0]
            # INVARIANT: no tool call of a refused answer is sent.
            if first.has_calls and not self.is_complete:
                break
            if first.end_position > self._cleared_length:
                out += self._split_first(first)
                break
            self._held_events.popleft()
            event = first.event
            if first.is_partly_sent:
                event = self._format.make_text_event(first.part, first.text)
            out.append(event)
        return out

    def allow_all(self, rest: str) -> None:
        """Clear the whole answer; `rest` is the text still to show, with added help lines."""
        added = rest[self._text_length - self._cleared_length :]
        self._cleared_length = self._text_length
        self.is_complete = True
        if added:
            texts = [index for index, held in enumerate(self._held_events, 1) if held.text]
            portion = EventPortion(self._format.make_text_event(self._last_part, added))
            self._held_events.insert(
                texts[-1] if texts else 0, _HeldEvent(portion, self._text_length)
            )

    def change_texts(self, changes: TextChanges) -> None:
        """Change the text of a held answer: each part comes as one event then."""
        held, self._held_events = self._held_events, deque()
        sent: set[Hashable] = set()
        for one in held:
            events = [self._change_event(one, changes)]
            if one.text and one.part not in sent:
                sent.add(one.part)
                text = changes.apply(self._texts[one.part])
                events.append(self._format.make_text_event(one.part, text))
            for event in events:
                if event is not None:
                    portion = EventPortion(event, part=one.part, has_calls=one.has_calls)
                    self._held_events.append(_HeldEvent(portion, 0))
        assert self.stream is not None
        self._text_length = len(changes.apply(self.stream.text))

    def _change_event(self, held: _HeldEvent, changes: TextChanges) -> Any | None:
        event = self._format.strip_text(held.event) if held.text else held.event
        return None if event is None else change_model(event, changes)

    def drop_held(self) -> None:
        """Drop all events that are held back."""
        self._held_events.clear()

    def only_repeats(self, portion: EventPortion) -> bool:
        """Return whether an event only repeats known texts."""
        return all(text in self._texts.values() for _, text in portion.whole_texts)

    def _add_text(self, text: str) -> None:
        if self.stream is None:
            self.stream = self._open_stream()
        self._text_length += len(text)
        self._cleared_length += len(self.stream.feed(text))

    def _split_first(self, first: _HeldEvent) -> list[Any]:
        """Return the cleared beginning of an event."""
        ready = len(first.text) - (first.end_position - self._cleared_length)
        if ready <= 0:
            return []
        text, first.text = first.text[:ready], first.text[ready:]
        rest = None if first.is_partly_sent else self._format.strip_text(first.event)
        first.is_partly_sent = True
        more = self._format.make_text_event(first.part, text)
        return [more] if rest is None else [rest, more]


class EventStreamFilter:
    """Takes the events of one stream and returns those that are cleared."""

    def __init__(
        self,
        event_format: StreamEventFormat,
        open_stream: OpenStream,
        settings: ModelClientSettings,
    ) -> None:
        self._format = event_format
        self._raise_on_refusal = settings.on_refusal == "raise"
        enforcer, context, prompt = settings.enforcer, settings.context, open_stream.turn.text
        # Events hold pieces of the model's own text, so changed pieces do not fit into them.
        self._open_answer_stream = partial(
            enforcer.stream_answer, context, prompt=prompt, hold_changes=True
        )
        self._read_refusal = partial(enforcer.refusal_steps, context=context, prompt=prompt)
        self._reader = StreamReader()
        self._buffers: dict[Hashable, AnswerBuffer] = {}
        self._refused: set[Hashable] = set()
        self._refusal_checked = False
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
        if self._refusal_checked or self._refused:
            return
        self._refusal_checked = True
        # An answer with tool calls goes on, so its text is no refusal.
        texts = [
            "" if one.has_calls else one.stream.text
            for one in self._buffers.values()
            if one.stream is not None
        ]
        answer: Any = self._reader.refusal
        results: list[CheckResult] = []
        for text in texts or [""]:
            results.append((yield from self._read_refusal(answer, text=text or None)))
            # A typed refusal applies to the whole stream; record it once.
            answer = None
        self._set_attempt_results(results)

    def check_error(self, error: Exception) -> Steps[None]:
        """Check whether an error that broke the stream is a refusal."""
        self._refusal_checked = True
        result = yield from self._read_refusal(error)
        if result.findings:
            add_refusal_note(error, result)
            self._set_attempt_results([result])
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
            # An event that belongs to no answer waits while an answer is held back.
            holding = next((one for one in self._buffers.values() if one.is_holding), None)
            if holding is None:
                return self._note_sent([event])
            holding.add_portion(EventPortion(event))
            return []
        answer = self._buffers.setdefault(
            name, AnswerBuffer(self._format, self._open_answer_stream)
        )
        if answer.is_complete:
            # Text after the end is never checked, so it is dropped.
            rest = self._format.strip_text(event) if portion.text else event
            passes = rest is not None and answer.only_repeats(portion)
            return self._note_sent([rest] if passes else [])
        if portion.is_last and portion.text:
            # Send the text first, then the event that ends the answer.
            more = self._format.make_text_event(portion.part, portion.text)
            answer.add_portion(portion._replace(event=more, is_last=False))
            portion = portion._replace(event=self._format.strip_text(event), text="")
        answer.add_portion(portion)
        if portion.is_last or answer.is_stopped:
            return (yield from self._end_answer(name, answer))
        return self._note_sent(answer.release_events())

    def _end_answer(self, name: Hashable, buffer: AnswerBuffer) -> Steps[list[Any]]:
        stream = buffer.stream
        if stream is None:
            buffer.allow_all("")
            return self._note_sent(buffer.release_events())
        result = yield from stream.finish_steps()
        if not result.allowed:
            words = stream.remaining_text
            self.trace = self.trace._replace(answer=result)
            self._refused.add(name)
            if self._raise_on_refusal:
                raise attach_trace(Refused(result), self.trace)
            out = self._note_sent(buffer.release_events())
            buffer.drop_held()
            out += self._format.build_refusal_events(name, result, words)
            ended = {one for one, other in self._buffers.items() if other.is_complete}
            self.is_over = self._format.is_complete(self._refused, ended)
            return out
        if self.trace.answer is None:
            self.trace = self.trace._replace(answer=result)
        if result.changes is not None:
            buffer.change_texts(result.changes)
        buffer.allow_all(stream.remaining_text)
        return self._note_sent(buffer.release_events())

    def _note_sent(self, events: list[Any]) -> list[Any]:
        for event in events:
            self._format.note_sent(event)
        return events

    def _set_attempt_results(self, results: Iterable[CheckResult]) -> None:
        *before, last = self.trace.attempts
        attempts = (*before, last._replace(results=tuple(results)))
        self.trace = self.trace._replace(attempts=attempts)
