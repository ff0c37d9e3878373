"""The search of a store: the words of each record, indexed after it was stored.

A text is split into words of letters and digits, without case and accents; scripts that write no
spaces are split into pairs of characters. Every word becomes a term of ASCII letters and digits
only, so no text of a user is ever a part of a query's syntax, and both databases agree on it. A
record matches if each word of the search begins one of its words; words of one or two characters
have to be whole.
"""

# ruff: noqa: S608 - statements are built from our own names; values are bound

import hashlib
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import msgspec

from demur.model.decision import Outcome
from demur.store.backend import Dialect, Execute, RecordFilter

_WORD = re.compile(r"[^\W_]+")
# Han, Hiragana, Katakana, Thai, Lao, Khmer and Burmese have no spaces between words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_MAX_WORD_LENGTH = 64
_MAX_TEXT_LENGTH = 20_000
_MAX_TERMS = 2000
_MAX_SEARCHED_TERMS = 12
_MIN_PREFIX_LENGTH = 3
_TENANT_DIGITS = 16
# Letters that no normalization takes apart.
_PLAIN_LETTERS = str.maketrans({"ß": "ss", "ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe"})


def split_words(text: str) -> Iterator[str]:
    """Yield the terms of a text, in order."""
    if text.isascii():
        words = _WORD.findall(text[:_MAX_TEXT_LENGTH].lower())
        yield from (word[:_MAX_WORD_LENGTH] for word in words)
        return
    folded = unicodedata.normalize("NFKD", text[:_MAX_TEXT_LENGTH]).casefold()
    letters = "".join(one for one in folded if not unicodedata.combining(one))
    for match in _WORD.finditer(letters.translate(_PLAIN_LETTERS)):
        word = match[0]
        if word.isascii():
            yield word[:_MAX_WORD_LENGTH]
            continue
        place = 0
        for unspaced in _UNSPACED.finditer(word):
            if unspaced.start() > place:
                yield _encode_word(word[place : unspaced.start()])
            yield from map(_encode_word, _pair_characters(unspaced[0]))
            place = unspaced.end()
        if place < len(word):
            yield _encode_word(word[place:])


def _pair_characters(run: str) -> Iterable[str]:
    return (run[at : at + 2] for at in range(max(1, len(run) - 1)))


def _encode_word(word: str) -> str:
    """Return a word as ASCII, so that a beginning of the word is a beginning of the term."""
    if word.isascii():
        return word[:_MAX_WORD_LENGTH]
    code = word.encode("utf-8", "replace").hex()
    return f"u{code[: 2 * _MAX_WORD_LENGTH]}"


class SearchTerm(NamedTuple):
    """A term to look for: as the beginning of a term, or as a whole one."""

    term: str
    is_prefix: bool


def parse_search(text: str) -> tuple[SearchTerm, ...]:
    """Return the terms that a record must have to match a text; none if it has no word."""
    terms = dict.fromkeys(split_words(text))
    return tuple(
        SearchTerm(term, len(term) >= _MIN_PREFIX_LENGTH)
        for term in list(terms)[:_MAX_SEARCHED_TERMS]
    )


class SearchSource(NamedTuple):
    """The entries with some terms: their tables and condition, the key to sort by, and values."""

    source: str
    key: str
    values: Mapping[str, Any]


# Fields of a filter whose words are those of matching records.
_WORD_FIELDS = (
    "subject",
    "action_type",
    "reason_code",
    "outcome",
    "verdict",
    "decision_output",
    "refusal_class",
)


def list_filter_terms(record_filter: RecordFilter) -> tuple[SearchTerm, ...]:
    """Return terms that every record has which a filter selects; it may select fewer."""
    fields = record_filter._asdict()
    whole = (
        SearchTerm(term, is_prefix=False)
        for name in _WORD_FIELDS
        for term in split_words(fields[name] or "")
    )
    terms = dict.fromkeys((*parse_search(record_filter.text or ""), *whole))
    if terms and record_filter.tenant is not None:
        terms[tenant_term(record_filter.tenant)] = None
    return tuple(terms)


