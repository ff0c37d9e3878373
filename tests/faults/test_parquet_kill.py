"""Killed while it exports to Parquet: the next run finishes, and each record is there once."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.store_records import make_record, moment

from demur.audit.parquet_folder import export_parquet, read_manifests
from demur.model.record import DecisionRecord
from demur.store.opening import open_store

pq = pytest.importorskip("pyarrow.parquet")

DAYS, RECORDS = 6, 120
HALF = RECORDS // 2
# Exports in small files, and says so before each step on the disk.
CHILD = """
import os, sys
from pathlib import Path
from demur.audit import parquet_folder
from demur.model.record import DecisionRecord
from demur.store.opening import open_store
parquet_folder._MAX_ROWS = parquet_folder._ROWS_AT_ONCE = 15

def announce(step):
    def announced(*args, **named):
        print("step", flush=True)
        return step(*args, **named)
    return announced

os.fsync = announce(os.fsync)
Path.replace, Path.unlink = announce(Path.replace), announce(Path.unlink)
with open_store(sys.argv[1]) as store:
    parquet_folder.export_parquet(store, Path(sys.argv[2]))
"""


def make_records(first: int, last: int) -> list[DecisionRecord]:
    hours = 24 * DAYS / RECORDS
    return [
        make_record(number, created_at=moment(int(number * hours * 3_600_000)))
        for number in range(first, last + 1)
    ]


@pytest.mark.parametrize(
    "rounds", [pytest.param(3, id="short"), pytest.param(40, id="full", marks=pytest.mark.slow)]
)
def test_an_export_after_a_kill_holds_each_record_once(tmp_path: Path, rounds: int) -> None:
    for number in range(rounds):
        path, folder = tmp_path / f"{number}.db", tmp_path / f"{number}"
        with open_store(path, durability="normal") as store:
            store.put_many(make_records(1, HALF))
            export_parquet(store, folder)
            # So there is something to append, to rewrite and to remove.
            store.put_many(make_records(HALF + 1, RECORDS))
            [erased] = store.backend.read_chain("acme", 50, 50)
            store.backend.erase_records("acme", [erased.decision_id], by="ops", reason="test")
            store.retire_records("acme", moment(30 * 3_600_000), by="ops", reason="test")
        command = [sys.executable, "-c", CHILD, str(path), str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(1 + number * 17 % 60):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        process.wait()

        with open_store(path) as store:
            done = export_parquet(store, folder)
            stored = [row.row for row in store.backend.read_linked("acme", 1, None)]

        files = sorted(folder.glob("day=*/*/*.parquet"))
        exported = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
        pairs = sorted((row["decision_id"], row["subject"]) for row in exported)
        assert done.unreachable == ()
        assert pairs == sorted((row.decision_id, row.subject) for row in stored)
        assert {subject for _, subject in pairs} == {None, "user:ada"}
        [manifest] = read_manifests(folder)
        assert sorted(folder / file.path for file in manifest.files) == files
