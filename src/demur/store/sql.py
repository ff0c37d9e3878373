"""The SQL of a store, written once for SQLite and PostgreSQL.

A `Dialect` says where the two differ. Statements are built from our own names; values are bound.
"""

# ruff: noqa: S608 - see above

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

from demur.codes.vocabulary import DecisionOutput, Verdict
from demur.model.decision import Outcome
from demur.store.approval_tables import ApprovalSql
from demur.store.backend import (
    NO_APPROVALS,
    Execute,
    RecordFilter,
    Transaction,
    insert_statement,
)
from demur.store.rows import (
    REVIEW,
    WITHDRAWN,
    ApiKey,
    ApprovalRow,
    ChainHead,
    ChainPlace,
    Checkpoint,
    ExperienceRow,
    Label,
    LinkedRow,
    LoginSession,
    MatchPage,
    RecordMatch,
    RecordRow,
    Snapshot,
    TallyRow,
    UnlinkedRow,
)
from demur.store.search import SearchTerm

_MAX_SEQ = 2**63 - 1
_LABEL_PAGE = 500
_BEYOND_ALL = "\U0010ffff"
_ROW_WIDTH = len(UnlinkedRow._fields)
_TIME_COLUMN, _CODES_COLUMN = map(UnlinkedRow._fields.index, ("created_at", "reason_codes"))
_LINK_COLUMNS = "seq, previous_hash, record_hash, confirmed"
_FROM_RECORDS = "FROM decision_records"
# Skips from one tenant to the next instead of reading every record.
_SELECT_TENANTS = f"""
    WITH RECURSIVE found (tenant) AS (
        SELECT MIN(tenant) {_FROM_RECORDS}
        UNION ALL SELECT (SELECT MIN(tenant) {_FROM_RECORDS} WHERE tenant > found.tenant)
        FROM found WHERE found.tenant IS NOT NULL
    )
    SELECT tenant FROM found WHERE tenant IS NOT NULL
    UNION SELECT tenant FROM chain_heads WHERE seq > 0 ORDER BY tenant
"""
_SELECT_HEADS = "SELECT tenant, seq, record_hash FROM chain_heads WHERE seq > 0 ORDER BY tenant"
_SELECT_CHECKPOINTS = """
    SELECT created_at, tenant, seq, record_hash FROM checkpoints WHERE tenant = :tenant
    ORDER BY seq, created_at
"""
# Of several reviews the latest counts, and one that takes them back leaves none.
_IS_UNREVIEWED = f"""
    COALESCE((SELECT value FROM labels
              WHERE labels.decision_id = decision_records.decision_id AND kind = '{REVIEW}'
              ORDER BY labels.created_at DESC, label_id DESC LIMIT 1), '{WITHDRAWN}')
    = '{WITHDRAWN}'
"""
_COUNT_REVIEWED = f"""
    SELECT verdict, COUNT(*) {_FROM_RECORDS}
    WHERE decision_id IN (
        SELECT decision_id FROM labels
        WHERE kind = '{REVIEW}' AND created_at >= :labelled
        AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant)
    )
    AND created_at >= :since AND NOT {_IS_UNREVIEWED} GROUP BY verdict
"""
_OUTCOME_CASES = " ".join(
    f"WHEN '{output}' THEN '{Outcome.from_output(Verdict.DENY, output)}'"
    for output in DecisionOutput
)
_OUTCOME = f"""
    CASE WHEN verdict = '{Verdict.ABSTAIN}' THEN '{Outcome.COULD_NOT_JUDGE}'
         ELSE CASE decision_output {_OUTCOME_CASES} END END
"""
_CHECKPOINT_COLUMNS = ("tenant", "seq", "record_hash", "created_at")
_SAVE_CHECKPOINT = f"{insert_statement('checkpoints', _CHECKPOINT_COLUMNS)} ON CONFLICT DO NOTHING"
_SAVE_SNAPSHOT = f"{insert_statement('snapshots', Snapshot._fields)} ON CONFLICT DO NOTHING"
_SAVE_EXPERIENCE = (
    f"{insert_statement('experiences', ExperienceRow._fields)}"
    " ON CONFLICT (tenant, memory_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in ExperienceRow._fields)
)
_SELECT_EXPERIENCES = f"""
    SELECT {", ".join(ExperienceRow._fields)} FROM experiences
    WHERE tenant = :tenant AND (expires_at IS NULL OR expires_at > :now) ORDER BY memory_id
"""
_NEXT_VERSION = """
    INSERT INTO memory_versions (tenant, version) VALUES (:tenant, 1)
    ON CONFLICT (tenant) DO UPDATE SET version = memory_versions.version + 1
"""
_DELETE_EXPERIENCES = "DELETE FROM experiences WHERE tenant = :tenant AND"
_SELECT_LABELS = f"SELECT label_id, {', '.join(Label._fields)} FROM labels WHERE"
_SELECT_UNCOUNTED = """
    SELECT tenant, head.seq FROM chain_heads AS head
    LEFT JOIN tally_marks AS mark USING (tenant) WHERE head.seq > COALESCE(mark.seq, 0)
"""
_BEGIN_MARK = "INSERT INTO tally_marks (tenant, seq) VALUES (:tenant, 0) ON CONFLICT DO NOTHING"
# Formatted with a kind, three expressions to count by, a join, a condition, the `hour`, and the
# `records` to count.
_COUNT_RECORDS = """
    SELECT tenant, '{0}', {hour}, {1}, {2}, {3}, COUNT(*)
    FROM decision_records {4}
    WHERE tenant = :tenant AND {records} {5}
    GROUP BY 1, 2, 3, 4, 5, 6
"""
_ADD_TALLIES = f"""
    INSERT INTO tallies (tenant, kind, hour, first, second, third, count)
    {_COUNT_RECORDS}
    ON CONFLICT (tenant, hour, kind, first, second, third)
    DO UPDATE SET count = tallies.count + excluded.count
"""
_DAY = "substr(hour, 1, 10) || 'T00'"
_SELECT_TALLIES = """
    SELECT kind, {hour}, first, second, third, CAST(SUM(count) AS BIGINT) FROM tallies
    WHERE {tenant} hour >= :first AND hour < :beyond {kind}
    GROUP BY 1, 2, 3, 4, 5 ORDER BY 2, 1
"""
_COUNT_VERDICTS = """
    SELECT first, CAST(SUM(count) AS BIGINT) FROM tallies
    WHERE {tenant} hour >= :first AND kind = 'decision' GROUP BY first
"""
_SELECT_KEYS = f"SELECT {', '.join(ApiKey._fields)} FROM api_keys"
_MAX_SESSIONS_OF_KEY = 100
_DELETE_OLD_SESSIONS = (
    "DELETE FROM sessions WHERE key_id = :key_id AND digest NOT IN (SELECT digest FROM sessions "
    f"WHERE key_id = :key_id ORDER BY created_at DESC, digest LIMIT {_MAX_SESSIONS_OF_KEY})"
)
_REVOKE_KEY = "UPDATE api_keys SET revoked_at = :now WHERE key_id = :key_id AND revoked_at IS NULL"
# A page of a tenant begins next to the entry of its cursor. That may be a record of another tenant,
# whose entries count apart: then it begins with the tenant's own next record.
_SELECT_PLACE = (
    "SELECT entry_id FROM search_entries JOIN decision_records USING (decision_id) WHERE"
)
_PLACE_OF_CURSOR = f"""
    COALESCE(
        ({_SELECT_PLACE} decision_id = :{{cursor}} AND {{own}}),
        ({_SELECT_PLACE} {{own}} AND {{rest}}
         ORDER BY created_at {{order}}, decision_id {{order}} LIMIT 1) {{step}} 1
    )
"""
# The fields of a filter that an index of records finds by itself.
_PAGE_FIELDS = ("before", "after", "before_time", "after_time")
_WINDOW_FIELDS = ("tenant", "since", "until", "subject", "request_id", *_PAGE_FIELDS)
_SELECT_TIME = f"SELECT created_at {_FROM_RECORDS} WHERE decision_id = :decision_id"
_COUNTED_TABLES = {"records": "decision_records", "tenants": "chain_heads WHERE seq > 0"} | {
    name: name for name in ("checkpoints", "snapshots", "experiences", "labels")
}


