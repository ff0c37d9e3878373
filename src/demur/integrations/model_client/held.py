"""The events of one answer, held back in their order until what they say may leave."""

from collections import deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from demur.enforce.answer_stream import AnswerStream

__all__ = ["Answer", "Piece", "Portion", "Rewrites"]


class Piece(NamedTuple):
    """Text of one part of an answer: a choice, a block, or a content part."""

    part: Hashable
    text: str


class Portion(NamedTuple):
    """The content of an event for one answer; for none if `answer` is None.

    The event adds `text` to a `part` of the answer. `whole_texts` repeat complete parts. With
    `has_calls`, it belongs to a tool call of the client, and is held until the whole answer is
    checked. `is_last` ends the answer.
    """

    event: Any
    answer: Hashable = 0
    part: Hashable = None
    text: str = ""
    wholes: tuple[Piece, ...] = ()
    asks: bool = False
    ends: bool = False


class Rewrites(Protocol):
    """How to split events of which only some text is cleared."""

    def without(self, event: Any) -> Any | None:
        """Return an event without its text; None if nothing else is in it."""

    def more(self, part: Hashable, text: str) -> Any:
        """Return an event that adds text to a part."""


class _Held:
    """An event that waits until the answer is cleared up to a position."""

    def __init__(self, portion: Portion, until: int) -> None:
        self.event = portion.event
        self.part = portion.part
        self.text = portion.text
        self.asks = portion.asks
        self.until = until
        self.is_begun = False


class Answer:
    """The events of one answer, held until their text is cleared. All text is checked as one."""

    def __init__(self, form: Rewrites, listen: Callable[[], "AnswerStream"]) -> None:
        self._form = form
        self._listen = listen
        self._held: deque[_Held] = deque()
        self._texts: dict[Hashable, str] = {}
        self._said = 0
        self._free = 0
        self._last: Hashable = None
        self.stream: AnswerStream | None = None
        self.ended = False
        self.asks = False

    @property
    def stopped(self) -> bool:
        """Whether the guards stopped the answer."""
        return self.stream is not None and self.stream.stopped

    @property
    def holds(self) -> bool:
        """Whether any event is held back."""
        return bool(self._held)

    def take(self, portion: Portion) -> None:
        """Take in the content of an event."""
        self.asks = self.asks or portion.asks
        if portion.text:
            self._texts[portion.part] = self._texts.get(portion.part, "") + portion.text
            self._last = portion.part
            self._say(portion.text)
        for part, text in portion.wholes:
            self._repeat(part, text)
        self._held.append(_Held(portion, self._said))

    def leaving(self) -> list[Any]:
        """Return the events that are cleared now, in order."""
        out: list[Any] = []
        while self._held:
            first = self._held[0]
            # INVARIANT: no tool call of a refused answer is sent.
            if first.asks and not self.ended:
                break
            if first.until > self._free:
                out += self._beginning(first)
                break
            self._held.popleft()
            out.append(self._form.more(first.part, first.text) if first.is_begun else first.event)
        return out

    def allow(self, rest: str) -> None:
        """Clear the whole answer; `rest` is the text still to show, with added help lines."""
        added = rest[self._said - self._free :]
        self._free = self._said
        self.ended = True
        if added:
            texts = [place for place, one in enumerate(self._held, 1) if one.text]
            event = self._form.more(self._last, added)
            self._held.insert(texts[-1] if texts else 0, _Held(Portion(event), self._said))

    def drop(self) -> None:
        """Drop all events that are held back."""
        self._held.clear()

    def knows(self, portion: Portion) -> bool:
        """Return whether an event only repeats known texts."""
        return all(text in self._texts.values() for _, text in portion.wholes)

    def _say(self, text: str) -> None:
        if self.stream is None:
            self.stream = self._listen()
        self._said += len(text)
        self._free += len(self.stream.add(text))

    def _repeat(self, part: Hashable, text: str) -> None:
        before = self._texts.get(part, "")
        if text not in self._texts.values():
            self._texts[part] = text
            self._say(text.removeprefix(before))

    def _beginning(self, first: _Held) -> list[Any]:
        """Return the cleared beginning of an event."""
        ready = len(first.text) - (first.until - self._free)
        if ready <= 0:
            return []
        text, first.text = first.text[:ready], first.text[ready:]
        rest = None if first.is_begun else self._form.without(first.event)
        first.is_begun = True
        more = self._form.more(first.part, text)
        return [more] if rest is None else [rest, more]
