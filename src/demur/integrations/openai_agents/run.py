"""What is known of one run of the OpenAI Agents SDK, for as long as it lasts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.enforce.ruling import CheckResult
    from demur.model.grant import Grant

__all__ = ["AgentRunState"]


class AgentRunState:
    """The state of one run: prompt, check results, waiting calls and held session writes.

    `allowed` is None until the input is checked; session writes are held until then. `grants`
    are those of a call, in the run context of that call.
    """

    def __init__(self) -> None:
        self.prompt: str | None = None
        self.allowed: bool | None = None
        self.spoken_refusal: tuple[str, CheckResult] | None = None
        self.has_written = False
        self.grants: tuple[Grant, ...] = ()
        self.waiting: dict[str, CheckResult] = {}
        self._answers: dict[str, CheckResult] = {}
        self._held: list[Callable[[], Awaitable[None]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._check_lock = asyncio.Lock()

    def hold_write(self, write: Callable[[], Awaitable[None]]) -> None:
        """Hold a session write until the input is checked."""
        self.has_written = True
        self._held.append(write)

    async def accept_input(self) -> None:
        """Release held writes if no input was checked in this run."""
        if self.allowed is None:
            self.allowed = True
            await self.release_writes()

    async def release_writes(self) -> None:
        """Run the held writes, or drop them if the input was refused."""
        held, self._held = self._held, []
        for write in held if self.allowed is not False else ():
            await write()

    async def check_once(
        self, text: str, check: Callable[[], Awaitable["CheckResult"]], *, cut: bool = False
    ) -> "CheckResult":
        """Return the check result of an answer; the first reader runs the check.

        A streamed answer is read twice: while it streams, and by the SDK at its end. A refusal
        of its beginning holds for the whole. A stream that was `cut` needs a check of its own.
        """
        async with self._loop_lock():
            known = self._find_result(text)
            if known is None or (cut and known.allowed):
                known = self._answers[text] = await check()
            return known

    def _find_result(self, text: str) -> "CheckResult | None":
        if text in self._answers:
            return self._answers[text]
        refused = ((said, one) for said, one in self._answers.items() if not one.allowed)
        alike = (one for said, one in refused if said.startswith(text) or text.startswith(said))
        return next(alike, None)

    def _loop_lock(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # An interrupted run may resume in another event loop, where the old lock is useless.
            self._loop, self._check_lock = loop, asyncio.Lock()
        return self._check_lock
