"""An answer guarded while it is written, for hosts that hand over its pieces one by one."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from demur.enforce.answers import with_resources
from demur.enforce.ruling import Ruling
from demur.enforce.steps import Steps
from demur.enforce.texts import begins_json
from demur.errors import InputError, InputTypeError
from demur.guards.output.stream_flow import Flow, StreamConfig
from demur.model.finding import Finding

__all__ = ["AnswerStream", "Judge", "Takers"]

# From all that was said, and why nothing more was listened to, to the ruling on it.
Judge = Callable[[str, Finding | None], Steps[Ruling]]


class Takers(NamedTuple):
    """Who takes the steps to a ruling: at once, or awaited."""

    take: Callable[[Steps[Ruling]], Ruling]
    atake: Callable[[Steps[Ruling]], Awaitable[Ruling]]


class AnswerStream:
    """Takes the pieces of an answer and gives back what of them may be shown. Not to be shared.

    Hand every piece to `add`, show what it returns, and stop listening to the model once
    `stopped` is set. `end` gives the ruling; then show `rest`: what was held back if the
    answer is allowed, and otherwise the words to say instead.
    """

    def __init__(
        self,
        config: StreamConfig | None,
        limit: float,
        prompt: str | None,
        *,
        judge: Judge,
        by: Takers,
    ) -> None:
        self._flow = None if config is None else Flow(config, prompt)
        self._left = limit
        self._judge = judge
        self._by = by
        self._said: list[str] = []
        self._shown = 0
        self._escapes: bool | None = None
        self._broken: Exception | None = None
        self._rest: str | None = None
        self._ruling: Ruling | None = None
        self.stopped = False

    @property
    def text(self) -> str:
        """All that the model said, shown or not."""
        return "".join(self._said)

    def add(self, piece: str) -> str:
        """Return what may be shown after this piece; empty while it is held back."""
        if self.stopped:
            return ""
        if not isinstance(piece, str):
            self._broken, self.stopped = InputTypeError.expected("a piece", "a text", piece), True
            return ""
        self._said.append(piece)
        self._left -= len(piece)
        if self._left < 0:
            # No guard looks further: the end of it refuses.
            self.stopped = True
            return ""
        return self._let_out(piece)

    def end(self) -> Ruling:
        """Return the ruling on the whole answer; nothing follows."""
        if self._ruling is not None:
            return self._ruling
        return self._ended(self._by.take(self._steps()))

    async def aend(self) -> Ruling:
        """Return the ruling, like `end`; the event loop runs on meanwhile."""
        if self._ruling is not None:
            return self._ruling
        return self._ended(await self._by.atake(self._steps()))

    @property
    def rest(self) -> str:
        """What is still to be shown at the end.

        Raises:
            InputError: The answer has not come to its end.
        """
        if self._rest is None:
            raise InputError("the answer has not come to its end", help="call `end` first")
        return self._rest

    def _let_out(self, piece: str) -> str:
        if self._flow is None or self._says_more(piece):
            return ""
        try:
            out = "".join(self._flow.add(piece))
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing more leaves
            self._broken, self.stopped = error, True
            return ""
        self.stopped = self._flow.stopped
        self._shown += len(out)
        return out

    def _says_more(self, piece: str) -> bool:
        """Return whether the answer is JSON that says other than it shows: it waits for its end."""
        if self._escapes is None and "\\" in piece:
            self._escapes = begins_json(self.text)
        return bool(self._escapes)

    def _steps(self) -> Steps[Ruling]:
        if self._broken is not None:
            raise self._broken
        blocked = None if self._flow is None else self._flow.result.blocked
        return (yield from self._judge(self.text, blocked))

    def _ended(self, ruling: Ruling) -> Ruling:
        # INVARIANT: what an answer shows is the whole of it if it is allowed.
        if not ruling.allowed:
            self._rest = f"\n\n{ruling.words}" if self._shown else ruling.words
        else:
            self._rest = with_resources(self.text[self._shown :], ruling.resources)
        self.stopped = True
        self._ruling = ruling
        return ruling
