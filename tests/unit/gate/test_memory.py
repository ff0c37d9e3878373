from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gates import NOON, gate_over, refund

from demur.gate.memory import TenantMemories, build_experience, build_label
from demur.memory.projection import HashedProjection
from demur.store.opening import open_store
from demur.store.store import Store

PROJECTION = HashedProjection()


class Watch:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the seconds so far."""
        return self.now


def learn(
    store: Store, name: str = "m1", projection: HashedProjection = PROJECTION, hours: int = 0
) -> None:
    with_store = gate_over(store)
    experience = build_experience(
        with_store.decide(refund()),
        "failure",
        severity=3,
        note="",
        projection=projection,
        memory_id=name,
        now=NOON,
        expires_at=NOON + timedelta(hours=hours) if hours else None,
    )
    store.add_experience(experience, build_label(experience, ""))


def test_experiences_stored_by_another_process_count_within_a_second(tmp_path: Path) -> None:
    with open_store(tmp_path / "d.db") as store, open_store(tmp_path / "d.db") as other:
        watch = Watch()
        memories = TenantMemories(store, PROJECTION.name, clock_s=watch)
        assert len(memories.load_index("default", NOON)) == 0
        learn(other)
        watch.now = 0.9
        assert len(memories.load_index("default", NOON)) == 0
        watch.now = 1.0

        assert len(memories.load_index("default", NOON)) == 1


def test_an_unchanged_memory_is_not_read_again() -> None:
    with open_store(":memory:") as store:
        learn(store)
        watch = Watch()
        memories = TenantMemories(store, PROJECTION.name, clock_s=watch)
        first = memories.load_index("default", NOON)
        watch.now = 5.0

        assert memories.load_index("default", NOON) is first


def test_experiences_stored_by_this_process_count_at_once() -> None:
    with open_store(":memory:") as store:
        memories = TenantMemories(store, PROJECTION.name, clock_s=Watch())
        assert len(memories.load_index("default", NOON)) == 0
        learn(store)
        memories.invalidate("default")

        assert len(memories.load_index("default", NOON)) == 1
        memories.invalidate("never seen")


def test_a_snapshot_holds_until_its_first_experience_expires() -> None:
    with open_store(":memory:") as store:
        learn(store, "m1", hours=1)
        learn(store, "m2", hours=2)
        memories = TenantMemories(store, PROJECTION.name, clock_s=Watch())

        assert [
            len(memories.load_index("default", NOON + timedelta(minutes=minutes)))
            for minutes in (0, 59, 60, 119, 120)
        ] == [2, 2, 1, 1, 0]


def test_the_cached_index_is_returned_without_reading_the_store() -> None:
    with open_store(":memory:") as store:
        learn(store, hours=1)
        watch = Watch()
        memories = TenantMemories(store, PROJECTION.name, clock_s=watch)
        assert memories.cached_index("default", NOON) is None
        index = memories.load_index("default", NOON)

        assert memories.cached_index("default", NOON) is index
        assert memories.cached_index("other", NOON) is None
        assert memories.cached_index("default", NOON + timedelta(hours=1)) is None
        watch.now = 1.0
        assert memories.cached_index("default", NOON) is None


def test_vectors_of_another_projection_do_not_count_and_somebody_hears_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with open_store(":memory:") as store:
        learn(store, "m1", HashedProjection(64))
        learn(store, "m2")
        index = TenantMemories(store, PROJECTION.name).load_index("default", NOON)

    assert [one.memory_id for one in index.experiences] == ["m2"]
    assert "another projection" in caplog.text


@given(st.lists(st.integers(0, 12), max_size=50))
def test_only_so_many_indexes_are_cached(tenants: list[int]) -> None:
    """INVARIANT: no more than `MAX_CACHED_TENANTS` memory indexes are cached."""
    watch = Watch()
    with open_store(":memory:") as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr("demur.gate.memory.MAX_CACHED_TENANTS", 5)
        memories = TenantMemories(store, PROJECTION.name, clock_s=watch)
        for number in tenants:
            watch.now += 0.001
            memories.load_index(f"t{number}", NOON)

            assert len(memories._cached) <= 5
            assert memories.cached_index(f"t{number}", NOON) is not None
