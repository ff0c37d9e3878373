"""The words of an answer: in one part or several, held back until guards have cleared them."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import NamedTuple

from pydantic_ai.messages import PartDeltaEvent, TextPartDelta

from demur.enforce.answer_stream import AnswerStream
from demur.enforce.answers import append_resources
from demur.integrations.pydantic_ai.refused import require_allowed

__all__ = ["TextChecks", "TextContinuation", "TextBuffer"]


class TextChecks(NamedTuple):
    """The checks of an answer: of text while it streams, of other output once it is complete.

    `open_stream` begins a text, `mark_cleared` notes an allowed text, `check_text` raises for a
    refused output.
    """

    open_stream: Callable[[], AnswerStream]
    mark_cleared: Callable[[str], None]
    check_text: Callable[[str], Awaitable[object]]


class TextContinuation(NamedTuple):
    """A text that begins a part or continues one."""

    starts_part: bool
    text: str


class _PartReading:
    """One way to join the parts of an answer.

    `before` is the text before a part: the guards read it again, and it is not shown again.
    """

    def __init__(self, stream: AnswerStream, before: str) -> None:
        self.stream = stream
        self._ahead = before
        self._out = -len(before)

    def add(self, piece: str) -> int:
        """Return how many characters of the part are cleared; negative inside `before`."""
        whole, self._ahead = self._ahead + piece, ""
        self._out += len(self.stream.add(whole))
        return self._out


class TextBuffer:
    """The text of an answer in one or several parts, checked as one text and shown as it comes.

    A part ends where another begins, and may continue later. The guards then read everything
    again, so that nothing hides between the pieces; shown text is not shown twice. Clients join
    the parts or keep them apart; if that makes a difference, both readings are checked.
    """

    def __init__(self, checks: TextChecks) -> None:
        self._checks = checks
        self._open: list[_PartReading] = []
        self._texts_so_far = ("", "")
        self._begins = False
        self._held: deque[str] = deque()
        self._shown = 0
        self._passes_all = False
        self._index = 0

    @property
    def is_stopped(self) -> bool:
        """Whether the guards stopped the text."""
        return any(one.stream.stopped for one in self._open)

    def feed(self, index: int, piece: str, *, new_part: bool) -> str:
        """Take a piece and return the text that is cleared now."""
        self._begins = self._begins or new_part
        if self._passes_all or not piece:
            return piece
        if not self._open:
            befores = self._texts_before()
            self._open = [_PartReading(self._checks.open_stream(), before) for before in befores]
            self._index, self._shown = index, 0
        clear = min([one.add(piece) for one in self._open])
        self._held.append(piece)
        return "".join(self._take_cleared(clear))

    def _take_cleared(self, clear: int) -> Iterator[str]:
        """Yield held text of the part up to that many characters."""
        while self._shown < clear:
            piece = self._held.popleft()
            shown = piece[: clear - self._shown]
            if shown != piece:
                self._held.appendleft(piece[len(shown) :])
            self._shown += len(shown)
            yield shown

    def _texts_before(self) -> tuple[str, ...]:
        """Return the text before a piece, in each reading."""
        joined, apart = self._texts_so_far
        if self._begins and apart:
            apart += "\n"
        self._begins = False
        return (joined,) if joined == apart else (joined, apart)

    async def finish(self) -> PartDeltaEvent | None:
        """Check the text and return an event with the rest of it."""
        # After a stop that was allowed, further text passes unchecked.
        self._passes_all = self._passes_all or self.is_stopped
        ended, self._open = self._open, []
        if not ended:
            return None
        rulings = [require_allowed(await one.stream.afinish()) for one in ended]
        lines = dict.fromkeys(line for ruling in rulings for line in ruling.resources)
        texts = [one.stream.text for one in ended]
        for text in texts:
            self._checks.mark_cleared(text)
            self._checks.mark_cleared(append_resources(text, lines))
        self._texts_so_far = (texts[0], texts[-1])
        rest = append_resources("".join(self._held), lines)
        self._held.clear()
        return PartDeltaEvent(index=self._index, delta=TextPartDelta(rest)) if rest else None

    def continue_with(self, more: Iterable[TextContinuation]) -> tuple[str, ...]:
        """Return the whole text with its continuation, in each reading."""
        joined, apart = self._texts_so_far
        for begins, text in more:
            joined += text
            apart += f"\n{text}" if begins and apart else text
        return (joined,) if joined == apart else (joined, apart)
