"""The words of an answer: in one part or several, held back until guards have cleared them."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import NamedTuple

from pydantic_ai.messages import PartDeltaEvent, TextPartDelta

from demur.enforce.answer_stream import AnswerStream
from demur.enforce.answers import with_resources
from demur.integrations.pydantic_ai.refused import or_end

__all__ = ["Clearing", "More", "Words"]


class Clearing(NamedTuple):
    """Who clears what a model says: text while it comes, other output once it is whole.

    `open` begins a text, `cleared` hears of one that was allowed; `judge` raises for an
    output that is not.
    """

    open: Callable[[], AnswerStream]
    cleared: Callable[[str], None]
    judge: Callable[[str], Awaitable[object]]


class More(NamedTuple):
    """A text that begins a part, or goes on with one that has begun before."""

    begins: bool
    text: str


class _Reading:
    """One way to put the parts of an answer together.

    `before` is what was said before a part: it is read again, and not shown again.
    """

    def __init__(self, stream: AnswerStream, before: str) -> None:
        self.stream = stream
        self._ahead = before
        self._out = -len(before)

    def add(self, piece: str) -> int:
        """Return how much of the part may be shown after this piece, or less than nothing."""
        whole, self._ahead = self._ahead + piece, ""
        self._out += len(self.stream.add(whole))
        return self._out


class Words:
    """The text of an answer, in one part or several, that is read as one and shown as it comes.

    A part ends where another begins, and may go on after it: then all of it is read again,
    so that nothing is hidden between its pieces, and what was shown is not shown twice. Who
    shows the parts joins them or keeps them apart; where that differs, both are read.
    """

    def __init__(self, clearing: Clearing) -> None:
        self._clearing = clearing
        self._open: list[_Reading] = []
        self._said = ("", "")
        self._begins = False
        self._held: deque[str] = deque()
        self._shown = 0
        self._passes = False
        self._index = 0

    @property
    def stopped(self) -> bool:
        """Whether guards want to hear no more of it."""
        return any(one.stream.stopped for one in self._open)

    def add(self, index: int, piece: str, *, new_part: bool) -> str:
        """Return what may be shown after this piece."""
        self._begins = self._begins or new_part
        if self._passes or not piece:
            return piece
        if not self._open:
            befores = self._before()
            self._open = [_Reading(self._clearing.open(), before) for before in befores]
            self._index, self._shown = index, 0
        clear = min([one.add(piece) for one in self._open])
        self._held.append(piece)
        return "".join(self._up_to(clear))

    def _up_to(self, clear: int) -> Iterator[str]:
        """Yield what was held back of a part, up to that many letters of it."""
        while self._shown < clear:
            piece = self._held.popleft()
            shown = piece[: clear - self._shown]
            if shown != piece:
                self._held.appendleft(piece[len(shown) :])
            self._shown += len(shown)
            yield shown

    def _before(self) -> tuple[str, ...]:
        """Return what was said before a piece, in all ways to read it."""
        joined, apart = self._said
        if self._begins and apart:
            apart += "\n"
        self._begins = False
        return (joined,) if joined == apart else (joined, apart)

    async def end(self) -> PartDeltaEvent | None:
        """Return what is left of it, if it may be shown."""
        # What went on though guards looked no further binds nobody.
        self._passes = self._passes or self.stopped
        ended, self._open = self._open, []
        if not ended:
            return None
        rulings = [or_end(await one.stream.aend()) for one in ended]
        lines = dict.fromkeys(line for ruling in rulings for line in ruling.resources)
        texts = [one.stream.text for one in ended]
        for text in texts:
            self._clearing.cleared(text)
            self._clearing.cleared(with_resources(text, lines))
        self._said = (texts[0], texts[-1])
        rest = with_resources("".join(self._held), lines)
        self._held.clear()
        return PartDeltaEvent(index=self._index, delta=TextPartDelta(rest)) if rest else None

    def and_then(self, more: Iterable[More]) -> tuple[str, ...]:
        """Return all that was said and is said after it, in all ways to read it."""
        joined, apart = self._said
        for begins, text in more:
            joined += text
            apart += f"\n{text}" if begins and apart else text
        return (joined,) if joined == apart else (joined, apart)
