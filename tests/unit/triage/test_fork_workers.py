import os
import pickle

import pytest

from demur.triage.run import WorkResult, run_in_forks, serve_orders

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def times(item: int) -> str:
    if item == 13:
        os._exit(9)
    if item == 14:
        raise ValueError("no such number")
    return "x" * item


@pytest.mark.parametrize("number", [1, 2, 5])
def test_every_item_is_done_once_whatever_the_size_of_the_result(number: int) -> None:
    items = [0, 3, 300_000, 7]

    done = sorted(run_in_forks(times, items, number))

    assert done == [WorkResult(index, "x" * item) for index, item in enumerate(items)]


def test_nothing_to_do_forks_nothing() -> None:
    assert list(run_in_forks(times, [], 2)) == []


def test_a_fork_that_dies_loses_only_its_item() -> None:
    done = {each.position: each for each in run_in_forks(times, [13, 1, 2, 3], 2)}

    assert done[0].killed
    assert [done[index].result for index in (1, 2, 3)] == ["x", "xx", "xxx"]


def test_when_all_workers_died_the_rest_is_reported_as_killed() -> None:
    done = sorted(run_in_forks(times, [13, 13, 13, 1], 2))

    assert done == [WorkResult(index, killed=True) for index in range(4)]


def test_an_error_of_the_work_is_raised_in_the_parent() -> None:
    with pytest.raises(ValueError, match="no such number"):
        list(run_in_forks(times, [1, 14], 2))


def own_process(_: int) -> int:
    return os.getpid()


def test_no_process_is_left_when_nobody_waits_for_the_rest() -> None:
    results = run_in_forks(own_process, [1] * 50, 2)
    process = next(results).result
    results.close()  # type: ignore[attr-defined]

    assert process != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_fork_answers_orders_until_they_end() -> None:
    orders, order = os.pipe()
    answers, answer = os.pipe()
    os.write(order, b"\0\0\0\1" + b"\0\0\0\0")
    os.close(order)

    serve_orders(times, [14, 2], orders, answer)

    os.close(answer)
    with os.fdopen(answers, "rb") as file:
        raw = file.read()
    os.close(orders)
    first = 8 + int.from_bytes(raw[:8], "big")
    assert pickle.loads(raw[8:first]) == (True, "xx")  # noqa: S301 - written above
    assert pickle.loads(raw[first + 8 :])[0] is False  # noqa: S301 - written above
