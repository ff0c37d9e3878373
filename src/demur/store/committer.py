"""Group commit: items that wait at the same time are committed together.

A caller that finds no commit in progress leads: it commits all waiting items in its own thread,
because handing work to another thread costs more than the work. Callers that arrive meanwhile
wait, and one of them leads next. A background thread leads for callers that cannot wait (they
passed a callback), and for all callers if there is a deadline: a caller that commits by itself
could not stop waiting.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from queue import SimpleQueue
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from demur.store.backend import StorageError, UnavailableError

Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_BATCH = 512


class _CommitState(Enum):
    WAITING = auto()
    LEADS = auto()
    TAKEN = auto()
    DONE = auto()
    ABANDONED = auto()


class PendingCommit(Generic[Item, Result]):
    """One caller's item that waits to be committed, and its result."""

    __slots__ = ("callback", "error", "item", "result", "state", "turn")

    def __init__(
        self, item: Item, callback: "Callable[[PendingCommit[Item, Result]], None] | None" = None
    ) -> None:
        self.item = item
        self.callback = callback
        self.state = _CommitState.WAITING
        self.result: Result | None = None
        self.error: Exception | None = None
        self.turn: threading.Lock | None = None

    def outcome(self) -> Result:
        """Return the result.

        Raises:
            StorageError: The item could not be stored.
        """
        error = self.error
        if error is None:
            return self.result  # type: ignore[return-value] # set together with `DONE`
        # Callers of one batch share the cause, so each raises its own exception.
        if isinstance(error, StorageError):
            raise type(error)(error.problem, where=error.where, help=error.help) from error
        raise StorageError(f"could not be stored: {error!r}") from error


_Batch = list[PendingCommit[Item, Result]]


