"""Decide without storing: the store is read, and nothing is written to it."""

from collections.abc import Sequence

from msgspec.structs import replace

from demur.cli.workspace import database_path
from demur.gate.config import Config, open_gate
from demur.gate.gate import Gate
from demur.model.record import DecisionRecord
from demur.store.rows import Snapshot
from demur.store.store import Store, StoredRecord

__all__ = ["open_dry_run_gate"]


class _DryRunStore(Store):
    """A store that reads earlier records and discards new ones."""

    def put(self, record: DecisionRecord, snapshots: Sequence[Snapshot] = ()) -> StoredRecord:
        """Return what storing the record would have returned."""
        del snapshots
        request_id = record.request_id
        first = None if request_id is None else self.by_request(record.tenant, request_id)
        return StoredRecord(record) if first is None else StoredRecord(first, duplicate=True)

    def put_many(
        self, records: Sequence[DecisionRecord], snapshots: Sequence[Snapshot] = ()
    ) -> list[StoredRecord]:
        """Return what storing the records would have returned."""
        return [self.put(record, snapshots) for record in records]


def open_dry_run_gate(config: Config) -> Gate:
    """Return a gate that decides by the settings and memory, and neither stores nor spools."""
    path = database_path(config)
    absent = path is not None and not path.exists()
    gate = open_gate(replace(config, spool="", store="" if absent else config.store))
    if gate.store is not None:
        gate.store = _DryRunStore(gate.store.backend)
    return gate
