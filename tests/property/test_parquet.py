"""Exports to Parquet that are interrupted anywhere end where one that was not would."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.store_records import make_record

from demur.audit import parquet_folder
from demur.audit.parquet_folder import encode_name, export_parquet, read_manifests
from demur.store.opening import open_store
from demur.store.store import Store

pq = pytest.importorskip("pyarrow.parquet")

BY = {"by": "ops", "reason": "asked to"}
TENANTS = ("acme", "Beta/Co")
SUBJECTS = ("user:ada", "user:bob")

puts = st.tuples(
    st.just("put"),
    st.lists(
        st.tuples(st.sampled_from(TENANTS), st.sampled_from(SUBJECTS), st.integers(0, 2)),
        min_size=1,
        max_size=6,
    ),
)
erasures = st.tuples(st.just("erase"), st.tuples(st.sampled_from(TENANTS), st.just("user:ada")))
retirements = st.tuples(st.just("retire"), st.tuples(st.sampled_from(TENANTS), st.integers(1, 2)))
# After how many steps on the disk a run is interrupted; None: it is not.
exports = st.tuples(st.just("export"), st.none() | st.integers(0, 12))
steps = st.lists(st.one_of(puts, exports, exports, erasures, retirements), max_size=12)


class InterruptedRun(BaseException):
    """The process ends here."""


@contextmanager
def interrupted_after(number: int | None) -> Iterator[None]:
    """Stop before the step on the disk with this number: a flush, a move or a deletion."""
    left = [number]

    def stopping(function: Any) -> Any:
        def step(*given: Any, **named: Any) -> Any:
            if left[0] is not None:
                if left[0] == 0:
                    raise InterruptedRun
                left[0] -= 1
            return function(*given, **named)

        return step

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
            patch.setattr(owner, name, stopping(getattr(owner, name)))
        yield


def day(number: int) -> str:
    return f"2027-01-{1 + number:02d}T00:00:00.000Z"


def apply_step(store: Store, folder: Path, step: tuple[str, Any], first: int) -> None:
    name, what = step
    if name == "put":
        store.put_many(
            [
                make_record(
                    first + number,
                    tenant=tenant,
                    created_at=day(days),
                    sealed={"requester": subject},
                )
                for number, (tenant, subject, days) in enumerate(what)
            ]
        )
    elif name == "erase":
        store.erase_subject(*what, **BY)
    elif name == "retire":
        store.retire_records(what[0], day(what[1]), **BY)
    else:
        try:
            with interrupted_after(what):
                export_parquet(store, folder)
        except InterruptedRun:
            pass


def stored_rows(store: Store) -> list[tuple[Any, ...]]:
    heads = store.list_heads()
    rows = (row for head in heads for row in store.backend.read_linked(head.tenant, 1, None))
    return sorted((one.row.tenant, one.seq, one.row.subject, one.hash) for one in rows)


def exported_rows(folder: Path) -> list[tuple[Any, ...]]:
    names = ("tenant", "seq", "subject", "record_hash")
    paths = folder.glob("day=*/**/*.parquet")
    rows = [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(tuple(row[name] for name in names) for row in rows)


def list_keys(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [row[:2] for row in rows]


@given(steps)
def test_an_interrupted_export_loses_and_doubles_nothing(steps: list[tuple[str, Any]]) -> None:
    """INVARIANT: the files of an export hold each record once, wherever a run was interrupted."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_folder, "_MAX_ROWS", 3)
        patch.setattr(parquet_folder, "_ROWS_AT_ONCE", 2)
        folder = Path(name) / "decisions"
        with open_store(":memory:") as store:
            for number, step in enumerate(steps):
                apply_step(store, folder, step, first=1 + 10 * number)
                # Readers may come at any time: what they see is never doubled.
                seen = list_keys(exported_rows(folder))
                assert len(seen) == len({*seen})

            done = export_parquet(store, folder)

            assert done.unreachable == ()
            assert exported_rows(folder) == stored_rows(store)
            files = {file.path for one in read_manifests(folder) for file in one.files}
            left = {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")}
            assert files == left
            assert export_parquet(store, folder) == type(done)()


@given(st.lists(st.text(min_size=1, max_size=256), min_size=2, max_size=5, unique=True))
def test_tenants_never_share_a_folder(names: list[str]) -> None:
    encoded = [encode_name(name) for name in names]

    assert len({one.lower() for one in encoded}) == len(names)
    assert all(len(one.encode()) <= 255 and "/" not in one for one in encoded)
    assert not {*encoded} & {".", ".."}
