"""Erase an identifier: find each place that holds it, and clear those that can be cleared.

The sealed part of a record goes with all that came from it. A grant, an experience or a note that
holds the identifier goes as well, whosever record it belongs to. The chain covers the open part of
a record and the events, so these stay, and a plan says how many hold the identifier.
"""

# ruff: noqa: S608 - statements are built from our own names; values are bound

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from demur.errors import InputError
from demur.store.backend import Execute
from demur.store.events import ERASE
from demur.store.retention import EventAuthor, RetentionSql

_NOT_WITHIN = r"(?<![\w@.+-])"
_NOT_GOING_ON = r"(?![\w@+-]|\.\w)"
MIN_IDENTIFIER_LENGTH = 3
MAX_IDENTIFIER_LENGTH = 500
_SEARCHED_PAGE = 2000
_MAX_CLEARED = 500


class IdentifierSearch:
    """Finds an identifier as a whole, in any case, in the names and values of a JSON document.

    `ann@example.org` is not found in `joann@example.org` nor in `ann@example.org.uk`.

    Raises:
        InputError: The text is too short to identify anybody, or too long.
    """

    def __init__(self, identifier: str) -> None:
        text = identifier.strip()
        if len(text) < MIN_IDENTIFIER_LENGTH:
            problem = f"an identifier has at least {MIN_IDENTIFIER_LENGTH} characters, not `{text}`"
            raise InputError(problem, help="a shorter text stands in records of other people")
        if len(text) > MAX_IDENTIFIER_LENGTH:
            raise InputError(f"an identifier has at most {MAX_IDENTIFIER_LENGTH} characters")
        pattern = f"{_NOT_WITHIN}{re.escape(text)}{_NOT_GOING_ON}"
        self._search = re.compile(pattern, re.IGNORECASE).search
        # JSON writes such a text as it is, so documents without it need not be decoded.
        is_plain = text.isascii() and text.isprintable() and not {*text} & {'"', "\\"}
        self._raw_text = text.lower().encode() if is_plain else b""

    def finds(self, text: str) -> bool:
        """Return whether the identifier stands in a text."""
        return self._search(text) is not None

    def find_fields(self, raw: bytes) -> tuple[str, ...]:
        """Return the fields of a JSON object that hold the identifier, in order."""
        if self._raw_text not in raw.lower():
            return ()
        try:
            document = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            document = raw.decode(errors="replace")
        if not isinstance(document, dict):
            return ("",) if self._finds_within(document) else ()
        return tuple(
            name
            for name, value in document.items()
            if self.finds(name) or self._finds_within(value)
        )

    def _finds_within(self, document: Any) -> bool:
        waiting = [document]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                waiting += (*value, *value.values())
            elif isinstance(value, list):
                waiting += value
            elif isinstance(value, str | int | float) and self.finds(str(value)):
                return True
        return False


class ErasurePlan(NamedTuple):
    """What erasing an identifier takes, and what keeps it.

    The sealed parts of `decision_ids` go. `others` are the keys of rows that go as well, by kind:
    grants, experiences, and notes. `open_parts` records keep the identifier. `kept` says how many
    keep it in which place, like `record.request_id`, `event` or `label.by`. `next_seq` is the place
    in the chain at which the search goes on, None once it reached the end.
    """

    tenant: str
    decision_ids: tuple[str, ...] = ()
    others: Mapping[str, tuple[Any, ...]] = {}
    open_parts: int = 0
    kept: Mapping[str, int] = {}
    next_seq: int | None = None

    @property
    def counts(self) -> dict[str, int]:
        """How many records and other rows go, by kind."""
        return {"records": len(self.decision_ids), **{k: len(v) for k, v in self.others.items()}}

    @property
    def is_empty(self) -> bool:
        """Whether nothing holds the identifier."""
        return not (any(self.counts.values()) or self.kept)


class _ClearedTable(NamedTuple):
    """A table whose rows may hold an identifier: its key, the columns to search, and the cure."""

    kind: str
    table: str
    key: str
    first_key: str | int
    columns: tuple[str, ...]
    cure: str