class Backend(ApprovalSql):
    """A database that holds decision records.

    It reads long results in pages, so that a slow consumer holds neither memory nor a connection.
    """

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Transaction]:
        """Return one write: committed durably on exit, rolled back on an error."""

    def append_rows(
        self, rows: Sequence[UnlinkedRow], opened: Mapping[str, ApprovalRow] = NO_APPROVALS
    ) -> list[ChainPlace]:
        """Store rows in one write, as `Transaction.append_rows` does, and return their places."""
        with self.transaction() as write:
            return write.append_rows(rows, opened)

    @abstractmethod
    def mark_unconfirmed(self, decision_ids: Collection[str]) -> list[str]:
        """Mark records whose callers got an error, because storing was not confirmed in time.

        Return the ids to mark again later: the store may still receive their records, or somebody
        else changes them.
        """

    @abstractmethod
    def _run_query(
        self, statement: str, values: Mapping[str, Any], *, bounded: bool = False
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query; a decision waits for `bounded` ones."""

    @abstractmethod
    def _open_write(self) -> AbstractContextManager[Execute]:
        """Return one write of any statements, like `transaction`."""

    @abstractmethod
    def info(self) -> Mapping[str, Any]:
        """Return kind, place, schema version and durability, for health checks."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""

    # -- records ---------------------------------------------------------------------------

    @property
    def _columns(self) -> str:
        return f"decision_id, tenant, {self.dialect.halves}, {_LINK_COLUMNS}"

    def get_record(self, decision_id: str) -> RecordRow | None:
        """Return one record."""
        return self._find_record("decision_id = :decision_id", decision_id=decision_id)

    def by_request(self, tenant: str, request_id: str) -> RecordRow | None:
        """Return the record of a request id."""
        where = "tenant = :tenant AND request_id = :request_id"
        return self._find_record(where, tenant=tenant, request_id=request_id)

    def _find_record(self, where: str, **values: str) -> RecordRow | None:
        query = f"SELECT {self._columns} {_FROM_RECORDS} WHERE {where}"
        rows = self._run_query(query, values, bounded=True)
        return _build_record_row(rows[0]) if rows else None

    def list_family(self, tenant: str, root_id: str) -> list[RecordRow]:
        """Return the record with that id and all that continue it, in the order of the chain."""
        part = f"SELECT {self._columns} {_FROM_RECORDS} WHERE {self.dialect.tenant} = :tenant AND"
        query = f"{part} decision_id = :root UNION ALL {part} root_id = :root ORDER BY seq"
        rows = self._run_query(query, {"tenant": tenant, "root": root_id}, bounded=True)
        return list(map(_build_record_row, rows))

    def find_ids(self, prefix: str, limit: int, tenant: str | None = None) -> list[str]:
        """Return the first decision ids (of a tenant) that begin with `prefix`, at most `limit`."""
        query = f"""
            SELECT decision_id {_FROM_RECORDS} WHERE decision_id >= :first AND decision_id < :beyond
            AND (CAST(:tenant AS TEXT) IS NULL OR {self.dialect.tenant} = :tenant)
            ORDER BY decision_id LIMIT :limit
        """
        values = {
            "first": prefix,
            "beyond": prefix + _BEYOND_ALL,
            "tenant": tenant,
            "limit": limit,
        }
        return [row[0] for row in self._run_query(query, values)]

    def scan_records(
        self, record_filter: RecordFilter, *, newest_first: bool = False
    ) -> Iterator[RecordRow]:
        """Yield records in the order of time (decision ids grow with it), in bounded memory."""
        has_subject = record_filter.subject is not None
        tests = self._filter_tests(record_filter)
        values = {name: value for name, (_, value) in tests.items()}
        conditions = [test for test, _ in tests.values()]
        # One tenant's records have an index by time. All tenants' and one subject's records are
        # read by id, which grows with time.
        timed = record_filter.tenant is not None and not has_subject
        keys = ["created_at", "decision_id"] if timed else ["decision_id"]
        order, sign = ("DESC", "<") if newest_first else ("ASC", ">")
        tail = f"ORDER BY {', '.join(f'{key} {order}' for key in keys)} LIMIT {self.dialect.page}"
        last = [f":last_{key}" for key in keys]
        while True:
            where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
            query = f"SELECT {', '.join(keys)}, {self._columns} {_FROM_RECORDS} {where} {tail}"
            rows = self._run_query(query, values)
            yield from (_build_record_row(row[len(keys) :]) for row in rows)
            if len(rows) < self.dialect.page:
                return
            if "last_decision_id" not in values:
                conditions.append(f"({', '.join(keys)}) {sign} ({', '.join(last)})")
            values |= {f"last_{key}": value for key, value in zip(keys, rows[-1], strict=False)}

    def _filter_tests(self, record_filter: RecordFilter) -> dict[str, tuple[str, Any]]:
        """Return the condition and the value of each field that a filter sets, by name."""
        has_subject = record_filter.subject is not None
        tests = {
            # A subject has few records, so the index of its tenant would not help.
            "tenant": f"{self.dialect.tenant if has_subject else 'tenant'} = :tenant",
            "reason_code": self.dialect.has_code,
            "subject": self.dialect.has_subject,
            "since": "created_at >= :since",
            "until": "created_at < :until",
            "before": "decision_id < :before",
            "after": "decision_id > :after",
            "unreviewed": _IS_UNREVIEWED,
            "min_amount": "amount_value >= :min_amount",
            "max_amount": "amount_value <= :max_amount",
            "currency": "amount_currency = :currency",
            "outcome": f"{_OUTCOME} = :outcome",
        }
        # An amount of 0 equals False, and is a filter all the same.
        unset = (None, False)
        found = {
            name: (tests.get(name, f"{name} = :{name}"), value)
            for name, value in record_filter._asdict().items()
            if name != "text" and not any(value is no for no in unset)
        }
        for name, sign in (("before", "<="), ("after", ">=")):
            if name in found:
                # Ids grow with time, so the index by time can begin at the page.
                rows = self._run_query(_SELECT_TIME, {"decision_id": found[name][1]})
                if rows:
                    found[f"{name}_time"] = (f"created_at {sign} :{name}_time", rows[0][0])
        return found

    def match_records(
        self,
        record_filter: RecordFilter,
        terms: Sequence[SearchTerm],
        *,
        newest_first: bool,
        window: int,
    ) -> MatchPage:
        """Return the matches among the first `window` records.

        With terms, only the records that have them count.
        """
        order, sign = ("DESC", "<") if newest_first else ("ASC", ">")
        tests = self._filter_tests(record_filter)
        values: dict[str, Any] = {name: value for name, (_, value) in tests.items()}
        if terms:
            found = self.search_source(terms)
            cursor, step = ("before", "+") if newest_first else ("after", "-")
            own = tests["tenant"][0] if "tenant" in tests else "1 = 1"
            rest = " AND ".join(
                tests[name][0] for name in (cursor, f"{cursor}_time") if name in tests
            )
            place = _PLACE_OF_CURSOR.format(
                cursor=cursor, own=own, rest=rest, order=order, step=step
            )
            page = f"AND {found.key} {sign} {place}"
            source = f"""
                SELECT search_entries.decision_id, {found.key} AS place
                {found.source} {page if cursor in tests else ""}
                ORDER BY {found.key} {order} LIMIT :window
            """
            values |= found.values
        else:
            inner = [tests.pop(name)[0] for name in _WINDOW_FIELDS if name in tests]
            where = f"WHERE {' AND '.join(inner)}" if inner else ""
            timed = record_filter.tenant is not None and record_filter.subject is None
            keys = ["created_at", "decision_id"] if timed else ["decision_id"]
            by = ", ".join(f"{key} {order}" for key in keys)
            source = f"""
                SELECT decision_id, decision_id AS place {_FROM_RECORDS} {where}
                ORDER BY {by} LIMIT :window
            """
        matches = " AND ".join(f"({test})" for test, _ in tests.values()) or "1 = 1"
        query = f"""
            SELECT {", ".join(RecordMatch._fields)}, CASE WHEN {matches} THEN 1 ELSE 0 END
            FROM ({source}) AS found JOIN decision_records USING (decision_id)
            ORDER BY found.place {order}
        """
        rows = self._run_query(query, {**values, "window": window})
        listed = [
            RecordMatch(row[0], self._decode_time(row[1]), *row[2:-1]) for row in rows if row[-1]
        ]
        return MatchPage(listed, rows[-1][0] if rows else "", len(rows) < window)

    def read_chain(self, tenant: str, first: int, last: int | None) -> Iterator[RecordRow]:
        """Yield a tenant's records from seq `first` to `last`, in order, in bounded memory."""
        return map(_build_record_row, self._read_pages(self._columns, tenant, first, last))

    def read_linked(self, tenant: str, first: int, last: int | None) -> Iterator[LinkedRow]:
        """Yield the same records as `read_chain` with all columns, for an audit."""
        columns = ", ".join((*UnlinkedRow._fields[:-2], self.dialect.halves, _LINK_COLUMNS))
        for row in self._read_pages(columns, tenant, first, last):
            values = list(row[:_ROW_WIDTH])
            values[_TIME_COLUMN] = self._decode_time(values[_TIME_COLUMN])
            values[_CODES_COLUMN] = self._decode_codes(values[_CODES_COLUMN])
            seq, previous, own_hash, confirmed = row[_ROW_WIDTH:]
            yield LinkedRow(UnlinkedRow(*values), seq, previous, own_hash, bool(confirmed))

    def _read_pages(
        self, columns: str, tenant: str, first: int, last: int | None
    ) -> Iterator[tuple[Any, ...]]:
        query = f"""
            SELECT seq, {columns} {_FROM_RECORDS}
            WHERE tenant = :tenant AND seq BETWEEN :first AND :last
            ORDER BY seq LIMIT {self.dialect.page}
        """
        # Always bounded: a corrupt seq that is no number sorts after all numbers.
        values = {"tenant": tenant, "first": first, "last": _MAX_SEQ if last is None else last}
        while True:
            rows = self._run_query(query, values)
            yield from (row[1:] for row in rows)
            if len(rows) < self.dialect.page:
                return
            values["first"] = rows[-1][0] + 1

    @staticmethod
    def _decode_time(value: Any) -> str:
        return cast("str", value)

    @staticmethod
    @abstractmethod
    def _decode_codes(value: Any) -> tuple[str, ...]:
        """Return the codes in a column."""

    # -- chains ----------------------------------------------------------------------------

    def all_heads(self) -> list[ChainHead]:
        """Return the head of every tenant, by name."""
        return [ChainHead(*row) for row in self._run_query(_SELECT_HEADS, {})]

    def wait_for_disk(self) -> None:
        """Wait until the disk has everything that can be read now; here nothing is read before."""

    def list_tenants(self) -> list[str]:
        """Return every tenant that has a head or a record, by name."""
        return [row[0] for row in self._run_query(_SELECT_TENANTS, {})]

    def save_checkpoints(self, checkpoints: Collection[Checkpoint]) -> None:
        """Save where chains end."""
        with self._open_write() as execute:
            for checkpoint in checkpoints:
                place = (*checkpoint.head, checkpoint.created_at)
                execute(_SAVE_CHECKPOINT, dict(zip(_CHECKPOINT_COLUMNS, place, strict=True)))

    def list_checkpoints(self, tenant: str) -> list[Checkpoint]:
        """Return a tenant's checkpoints, oldest first."""
        rows = self._run_query(_SELECT_CHECKPOINTS, {"tenant": tenant})
        return [Checkpoint(row[0], ChainHead(*row[1:])) for row in rows]

    # -- snapshots, experiences, labels ----------------------------------------------------

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Save a text under its digest; each text is saved once."""
        with self._open_write() as execute:
            execute(_SAVE_SNAPSHOT, snapshot._asdict())

    def get_snapshot(self, digest: str) -> Snapshot | None:
        """Return the text under a digest."""
        query = "SELECT digest, kind, text FROM snapshots WHERE digest = :digest"
        rows = self._run_query(query, {"digest": digest})
        return Snapshot(*rows[0]) if rows else None

    def add_experience(self, experience: ExperienceRow, label: Label) -> None:
        """Store an experience together with its label."""
        with self._open_write() as execute:
            execute(_SAVE_EXPERIENCE, experience._asdict())
            execute(insert_statement("labels", Label._fields), label._asdict())
            execute(_NEXT_VERSION, {"tenant": experience.tenant})

    def list_experiences(self, tenant: str, now: str) -> list[ExperienceRow]:
        """Return a tenant's experiences that have not expired, by memory id."""
        values = {"tenant": tenant, "now": now}
        rows = self._run_query(_SELECT_EXPERIENCES, values, bounded=True)
        return [ExperienceRow(*row) for row in rows]

    def memory_version(self, tenant: str) -> int:
        """Return a number that changes whenever a tenant's experiences do."""
        query = "SELECT version FROM memory_versions WHERE tenant = :tenant"
        rows = self._run_query(query, {"tenant": tenant}, bounded=True)
        return int(rows[0][0]) if rows else 0

    def forget_experiences(
        self, tenant: str, memory_ids: Collection[str] | None, before: str | None
    ) -> int:
        """Delete experiences by id, or those that expired before a time; return how many."""
        tests = [("memory_id = :value", memory_id) for memory_id in memory_ids or ()]
        tests += [] if before is None else [("expires_at < :value", before)]
        count = 0
        with self._open_write() as execute:
            for test, value in tests:
                values = {"tenant": tenant, "value": value}
                count += execute(f"{_DELETE_EXPERIENCES} {test}", values).rowcount
            if count:
                execute(_NEXT_VERSION, {"tenant": tenant})
        return count

    def add_labels(self, labels: Iterable[Label]) -> None:
        """Store labels, all or none."""
        statement = insert_statement("labels", Label._fields)
        with self._open_write() as execute:
            for label in labels:
                execute(statement, label._asdict())

    def list_labels(self, decision_id: str) -> list[Label]:
        """Return the labels of a decision, oldest first."""
        query = f"{_SELECT_LABELS} decision_id = :decision_id ORDER BY created_at, label_id"
        return [Label(*row[1:]) for row in self._run_query(query, {"decision_id": decision_id})]

    def find_labels(
        self, tenant: str | None, kind: str, values: Collection[str], since: str
    ) -> Iterator[Label]:
        """Yield labels of a kind, oldest first, in bounded memory."""
        named = {f"value_{number}": value for number, value in enumerate(values)}
        if not named:
            return
        among = ", ".join(f":{name}" for name in named)
        query = f"""
            {_SELECT_LABELS} kind = :kind AND value IN ({among}) AND created_at >= :since
            AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant)
            AND (created_at, label_id) > (:last, :last_id)
            ORDER BY created_at, label_id LIMIT {_LABEL_PAGE}
        """
        place: dict[str, Any] = {"last": "", "last_id": 0}
        known = {"tenant": tenant, "kind": kind, "since": since, **named}
        while rows := self._run_query(query, {**known, **place}):
            yield from (Label(*row[1:]) for row in rows)
            place = {"last": Label(*rows[-1][1:]).created_at, "last_id": rows[-1][0]}

    def count_verdicts(self, tenant: str | None, first: str) -> dict[str, int]:
        """Return how many decisions there are by verdict, from an hour on."""
        query = _COUNT_VERDICTS.format(tenant="" if tenant is None else "tenant = :tenant AND")
        return dict(self._run_query(query, {"tenant": tenant, "first": first}))

    def count_reviewed(self, tenant: str | None, since: str) -> dict[str, int]:
        """Return how many decisions since a time have a review, by verdict."""
        # Twice, because the columns are of different types.
        values = {"tenant": tenant, "since": since, "labelled": since}
        return dict(self._run_query(_COUNT_REVIEWED, values))

    # -- tallies, API keys -----------------------------------------------------------------

    def update_tallies(self, tenant: str | None) -> None:
        """Count the records stored since the last count, of one tenant or of all."""
        for name, head in self._run_query(_SELECT_UNCOUNTED, {}):
            if tenant in {None, name}:
                while self._count_batch(name, head):
                    pass

    def _count_batch(self, tenant: str, head: int) -> bool:
        """Count a bounded number of records; return whether there are more up to `head`."""
        dialect = self.dialect
        query = f"SELECT seq FROM tally_marks WHERE tenant = :tenant {dialect.for_update}"
        records = "seq > :mark AND seq <= :last"
        with self._open_write() as execute:
            execute(_BEGIN_MARK, {"tenant": tenant})
            # Read the mark under the lock: another process may have counted meanwhile.
            mark = int(execute(query, {"tenant": tenant}).fetchone()[0])
            last = min(mark + dialect.step, head)
            if mark < last:
                for kind in self._tally_kinds():
                    statement = _ADD_TALLIES.format(*kind, hour=dialect.hour, records=records)
                    execute(statement, {"tenant": tenant, "mark": mark, "last": last})
                moved = "UPDATE tally_marks SET seq = :seq WHERE tenant = :tenant"
                execute(moved, {"tenant": tenant, "seq": last})
        return last < head

    def _tally_kinds(self) -> tuple[tuple[str, ...], ...]:
        finding = self.dialect.finding
        return (
            ("decision", "verdict", "decision_output", "COALESCE(refusal_class, '')", "", ""),
            ("reason", self.dialect.code_value, "verdict", "''", self.dialect.code_rows, ""),
            (
                "finding",
                f"COALESCE({finding} ->> 'surface', '')",
                f"{finding} ->> 'code'",
                f"COALESCE({finding} ->> 'action', 'block')",
                self.dialect.findings,
                "AND sealed IS NOT NULL",
            ),
        )

    def count_minutes(self, tenant: str, since: str, until: str) -> list[TallyRow]:
        """Return the counts of a tenant's records between two times, by the minute."""
        records = "created_at >= :since AND created_at < :until"
        values = {"tenant": tenant, "since": since, "until": until}
        return [
            TallyRow(*row[1:])
            for kind in self._tally_kinds()
            for row in self._run_query(
                _COUNT_RECORDS.format(*kind, hour=self.dialect.minute, records=records), values
            )
        ]

    def read_tallies(
        self,
        tenant: str | None,
        first: str,
        beyond: str,
        kind: str | None = None,
        *,
        by_day: bool = False,
    ) -> list[TallyRow]:
        """Return the counts of the hours from `first` up to `beyond`, exclusive, in order.

        With `by_day`, the counts of a day stand at its first hour.
        """
        query = _SELECT_TALLIES.format(
            hour=_DAY if by_day else "hour",
            tenant="" if tenant is None else "tenant = :tenant AND",
            kind="" if kind is None else "AND kind = :kind",
        )
        values = {"tenant": tenant, "first": first, "beyond": beyond, "kind": kind}
        rows = self._run_query(query, values)
        return [TallyRow(*row) for row in rows]

    def add_key(self, key: ApiKey) -> None:
        """Store an API key of the service."""
        with self._open_write() as execute:
            execute(insert_statement("api_keys", ApiKey._fields), key._asdict())

    def find_key(self, digest: str) -> ApiKey | None:
        """Return the key with that digest."""
        query = f"{_SELECT_KEYS} WHERE digest = :digest"
        rows = self._run_query(query, {"digest": digest}, bounded=True)
        return ApiKey(*rows[0]) if rows else None

    def list_keys(self) -> list[ApiKey]:
        """Return every key, oldest first."""
        rows = self._run_query(f"{_SELECT_KEYS} ORDER BY created_at, key_id", {})
        return [ApiKey(*row) for row in rows]

    def revoke_key(self, key_id: str, now: str) -> bool:
        """Revoke a key; return whether there was one to revoke."""
        with self._open_write() as execute:
            return bool(execute(_REVOKE_KEY, {"now": now, "key_id": key_id}).rowcount > 0)

    def add_session(self, session: LoginSession) -> None:
        """Store a login; expired ones, and all but the newest of its key, are deleted."""
        with self._open_write() as execute:
            execute(insert_statement("sessions", LoginSession._fields), session._asdict())
            execute("DELETE FROM sessions WHERE expires_at <= :created_at", session._asdict())
            execute(_DELETE_OLD_SESSIONS, session._asdict())

    def list_sessions(self) -> list[LoginSession]:
        """Return every login."""
        query = f"SELECT {', '.join(LoginSession._fields)} FROM sessions"
        return [LoginSession(*row) for row in self._run_query(query, {})]

    def delete_session(self, digest: str) -> None:
        """Delete a login."""
        with self._open_write() as execute:
            execute("DELETE FROM sessions WHERE digest = :digest", {"digest": digest})

    # -- the database itself ---------------------------------------------------------------

    def count_rows(self) -> Mapping[str, int]:
        """Return how many rows of each kind there are."""
        columns = ", ".join(f"(SELECT COUNT(*) FROM {table})" for table in _COUNTED_TABLES.values())
        return dict(zip(_COUNTED_TABLES, self._run_query(f"SELECT {columns}", {})[0], strict=True))


def _build_record_row(row: Sequence[Any]) -> RecordRow:
    return RecordRow._make((*row[:-1], bool(row[-1])))
