"""Callers that wait for a person: any number share one reading of the store at a time."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from demur.codes.reason_code import ReasonCode
from demur.gate.approvals import is_settled
from demur.service.problem import unavailable
from demur.store.rows import ApprovalRow

_MAX_WAITS = 256
_MAX_WAITS_OF_CALLER = 64
_PAUSE_S = 0.25

FindApprovals = Callable[[Collection[str]], Awaitable[list[ApprovalRow]]]


class ApprovalWaits:
    """The open waits of a service. No thread is held while somebody waits.

    While anybody waits, one task reads what all of them wait for, and pauses in between. It ends
    with the last of them, or when `is_closing` says so.
    """

    def __init__(
        self,
        find: FindApprovals,
        is_closing: Callable[[], bool],
        *,
        max_waits: int = _MAX_WAITS,
        max_waits_of_caller: int = _MAX_WAITS_OF_CALLER,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._find = find
        self._is_closing = is_closing
        self._max_waits = max_waits
        self._max_waits_of_caller = max_waits_of_caller
        self._pause_s = pause_s
        self._waiting: dict[asyncio.Future[ApprovalRow | None], str] = {}
        self._callers: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None

    async def wait(
        self,
        caller: str,
        decision_id: str,
        seconds: float,
        hang_up: Callable[[], Awaitable[None]] | None = None,
    ) -> ApprovalRow | None:
        """Return the approval once it is settled; None after `seconds`, or if nobody listens.

        Raises:
            ProblemError: Too many wait already.
            StorageError: The store cannot be read.
        """
        if len(self._waiting) >= self._max_waits:
            raise unavailable("service overloaded", ReasonCode.RATE_LIMIT)
        if self._callers[caller] >= self._max_waits_of_caller:
            raise unavailable("this key waits for too many decisions", ReasonCode.RATE_LIMIT)
        found: asyncio.Future[ApprovalRow | None] = asyncio.get_running_loop().create_future()
        self._waiting[found] = decision_id
        self._callers[caller] += 1
        gone = None if hang_up is None else asyncio.ensure_future(hang_up())
        try:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._read_waiting())
            awaited: set[asyncio.Future[Any]] = {found} if gone is None else {found, gone}
            await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return found.result() if found.done() else None
        finally:
            self._waiting.pop(found, None)
            self._callers[caller] -= 1
            if not self._callers[caller]:
                del self._callers[caller]
            if gone is not None:
                gone.cancel()

    async def _read_waiting(self) -> None:
        while self._waiting:
            try:
                rows = await self._find({*self._waiting.values()})
            except Exception as error:  # noqa: BLE001 - the waiting callers get it
                for found in self._waiting:
                    if not found.done():
                        found.set_exception(error)
                return
            settled = {row.decision_id: row for row in rows if is_settled(row)}
            for found, decision_id in self._waiting.items():
                if not found.done() and (decision_id in settled or self._is_closing()):
                    found.set_result(settled.get(decision_id))
            await asyncio.sleep(self._pause_s)
