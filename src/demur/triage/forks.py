"""A few forks of this process share a list of work.

A pool of the standard library takes a tenth of the time that half a gigabyte takes, to be
imported and started alone; this one is there at once. What a fork died of costs only the
item it had.
"""

import os
import pickle
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

__all__ = ["WorkResult", "run_in_forks", "serve_orders"]

Item = TypeVar("Item")
_ORDER_BYTES = 4
_LENGTH_BYTES = 8


class WorkResult(NamedTuple):
    """The result of the item at a position; `killed` if its process died."""

    position: int
    result: Any = None
    killed: bool = False


def run_in_forks(
    function: Callable[[Item], Any], items: Sequence[Item], number: int
) -> Iterator[WorkResult]:
    """Yield the function's result for each item, in the order of completion.

    Do not use it in a program with threads. Exceptions of the function are raised here.
    """
    workers: list[_ForkWorker] = []
    try:
        for _ in range(min(number, len(items))):
            workers.append(_ForkWorker(function, items, workers))
        yield from _collect_results(workers, len(items))
    finally:
        for worker in workers:
            worker.kill()


def _collect_results(workers: list["_ForkWorker"], number: int) -> Iterator[WorkResult]:
    waiting = iter(range(number))
    ready, live = select.poll(), {}
    for worker, position in zip(workers, waiting, strict=False):
        worker.assign(position)
        live[worker.answers] = worker
        ready.register(worker.answers, select.POLLIN)
    while live:
        for place, _ in ready.poll():
            worker = live[place]
            done = worker.read_result()
            following = None if done.killed else next(waiting, None)
            if following is None:
                ready.unregister(place)
                del live[place]
            else:
                worker.assign(following)
            yield done
    for position in waiting:
        yield WorkResult(position, killed=True)


class _ForkWorker:
    """A fork that receives positions of items one at a time, and returns results."""

    def __init__(
        self, function: Callable[[Item], Any], items: Sequence[Item], others: list["_ForkWorker"]
    ) -> None:
        self._position = -1
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()
        self._pid = os.fork()
        if not self._pid:  # pragma: no cover - runs in the fork
            try:
                # If a fork kept these ends open, the parent could not detect that a process died.
                for place in (self.orders, *(other.orders for other in others)):
                    os.close(place)
                serve_orders(function, items, orders, answers)
            finally:
                # Skip the parent's buffers and exit handlers.
                os._exit(0)
        os.close(orders)
        os.close(answers)

    def assign(self, position: int) -> None:
        """Assign an item."""
        self._position = position
        # If the fork died, reading its result reports that.
        with suppress(BrokenPipeError):
            os.write(self.orders, position.to_bytes(_ORDER_BYTES, "big"))

    def read_result(self) -> WorkResult:
        """Return the result that is ready to be read."""
        size = _read_bytes(self.answers, _LENGTH_BYTES)
        raw = _read_bytes(self.answers, int.from_bytes(size, "big")) if size else None
        if raw is None:
            return WorkResult(self._position, killed=True)
        good, value = pickle.loads(raw)  # noqa: S301 - written by our own fork
        if not good:
            raise value
        return WorkResult(self._position, value)

    def kill(self) -> None:
        """Kill the fork at once: it only reads."""
        os.close(self.orders)
        os.close(self.answers)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def serve_orders(
    function: Callable[[Item], Any], items: Sequence[Item], orders: int, answers: int
) -> None:
    """Process orders until there are no more."""
    while order := _read_bytes(orders, _ORDER_BYTES):
        try:
            answer = (True, function(items[int.from_bytes(order, "big")]))
        except Exception as error:  # noqa: BLE001 - raised again in the parent
            answer = (False, error)
        raw = pickle.dumps(answer)
        rest = memoryview(len(raw).to_bytes(_LENGTH_BYTES, "big") + raw)
        while rest:
            rest = rest[os.write(answers, rest) :]


def _read_bytes(place: int, size: int) -> bytes | None:
    """Return `size` bytes, or None if the pipe ends before."""
    parts = []
    while size:
        part = os.read(place, size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
