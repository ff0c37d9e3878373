import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NoReturn

import pytest

from demur.store.backend import StorageError, UnavailableError
from demur.store.committer import Committer, PendingCommit, _after_fork

Make = Callable[..., "Desk"]


class Desk:
    """A committer over a list, with a door that holds a commit back as long as a test wants."""

    def __init__(self, *, deadline_s: float | None = None, largest: int = 512) -> None:
        self.batches: list[list[int]] = []
        self.threads: list[str] = []
        self.late: list[int] = []
        self.bad: dict[int, BaseException] = {}
        self.door = threading.Event()
        self.door.set()
        self.inside = threading.Event()
        self.committer: Committer[int, str] = Committer(
            self.commit,
            lambda item, _: self.late.append(item),
            deadline_s=deadline_s,
            max_batch=largest,
        )

    def commit(self, batch: Sequence[int]) -> list[str]:
        """Store a batch, once the door is open."""
        self.inside.set()
        assert self.door.wait(10)
        for item in batch:
            if item in self.bad:
                raise self.bad[item]
        self.batches.append(list(batch))
        self.threads.append(threading.current_thread().name)
        return [f"stored {item}" for item in batch]

    def hold(self) -> None:
        """Close the door."""
        self.door.clear()
        self.inside.clear()

    def waiting(self, count: int) -> None:
        """Return once that many wait behind the commit that is held."""
        until = time.monotonic() + 10
        while len(self.committer._pending) < count:
            assert time.monotonic() < until
            time.sleep(0.001)


@pytest.fixture
def make() -> Iterator[Make]:
    desks = []

    def build(**settings: float) -> Desk:
        desk = Desk(**settings)  # type: ignore[arg-type]
        desks.append(desk)
        return desk

    yield build
    for desk in desks:
        desk.door.set()
        desk.committer.close()


class Caller(threading.Thread):
    """Runs one item and keeps what came of it."""

    def __init__(self, desk: Desk, item: int) -> None:
        super().__init__(name=f"caller-{item}")
        self.desk, self.item = desk, item
        self.answer: object = None
        self.start()

    def run(self) -> None:
        """Wait for the item."""
        try:
            self.answer = self.desk.committer.run(self.item)
        except (StorageError, KeyboardInterrupt) as error:
            self.answer = error


def held(desk: Desk, *items: int) -> list[Caller]:
    """Hold the commit of the first item while the others come."""
    desk.hold()
    callers = [Caller(desk, items[0])]
    assert desk.inside.wait(10)
    for count, item in enumerate(items[1:], start=1):
        callers.append(Caller(desk, item))
        desk.waiting(count)
    return callers


def opened(desk: Desk, callers: Sequence[Caller]) -> list[object]:
    desk.door.set()
    for caller in callers:
        caller.join(10)
    return [caller.answer for caller in callers]


def test_a_lone_caller_commits_in_its_own_thread(make: Make) -> None:
    desk = make()

    assert [desk.committer.run(item) for item in (1, 2)] == ["stored 1", "stored 2"]
    assert desk.batches == [[1], [2]]
    assert set(desk.threads) == {threading.current_thread().name}
    assert desk.committer._thread is None


def test_concurrent_callers_are_committed_in_one_batch_by_one_of_them(make: Make) -> None:
    desk = make()
    callers = held(desk, 1, 2, 3, 4)

    assert opened(desk, callers) == ["stored 1", "stored 2", "stored 3", "stored 4"]
    assert desk.batches == [[1], [2, 3, 4]]
    assert desk.threads == ["caller-1", "caller-2"]


def test_a_batch_is_bounded(make: Make) -> None:
    desk = make(largest=2)
    callers = held(desk, 1, 2, 3, 4)

    assert None not in opened(desk, callers)
    assert desk.batches == [[1], [2, 3], [4]]
    assert desk.threads == ["caller-1", "caller-2", "caller-4"]


def test_one_bad_item_fails_alone(make: Make) -> None:
    desk = make()
    desk.bad[3] = StorageError("the row is wrong", where="3", help="mend it")
    callers = held(desk, 1, 2, 3, 4)
    *good, bad, last = opened(desk, callers)

    assert [*good, last] == ["stored 1", "stored 2", "stored 4"]
    assert isinstance(bad, StorageError)
    assert (bad.problem, bad.where, bad.help) == ("the row is wrong", "3", "mend it")


