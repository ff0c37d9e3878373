"""A session of the OpenAI Agents SDK that keeps nothing of a run whose input was refused.

The SDK writes a user's words to its session before they are looked at, or after a tripwire
stopped them, and the model would read them in the next run.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from agents import RunContextWrapper
from agents.memory import Session

from demur.integrations.openai_agents.run import AgentRunState

__all__ = ["CleanSession"]


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
