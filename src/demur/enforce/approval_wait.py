"""Wait until people approve or decline a refused call, over the store that all of them share."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from demur.enforce.context import Call, Steps
from demur.enforce.result import CheckResult
from demur.errors import InputError
from demur.gate.approval_queue import find_approval_grants
from demur.gate.approvals import is_settled
from demur.gate.gate import Gate
from demur.model.grant import Grant
from demur.model.record import DecisionRecord
from demur.store.rows import ApprovalRow, ApprovalState
from demur.store.store import Store

_PAUSE_S = 0.25


class ApprovalAnswer(NamedTuple):
    """What people said about a refused call; it is true if they approved it.

    Check the call again with its `grants`. A request that goes to a gate itself names
    `continues` instead. While nobody has decided, the state is `waiting`.
    """

    decision_id: str
    state: ApprovalState
    by: str = ""
    note: str = ""
    continues: str | None = None
    grants: tuple[Grant, ...] = ()

    def __bool__(self) -> bool:
        return self.state is ApprovalState.APPROVED

    @property
    def message(self) -> str:
        """What became of it, in one sentence for a model."""
        if self.state is ApprovalState.APPROVED:
            return "A person approved it."
        if self.state is ApprovalState.DECLINED:
            return f"A person declined it: {self.note}" if self.note else "A person declined it."
        if self.state is ApprovalState.EXPIRED:
            return "Nobody decided in time."
        return "Nobody has decided yet."


def wait_steps(
    gate: Gate | None,
    decision: CheckResult | DecisionRecord | str,
    timeout_s: float,
    monotonic: Callable[[], float],
) -> Steps[ApprovalAnswer]:
    """Yield the steps to what people say about a decision within a time.

    Raises:
        InputError: There is no store, or nobody was asked about the decision.
        StorageError: The store cannot be read.
    """
    if gate is None or gate.store is None:
        help_text = "use `open_enforcer()` with the store of the service"
        raise InputError("waiting for an approval needs a store", help=help_text)
    decision_id, store = _decision_id(decision), gate.store
    ends = monotonic() + timeout_s
    while True:
        row: ApprovalRow | None = yield _blocking(store.get_approval, decision_id)
        if row is None:
            help_text = "only a refusal that people can lift is put before them"
            raise InputError("this decision asked nobody for approval", help=help_text)
        left_s = ends - monotonic()
        if is_settled(row) or left_s <= 0:
            answer: ApprovalAnswer = yield _blocking(_read_answer, store, row)
            return answer
        pause_s = min(_PAUSE_S, left_s)
        yield Call(time.sleep, (pause_s,), async_function=asyncio.sleep)


def _decision_id(decision: CheckResult | DecisionRecord | str) -> str:
    record = decision.record if isinstance(decision, CheckResult) else decision
    if record is None:
        raise InputError("the result has no decision on record", where="decision")
    return record if isinstance(record, str) else record.decision_id


def _blocking(function: Callable[..., object], *arguments: object) -> Call:
    """Return the step that calls a function which waits for the store."""

    async def call(*given: object) -> object:
        return await asyncio.to_thread(function, *given)

    return Call(function, arguments, async_function=call)


def _read_answer(store: Store, row: ApprovalRow) -> ApprovalAnswer:
    settled = is_settled(row)
    return ApprovalAnswer(
        decision_id=row.decision_id,
        # An approval whose resolution is not there yet is still waited for.
        state=ApprovalState(row.state) if settled else ApprovalState.WAITING,
        by=row.closed_by if settled else "",
        note=row.note if settled else "",
        continues=row.resolution_id,
        grants=find_approval_grants(store, row) if settled else (),
    )
