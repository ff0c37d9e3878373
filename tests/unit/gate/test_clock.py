from datetime import UTC, datetime, timedelta, timezone
from threading import Thread

import pytest
from support.gates import NOON, Ticking, entropy_of

from demur.gate.clock import IdSource, format_timestamp, make_ulid, system_clock, system_entropy


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC), "2026-01-02T03:04:05.678Z"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00.000Z"),
        (
            datetime(2026, 1, 2, 1, tzinfo=timezone(timedelta(hours=2))),
            "2026-01-01T23:00:00.000Z",
        ),
    ],
)
def test_a_moment_is_written_in_utc_with_milliseconds(moment: datetime, written: str) -> None:
    assert format_timestamp(moment) == written


def test_the_machine_has_a_clock_in_utc_and_fresh_randomness() -> None:
    assert system_clock().tzinfo is UTC
    assert system_clock() <= system_clock()
    assert len(system_entropy(16)) == 16
    assert system_entropy(16) != system_entropy(16)


MOST = (1 << 80) - 1


def test_an_id_has_26_characters_that_sort_like_its_time() -> None:
    early, late = make_ulid(1, MOST), make_ulid(2, 0)

    assert len(early) == len(late) == 26
    assert early < late
    assert make_ulid(0, 0) == "0" * 26
    assert make_ulid((1 << 48) - 1, MOST) == "7" + "Z" * 25


def test_the_same_clock_and_randomness_give_the_same_ids() -> None:
    one, two = (IdSource(Ticking(), entropy_of()) for _ in range(2))

    assert [one() for _ in range(3)] == [two() for _ in range(3)]


def test_ids_of_one_moment_count_up() -> None:
    ids = IdSource(Ticking(), entropy_of())
    first, second = ids(), ids()

    assert second > first
    assert second[:-3] == first[:-3]


def test_a_clock_that_goes_back_makes_no_smaller_id() -> None:
    clock = Ticking()
    ids = IdSource(clock, entropy_of())
    first = ids()
    clock.now = NOON - timedelta(days=365)

    assert ids() > first


def test_used_up_randomness_borrows_the_next_moment() -> None:
    ids = IdSource(Ticking(), lambda size: b"\xff" * size)
    first, second = ids(), ids()

    assert second > first
    assert second[:10] > first[:10]


def test_a_time_before_the_epoch_makes_an_id() -> None:
    ids = IdSource(Ticking(NOON.replace(year=1900)), entropy_of())

    assert len({ids(), ids()}) == 2


def test_threads_never_share_an_id() -> None:
    ids, made = IdSource(Ticking(), entropy_of()), list[str]()
    threads = [Thread(target=lambda: made.extend([ids() for _ in range(200)])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(made)) == 1600
