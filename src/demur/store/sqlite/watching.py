"""Hourly tallies, API keys and labels by kind in SQLite."""
# ruff: noqa: S608 - statements are built from our own names; values are bound

from collections.abc import Collection, Iterator
from typing import Any

from demur.store.rows import ApiKey, Label
from demur.store.sqlite.connections import SqliteConnections
from demur.store.sqlite.transaction import SqliteTransaction
from demur.store.tally import TallyRow

__all__ = ["SqliteTallies"]

# Decisions wait while a step is counted, so steps are short.
_STEP = 5000
_PAGE = 500
_BEHIND = """
    SELECT tenant, head.seq FROM chain_heads AS head
    LEFT JOIN tally_marks AS mark USING (tenant) WHERE head.seq > COALESCE(mark.seq, 0)
"""
_MARK = "SELECT seq FROM tally_marks WHERE tenant = ?"
_SET_MARK = """
    INSERT INTO tally_marks (tenant, seq) VALUES (?, ?)
    ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq
"""
_UNCOUNTED = "tenant = ? AND seq > ? AND seq <= ?"
_ADD = """
    INSERT INTO tallies (tenant, kind, hour, first, second, third, count)
    SELECT tenant, '{kind}', substr(created_at, 1, 13) AS hour,
           {first} AS first, {second} AS second, {third} AS third, COUNT(*)
    FROM decision_records {joined} WHERE {theirs} GROUP BY tenant, hour, 4, 5, 6
    ON CONFLICT (tenant, hour, kind, first, second, third)
    DO UPDATE SET count = count + excluded.count
"""
_COUNT_STATEMENTS = (
    _ADD.format(
        kind="decision",
        first="verdict",
        second="decision_output",
        third="COALESCE(refusal_class, '')",
        joined="",
        theirs=_UNCOUNTED,
    ),
    _ADD.format(
        kind="reason",
        first="code.value",
        second="verdict",
        third="''",
        joined=", json_each(reason_codes) AS code",
        theirs=_UNCOUNTED,
    ),
    _ADD.format(
        kind="finding",
        first="COALESCE(finding.value ->> 'surface', '')",
        second="finding.value ->> 'code'",
        third="COALESCE(finding.value ->> 'action', 'block')",
        joined=", json_each(sealed, '$.findings') AS finding",
        theirs=f"{_UNCOUNTED} AND sealed IS NOT NULL",
    ),
)
_TALLIES = "SELECT kind, hour, first, second, third, {count} FROM tallies WHERE"
_KEY = ", ".join(ApiKey._fields)
_ADD_KEY = f"INSERT INTO api_keys ({_KEY}) VALUES ({', '.join('?' * len(ApiKey._fields))})"
_REVOKE = "UPDATE api_keys SET revoked_at = ? WHERE key_id = ? AND revoked_at IS NULL"
_LABELS_BY_KIND = f"SELECT label_id, {', '.join(Label._fields)} FROM labels WHERE"


class SqliteTallies:
    """The part of the backend for tallies, API keys and labels by kind."""

    _connections: SqliteConnections

    def update_tallies(self, tenant: str | None) -> None:
        """Count the records stored since the last count, of one tenant or of all."""
        for name, head in self._fetch_tallies(_BEHIND):
            if tenant in {None, name}:
                while self._count_some(name, head):
                    pass

    def _count_some(self, tenant: str, head: int) -> bool:
        """Count a bounded number of records; return whether there are more up to `head`."""
        with SqliteTransaction(self._connections) as write:
            marked = write.cursor.execute(_MARK, (tenant,)).fetchone()
            # Read the mark again under the lock: another process may have counted them.
            mark = int(marked[0]) if marked else 0
            last = min(mark + _STEP, head)
            if mark < last:
                for statement in _COUNT_STATEMENTS:
                    write.cursor.execute(statement, (tenant, mark, last))
                write.cursor.execute(_SET_MARK, (tenant, last))
        return last < head

    def read_tallies(self, tenant: str | None, first: str, beyond: str) -> list[TallyRow]:
        """Return the counts of the hours from `first` up to `beyond`, exclusive, in order."""
        period = "hour >= ? AND hour < ?"
        if tenant is not None:
            asked = f"{_TALLIES.format(count='count')} tenant = ? AND {period}"
            rows = self._fetch_tallies(f"{asked} ORDER BY hour, kind", tenant, first, beyond)
        else:
            asked = f"{_TALLIES.format(count='SUM(count)')} {period} GROUP BY 1, 2, 3, 4, 5"
            rows = self._fetch_tallies(f"{asked} ORDER BY hour, kind", first, beyond)
        return [TallyRow(*row) for row in rows]

    def add_key(self, key: ApiKey) -> None:
        """Store an API key."""
        with SqliteTransaction(self._connections) as write:
            write.cursor.execute(_ADD_KEY, key)

    def find_key(self, digest: str) -> ApiKey | None:
        """Return the key with that digest."""
        rows = self._fetch_tallies(f"SELECT {_KEY} FROM api_keys WHERE digest = ?", digest)
        return ApiKey(*rows[0]) if rows else None

    def list_keys(self) -> list[ApiKey]:
        """Return every key, oldest first."""
        rows = self._fetch_tallies(f"SELECT {_KEY} FROM api_keys ORDER BY created_at, key_id")
        return [ApiKey(*row) for row in rows]

    def revoke_key(self, key_id: str, now: str) -> bool:
        """Revoke a key; return whether there was one to revoke."""
        with SqliteTransaction(self._connections) as write:
            return write.cursor.execute(_REVOKE, (now, key_id)).rowcount > 0

    def find_labels(
        self, tenant: str | None, kind: str, values: Collection[str], since: str
    ) -> Iterator[Label]:
        """Yield labels of a kind, oldest first, in bounded memory."""
        marks = ", ".join("?" * len(values))
        asked = f"{_LABELS_BY_KIND} kind = ? AND value IN ({marks}) AND created_at >= ?"
        given: list[object] = [kind, *values, since]
        if tenant is not None:
            asked, given = f"{asked} AND tenant = ?", [*given, tenant]
        order = f"ORDER BY created_at, label_id LIMIT {_PAGE}"
        rows = self._fetch_tallies(f"{asked} {order}", *given)
        while rows:
            yield from (Label(*row[1:]) for row in rows)
            place = (Label(*rows[-1][1:]).created_at, rows[-1][0])
            beyond = f"{asked} AND (created_at, label_id) > (?, ?) {order}"
            rows = self._fetch_tallies(beyond, *given, *place)

    def _fetch_tallies(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._connections.reader() as connection:
            return connection.execute(query, values).fetchall()
