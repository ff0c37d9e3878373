"""The events of one answer, held back in their order until what they say may leave."""

from collections import deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from demur.enforce.answer_stream import AnswerStream

__all__ = ["AnswerBuffer", "PartText", "EventPortion", "EventRewriter"]


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


class EventRewriter(Protocol):
    """How to split events of which only some text is cleared."""

    def strip_text(self, event: Any) -> Any | None:
        """Return an event without its text; None if nothing else is in it."""

    def make_text_event(self, part: Hashable, text: str) -> Any:
        """Return an event that adds text to a part."""


class _HeldEvent:
    """An event that waits until the answer is cleared up to a position."""

    def __init__(self, portion: EventPortion, until: int) -> None:
        self.event = portion.event
        self.part = portion.part
        self.text = portion.text
        self.has_calls = portion.has_calls
        self.until = until
        self.is_begun = False


class AnswerBuffer:
    """The events of one answer, held until their text is cleared. All text is checked as one."""

    def __init__(self, rewriter: EventRewriter, open_stream: Callable[[], "AnswerStream"]) -> None:
        self._rewriter = rewriter
        self._open_stream = open_stream
        self._held: deque[_HeldEvent] = deque()
        self._texts: dict[Hashable, str] = {}
        self._length = 0
        self._cleared = 0
        self._last_part: Hashable = None
        self.stream: AnswerStream | None = None
        self.is_complete = False
        self.has_calls = False

    @property
    def is_stopped(self) -> bool:
        """Whether the guards stopped the answer."""
        return self.stream is not None and self.stream.stopped

    @property
    def is_holding(self) -> bool:
        """Whether any event is held back."""
        return bool(self._held)

    def add_portion(self, portion: EventPortion) -> None:
        """Take in the content of an event."""
        self.has_calls = self.has_calls or portion.has_calls
        if portion.text:
            self._texts[portion.part] = self._texts.get(portion.part, "") + portion.text
            self._last_part = portion.part
            self._add_text(portion.text)
        for part, text in portion.whole_texts:
            self._add_repeated(part, text)
        self._held.append(_HeldEvent(portion, self._length))

    def release_events(self) -> list[Any]:
        """Return the events that are cleared now, in order."""
        out: list[Any] = []
        while self._held:
            first = self._held[0]
            # INVARIANT: no tool call of a refused answer is sent.
            if first.has_calls and not self.is_complete:
                break
            if first.until > self._cleared:
                out += self._split_first(first)
                break
            self._held.popleft()
            out.append(
                self._rewriter.make_text_event(first.part, first.text)
                if first.is_begun
                else first.event
            )
        return out

    def allow_all(self, rest: str) -> None:
        """Clear the whole answer; `rest` is the text still to show, with added help lines."""
        added = rest[self._length - self._cleared :]
        self._cleared = self._length
        self.is_complete = True
        if added:
            texts = [place for place, one in enumerate(self._held, 1) if one.text]
            event = self._rewriter.make_text_event(self._last_part, added)
            self._held.insert(
                texts[-1] if texts else 0, _HeldEvent(EventPortion(event), self._length)
            )

    def drop_held(self) -> None:
        """Drop all events that are held back."""
        self._held.clear()

    def only_repeats(self, portion: EventPortion) -> bool:
        """Return whether an event only repeats known texts."""
        return all(text in self._texts.values() for _, text in portion.whole_texts)

    def _add_text(self, text: str) -> None:
        if self.stream is None:
            self.stream = self._open_stream()
        self._length += len(text)
        self._cleared += len(self.stream.add(text))

    def _add_repeated(self, part: Hashable, text: str) -> None:
        before = self._texts.get(part, "")
        if text not in self._texts.values():
            self._texts[part] = text
            self._add_text(text.removeprefix(before))

    def _split_first(self, first: _HeldEvent) -> list[Any]:
        """Return the cleared beginning of an event."""
        ready = len(first.text) - (first.until - self._cleared)
        if ready <= 0:
            return []
        text, first.text = first.text[:ready], first.text[ready:]
        rest = None if first.is_begun else self._rewriter.strip_text(first.event)
        first.is_begun = True
        more = self._rewriter.make_text_event(first.part, text)
        return [more] if rest is None else [rest, more]
