"""A process that stops in the middle of a write, as one in a paused container does.

Arguments: the store, the step after which it stops, and maybe `older`: treat the server as one
that cannot limit a whole transaction. It goes on if it is told to, and prints whether its record
was stored.
"""

import os
import signal
import sys
from importlib import import_module
from typing import Any

from support.store_records import make_record

from demur.store.backend import StorageError
from demur.store.grant_tables import GrantUse, RecordGrants
from demur.store.linking import record_to_row, store_batch
from demur.store.opening import open_store

RECORD = make_record(9000)


def main(url: str, step: str, server: str = "") -> None:
    """Store a record, and stop on the way."""
    if server == "older":
        postgres: Any = import_module("demur.store.postgres")
        postgres._HAS_TRANSACTION_TIMEOUT = 10**9
    with open_store(url, deadline_s=None, busy_timeout_s=60) as store:
        with store.backend.transaction() as write:
            kind: Any = type(write)
        real = getattr(kind, step)

        def stop_after(*arguments: Any) -> Any:
            result = real(*arguments)
            setattr(kind, step, real)
            os.kill(os.getpid(), signal.SIGSTOP)
            return result

        setattr(kind, step, stop_after)
        try:
            # A use of a grant makes it a write of several statements.
            grants = {RECORD.decision_id: RecordGrants(uses=(GrantUse("sha256:1", 1),))}
            store_batch(store.backend, [record_to_row(RECORD)], grants)
        except StorageError:
            print("refused")  # noqa: T201 - its output is what it is for
        else:
            print("stored")  # noqa: T201 - its output is what it is for


if __name__ == "__main__":
    main(*sys.argv[1:])
