"""What `demur alerts check` counts: a store with its spool, or logs."""

import argparse
import sys
from datetime import datetime
from typing import Self

from demur.cli.alerts_log import log_source
from demur.cli.workspace import existing_store, settings
from demur.errors import one_line
from demur.gate.config import Config, configured_spool
from demur.observe.alerts.counts import Source
from demur.observe.alerts.sources import LostSource, RecordSource, SourceSum, StoreSource
from demur.store.backend import StorageError
from demur.store.spool import Spool
from demur.store.store import Store

__all__ = ["Opened", "open_source"]


class Opened:
    """A source of counts that is open until its block ends, and the registries it speaks in."""

    def __init__(self, source: Source, registries: tuple[str, ...], store: Store | None) -> None:
        self.source = source
        self.registries = registries
        self._store = store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()


def open_source(args: argparse.Namespace, now: datetime) -> Opened:
    """Return what the command counts.

    Raises:
        InputError: There is no such log, store or settings.
    """
    if args.log:
        return Opened(log_source(args.log, tuple(args.registry), now), (), None)
    config = settings(args) if args.store is None else Config(store=args.store)
    store: Store | None = None
    stored: Source
    try:
        store = existing_store(config)
        stored = StoreSource(store, now, tenant=args.tenant)
    except StorageError as error:
        stored = LostSource(f"the store cannot be opened: {error.problem}")
    spool = configured_spool(config)
    sources = [stored] if spool is None else [stored, _spooled(spool, args.tenant)]
    return Opened(SourceSum(sources), config.registries, store)


def _spooled(spool: Spool, tenant: str | None) -> Source:
    """Return the decisions that could not be stored: no store can tell of those."""
    try:
        spooled = spool.read()
    except StorageError as error:
        return LostSource(error.problem)
    if spooled.unreadable:
        note = f"{len(spooled.unreadable)} lines cannot be read and are not counted"
        print(f"warning: {one_line(str(spool.path))}: {note}", file=sys.stderr)
    return RecordSource(spooled.records, tenant=tenant)