def test_an_unknown_error_is_a_storage_error(make: Make) -> None:
    desk = make()
    desk.bad[1] = KeyError("odd")

    with pytest.raises(StorageError, match="KeyError"):
        desk.committer.run(1)
    assert desk.committer.run(2) == "stored 2"


def test_an_unavailable_database_is_not_tried_again_for_each_item(make: Make) -> None:
    desk = make()
    desk.bad[2] = UnavailableError("the database is gone")
    callers = held(desk, 1, 2, 3)
    _, *rest = opened(desk, callers)

    assert [type(answer) for answer in rest] == [UnavailableError, UnavailableError]
    assert rest[0] is not rest[1]
    assert desk.batches == [[1]]


def test_a_database_lost_halfway_fails_the_rest(make: Make) -> None:
    desk = make()
    desk.bad[2] = ValueError("wrong")
    desk.bad[3] = UnavailableError("gone")
    callers = held(desk, 1, 2, 3, 4)
    answers = opened(desk, callers)

    assert [type(answer) for answer in answers[1:]] == [
        StorageError,
        UnavailableError,
        UnavailableError,
    ]


def test_an_interrupted_leader_fails_its_followers_and_passes_on(make: Make) -> None:
    desk = make(largest=2)
    desk.bad[3] = KeyboardInterrupt()
    callers = held(desk, 1, 2, 3, 4)
    first, second, third, fourth = opened(desk, callers)

    assert (first, fourth) == ("stored 1", "stored 4")
    assert isinstance(second, KeyboardInterrupt)
    assert isinstance(third, StorageError)
    assert third.problem == "storing was interrupted"


def test_callbacks_are_called_from_a_thread_that_starts_when_needed(make: Make) -> None:
    desk = make()
    done = threading.Event()
    answers: list[tuple[str, str]] = []

    def callback(entry: PendingCommit[int, str]) -> None:
        answers.append((entry.outcome(), threading.current_thread().name))
        if len(answers) == 2:
            done.set()

    desk.committer.submit(1, callback)
    desk.committer.submit(2, callback)

    assert done.wait(10)
    assert answers == [("stored 1", "demur-committer"), ("stored 2", "demur-committer")]


def test_a_caller_hands_over_to_the_thread_and_back(make: Make) -> None:
    desk = make(largest=1)
    done = threading.Event()
    first = held(desk, 1)
    desk.committer.submit(2, lambda _: None)
    desk.committer.submit(3, lambda _: done.set())
    callers = [*first, Caller(desk, 4)]
    desk.waiting(3)

    assert opened(desk, callers) == ["stored 1", "stored 4"]
    assert done.wait(10)
    assert desk.threads == ["caller-1", "demur-committer", "demur-committer", "caller-4"]


def test_an_entry_abandoned_before_its_batch_is_dropped(make: Make) -> None:
    desk = make()
    [caller] = held(desk, 1)
    entry = desk.committer.submit(2, lambda _: None)

    assert desk.committer.abandon(entry)
    opened(desk, [caller])
    desk.committer.close()
    assert desk.batches == [[1]]
    assert desk.late == []


def test_an_entry_abandoned_among_others_is_dropped_alone(make: Make) -> None:
    desk = make()
    callers = held(desk, 1, 2)
    entry = desk.committer.submit(3, lambda _: None)
    callers.append(Caller(desk, 4))
    desk.waiting(3)

    assert desk.committer.abandon(entry)
    assert opened(desk, callers) == ["stored 1", "stored 2", "stored 4"]
    assert desk.batches == [[1], [2, 4]]


def test_an_interruption_leaves_what_was_stored_before_it_stored(make: Make) -> None:
    desk = make()
    desk.bad[3] = StorageError("wrong")
    desk.bad[4] = KeyboardInterrupt()
    callers = held(desk, 1, 2, 3, 4, 5)
    [_, leader, third, fourth, fifth] = opened(desk, callers)

    assert isinstance(leader, KeyboardInterrupt)
    assert desk.batches == [[1], [2]]
    assert [getattr(answer, "problem", None) for answer in (third, fourth, fifth)] == [
        "wrong",
        "storing was interrupted",
        "storing was interrupted",
    ]


def test_a_deadline_ends_the_wait_and_the_late_item_is_reported(make: Make) -> None:
    desk = make(deadline_s=0.05)
    desk.hold()

    with pytest.raises(StorageError, match="did not confirm the decision in time"):
        desk.committer.run(1)
    desk.door.set()
    desk.committer.close()
    assert desk.late == [1]
    assert desk.batches == [[1], []]


