"""The state of one run of the OpenAI Agents SDK, and the session it writes to.

The SDK writes the user's input to its session before guardrails see it. `CleanSession` holds
that write until the input is allowed, so that a later run never reads refused input.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from agents import RunContextWrapper
from agents.memory import Session

if TYPE_CHECKING:
    from demur.enforce.result import CheckResult
    from demur.model.grant import Grant


class AgentRunState:
    """The state of one run: prompt, check results, waiting calls and held session writes.

    `allowed` is None until the input is checked; session writes are held until then. `grants`
    and changed `arguments` are those of a call, in the run context of that call.
    """

    def __init__(self) -> None:
        self.prompt: str | None = None
        self.allowed: bool | None = None
        self.spoken_refusal: tuple[str, CheckResult] | None = None
        self.has_written = False
        self.grants: tuple[Grant, ...] = ()
        self.arguments: str | None = None
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
            result = self._find_result(text)
            if result is None or (cut and result.allowed):
                result = self._answers[text] = await check()
            return result

    def _find_result(self, text: str) -> "CheckResult | None":
        if text in self._answers:
            return self._answers[text]
        for answer, result in self._answers.items():
            is_beginning = answer.startswith(text) or text.startswith(answer)
            if is_beginning and not result.allowed:
                return result
        return None

    def _loop_lock(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # An interrupted run may resume in another event loop, where the old lock is useless.
            self._loop, self._check_lock = loop, asyncio.Lock()
        return self._check_lock


class CleanSession:
    """A view of a session that drops refused input; `find_run` returns the state of a run.

    The SDK passes the run as `wrapper` to methods that have such a parameter. A `resumed` run
    starts without input, so it holds no writes.
    """

    def __init__(
        self,
        session: Session,
        find_run: Callable[[RunContextWrapper[Any]], AgentRunState],
        *,
        resumed: bool = False,
    ) -> None:
        self._session = session
        self._find_run = find_run
        self._resumed = resumed

    @property
    def session_id(self) -> str:
        """The name of the session."""
        return self._session.session_id

    @session_id.setter
    def session_id(self, value: str) -> None:
        self._session.session_id = value

    @property
    def session_settings(self) -> Any:
        """The settings of the session."""
        return self._session.session_settings

    @session_settings.setter
    def session_settings(self, value: Any) -> None:
        self._session.session_settings = value

    async def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> list[Any]:
        """Return the last items, or all."""
        await self._release_run(wrapper)
        items: list[Any] = await self._call_session("get_items", wrapper, limit)
        return items

    async def add_items(self, items: list[Any], *, wrapper: Any = None) -> None:
        """Add items, unless the input of their run was refused."""
        run = await self._release_run(wrapper)
        write = partial(self._call_session, "add_items", wrapper, items)
        if run is None:
            await write()
        elif run.allowed is None and not run.has_written and not self._resumed:
            # The first write of a run is its input.
            run.hold_write(write)
        elif run.allowed is not False:
            await write()

    async def pop_item(self, *, wrapper: Any = None) -> Any:
        """Remove and return the last item."""
        await self._release_run(wrapper)
        return await self._call_session("pop_item", wrapper)

    async def clear_session(self, *, wrapper: Any = None) -> None:
        """Remove all items."""
        await self._release_run(wrapper)
        await self._call_session("clear_session", wrapper)

    async def _release_run(self, wrapper: Any) -> AgentRunState | None:
        """Release the held writes of a run and return its state."""
        run = None if wrapper is None else self._find_run(wrapper)
        if run is not None:
            await run.release_writes()
        return run

    async def _call_session(self, name: str, wrapper: Any, *given: Any) -> Any:
        method = getattr(self._session, name)
        # Pass the run only to sessions whose methods accept it.
        more = {"wrapper": wrapper} if "wrapper" in inspect.signature(method).parameters else {}
        return await method(*given, **more)

    def __getattr__(self, name: str) -> Any:
        # Private methods could write without `add_items`.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._session, name)
