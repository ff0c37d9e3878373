"""Sources of counts for `demur alerts check`: a store with its spool, or logs.

Decisions of the sample tenant are made up, so they count only if `--tenant` names it.
"""

import argparse
import sys
from datetime import datetime
from typing import Self

from demur.cli.alerts_log import open_log_source
from demur.cli.configured import configured_registries
from demur.cli.workspace import open_existing_store, load_settings
from demur.errors import one_line
from demur.gate.config import Config, open_configured_spool
from demur.observe.alerts.counts import CountSource
from demur.observe.alerts.sources import UnreadableSource, RecordSource, CombinedSource, StoreSource
from demur.service.sample.day import SAMPLE_TENANT
from demur.store.backend import StorageError
from demur.store.spool import Spool
from demur.store.store import Store

__all__ = ["OpenedSource", "open_source"]


class OpenedSource:
    """An open source of counts, as a context manager, with the registries of its codes.

    `note` describes the records that the source omits.
    """

    def __init__(
        self,
        source: CountSource,
        registries: tuple[str, ...],
        store: Store | None = None,
        note: str = "",
    ) -> None:
        self.source = source
        self.registries = registries
        self.note = note
        self._store = store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()


def open_source(args: argparse.Namespace, now: datetime, clock: datetime) -> OpenedSource:
    """Return the source of counts as of `now`, which may differ from `clock`.

    Raises:
        InputError: The log, the store or the settings do not exist.
    """
    if args.log:
        registries = configured_registries()
        return OpenedSource(
            open_log_source(args.log, (*args.registry, *registries), now), registries
        )
    if args.store is None:
        config = load_settings(args)
    else:
        config = Config(store=args.store, registries=configured_registries())
    store: Store | None = None
    stored: CountSource
    note = ""
    try:
        store = open_existing_store(config)
        stored, note = _open_store_source(store, clock, args.tenant)
    except StorageError as error:
        stored = UnreadableSource(f"the store cannot be opened: {error.problem}")
    spool = open_configured_spool(config)
    sources = [stored] if spool is None else [stored, _read_spool_source(spool, args.tenant)]
    return OpenedSource(CombinedSource(sources), config.registries, store, note)


def _open_store_source(
    store: Store, clock: datetime, tenant: str | None
) -> tuple[CountSource, str]:
    """Return the decisions in a store, and a note if it omits sample decisions."""
    tenants = [] if tenant is not None else [head.tenant for head in store.list_heads()]
    if SAMPLE_TENANT not in tenants:
        return StoreSource(store, clock, tenant=tenant), ""
    real = [name for name in tenants if name != SAMPLE_TENANT]
    note = f"made-up decisions are left out (--tenant {SAMPLE_TENANT} counts them)"
    return CombinedSource([StoreSource(store, clock, tenant=name) for name in real]), note


def _read_spool_source(spool: Spool, tenant: str | None) -> CountSource:
    """Return the decisions that could not be stored and were spooled instead."""
    try:
        spooled = spool.read()
    except StorageError as error:
        return UnreadableSource(error.problem)
    if spooled.unreadable:
        number = len(spooled.unreadable)
        lines = (
            "1 line cannot be read and is"
            if number == 1
            else f"{number} lines cannot be read and are"
        )
        note = f"{lines} not counted"
        print(f"warning: {one_line(str(spool.path))}: {note}", file=sys.stderr)
    real = [one for one in spooled.records if tenant is not None or one.tenant != SAMPLE_TENANT]
    return RecordSource(real, tenant=tenant)
