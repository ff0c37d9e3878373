"""Killed while records are let go: what is gone is named by an event, and the chain verifies."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.store_records import make_record, moment

from demur.store.opening import open_store
from demur.store.verify import verify_chain

RECORDS = 120
# Lets go of records in small batches, and says so before each of them.
CHILD = """
import sys
from demur.store import retention
from demur.store.opening import open_store
retention._MAX_RETIRED = retention._MAX_ERASED = 3
append = retention.RetentionSql._append

def announce(self, *args):
    print("batch", flush=True)
    return append(self, *args)

retention.RetentionSql._append = announce
with open_store(sys.argv[1]) as store:
    store.erase_subject("acme", "user:ada", by="ops", reason="test")
    store.retire_records("acme", sys.argv[2], by="ops", reason="test")
"""


@pytest.mark.parametrize(
    "rounds", [pytest.param(3, id="short"), pytest.param(40, id="full", marks=pytest.mark.slow)]
)
def test_records_that_are_gone_after_a_kill_are_named(tmp_path: Path, rounds: int) -> None:
    gone = 0
    for number in range(rounds):
        path = tmp_path / f"{number}.db"
        with open_store(path) as store:
            store.put_many([make_record(one) for one in range(1, RECORDS + 1)])
        command = [sys.executable, "-c", CHILD, str(path), moment(RECORDS + 1)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(1 + number * 29 % 75):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        process.wait()

        with open_store(path) as store:
            verification = verify_chain(store.backend)
            [chain] = verification.chains
            retired = sum(one.records or 0 for one in chain.let_go if one.kind == "retire")
            erased = sum(one.records or 0 for one in chain.let_go if one.kind == "erase")

        assert verification.breaks == ()
        assert chain.records + retired == RECORDS
        assert chain.erased == min(erased, chain.records)
        gone += retired + erased

    assert gone
