"""What of a model's stream of events may leave, event by event.

Text is rewritten to what may be shown so far, and everything else passes in its order. Where
nothing more may leave, the provider is not listened to any further.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from demur.gate.ruling import Refused, Ruling
from demur.integrations.model_client.call import Opened, Settings
from demur.integrations.model_client.steps import Steps
from demur.integrations.model_client.trail import keep, note
from demur.providers.streams import StreamReader

if TYPE_CHECKING:
    from demur.gate.answer_stream import AnswerStream

__all__ = ["Cutter", "Piece", "StreamForm"]


class Piece(NamedTuple):
    """Text of one part of an answer: of a choice, a block, or a content part."""

    part: Hashable
    text: str


class StreamForm(Protocol):
    """How the events of one interface carry text. One is made for each stream."""

    def is_plain(self, event: Any) -> bool:
        """Return whether an event does nothing but add to an answer: it tells of no refusal."""

    def pieces(self, event: Any) -> Sequence[Piece]:
        """Return the text that an event adds."""

    def wholes(self, event: Any) -> Sequence[Piece]:
        """Return the texts that an event repeats from their beginning to their end."""

    def ended(self, event: Any, running: Collection[Hashable]) -> Sequence[Hashable]:
        """Return which of the parts that are running have come to their end with an event."""

    def without(self, event: Any, refused: Collection[Hashable]) -> Any | None:
        """Return an event without the text that it adds, and without refused parts.

        None is returned if nothing else is in it.
        """

    def more(self, part: Hashable, text: str) -> Any:
        """Return an event that adds text to a part."""

    def refusal(self, part: Hashable, ruling: Ruling, words: str) -> Sequence[Any]:
        """Return the events that end a part with a refusal."""

    def is_over(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:
        """Return whether nothing more is to come once these parts have ended."""


class Cutter:
    """Takes the events of one stream and returns those that may leave."""

    def __init__(
        self, form: StreamForm, opened: Opened, settings: Settings, *, awaits: bool
    ) -> None:
        self._form = form
        self._settings = settings
        self._prompt = opened.turn.text
        self._awaits = awaits
        self._reader = StreamReader()
        self._parts: dict[Hashable, AnswerStream] = {}
        self._ended: set[Hashable] = set()
        self._refused: set[Hashable] = set()
        # The texts that were judged, so that none is judged twice.
        self._known: dict[Hashable, list[str]] = {}
        self._finished = False
        self.trail = opened.trail
        self.over = False

    def feed(self, event: Any) -> Steps[list[Any]]:
        """Return the events to hand on after this one came.

        Raises:
            Refused: What the model says may not leave, and the settings say to raise that.
        """
        form = self._form
        if not form.is_plain(event):
            self._reader.feed(event)
        pieces = [piece for piece in form.pieces(event) if piece.part not in self._refused]
        shown: dict[Hashable, str] = {}
        for part, text in pieces:
            shown[part] = shown.get(part, "") + self._add(part, text)
        ending = self._ending(event)
        if not ending and shown == dict(pieces) and not self._refused:
            # Nothing in it was held back or let out: it passes as it came.
            return (yield from self._repeated(event)) or [event]
        out = [form.more(part, text) for part, text in shown.items() if text and part not in ending]
        for part in ending:
            out += yield from self._end(part, shown.get(part, ""))
        if not self.over:
            refusal = yield from self._repeated(event)
            rest = None if refusal else form.without(event, self._refused)
            kept = refusal if rest is None else [rest]
            # What ends a part stands after its last text, what begins one before its first.
            return [*out, *kept] if ending else [*kept, *out]
        return out

    def finish(self) -> Steps[list[Any]]:
        """Return the events to hand on once the stream has come to its end, however it did."""
        out: list[Any] = []
        for part in [part for part in self._parts if part not in self._ended]:
            out += yield from self._end(part, "")
        yield from self.declined()
        return out

    def declined(self) -> Steps[None]:
        """Rule on whether the model refused; only once, and not if it was cut short."""
        if self._finished or self._refused:
            return
        self._finished = True
        texts = [known[0] for known in self._known.values()] or [""]
        answer: Any = self._reader.refusal
        rulings: list[Ruling] = []
        for text in texts:
            ruling = yield self._point("model", answer, text=text or None, prompt=self._prompt)
            rulings.append(ruling)
            # A typed refusal stands for the whole stream, and is on record once.
            answer = None
        self._attempted(rulings)

    def failed(self, error: Exception) -> Steps[None]:
        """Rule on whether an error that broke the stream is a refusal."""
        self._finished = True
        ruling = yield self._point("model", error, prompt=self._prompt)
        if ruling.findings:
            note(error, ruling)
            self._attempted([ruling])
            keep(error, self.trail)

    @property
    def complete(self) -> bool:
        """Whether every part that began has ended."""
        return bool(self._parts) and self._ended >= self._parts.keys()

    def _ending(self, event: Any) -> list[Hashable]:
        """Return the parts that end with an event, or have to be stopped at it."""
        running = [part for part in self._parts if part not in self._ended]
        ended = self._form.ended(event, running)
        return [part for part in running if part in ended or self._parts[part].stopped]

    def _add(self, part: Hashable, text: str) -> str:
        if part not in self._parts:
            enforcer, at = self._settings.enforcer, self._settings.at
            self._parts[part] = enforcer.stream(at, prompt=self._prompt)
        return self._parts[part].add(text)

    def _end(self, part: Hashable, shown: str) -> Steps[list[Any]]:
        stream = self._parts[part]
        ruling = yield stream.aend if self._awaits else stream.end
        self._ended.add(part)
        if not ruling.allowed:
            return self._refuse(part, ruling, shown, stream.rest)
        self._known.setdefault(part, []).append(stream.text)
        if self.trail.answer is None:
            self.trail = self.trail._replace(answer=ruling)
        text = shown + stream.rest
        return [self._form.more(part, text)] if text else []

    def _repeated(self, event: Any) -> Steps[list[Any]]:
        """Rule on texts that an event repeats, where they are not what was said before."""
        for part, text in self._form.wholes(event):
            if not text or text in self._known.get(part, ()):
                continue
            ruling = yield self._point("answer", text, prompt=self._prompt)
            if not ruling.allowed:
                return self._refuse(part, ruling, "", ruling.words)
            self._known.setdefault(part, []).append(text)
        return []

    def _refuse(self, part: Hashable, ruling: Ruling, shown: str, words: str) -> list[Any]:
        self.trail = self.trail._replace(answer=ruling)
        self._refused.add(part)
        if self._settings.on_refusal == "raise":
            raise keep(Refused(ruling), self.trail)
        out = [self._form.more(part, shown)] if shown else []
        out += self._form.refusal(part, ruling, words)
        self.over = self._form.is_over(self._refused, self._ended)
        return out

    def _attempted(self, rulings: Iterable[Ruling]) -> None:
        *before, last = self.trail.attempts
        attempts = (*before, last._replace(rulings=tuple(rulings)))
        self.trail = self.trail._replace(attempts=attempts)

    def _point(self, name: str, *arguments: Any, **named: Any) -> Callable[[], Any]:
        method = getattr(self._settings.enforcer, f"a{name}" if self._awaits else name)
        return partial(method, *arguments, self._settings.at, **named)