_VOTE_KEY = "(decision_id || ' ' || person)"
_TABLES = (
    _ClearedTable("grants", "grants", "digest", "", ("signed_grant",), "DELETE FROM grants"),
    _ClearedTable(
        "experiences", "experiences", "memory_id", "", ("note",), "DELETE FROM experiences"
    ),
    _ClearedTable("notes", "labels", "label_id", -1, ("note",), "UPDATE labels SET note = ''"),
    _ClearedTable(
        "approvals", "approvals", "decision_id", "", ("note",), "UPDATE approvals SET note = ''"
    ),
    _ClearedTable(
        "votes",
        "approval_votes",
        _VOTE_KEY,
        "",
        ("note",),
        "UPDATE approval_votes SET note = ''",
    ),
)
# Rows that say who judged, approved or revoked, which outlives their notes; accounts and keys.
_KEPT_COLUMNS = (
    ("label.by", _ClearedTable("", "labels", "label_id", -1, ("by",), "")),
    (
        "revocation",
        _ClearedTable("", "grant_revocations", "grant_id", "", ("revoked_by", "note"), ""),
    ),
    ("vote.person", _ClearedTable("", "approval_votes", _VOTE_KEY, "", ("person",), "")),
    ("approval.closed_by", _ClearedTable("", "approvals", "decision_id", "", ("closed_by",), "")),
    ("person", _ClearedTable("", "people", "login", "", ("login", "note", "oidc_subject"), "")),
    ("key", _ClearedTable("", "api_keys", "key_id", "", ("note", "subjects"), "")),
)


class ErasureSql(RetentionSql):
    """The statements that find an identifier outside of records, and that clear it."""

    def find_outside_records(
        self, tenant: str, search: IdentifierSearch
    ) -> tuple[dict[str, tuple[Any, ...]], Counter[str]]:
        """Return the keys of rows that can be cleared, by kind, and counts of those that stay."""
        others = {one.kind: tuple(self._find_keys(one, tenant, search)) for one in _TABLES}
        kept = Counter(
            {
                place: sum(1 for _ in self._find_keys(one, tenant, search))
                for place, one in _KEPT_COLUMNS
            }
        )
        kept["event"] = sum(bool(search.find_fields(row.event)) for row in self.read_events(tenant))
        return others, +kept

    def _find_keys(
        self, table: _ClearedTable, tenant: str, search: IdentifierSearch
    ) -> Iterator[Any]:
        """Yield the keys of a tenant's rows that hold the identifier, in bounded memory."""
        query = f"""
            SELECT {table.key}, {", ".join(table.columns)} FROM {table.table}
            WHERE tenant = :tenant AND {table.key} > :after
            ORDER BY {table.key} LIMIT {_SEARCHED_PAGE}
        """
        after = table.first_key
        while True:
            rows = self._run_query(query, {"tenant": tenant, "after": after})
            for key, *texts in rows:
                if any(_finds_in_column(search, str(text)) for text in texts):
                    yield key
            if len(rows) < _SEARCHED_PAGE:
                return
            after = rows[-1][0]

    def clear_rows(
        self,
        tenant: str,
        others: Mapping[str, Sequence[Any]],
        *,
        by: str,
        reason: str,
        now: str | None = None,
    ) -> dict[str, int]:
        """Clear rows by their keys, and say so in the chain; return how many, by kind.

        Raises:
            InputError: It is not said who clears them and why.
        """
        author = EventAuthor.check(by, reason, now)
        cleared: Counter[str] = Counter()
        if not any(others.values()):
            return {}
        with self._open_write() as execute:
            head = self._lock_head(execute, tenant)
            for table in _TABLES:
                cleared[table.kind] += _clear(execute, table, tenant, others.get(table.kind, ()))
            if cleared["experiences"]:
                self._change_memory(execute, tenant)
            counts = dict(+cleared)
            if counts:
                self._append(execute, head, ERASE, {"decisions": [], **counts}, author)
        self._forget_deleted()
        return counts


def _finds_in_column(search: IdentifierSearch, text: str) -> bool:
    """Return whether an identifier stands in a column: a text, or the JSON of a grant."""
    return bool(search.find_fields(text.encode("utf-8", "replace"))) or search.finds(text)


def _clear(execute: Execute, table: _ClearedTable, tenant: str, keys: Sequence[Any]) -> int:
    count = 0
    for start in range(0, len(keys), _MAX_CLEARED):
        named = {
            f"key_{number}": key for number, key in enumerate(keys[start : start + _MAX_CLEARED])
        }
        among = ", ".join(f":{name}" for name in named)
        statement = f"{table.cure} WHERE tenant = :tenant AND {table.key} IN ({among})"
        count += int(execute(statement, {"tenant": tenant, **named}).rowcount)
    return count
