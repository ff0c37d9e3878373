"""What is known of one run of the OpenAI Agents SDK, for as long as it lasts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.enforce.ruling import Ruling
    from demur.model.grant import Grant

__all__ = ["Run"]


class Run:
    """The prompt and what was ruled on it, answers by text, calls that wait, and what is held.

    `allowed` is None until the input is ruled on; what is to be kept is held until then.
    `grants` are those that speak for a call, in the run that a call is for itself.
    """

    def __init__(self) -> None:
        self.prompt: str | None = None
        self.allowed: bool | None = None
        self.said: tuple[str, Ruling] | None = None
        self.wrote = False
        self.grants: tuple[Grant, ...] = ()
        self.waiting: dict[str, Ruling] = {}
        self._answers: dict[str, Ruling] = {}
        self._held: list[Callable[[], Awaitable[None]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._one_by_one = asyncio.Lock()

    def hold(self, write: Callable[[], Awaitable[None]]) -> None:
        """Keep what is to be written until the input is ruled on."""
        self.wrote = True
        self._held.append(write)

    async def go_on(self) -> None:
        """Write what was held: the run is past its input, though nobody ruled on one here."""
        if self.allowed is None:
            self.allowed = True
            await self.release()

    async def release(self) -> None:
        """Write what was held, unless the input was refused: then drop it."""
        held, self._held = self._held, []
        for write in held if self.allowed is not False else ():
            await write()

    async def rule_once(
        self, text: str, rule: Callable[[], Awaitable["Ruling"]], *, cut: bool = False
    ) -> "Ruling":
        """Return the ruling on an answer, which whoever reads it first asks for.

        A streamed answer is read twice: as it is written, and by the SDK at its end. A refusal
        of its beginning is one of the whole; of one that was `cut`, nothing else counts.
        """
        async with self._lock():
            known = self._known(text)
            if known is None or (cut and known.allowed):
                known = self._answers[text] = await rule()
            return known

    def _known(self, text: str) -> "Ruling | None":
        if text in self._answers:
            return self._answers[text]
        refused = ((said, one) for said, one in self._answers.items() if not one.allowed)
        alike = (one for said, one in refused if said.startswith(text) or text.startswith(said))
        return next(alike, None)

    def _lock(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # An interrupted run may go on in another loop, for which a lock is of no use.
            self._loop, self._one_by_one = loop, asyncio.Lock()
        return self._one_by_one