@lru_cache(1000)
def tenant_term(tenant: str) -> SearchTerm:
    """Return the term that all records of a tenant have."""
    digest = hashlib.sha256(tenant.encode("utf-8", "replace")).hexdigest()
    return SearchTerm(f"tenant{digest[:_TENANT_DIGITS]}", is_prefix=False)


class _Indexed(NamedTuple):
    """The columns of a record that the search finds it by."""

    decision_id: str
    tenant: str
    seq: int
    request_id: str | None
    subject: str | None
    action_type: str
    verdict: str
    decision_output: str
    refusal_class: str | None
    reason_codes: Any
    excerpt: Any


class _Excerpt(msgspec.Struct):
    text: str = ""
    source: str = ""
    prompt: str = ""


class _SealedExcerpt(msgspec.Struct):
    excerpt: _Excerpt | None = None


_decode_sealed = msgspec.json.Decoder(_SealedExcerpt).decode


def _read_excerpt(sealed: Any) -> str:
    """Return the text of the excerpt in a sealed part; empty if there is none."""
    if sealed is None:
        return ""
    try:
        excerpt = _decode_sealed(sealed).excerpt
    except (msgspec.MsgspecError, UnicodeError):
        # A broken record must not keep all others out of the search; an audit finds it.
        return ""
    return "" if excerpt is None else f"{excerpt.source} {excerpt.text} {excerpt.prompt}"


@lru_cache(1000)
def _split_repeated(text: str) -> tuple[str, ...]:
    return tuple(split_words(text))


def _list_terms(row: _Indexed, codes: Sequence[str]) -> str:
    outcome = Outcome.from_output(row.verdict, row.decision_output)
    kinds = f"{outcome} {row.verdict} {row.decision_output} {row.refusal_class or ''}"
    # Texts that repeat are split once. Those of a person are never kept in memory.
    own = f"{row.request_id or ''} {row.subject or ''} {_read_excerpt(row.excerpt)}"
    repeated = _split_repeated(f"{row.action_type} {' '.join(map(str, codes))} {kinds}")
    terms = dict.fromkeys((*split_words(own), *repeated))
    return " ".join([tenant_term(row.tenant).term, *islice(terms, _MAX_TERMS)])


_BEGIN_MARK = "INSERT INTO search_marks (tenant, seq) VALUES (:tenant, 0) ON CONFLICT DO NOTHING"
_SELECT_MARK = "SELECT seq FROM search_marks WHERE tenant = :tenant"
_SELECT_UNINDEXED = """
    SELECT tenant, head.seq - COALESCE(mark.seq, 0) FROM chain_heads AS head
    LEFT JOIN search_marks AS mark USING (tenant)
    WHERE head.seq > COALESCE(mark.seq, 0) ORDER BY tenant
"""
_INSERT_ENTRY = """
    INSERT INTO search_entries (decision_id, words) VALUES (:decision_id, :words)
    ON CONFLICT DO NOTHING RETURNING entry_id
"""
_SELECT_ENTRY = "SELECT entry_id FROM search_entries WHERE decision_id = :decision_id"