class Committer(Generic[Item, Result]):
    """Commits items in groups.

    `commit` stores a batch and returns a result for each item, or raises. What it raises says
    whether the batch may be stored: after an `UnavailableError` it may, otherwise it is not.
    `on_late` is called for each item that was stored after its caller stopped waiting; then an
    empty batch is committed, so that `commit` can save the mark.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Sequence[Result]],
        on_late: Callable[[Item, Result], None],
        *,
        deadline_s: float | None = None,
        max_batch: int = _MAX_BATCH,
    ) -> None:
        self._commit = commit
        self._late = on_late
        self._deadline_s = deadline_s
        self._largest = max_batch
        self._closed = False
        self._start_afresh()
        _LIVE.add(self)

    def _start_afresh(self) -> None:
        """Drop all callers and threads; after a fork they exist only in the parent."""
        self._lock = threading.Lock()
        self._pending: deque[PendingCommit[Item, Result]] = deque()
        self._leading = False
        self._idle = threading.Event()
        self._thread: threading.Thread | None = None
        self._calls: SimpleQueue[bool] = SimpleQueue()

    # -- callers ---------------------------------------------------------------------------

    def run(self, item: Item) -> Result:
        """Commit an item and return its result.

        Raises:
            StorageError: It could not be stored, or this could not be confirmed in time.
        """
        entry: PendingCommit[Item, Result] = PendingCommit(item)
        try:
            if self._queue_entry(entry) or self._wait_turn(entry):
                self._lead_batch(entry)
        except BaseException:
            # Interrupted as the leader: pass the lead on, because others wait for it.
            if entry.state is _CommitState.LEADS:
                self.abandon(entry)
            raise
        return entry.outcome()

    def submit(
        self, item: Item, callback: Callable[[PendingCommit[Item, Result]], None]
    ) -> PendingCommit[Item, Result]:
        """Queue an item for commit; another thread calls `callback` with its entry."""
        entry = PendingCommit(item, callback)
        self._queue_entry(entry)
        return entry

    def abandon(self, entry: PendingCommit[Item, Result]) -> bool:
        """Stop waiting for an entry; return False if it is done already.

        An entry that has not begun is dropped. One that has may still be stored; then `on_late` is
        called.
        """
        with self._lock:
            if entry.state is _CommitState.DONE:
                return False
            led, entry.state = entry.state is _CommitState.LEADS, _CommitState.ABANDONED
        if led:
            self._pass_on()
        return True

    def close(self) -> None:
        """Commit waiting items, refuse new ones, and end the thread."""
        with self._lock:
            self._closed = True
            if not self._leading:
                self._idle.set()
        self._idle.wait()
        if self._thread is not None:
            self._calls.put(False)
            self._thread.join()
            self._thread = None

    # -- leading ---------------------------------------------------------------------------

    def _queue_entry(self, entry: PendingCommit[Item, Result]) -> bool:
        """Queue an entry; return whether its caller leads."""
        by_thread = entry.callback is not None or self._deadline_s is not None
        with self._lock:
            if self._closed:
                raise StorageError("the store is closed")
            if by_thread and self._thread is None:
                self._start_thread()
            free = not self._leading
            if entry.callback is None and (by_thread or not free):
                entry.turn = threading.Lock()
                entry.turn.acquire()
            self._pending.append(entry)
            self._leading = True
            if free and by_thread:
                self._calls.put(True)
            elif free:
                entry.state = _CommitState.LEADS
        return free and not by_thread

    def _wait_turn(self, entry: PendingCommit[Item, Result]) -> bool:
        """Wait until an entry is done or its caller must lead; return whether it must lead."""
        assert entry.turn is not None
        try:
            come = entry.turn.acquire(timeout=-1 if self._deadline_s is None else self._deadline_s)
        except BaseException:
            self.abandon(entry)
            raise
        if not come and self.abandon(entry):
            raise UnavailableError(
                f"the store did not confirm the decision in time ({self._deadline_s:g} s)",
                help="if the store takes it later, it counts as unconfirmed",
            )
        return entry.state is _CommitState.LEADS

    def _lead_batch(self, entry: PendingCommit[Item, Result]) -> None:
        try:
            self._settle_batch(self._take_batch())
        finally:
            if entry.state is _CommitState.LEADS:
                # Interrupted before a batch was taken: do not let this entry lead again.
                entry.state = _CommitState.ABANDONED
            self._pass_on()

    def _take_batch(self) -> _Batch[Item, Result]:
        """Return the entries of the next batch."""
        batch: _Batch[Item, Result] = []
        pending = self._pending
        with self._lock:
            while pending and len(batch) < self._largest:
                entry = pending.popleft()
                if entry.state is not _CommitState.ABANDONED:
                    entry.state = _CommitState.TAKEN
                    batch.append(entry)
        return batch

    def _pass_on(self, *, by_thread: bool = False) -> bool:
        """Pass the lead to the next entry; return whether the thread must lead it."""
        with self._lock:
            pending = self._pending
            while pending and pending[0].state is _CommitState.ABANDONED:
                pending.popleft()
            if not pending:
                self._leading = False
                if self._closed:
                    self._idle.set()
                return False
            first = pending[0]
            if first.callback is None and self._deadline_s is None:
                assert first.turn is not None
                first.state = _CommitState.LEADS
                first.turn.release()
                return False
            if not by_thread:
                self._calls.put(True)
            return True

    def _start_thread(self) -> None:
        thread = threading.Thread(
            target=_run_thread, args=(self, self._calls), name="demur-committer", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            raise UnavailableError(f"cannot start a thread: {error}") from error
        self._thread = thread

    # -- committing ------------------------------------------------------------------------

    def _settle_batch(self, batch: _Batch[Item, Result]) -> None:
        """Commit a batch and wake its callers."""
        try:
            self._commit_or_split(batch)
        except BaseException:
            for entry in batch:
                if entry.result is None and entry.error is None:
                    entry.error = StorageError("storing was interrupted")
            raise
        finally:
            late = self._wake_callers(batch)
        for entry in late:
            self._late(entry.item, entry.outcome())
        if late:
            self._try_commit([])

    def _commit_or_split(self, batch: _Batch[Item, Result]) -> None:
        """Commit a batch; if that fails, commit one by one, so that a bad item fails alone."""
        error = self._try_commit(batch)
        if len(batch) == 1 or error is None:
            return
        for entry in batch:
            entry.error = None
        for entry in batch:
            if isinstance(error, UnavailableError):
                entry.error = error
            else:
                error = self._try_commit([entry])

    def _try_commit(self, batch: _Batch[Item, Result]) -> Exception | None:
        try:
            results = self._commit([entry.item for entry in batch])
        except Exception as error:  # noqa: BLE001 - the callers raise it
            for entry in batch:
                entry.error = error
            return error
        for entry, result in zip(batch, results, strict=True):
            entry.result, entry.error = result, None
        return None

    def _wake_callers(self, batch: _Batch[Item, Result]) -> _Batch[Item, Result]:
        """Wake the callers of a batch; return the stored entries whose callers are gone."""
        with self._lock:
            abandoned = [entry for entry in batch if entry.state is _CommitState.ABANDONED]
            for entry in batch:
                entry.state = _CommitState.DONE
        for entry in batch:
            if entry.turn is not None:
                entry.turn.release()
            elif entry.callback is not None and entry not in abandoned:
                entry.callback(entry)
        return [entry for entry in abandoned if entry.error is None]


def _run_thread(committer: Committer[Item, Result], calls: SimpleQueue[bool]) -> None:
    """Lead when called, as long as there are entries that the thread must lead."""
    while calls.get():
        leads = True
        while leads:
            # The callers get the error; the thread has to live on for others.
            with suppress(BaseException):
                committer._settle_batch(committer._take_batch())  # noqa: SLF001 - the committer's own thread
            leads = committer._pass_on(by_thread=True)  # noqa: SLF001 - the committer's own thread


_LIVE: WeakSet[Committer[Any, Any]] = WeakSet()


def _after_fork() -> None:
    for committer in list(_LIVE):
        committer._start_afresh()  # noqa: SLF001 - the committer's own module


# Windows has neither forks nor this function.
getattr(os, "register_at_fork", dict)(after_in_child=_after_fork)
