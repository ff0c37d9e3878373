"""Read decision records and their chains from PostgreSQL.

Long results are read in pages: each page takes a connection for a moment, so a slow consumer holds
neither memory nor a connection.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from demur.store.backend import RecordFilter
from demur.store.postgres_connections import PostgresConnections
from demur.store.rows import ChainHead, Checkpoint, LinkedRow, RecordRow, UnlinkedRow, genesis_head

_PAGE = 500
_WIDTH = len(UnlinkedRow._fields)
_CODES = UnlinkedRow._fields.index("reason_codes")
_ROW = "decision_id, tenant, record, sealed, seq, previous_hash, record_hash, confirmed"
_GET = f"SELECT {_ROW} FROM decision_records WHERE decision_id = %s"  # noqa: S608 - our own names
_BY_REQUEST = f"SELECT {_ROW} FROM decision_records WHERE tenant = %s AND request_id = %s"  # noqa: S608 - our own names
_FAMILY = f"""
    SELECT {_ROW} FROM decision_records
    WHERE tenant = %(tenant)s AND (decision_id = %(root)s OR root_id = %(root)s) ORDER BY seq
"""  # noqa: S608 - our own names
_LINK = "seq, previous_hash, record_hash, confirmed"
_CHAIN = """
    SELECT seq, {columns} FROM decision_records
    WHERE tenant = %(tenant)s AND seq >= %(first)s AND (%(last)s::bigint IS NULL OR seq <= %(last)s)
    ORDER BY seq LIMIT %(limit)s
"""
_CHAIN_ROWS = _CHAIN.format(columns=_ROW)
_CHAIN_LINKS = _CHAIN.format(columns=", ".join((*UnlinkedRow._fields, _LINK)))
_IDS = """
    SELECT decision_id FROM decision_records
    WHERE decision_id >= %(first)s AND decision_id < %(beyond)s
        AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
    ORDER BY decision_id LIMIT %(limit)s
"""
# Skips from one tenant to the next instead of reading every record.
_TENANTS = """
    WITH RECURSIVE kept (tenant) AS (
        (SELECT min(tenant) FROM decision_records)
        UNION ALL
        SELECT (SELECT min(tenant) FROM decision_records AS later WHERE later.tenant > kept.tenant)
        FROM kept WHERE kept.tenant IS NOT NULL
    )
    SELECT tenant FROM kept WHERE tenant IS NOT NULL
    UNION SELECT tenant FROM chain_heads WHERE seq > 0 ORDER BY tenant
"""
_HEADS = "SELECT tenant, seq, record_hash FROM chain_heads WHERE seq > 0 ORDER BY tenant"
_ANCHOR = "SELECT tenant, seq, record_hash FROM chain_anchors WHERE tenant = %s"
_CHECKPOINTS = """
    SELECT created_at, tenant, seq, record_hash FROM checkpoints WHERE tenant = %s
    ORDER BY seq, created_at