class SearchSql(ABC):
    """The statements that index records by their words, and find them."""

    dialect: ClassVar[Dialect]

    @abstractmethod
    def _run_query(
        self, statement: str, values: Mapping[str, Any], *, bounded: bool = False
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query; a decision waits for `bounded` ones."""

    @abstractmethod
    def _open_write(self) -> AbstractContextManager[Execute]:
        """Return one write of any statements: committed durably, or rolled back."""

    @staticmethod
    @abstractmethod
    def _decode_codes(value: Any) -> tuple[str, ...]:
        """Return the codes in a column."""

    @abstractmethod
    def search_source(self, terms: Sequence[SearchTerm]) -> SearchSource:
        """Return where the entries with these terms are."""

    def _index_entries(  # noqa: B027 - most databases keep their indexes themselves
        self, execute: Execute, entries: Collection[tuple[int, str]]
    ) -> None:
        """Add the words of entries to an index that is not kept by the database itself."""

    def _unindex_entries(  # noqa: B027 - as above
        self, execute: Execute, where: str, values: Mapping[str, Any]
    ) -> None:
        """Take the words of entries out of such an index, before they are changed or deleted."""

    # -- indexing --------------------------------------------------------------------------

    def count_unindexed(self, tenant: str | None) -> int:
        """Return how many links of a tenant's chain, or of all, were not looked at yet."""
        rows = self._run_query(_SELECT_UNINDEXED, {})
        return sum(int(number) for name, number in rows if tenant in {None, name})

    def update_search(self, tenant: str | None, limit: int | None = None) -> int:
        """Index the records stored since the last time, oldest first, at most about `limit`.

        Return how many were looked at.
        """
        done = 0
        for name, waiting in self._run_query(_SELECT_UNINDEXED, {}):
            left = int(waiting) if tenant in {None, name} else 0
            while left > 0 and (limit is None or done < limit):
                step = self._index_batch(name)
                done, left = done + step, left - step if step else 0
        return done

    def _index_batch(self, tenant: str) -> int:
        """Index a bounded number of records; return how many links were passed."""
        dialect = self.dialect
        columns = self._indexed_columns()
        select = f"""
            SELECT {columns} FROM decision_records
            WHERE tenant = :tenant AND seq > :mark ORDER BY seq LIMIT {dialect.index_step}
        """
        with self._open_write() as execute:
            # Erasing and retiring lock the mark as well.
            # INVARIANT: no word of an erased part is found again.
            mark = self._lock_mark(execute, tenant)
            found = execute(select, {"tenant": tenant, "mark": mark}).fetchall()
            rows = [_Indexed(*row) for row in found]
            entries = []
            for row in rows:
                words = _list_terms(row, self._decode_codes(row.reason_codes))
                values = {"decision_id": row.decision_id, "words": words}
                added = execute(_INSERT_ENTRY, values).fetchone()
                if added is not None:
                    entries.append((int(added[0]), words))
            self._index_entries(execute, entries)
            if len(rows) < dialect.index_step:
                head = "SELECT seq FROM chain_heads WHERE tenant = :tenant"
                last = int(execute(head, {"tenant": tenant}).fetchone()[0])
            else:
                last = rows[-1].seq
            moved = "UPDATE search_marks SET seq = :seq WHERE tenant = :tenant"
            execute(moved, {"tenant": tenant, "seq": last})
        return last - mark

    def _indexed_columns(self) -> str:
        return ", ".join((*_Indexed._fields[:-1], self.dialect.excerpt))

    def _lock_mark(self, execute: Execute, tenant: str) -> int:
        execute(_BEGIN_MARK, {"tenant": tenant})
        query = f"{_SELECT_MARK} {self.dialect.for_update}"
        return int(execute(query, {"tenant": tenant}).fetchone()[0])

    # -- letting go ------------------------------------------------------------------------

    def _forget_words(
        self, execute: Execute, tenant: str, where: str, values: Mapping[str, Any]
    ) -> None:
        """Delete the words of the records that a condition selects."""
        self._lock_mark(execute, tenant)
        theirs = f"decision_id IN (SELECT decision_id FROM decision_records WHERE {where})"
        self._unindex_entries(execute, theirs, values)
        execute(f"DELETE FROM search_entries WHERE {theirs}", values)

    def _renew_words(
        self, execute: Execute, tenant: str, where: str, values: Mapping[str, Any]
    ) -> None:
        """Index records again after a part of them was erased."""
        self._lock_mark(execute, tenant)
        select = f"SELECT {self._indexed_columns()} FROM decision_records WHERE {where}"
        theirs = f"decision_id IN (SELECT decision_id FROM decision_records WHERE {where})"
        self._unindex_entries(execute, theirs, values)
        entries = []
        for row in (_Indexed(*found) for found in execute(select, values).fetchall()):
            entry = execute(_SELECT_ENTRY, {"decision_id": row.decision_id}).fetchone()
            if entry is None:
                continue
            words = _list_terms(row, self._decode_codes(row.reason_codes))
            change = "UPDATE search_entries SET words = :words WHERE entry_id = :entry_id"
            execute(change, {"words": words, "entry_id": entry[0]})
            entries.append((int(entry[0]), words))
        self._index_entries(execute, entries)
