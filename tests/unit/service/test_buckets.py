import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.service.buckets import RateBuckets


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_a_burst_passes_and_the_next_one_waits() -> None:
    clock = Clock()
    buckets = RateBuckets(10, 3, monotonic=clock)

    assert [buckets.wait_for("a") for _ in range(3)] == [0.0] * 3
    assert buckets.wait_for("a") == pytest.approx(0.1)
    assert buckets.wait_for("b") == 0.0
    clock.now += 0.11
    assert buckets.wait_for("a") == 0.0


def test_there_are_no_more_buckets_than_allowed() -> None:
    clock = Clock()
    buckets = RateBuckets(10, 3, max_keys=2, monotonic=clock)

    assert [buckets.wait_for(key) for key in "abca"] == [0.0, 0.0, 0.1, 0.0]
    clock.now += 0.11
    # One who owes nothing makes room, one who does not.
    assert [buckets.wait_for(key) for key in "cd"] == [0.0, 0.1]


@given(
    st.integers(1, 50),
    st.integers(1, 20),
    st.lists(st.floats(0, 0.5), min_size=1, max_size=80),
)
def test_no_key_gets_more_than_its_share(rate: int, burst: int, pauses: list[float]) -> None:
    """INVARIANT: a key never calls more often than its burst and its rate allow."""
    clock = Clock()
    buckets = RateBuckets(rate, burst, monotonic=clock)
    admitted: list[float] = []
    for pause in pauses:
        clock.now += pause
        if not buckets.wait_for("key"):
            admitted.append(clock.now)
    for first, begin in enumerate(admitted):
        for count, end in enumerate(admitted[first:], 1):
            assert count <= burst + (end - begin) * rate + 1e-6
