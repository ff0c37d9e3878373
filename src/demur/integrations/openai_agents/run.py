"""What is known of one run of the OpenAI Agents SDK, for as long as it lasts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.enforce.ruling import Ruling
    from demur.model.grant import Grant

__all__ = ["Run"]


class Run:
    """The state of one run: prompt, check results, waiting calls and held session writes.

    `allowed` is None until the input is checked; session writes are held until then. `grants`
    are those of a call, in the run context of that call.
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
        """Hold a session write until the input is checked."""
        self.wrote = True
        self._held.append(write)

    async def go_on(self) -> None:
        """Release held writes if no input was checked in this run."""
        if self.allowed is None:
            self.allowed = True
            await self.release()

    async def release(self) -> None:
        """Run the held writes, or drop them if the input was refused."""
        held, self._held = self._held, []
        for write in held if self.allowed is not False else ():
            await write()

    async def rule_once(
        self, text: str, rule: Callable[[], Awaitable["Ruling"]], *, cut: bool = False
    ) -> "Ruling":
        """Return the check result of an answer; the first reader runs the check.

        A streamed answer is read twice: while it streams, and by the SDK at its end. A refusal
        of its beginning holds for the whole. A stream that was `cut` needs a check of its own.
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
            # An interrupted run may resume in another event loop, where the old lock is useless.
            self._loop, self._one_by_one = loop, asyncio.Lock()
        return self._one_by_one
