"""Guard an answer while it is written, for hosts that deliver it piece by piece."""

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

# Checks the whole answer; the finding says why the stream was stopped early.
Judge = Callable[[str, Finding | None], Steps[Ruling]]


class Takers(NamedTuple):
    """Drives the steps of a check: synchronously, or awaited."""

    take: Callable[[Steps[Ruling]], Ruling]
    atake: Callable[[Steps[Ruling]], Awaitable[Ruling]]


class AnswerStream:
    """Filters the pieces of one answer. Not to be shared.

    Pass every piece to `add`, show what it returns, and stop reading from the model once `stopped`
    is set. `finish` returns the result; then show `remaining_text`: the held-back text if the
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
        """The whole text of the model, shown or not."""
        return "".join(self._said)

    def add(self, piece: str) -> str:
        """Return the text that may be shown now; empty while it is held back."""
        if self.stopped:
            return ""
        if not isinstance(piece, str):
            self._broken, self.stopped = InputTypeError.expected("a piece", "a text", piece), True
            return ""
        self._said.append(piece)
        self._left -= len(piece)
        if self._left < 0:
            # The output guard accepts no longer answer, so `finish` refuses.
            self.stopped = True
            return ""
        return self._let_out(piece)

    def end(self) -> Ruling:
        """Return the result on the whole answer, which ends here."""
        if self._ruling is not None:
            return self._ruling
        return self._ended(self._by.take(self._steps()))

    async def aend(self) -> Ruling:
        """Return the result, like `finish`, without blocking the event loop."""
        if self._ruling is not None:
            return self._ruling
        return self._ended(await self._by.atake(self._steps()))

    @property
    def rest(self) -> str:
        """The text that is still to be shown at the end.

        Raises:
            InputError: The answer is not finished.
        """
        if self._rest is None:
            raise InputError("the answer is not finished", help="call `finish` first")
        return self._rest

    def _let_out(self, piece: str) -> str:
        if self._flow is None or self._says_more(piece):
            return ""
        try:
            out = "".join(self._flow.add(piece))
        except Exception as error:  # noqa: BLE001 - on any error, no more text is released
            self._broken, self.stopped = error, True
            return ""
        self.stopped = self._flow.stopped
        self._shown += len(out)
        return out

    def _says_more(self, piece: str) -> bool:
        """Return whether the answer is JSON with escapes: then it is held until its end."""
        if self._escapes is None and "\\" in piece:
            self._escapes = begins_json(self.text)
        return bool(self._escapes)

    def _steps(self) -> Steps[Ruling]:
        if self._broken is not None:
            raise self._broken
        blocked = None if self._flow is None else self._flow.result.blocked
        return (yield from self._judge(self.text, blocked))

    def _ended(self, ruling: Ruling) -> Ruling:
        # INVARIANT: an allowed answer is shown completely.
        if not ruling.allowed:
            self._rest = f"\n\n{ruling.words}" if self._shown else ruling.words
        else:
            self._rest = with_resources(self.text[self._shown :], ruling.resources)
        self.stopped = True
        self._ruling = ruling
        return ruling
