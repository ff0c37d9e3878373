"""Durable decision records: SQLite on a laptop, PostgreSQL for many writers."""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.model.record import DecisionRecord
    from demur.store.backend import RecordFilter, StorageError, UnavailableError
    from demur.store.events import ChainEvent
    from demur.store.opening import open_store
    from demur.store.rows import ApiKey, ChainHead, Label, Snapshot, Tallies
    from demur.store.spool import Spool
    from demur.store.sql import Backend
    from demur.store.store import Store, StoredRecord
    from demur.store.verify import (
        ChainBreak,
        ChainSummary,
        ChainVerification,
        LetGo,
        heads_document,
        read_heads,
        verify_chain,
    )

__all__ = [
    "ApiKey",
    "Backend",
    "ChainBreak",
    "ChainEvent",
    "ChainHead",
    "ChainSummary",
    "ChainVerification",
    "DecisionRecord",
    "Label",
    "LetGo",
    "RecordFilter",
    "Snapshot",
    "Spool",
    "StorageError",
    "Store",
    "StoredRecord",
    "Tallies",
    "UnavailableError",
    "heads_document",
    "open_store",
    "read_heads",
    "verify_chain",
]

_HOMES = {
    "demur.model.record": "DecisionRecord",
    "demur.store.backend": "RecordFilter StorageError UnavailableError",
    "demur.store.events": "ChainEvent",
    "demur.store.opening": "open_store",
    "demur.store.rows": "ApiKey ChainHead Label Snapshot Tallies",
    "demur.store.spool": "Spool",
    "demur.store.sql": "Backend",
    "demur.store.store": "Store StoredRecord",
    "demur.store.verify": (
        "ChainBreak ChainSummary ChainVerification LetGo heads_document read_heads verify_chain"
    ),
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
