"""Hourly tallies, API keys and labels by kind in PostgreSQL."""

from collections.abc import Collection, Iterator
from typing import Any

from demur.store.postgres.connection import PostgresConnections
from demur.store.rows import ApiKey, Label
from demur.store.tally import TallyRow

__all__ = ["PostgresTallies"]

_STEP = 20_000
_PAGE = 500
_BEHIND = """
    SELECT tenant, head.seq FROM chain_heads AS head
    LEFT JOIN tally_marks AS mark USING (tenant) WHERE head.seq > COALESCE(mark.seq, 0)
"""
_BEGIN = "INSERT INTO tally_marks (tenant, seq) VALUES (%s, 0) ON CONFLICT DO NOTHING"
_MARK = "SELECT seq FROM tally_marks WHERE tenant = %s FOR UPDATE"
_SET_MARK = "UPDATE tally_marks SET seq = %s WHERE tenant = %s"
_ADD = """
    INSERT INTO tallies (tenant, kind, hour, first, second, third, count)
    SELECT tenant, '{kind}', to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24'),
           {first}, {second}, {third}, count(*)
    FROM decision_records {joined}
    WHERE tenant = %(tenant)s AND seq > %(mark)s AND seq <= %(last)s
    GROUP BY 1, 2, 3, 4, 5, 6
    ON CONFLICT (tenant, hour, kind, first, second, third)
    DO UPDATE SET count = tallies.count + EXCLUDED.count
"""
_COUNT_STATEMENTS = (
    _ADD.format(
        kind="decision",
        first="verdict",
        second="decision_output",
        third="COALESCE(refusal_class, '')",
        joined="",
    ),
    _ADD.format(
        kind="reason",
        first="code",
        second="verdict",
        third="''",
        joined=", unnest(reason_codes) AS code",
    ),
    _ADD.format(
        kind="finding",
        first="COALESCE(finding ->> 'surface', '')",
        second="finding ->> 'code'",
        third="COALESCE(finding ->> 'action', 'block')",
        joined=", json_array_elements(sealed -> 'findings') AS finding",
    ),
)
_TALLIES = """
    SELECT kind, hour, first, second, third, sum(count)::bigint FROM tallies
    WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
      AND hour >= %(first)s AND hour < %(beyond)s
    GROUP BY kind, hour, first, second, third ORDER BY hour, kind
"""
_KEY = ", ".join(ApiKey._fields)
_ADD_KEY = f"INSERT INTO api_keys ({_KEY}) VALUES ({', '.join(['%s'] * len(ApiKey._fields))})"  # noqa: S608 - our own names
_BY_DIGEST = f"SELECT {_KEY} FROM api_keys WHERE digest = %s"  # noqa: S608 - our own names
_KEYS = f"SELECT {_KEY} FROM api_keys ORDER BY created_at, key_id"  # noqa: S608 - our own names
_REVOKE = "UPDATE api_keys SET revoked_at = %s WHERE key_id = %s AND revoked_at IS NULL"
_LABELS_BY_KIND = f"""
    SELECT label_id, {", ".join(Label._fields)} FROM labels
    WHERE kind = %(kind)s AND value = ANY(%(values)s) AND created_at >= %(since)s
      AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
      AND (created_at, label_id) > (%(at)s, %(after)s)
    ORDER BY created_at, label_id LIMIT {_PAGE}
"""  # noqa: S608 - our own names


class PostgresTallies:
    """The part of the backend for tallies, API keys and labels by kind."""

    _connections: PostgresConnections

    def update_tallies(self, tenant: str | None) -> None:
        """Count the records stored since the last count, of one tenant or of all."""
        for name, head in self._fetch_tallies(_BEHIND, []):
            if tenant in {None, name}:
                while self._count_some(name, head):
                    pass

    def _count_some(self, tenant: str, head: int) -> bool:
        """Count a bounded number of records; return whether there are more up to `head`."""
        with self._connections.writer() as connection, connection.transaction():
            connection.execute(_BEGIN, [tenant])
            found = connection.execute(_MARK, [tenant]).fetchone()
            # Read the mark again under the lock: another process may have counted them.
            mark = 0 if found is None else int(found[0])
            last = min(mark + _STEP, head)
            if mark < last:
                given = {"tenant": tenant, "mark": mark, "last": last}
                for statement in _COUNT_STATEMENTS:
                    connection.execute(statement.encode(), given)
                connection.execute(_SET_MARK, [last, tenant])
        return last < head

    def read_tallies(self, tenant: str | None, first: str, beyond: str) -> list[TallyRow]:
        """Return the counts of the hours from `first` up to `beyond`, exclusive, in order."""
        asked = {"tenant": tenant, "first": first, "beyond": beyond}
        return [TallyRow(*row) for row in self._fetch_tallies(_TALLIES, asked)]

    def add_key(self, key: ApiKey) -> None:
        """Store an API key."""
        with self._connections.writer() as connection:
            connection.execute(_ADD_KEY.encode(), key)

    def find_key(self, digest: str) -> ApiKey | None:
        """Return the key with that digest."""
        rows = self._fetch_tallies(_BY_DIGEST, [digest])
        return ApiKey(*rows[0]) if rows else None

    def list_keys(self) -> list[ApiKey]:
        """Return every key, oldest first."""
        return [ApiKey(*row) for row in self._fetch_tallies(_KEYS, [])]

    def revoke_key(self, key_id: str, now: str) -> bool:
        """Revoke a key; return whether there was one to revoke."""
        with self._connections.writer() as connection:
            return connection.execute(_REVOKE, [now, key_id]).rowcount > 0

    def find_labels(
        self, tenant: str | None, kind: str, values: Collection[str], since: str
    ) -> Iterator[Label]:
        """Yield labels of a kind, oldest first, in bounded memory."""
        asked = {"tenant": tenant, "kind": kind, "values": list(values), "since": since}
        place = {"at": "", "after": 0}
        while rows := self._fetch_tallies(_LABELS_BY_KIND, {**asked, **place}):
            yield from (Label(*row[1:]) for row in rows)
            place = {"at": Label(*rows[-1][1:]).created_at, "after": rows[-1][0]}

    def _fetch_tallies(
        self, statement: str, given: list[Any] | dict[str, Any]
    ) -> list[tuple[Any, ...]]:
        with self._connections.reader() as connection:
            return connection.execute(statement.encode(), given).fetchall()
