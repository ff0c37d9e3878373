"""Read decision records and their chains from SQLite.

Long results are read in pages, so that a slow consumer holds neither memory nor a connection and
never keeps the log from being moved into the file.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from demur.store.backend import RecordFilter
from demur.store.rows import ChainHead, Checkpoint, LinkedRow, RecordRow, UnlinkedRow, genesis_head
from demur.store.sqlite_connections import SqliteConnections

# ruff: noqa: S608 - statements are built from our own names; values are bound


_PAGE = 100
_BEYOND = "\U0010ffff"
_MAX_SEQ = 2**63 - 1
_LINK = "seq, previous_hash, record_hash, confirmed"
_HALVES = "CAST(record AS BLOB), CAST(sealed AS BLOB)"
_ROW = f"decision_id, tenant, {_HALVES}, {_LINK}"
_WIDTH = len(UnlinkedRow._fields)
_COLUMNS = ", ".join(UnlinkedRow._fields[:-2])
_FROM = "FROM decision_records"
# Skips from one tenant to the next instead of reading every record.
_TENANTS = f"""
    WITH RECURSIVE found(tenant) AS (
        SELECT MIN(tenant) {_FROM}
        UNION ALL SELECT (SELECT MIN(tenant) {_FROM} WHERE tenant > found.tenant)
        FROM found WHERE found.tenant IS NOT NULL
    )
    SELECT tenant FROM found WHERE tenant IS NOT NULL UNION SELECT tenant FROM chain_heads
"""
_UNREVIEWED = """
    NOT EXISTS (SELECT 1 FROM labels
                WHERE labels.decision_id = decision_records.decision_id AND kind = 'review')