"""
_CONDITIONS = {
    "tenant": "tenant = %(tenant)s",
    "verdict": "verdict = %(verdict)s",
    "reason_code": "%(reason_code)s = ANY(reason_codes)",  # demur: allow dynamic-code - it is SQL
    "action_type": "action_type = %(action_type)s",
    "since": "created_at >= %(since)s",
    "until": "created_at < %(until)s",
    "subject": "left(subject, 128) = left(%(subject)s, 128) AND subject = %(subject)s",
    "decision_output": "decision_output = %(decision_output)s",
    "refusal_class": "refusal_class = %(refusal_class)s",
    "request_id": "request_id = %(request_id)s",
    "before": "decision_id < %(before)s",
    "unreviewed": """NOT EXISTS (SELECT 1 FROM labels WHERE kind = 'review'
        AND labels.decision_id = decision_records.decision_id)""",
}


class PostgresReading:
    """The part of the backend that reads records."""

    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections

    def _fetch_rows(
        self, statement: str, given: Sequence[Any] | dict[str, Any]
    ) -> list[tuple[Any, ...]]:
        with self._connections.reader() as connection:
            return connection.execute(statement.encode(), given).fetchall()

    def get_record(self, decision_id: str) -> RecordRow | None:
        """Return one record."""
        return _first_record(self._fetch_rows(_GET, [decision_id]))

    def by_request(self, tenant: str, request_id: str) -> RecordRow | None:
        """Return the record of a request id."""
        return _first_record(self._fetch_rows(_BY_REQUEST, [tenant, request_id]))

    def list_family(self, tenant: str, root_id: str) -> list[RecordRow]:
        """Return the record with that id and all that continue it, in the order of the chain."""
        found = self._fetch_rows(_FAMILY, {"tenant": tenant, "root": root_id})
        return [RecordRow(*row) for row in found]

    def scan_records(
        self, record_filter: RecordFilter, *, newest_first: bool = False
    ) -> Iterator[RecordRow]:
        """Yield records in the order of time, in bounded memory."""
        asked = {
            name: value
            for name, value in record_filter._asdict().items()
            if value not in {None, False}
        }
        # One tenant's records have an index by time. All tenants' and one subject's records are
        # read by id, which grows with time.
        timed = record_filter.tenant is not None and record_filter.subject is None
        keys = ("created_at", "decision_id") if timed else ("decision_id",)
        conditions = [_CONDITIONS[name] for name in asked]
        page = self._fetch_rows(_scan_page(keys, conditions, newest_first=newest_first), asked)
        conditions.append(_after_condition(keys, newest_first=newest_first))
        go_on = _scan_page(keys, conditions, newest_first=newest_first)
        while page:
            yield from (RecordRow(*row[len(keys) :]) for row in page)
            if len(page) < _PAGE:
                return
            page = self._fetch_rows(go_on, {**asked, **dict(zip(keys, page[-1], strict=False))})

    def read_chain(self, tenant: str, first: int, last: int | None) -> Iterator[RecordRow]:
        """Yield a tenant's records from seq `first` to `last`, in order, in bounded memory."""
        for row in self._read_pages(_CHAIN_ROWS, tenant, first, last):
            yield RecordRow(*row)

    def read_linked(self, tenant: str, first: int, last: int | None) -> Iterator[LinkedRow]:
        """Yield the same records as `read_chain` with all columns, for an audit."""
        for row in self._read_pages(_CHAIN_LINKS, tenant, first, last):
            yield LinkedRow(_unlinked_row(row[:_WIDTH]), *row[_WIDTH:])

    def _read_pages(
        self, statement: str, tenant: str, first: int, last: int | None
    ) -> Iterator[tuple[Any, ...]]:
        given = {"tenant": tenant, "first": first, "last": last, "limit": _PAGE}
        while page := self._fetch_rows(statement, given):
            yield from (row[1:] for row in page)
            given["first"] = page[-1][0] + 1

    def find_ids(self, prefix: str, limit: int, tenant: str | None = None) -> list[str]:
        """Return the first decision ids (of a tenant) that begin with `prefix`, at most `limit`."""
        beyond = f"{prefix}\U0010ffff"
        given = {"first": prefix, "beyond": beyond, "tenant": tenant, "limit": limit}
        return [row[0] for row in self._fetch_rows(_IDS, given)]

    def all_heads(self) -> list[ChainHead]:
        """Return the head of every tenant, by name."""
        return [ChainHead(*row) for row in self._fetch_rows(_HEADS, [])]

    def list_tenants(self) -> list[str]:
        """Return every tenant that has a head or a record, by name."""
        return [row[0] for row in self._fetch_rows(_TENANTS, [])]

    def get_anchor(self, tenant: str) -> ChainHead:
        """Return the head that the oldest kept record follows: genesis if none was retired."""
        found = self._fetch_rows(_ANCHOR, [tenant])
        return ChainHead(*found[0]) if found else genesis_head(tenant)

    def list_checkpoints(self, tenant: str) -> list[Checkpoint]:
        """Return a tenant's checkpoints, oldest first."""
        return [
            Checkpoint(row[0], ChainHead(*row[1:]))
            for row in self._fetch_rows(_CHECKPOINTS, [tenant])
        ]


def _scan_page(keys: Sequence[str], conditions: Sequence[str], *, newest_first: bool) -> str:
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    order = ", ".join(f"{key} {'DESC' if newest_first else 'ASC'}" for key in keys)
    columns = f"{', '.join(keys)}, {_ROW}"
    return f"SELECT {columns} FROM decision_records {where} ORDER BY {order} LIMIT {_PAGE}"  # noqa: S608 - our own names


def _after_condition(keys: Sequence[str], *, newest_first: bool) -> str:
    """Return the condition for rows after the one whose keys are bound."""
    sign = "<" if newest_first else ">"
    return f"({', '.join(keys)}) {sign} ({', '.join(f'%({key})s' for key in keys)})"


def _first_record(rows: Sequence[tuple[Any, ...]]) -> RecordRow | None:
    return RecordRow(*rows[0]) if rows else None


def _unlinked_row(columns: Sequence[Any]) -> UnlinkedRow:
    row = UnlinkedRow(*columns)
    return row._replace(created_at=_format_moment(columns[1]), reason_codes=tuple(columns[_CODES]))


def _format_moment(moment: datetime) -> str:
    """Return a time in the format of records; microseconds, which they never have, stay visible."""
    finest = "microseconds" if moment.microsecond % 1000 else "milliseconds"
    return f"{moment.astimezone(UTC).isoformat(timespec=finest)[:-6]}Z"
