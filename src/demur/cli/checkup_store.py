"""Check the store: it opens, accepts writes, its chains are valid, and the spool is empty."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from demur.cli.checkup import Check, ok, problem, problems_of, warning
from demur.cli.workspace import database_path
from demur.errors import DemurError
from demur.gate.clock import timestamp
from demur.gate.config import Config, configured_spool, open_configured_store
from demur.store.backend import StorageError
from demur.store.rows import Head
from demur.store.store import Store
from demur.store.verify import Verification, verify_chain

__all__ = ["check_spool", "check_store"]

_RECENT = 1000
_MOST_TENANTS = 100
# The clocks of machines that share a store differ a little.
_SLACK = timedelta(minutes=2)


def check_store(config: Config, now: datetime) -> Iterator[Check]:
    """Yield checks of the store, without creating one."""
    path = database_path(config)
    if not config.store:
        help_text = 'set `store = "demur.db"` to keep them'
        yield warning("store", "none: decisions are made, but cannot be proved later", help_text)
    elif path is not None and not path.parent.is_dir():
        yield problem(
            "store", f"the folder {path.parent} does not exist", "create it", _make_folder(path)
        )
    elif path is not None and not path.exists():
        yield ok("store", f"{path} does not exist yet; the first decision creates it")
    else:
        yield from _opened(config, now)


def _make_folder(path: Path) -> Callable[[], None]:
    return lambda: path.parent.mkdir(parents=True)


def _opened(config: Config, now: datetime) -> Iterator[Check]:
    try:
        store = open_configured_store(config)
    except DemurError as error:
        yield from problems_of("store", error)
        return
    assert store is not None
    with store:
        try:
            yield from _about(store)
            yield from _writable(store)
            yield from _chains(store)
            yield from _newest(store, now)
        except StorageError as error:
            yield from problems_of("store", error)


def _about(store: Store) -> Iterator[Check]:
    info, counts = store.info(), store.counts()
    records = f"{counts['records']} record{'s' * (counts['records'] != 1)}"
    yield ok("store", f"{info['kind']}, schema {info['schema_version']}, {records}")
    if info["durability"] == "full":
        yield ok("durability", "full: decisions survive a power failure")
    else:
        what = "normal: a power failure may lose the last decisions"
        yield warning("durability", what, '`durability = "full"` waits for the disk')


def _writable(store: Store) -> Iterator[Check]:
    try:
        with store.backend.transaction():
            pass
    except StorageError as error:
        yield from problems_of("writing", error)
    else:
        yield ok("writing", "the store accepts writes")


def _chains(store: Store) -> Iterator[Check]:
    """Yield whether the newest records of each tenant form a valid chain."""
    heads = {head.tenant: head for head in store.heads()}
    tenants = store.backend.tenants()
    found = [
        _recent(store, heads.get(tenant, Head(tenant, 0, ""))) for tenant in tenants[:_MOST_TENANTS]
    ]
    broken = [one for part in found for one in part.breaks]
    for one in broken:
        what = f"broken at record {one.seq} of tenant {one.tenant}: {one.problem}"
        yield problem("chain", what, "copy the store, then run `demur audit verify`")
    records = sum(part.records for part in found)
    if not broken:
        yield ok("chain", _holds(records))
    unconfirmed = sum(part.unconfirmed for part in found)
    if unconfirmed:
        yield warning(
            "chain",
            f"stored too late for their callers: {unconfirmed} of the newest records",
            "their callers got a timeout; is the disk slow, or `deadline_s` too short?",
        )


def _holds(records: int) -> str:
    if records < 2:
        return "the newest record is valid" if records else "no records yet"
    return f"the newest {records} records are valid"


def _recent(store: Store, head: Head) -> Verification:
    return verify_chain(store.backend, head.tenant, first=max(1, head.seq - _RECENT + 1))


def _newest(store: Store, now: datetime) -> Iterator[Check]:
    record = next(store.find(newest_first=True, limit=1), None)
    if record is not None and record.created_at > timestamp(now + _SLACK):
        what = f"the newest record is from {record.created_at}, which is in the future"
        yield problem("clock", what, "set the clock; records are ordered by time")


def check_spool(config: Config) -> Iterator[Check]:
    """Yield whether the spool holds decisions that could not be stored."""
    spool = configured_spool(config)
    if spool is None:
        return
    try:
        held = spool.read()
    except StorageError as error:
        yield from problems_of("spool", error)
        return
    count = len(held.records) + len(held.unreadable)
    if not count:
        yield ok("spool", "empty: every decision was stored")
        return
    unreadable = f", {len(held.unreadable)} of them unreadable" if held.unreadable else ""
    since = f", since {held.records[0].created_at}" if held.records else ""
    yield problem(
        "spool",
        f"{count} decision{'s' * (count != 1)} could not be stored{since}{unreadable}",
        f"demur refused them; find the cause, then archive {spool.path}",
    )
