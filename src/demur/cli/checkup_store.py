"""Check the store: it opens, accepts writes, its chains are valid, and the spool is empty."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from demur.cli.checkup import HealthCheck, report_ok, report_problem, report_error, report_warning
from demur.cli.workspace import database_path
from demur.errors import DemurError
from demur.gate.clock import format_timestamp
from demur.gate.config import Config, open_configured_spool, open_configured_store
from demur.store.backend import StorageError
from demur.store.rows import ChainHead
from demur.store.store import Store
from demur.store.verify import ChainVerification, verify_chain

__all__ = ["check_spool", "check_store"]

_RECENT_RECORDS = 1000
_MAX_TENANTS = 100
# The clocks of machines that share a store differ a little.
_CLOCK_TOLERANCE = timedelta(minutes=2)


def check_store(config: Config, now: datetime) -> Iterator[HealthCheck]:
    """Yield checks of the store, without creating one."""
    path = database_path(config)
    if not config.store:
        help_text = 'set `store = "demur.db"` to keep them'
        yield report_warning(
            "store", "none: decisions are made, but cannot be proved later", help_text
        )
    elif path is not None and not path.parent.is_dir():
        yield report_problem(
            "store", f"the folder {path.parent} does not exist", "create it", _make_folder_fix(path)
        )
    elif path is not None and not path.exists():
        yield report_ok("store", f"{path} does not exist yet; the first decision creates it")
    else:
        yield from _check_open_store(config, now)


def _make_folder_fix(path: Path) -> Callable[[], None]:
    return lambda: path.parent.mkdir(parents=True)


def _check_open_store(config: Config, now: datetime) -> Iterator[HealthCheck]:
    try:
        store = open_configured_store(config)
    except DemurError as error:
        yield from report_error("store", error)
        return
    assert store is not None
    with store:
        try:
            yield from _describe_store(store)
            yield from _check_writable(store)
            yield from _check_chains(store)
            yield from _check_newest(store, now)
        except StorageError as error:
            yield from report_error("store", error)


def _describe_store(store: Store) -> Iterator[HealthCheck]:
    info, counts = store.info(), store.count_rows()
    records = f"{counts['records']} record{'s' * (counts['records'] != 1)}"
    yield report_ok("store", f"{info['kind']}, schema {info['schema_version']}, {records}")
    if info["durability"] == "full":
        yield report_ok("durability", "full: decisions survive a power failure")
    else:
        what = "normal: a power failure may lose the last decisions"
        yield report_warning("durability", what, '`durability = "full"` waits for the disk')


def _check_writable(store: Store) -> Iterator[HealthCheck]:
    try:
        with store.backend.transaction():
            pass
    except StorageError as error:
        yield from report_error("writing", error)
    else:
        yield report_ok("writing", "the store accepts writes")


def _check_chains(store: Store) -> Iterator[HealthCheck]:
    """Yield whether the newest records of each tenant form a valid chain."""
    heads = {head.tenant: head for head in store.list_heads()}
    tenants = store.backend.list_tenants()
    found = [
        _verify_recent(store, heads.get(tenant, ChainHead(tenant, 0, "")))
        for tenant in tenants[:_MAX_TENANTS]
    ]
    broken = [one for part in found for one in part.breaks]
    for one in broken:
        what = f"broken at record {one.seq} of tenant {one.tenant}: {one.problem}"
        yield report_problem("chain", what, "copy the store, then run `demur audit verify`")
    records = sum(part.records for part in found)
    if not broken:
        yield report_ok("chain", _describe_chain(records))
    unconfirmed = sum(part.unconfirmed for part in found)
    if unconfirmed:
        yield report_warning(
            "chain",
            f"stored too late for their callers: {unconfirmed} of the newest records",
            "their callers got a timeout; is the disk slow, or `deadline_s` too short?",
        )


def _describe_chain(records: int) -> str:
    if records < 2:
        return "the newest record is valid" if records else "no records yet"
    return f"the newest {records} records are valid"


def _verify_recent(store: Store, head: ChainHead) -> ChainVerification:
    return verify_chain(store.backend, head.tenant, first=max(1, head.seq - _RECENT_RECORDS + 1))


def _check_newest(store: Store, now: datetime) -> Iterator[HealthCheck]:
    record = next(store.find_records(newest_first=True, limit=1), None)
    if record is not None and record.created_at > format_timestamp(now + _CLOCK_TOLERANCE):
        what = f"the newest record is from {record.created_at}, which is in the future"
        yield report_problem("clock", what, "set the clock; records are ordered by time")


def check_spool(config: Config) -> Iterator[HealthCheck]:
    """Yield whether the spool holds decisions that could not be stored."""
    spool = open_configured_spool(config)
    if spool is None:
        return
    try:
        held = spool.read()
    except StorageError as error:
        yield from report_error("spool", error)
        return
    count = len(held.records) + len(held.unreadable)
    if not count:
        yield report_ok("spool", "empty: every decision was stored")
        return
    unreadable = f", {len(held.unreadable)} of them unreadable" if held.unreadable else ""
    since = f", since {held.records[0].created_at}" if held.records else ""
    yield report_problem(
        "spool",
        f"{count} decision{'s' * (count != 1)} could not be stored{since}{unreadable}",
        f"demur refused them; find the cause, then archive {spool.path}",
    )
