"""What of a model's stream of events may leave, event by event.

Events leave in their order, and none before the text that stands before it was judged; calls
of tools leave only with all of an answer. Where nothing more may leave, the provider is not
listened to any further.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from demur.enforce.ruling import Refused, Ruling
from demur.integrations.model_client.form import Opened
from demur.integrations.model_client.held import Answer, Portion, Rewrites
from demur.integrations.model_client.settings import Settings
from demur.integrations.model_client.steps import Steps
from demur.integrations.model_client.trail import keep, note
from demur.providers.streams import StreamReader

__all__ = ["Cutter", "StreamForm"]


class StreamForm(Rewrites, Protocol):
    """How the events of one API carry text. Each stream gets its own instance."""

    def is_plain(self, event: Any) -> bool:
        """Return whether an event only adds to an answer, and so carries no refusal."""

    def portions(self, event: Any) -> Sequence[Portion]:
        """Return the content of an event, answer by answer."""

    def left(self, event: Any) -> None:
        """Note that an event was sent; a refusal must close what it opened."""

    def refusal(self, answer: Hashable, ruling: Ruling, words: str) -> Sequence[Any]:
        """Return the events that end an answer with a refusal, after those already sent."""

    def is_over(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:
        """Return whether the stream is complete once these answers have ended."""


class Cutter:
    """Takes the events of one stream and returns those that are cleared."""

    def __init__(
        self, form: StreamForm, opened: Opened, settings: Settings, *, awaits: bool
    ) -> None:
        self._form = form
        self._settings = settings
        self._prompt = opened.turn.text
        self._awaits = awaits
        self._reader = StreamReader()
        self._answers: dict[Hashable, Answer] = {}
        self._refused: set[Hashable] = set()
        self._finished = False
        self.trail = opened.trail
        self.over = False

    def feed(self, event: Any) -> Steps[list[Any]]:
        """Take an event and return the events to send now.

        Raises:
            Refused: The answer is refused, and the settings ask for an exception.
        """
        if not self._form.is_plain(event):
            self._reader.feed(event)
        out: list[Any] = []
        for portion in self._form.portions(event):
            out += yield from self._fed(portion)
            if self.over:
                break
        return out

    def finish(self) -> Steps[list[Any]]:
        """Return the events to send after the end of the stream."""
        out: list[Any] = []
        for name, answer in self._answers.items():
            if not answer.ended and name not in self._refused:
                out += yield from self._end(name, answer)
        yield from self.declined()
        return out

    def declined(self) -> Steps[None]:
        """Check for a refusal by the model: once, and not after demur refused the answer."""
        if self._finished or self._refused:
            return
        self._finished = True
        # An answer with tool calls goes on, so its text is no refusal.
        texts = [
            "" if one.asks else one.stream.text
            for one in self._answers.values()
            if one.stream is not None
        ]
        answer: Any = self._reader.refusal
        rulings: list[Ruling] = []
        for text in texts or [""]:
            ruling = yield self._point("model", answer, text=text or None, prompt=self._prompt)
            rulings.append(ruling)
            # A typed refusal applies to the whole stream; record it once.
            answer = None
        self._attempted(rulings)

    def failed(self, error: Exception) -> Steps[None]:
        """Check whether an error that broke the stream is a refusal."""
        self._finished = True
        ruling = yield self._point("model", error, prompt=self._prompt)
        if ruling.findings:
            note(error, ruling)
            self._attempted([ruling])
        keep(error, self.trail)

    @property
    def complete(self) -> bool:
        """Whether every answer that began has ended."""
        return bool(self._answers) and all(one.ended for one in self._answers.values())

    def _fed(self, portion: Portion) -> Steps[list[Any]]:
        name, event = portion.answer, portion.event
        if name in self._refused:
            return []
        if name is None:
            return self._beside(event)
        answer = self._answers.setdefault(name, Answer(self._form, self._listen))
        if answer.ended:
            # Text after the end is never checked, so it is dropped.
            rest = self._form.without(event) if portion.text else event
            return self._left([rest] if rest is not None and answer.knows(portion) else [])
        if portion.ends and portion.text:
            # Send the text first, then the event that ends the answer.
            more = self._form.more(portion.part, portion.text)
            answer.take(portion._replace(event=more, ends=False))
            portion = portion._replace(event=self._form.without(event), text="")
        answer.take(portion)
        if portion.ends or answer.stopped:
            return (yield from self._end(name, answer))
        return self._left(answer.leaving())

    def _beside(self, event: Any) -> list[Any]:
        """Return an event that belongs to no answer; hold it while an answer is held back."""
        holding = next((one for one in self._answers.values() if one.holds), None)
        if holding is None:
            return self._left([event])
        holding.take(Portion(event))
        return []

    def _end(self, name: Hashable, answer: Answer) -> Steps[list[Any]]:
        stream = answer.stream
        if stream is None:
            answer.allow("")
            return self._left(answer.leaving())
        ruling = yield stream.aend if self._awaits else stream.end
        if not ruling.allowed:
            return self._refuse(name, answer, ruling, stream.rest)
        if self.trail.answer is None:
            self.trail = self.trail._replace(answer=ruling)
        answer.allow(stream.rest)
        return self._left(answer.leaving())

    def _refuse(self, name: Hashable, answer: Answer, ruling: Ruling, words: str) -> list[Any]:
        self.trail = self.trail._replace(answer=ruling)
        self._refused.add(name)
        if self._settings.on_refusal == "raise":
            raise keep(Refused(ruling), self.trail)
        out = self._left(answer.leaving())
        answer.drop()
        out += self._form.refusal(name, ruling, words)
        ended = {one for one, other in self._answers.items() if other.ended}
        self.over = self._form.is_over(self._refused, ended)
        return out

    def _left(self, events: list[Any]) -> list[Any]:
        for event in events:
            self._form.left(event)
        return events

    def _listen(self) -> Any:
        return self._settings.enforcer.stream(self._settings.at, prompt=self._prompt)

    def _attempted(self, rulings: Iterable[Ruling]) -> None:
        *before, last = self.trail.attempts
        attempts = (*before, last._replace(rulings=tuple(rulings)))
        self.trail = self.trail._replace(attempts=attempts)

    def _point(self, name: str, *arguments: Any, **named: Any) -> Callable[[], Any]:
        method = getattr(self._settings.enforcer, f"a{name}" if self._awaits else name)
        return partial(method, *arguments, self._settings.at, **named)