"""
_codes = msgspec.json.Decoder(tuple[str, ...]).decode


class SqliteReading:
    """The part of the backend that reads records."""

    def __init__(self, connections: SqliteConnections) -> None:
        self._connections = connections

    def get_record(self, decision_id: str) -> RecordRow | None:
        """Return one record."""
        return self._fetch_record(f"SELECT {_ROW} {_FROM} WHERE decision_id = ?", decision_id)

    def by_request(self, tenant: str, request_id: str) -> RecordRow | None:
        """Return the record of a request id."""
        query = f"SELECT {_ROW} {_FROM} WHERE tenant = ? AND request_id = ?"
        return self._fetch_record(query, tenant, request_id)

    def list_family(self, tenant: str, root_id: str) -> list[RecordRow]:
        """Return the record with that id and all that continue it, in the order of the chain."""
        part = f"SELECT {_ROW} {_FROM} WHERE +tenant = ? AND"
        query = f"{part} decision_id = ? UNION {part} root_id = ? ORDER BY seq"
        return [
            _record_row(row) for row in self._fetch_all(query, tenant, root_id, tenant, root_id)
        ]

    def find_ids(self, prefix: str, limit: int, tenant: str | None = None) -> list[str]:
        """Return the first decision ids (of a tenant) that begin with `prefix`, at most `limit`."""
        query = f"SELECT decision_id {_FROM} WHERE decision_id >= ?1 AND decision_id < ?2"
        ordered = f"{query} AND (?4 IS NULL OR +tenant = ?4) ORDER BY decision_id LIMIT ?3"
        return [row[0] for row in self._fetch_all(ordered, prefix, prefix + _BEYOND, limit, tenant)]

    def scan_records(
        self, record_filter: RecordFilter, *, newest_first: bool = False
    ) -> Iterator[RecordRow]:
        """Yield records in the order of time, in bounded memory."""
        conditions, values = _filter_conditions(record_filter)
        # One tenant's records have an index by time. All tenants' and one subject's records are
        # read by id, which grows with time.
        timed = record_filter.tenant is not None and record_filter.subject is None
        keys = ["created_at", "decision_id"] if timed else ["decision_id"]
        order, sign = ("DESC", "<") if newest_first else ("ASC", ">")
        after = f"({', '.join(keys)}) {sign} ({', '.join('?' * len(keys))})"
        tail = f"ORDER BY {', '.join(f'{key} {order}' for key in keys)} LIMIT {_PAGE}"
        place: tuple[Any, ...] = ()
        while True:
            where = " AND ".join([*conditions, after] if place else conditions) or "1"
            query = f"SELECT {', '.join(keys)}, {_ROW} {_FROM} WHERE {where} {tail}"
            rows = self._fetch_all(query, *values, *place)
            yield from (_record_row(row[len(keys) :]) for row in rows)
            if len(rows) < _PAGE:
                return
            place = rows[-1][: len(keys)]

    def read_chain(self, tenant: str, first: int, last: int | None) -> Iterator[RecordRow]:
        """Yield a tenant's records from seq `first` to `last`, in order, in bounded memory."""
        return map(_record_row, self._read_pages(_ROW, tenant, first, last, seq_at=4))

    def read_linked(self, tenant: str, first: int, last: int | None) -> Iterator[LinkedRow]:
        """Yield the same records as `read_chain` with all columns, for an audit."""
        wanted = f"{_COLUMNS}, {_HALVES}, {_LINK}"
        pages = self._read_pages(wanted, tenant, first, last, seq_at=_WIDTH)
        return map(_linked_row, pages)

    def _read_pages(
        self, wanted: str, tenant: str, first: int, last: int | None, *, seq_at: int
    ) -> Iterator[tuple[Any, ...]]:
        query = f"SELECT {wanted} {_FROM} WHERE tenant = ? AND seq BETWEEN ? AND ? ORDER BY seq"
        # Always bounded: a corrupt seq that is no number sorts after all numbers.
        bound = _MAX_SEQ if last is None else last
        while True:
            rows = self._fetch_all(f"{query} LIMIT {_PAGE}", tenant, first, bound)
            yield from rows
            if len(rows) < _PAGE:
                return
            first = rows[-1][seq_at] + 1

    def all_heads(self) -> list[ChainHead]:
        """Return the head of every tenant, by name."""
        query = "SELECT tenant, seq, record_hash FROM chain_heads ORDER BY tenant"
        return [ChainHead(*row) for row in self._fetch_all(query)]

    def list_tenants(self) -> list[str]:
        """Return every tenant that has a head or a record, by name."""
        return [row[0] for row in self._fetch_all(_TENANTS)]

    def get_anchor(self, tenant: str) -> ChainHead:
        """Return the head that the oldest kept record follows: genesis if none was retired."""
        query = "SELECT tenant, seq, record_hash FROM chain_anchors WHERE tenant = ?"
        rows = self._fetch_all(query, tenant)
        return ChainHead(*rows[0]) if rows else genesis_head(tenant)

    def list_checkpoints(self, tenant: str) -> list[Checkpoint]:
        """Return a tenant's checkpoints, oldest first."""
        query = "SELECT created_at, tenant, seq, record_hash FROM checkpoints WHERE tenant = ?"
        rows = self._fetch_all(f"{query} ORDER BY seq, created_at", tenant)
        return [Checkpoint(row[0], ChainHead(*row[1:])) for row in rows]

    def _fetch_record(self, query: str, *values: object) -> RecordRow | None:
        rows = self._fetch_all(query, *values)
        return _record_row(rows[0]) if rows else None

    def _fetch_all(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._connections.reader() as connection:
            return connection.execute(query, values).fetchall()


def _filter_conditions(record_filter: RecordFilter) -> tuple[list[str], list[str]]:
    """Return the conditions of a filter and their values."""
    # Keep the planner from using the tenant index: a subject has few records.
    tenant = "tenant = ?" if record_filter.subject is None else "+tenant = ?"
    tests = {
        tenant: record_filter.tenant,
        "verdict = ?": record_filter.verdict,
        "action_type = ?": record_filter.action_type,
        "subject = ?": record_filter.subject,
        "created_at >= ?": record_filter.since,
        "created_at < ?": record_filter.until,
        "decision_output = ?": record_filter.decision_output,
        "refusal_class = ?": record_filter.refusal_class,
        "request_id = ?": record_filter.request_id,
        "decision_id < ?": record_filter.before,
        "EXISTS (SELECT 1 FROM json_each(reason_codes) WHERE value = ?)": record_filter.reason_code,
    }
    asked = {test: value for test, value in tests.items() if value is not None}
    return [*asked, *([_UNREVIEWED] if record_filter.unreviewed else [])], list(asked.values())


def _record_row(row: Sequence[Any]) -> RecordRow:
    return RecordRow._make((*row[:7], bool(row[7])))


def _linked_row(row: Sequence[Any]) -> LinkedRow:
    *columns, codes, policy, registry, record, sealed = row[:_WIDTH]
    seq, previous, own_hash, confirmed = row[_WIDTH:]
    unlinked = UnlinkedRow._make((*columns, _code_list(codes), policy, registry, record, sealed))
    return LinkedRow(unlinked, seq, previous, own_hash, bool(confirmed))


def _code_list(text: str) -> tuple[str, ...]:
    """Return the codes in a column; an invalid list is returned as one code."""
    try:
        return _codes(text)
    except (msgspec.MsgspecError, UnicodeError):
        return (text,)