def test_a_late_item_that_failed_is_not_reported(make: Make) -> None:
    desk = make(deadline_s=0.05)
    desk.bad[1] = StorageError("wrong")
    desk.hold()

    with pytest.raises(StorageError, match="in time"):
        desk.committer.run(1)
    desk.door.set()
    desk.committer.close()
    assert desk.late == []


def test_with_a_deadline_the_thread_commits_for_everybody(make: Make) -> None:
    desk = make(deadline_s=10)
    callers = held(desk, 1, 2, 3)

    assert opened(desk, callers) == ["stored 1", "stored 2", "stored 3"]
    assert desk.batches == [[1], [2, 3]]
    assert set(desk.threads) == {"demur-committer"}


def test_a_committed_entry_cannot_be_abandoned(make: Make) -> None:
    desk = make()
    done = threading.Event()
    entry = desk.committer.submit(1, lambda _: done.set())

    assert done.wait(10)
    assert not desk.committer.abandon(entry)
    assert entry.outcome() == "stored 1"


def test_an_interrupted_wait_leaves_the_others_alone(make: Make) -> None:
    desk = make()
    first = held(desk, 1)
    entry: PendingCommit[int, str] = PendingCommit(2)

    class Interrupted:
        def acquire(self, **_: float) -> bool:
            raise KeyboardInterrupt

        def release(self) -> None:
            """Do nothing."""

    assert not desk.committer._queue_entry(entry)
    entry.turn = Interrupted()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        desk.committer._wait_turn(entry)
    callers = [*first, Caller(desk, 3)]
    desk.waiting(2)

    assert opened(desk, callers) == ["stored 1", "stored 3"]
    assert desk.batches == [[1], [3]]


def test_an_interrupted_leader_passes_the_lead_to_the_next(make: Make) -> None:
    desk = make()
    first = held(desk, 1)
    entry: PendingCommit[int, str] = PendingCommit(2)
    assert not desk.committer._queue_entry(entry)
    follower = Caller(desk, 3)
    desk.waiting(2)
    assert opened(desk, first) == ["stored 1"]

    assert desk.committer.abandon(entry)
    assert opened(desk, [follower]) == ["stored 3"]
    assert desk.batches == [[1], [3]]


def test_a_closed_committer_refuses(make: Make) -> None:
    desk = make()
    desk.committer.close()

    with pytest.raises(StorageError, match="closed"):
        desk.committer.run(1)
    with pytest.raises(StorageError, match="closed"):
        desk.committer.submit(1, lambda _: None)


def test_closing_waits_for_what_is_under_way(make: Make) -> None:
    desk = make()
    callers = held(desk, 1, 2)
    closing = threading.Thread(target=desk.committer.close)
    closing.start()

    assert opened(desk, callers) == ["stored 1", "stored 2"]
    closing.join(10)
    assert not closing.is_alive()


def test_without_a_thread_nothing_waits_for_ever(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(UnavailableError, match="cannot start a thread"):
        desk.committer.submit(1, lambda _: None)
    assert desk.committer.run(2) == "stored 2"


def test_after_a_fork_nobody_waits(make: Make) -> None:
    desk = make()
    done = threading.Event()
    desk.committer.submit(1, lambda _: done.set())
    assert done.wait(10)
    thread = desk.committer._thread
    desk.committer._calls.put(False)
    assert thread is not None
    thread.join()
    _after_fork()

    assert desk.committer._thread is None
    assert desk.committer.run(2) == "stored 2"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_starts_with_nobody_waiting(make: Make) -> None:
    desk = make()
    callers = held(desk, 1, 2)
    child = os.fork()
    if child == 0:
        status = 1
        with suppress(BaseException):
            desk.door = threading.Event()
            desk.door.set()
            status = 0 if desk.committer.run(7) == "stored 7" else 2
        os._exit(status)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert opened(desk, callers) == ["stored 1", "stored 2"]


@pytest.mark.parametrize("moment", ["_lead_batch", "_take_batch"])
def test_a_leader_that_is_interrupted_leaves_the_lead_to_the_next(
    monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    committer: Committer[int, int] = Committer(list, lambda *_: None)

    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(committer, moment, interrupted)
        with pytest.raises(KeyboardInterrupt):
            committer.run(1)

    assert committer.run(2) == 2
    committer.close()
