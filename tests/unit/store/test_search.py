import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.store_records import decision_id, make_record, moment

from demur.codes.vocabulary import DecisionOutput, Verdict
from demur.model.decision import Outcome
from demur.store import sqlite_connections
from demur.store.backend import RecordFilter
from demur.store.opening import open_store
from demur.store.search import list_filter_terms, parse_search, split_words
from demur.store.store import Store

WHY = {"by": "dpo", "reason": "asked for it"}
HANA = "customer:hana.novakova@example.com"


def add(store: Store, number: int, requester: str = "user:ada", **fields: Any) -> str:
    sealed = {"requester": requester, **fields.pop("sealed", {})}
    store.put(make_record(number, sealed=sealed, **fields))
    return decision_id(number)


def find(store: Store, text: str, **fields: Any) -> list[str]:
    found = store.find_records(RecordFilter(text=text, **fields), newest_first=True)
    return [record.decision_id for record in found]


def excerpt(text: str) -> dict[str, Any]:
    return {"text": text, "speaker": "user", "surface": "input"}


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Yield an empty store of each kind."""
    place = str(tmp_path / "records.db")
    if request.param == "postgresql":
        place = request.getfixturevalue("postgres_url")
    with open_store(place, durability="normal") as opened:
        yield opened


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def filled(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Yield a store of each kind with records that differ in everything that a search finds."""
    place = ":memory:"
    if request.param == "postgresql":
        place = request.getfixturevalue("postgres_server").new_database()
    with open_store(place, durability="normal") as store:
        add(store, 1, HANA, request_id="night-7")
        add(store, 2, action_type="delete_files", reason_codes=("DESTRUCTIVE_ACTION",))
        add(
            store, 3, tenant="other", sealed={"excerpt": excerpt("Où est l'Übergabe? 返金をお願い")}
        )
        add(store, 4, verdict=Verdict.DENY, decision_output=DecisionOutput.REFUSE_WITH_PATH)
        add(store, 5, HANA, verdict=Verdict.ALLOW, decision_output=DecisionOutput.ALLOW_EXECUTE)
        yield store


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("hana", [5, 1]),
        ("HANA Nov", [5, 1]),
        ("novakova hana", [5, 1]),
        ("hana@example", [5, 1]),
        ("hana.novak", [5, 1]),
        ("customer:hana.novakova@example.com", [5, 1]),
        ("night-7", [1]),
        ("night", [1]),
        ("ni", []),
        ("files", [2]),
        ("DESTRUCTIVE_ACTION", [2]),
        ("destructive", [2]),
        ("ubergabe", [3]),
        ("Übergabe", [3]),
        ("返金", [3]),
        ("お願い", [3]),
        ("返", [3]),
        ("refund", [5, 4, 3, 1]),
        ("refund hana", [5, 1]),
        ("!!! --", []),
        ("", []),
    ],
)
def test_words_find_what_they_begin(filled: Store, text: str, numbers: list[int]) -> None:
    assert find(filled, text) == [decision_id(number) for number in numbers]


def test_a_filter_narrows_a_search(filled: Store) -> None:
    assert find(filled, "refund", tenant="other") == [decision_id(3)]
    assert find(filled, "hana", verdict="ALLOW") == [decision_id(5)]
    assert find(filled, "hana", before=decision_id(5)) == [decision_id(1)]
    assert find(filled, "refund", since=moment(3), until=moment(5)) == [
        decision_id(4),
        decision_id(3),
    ]
    assert find(filled, "refund", max_amount=1) == []


def test_the_oldest_come_first_where_they_are_asked_for(filled: Store) -> None:
    oldest = filled.find_records(RecordFilter(text="refund", after=decision_id(1)))

    assert [record.decision_id for record in oldest] == [decision_id(one) for one in (3, 4, 5)]


@pytest.mark.parametrize("first", ["acme", "other"])
def test_a_page_begins_at_a_record_of_any_tenant(store: Store, first: str) -> None:
    for number in range(1, 9):
        add(store, number, tenant="acme" if number % 3 else "other")
    store.backend.update_search(first)

    for number in range(1, 9):
        earlier = store.find_records(
            RecordFilter(text="refund", before=decision_id(number)), newest_first=True
        )
        later = store.find_records(RecordFilter(text="refund", after=decision_id(number)))
        assert [one.decision_id for one in earlier] == [
            decision_id(one) for one in range(number - 1, 0, -1)
        ]
        assert [one.decision_id for one in later] == [
            decision_id(one) for one in range(number + 1, 9)
        ]


@pytest.mark.parametrize(
    ("fields", "numbers"),
    [
        ({}, [5, 4, 3, 2, 1]),
        ({"tenant": "acme"}, [5, 4, 2, 1]),
        ({"text": "hana"}, [5, 1]),
        ({"action_type": "delete_files"}, [2]),
        ({"reason_code": "DESTRUCTIVE_ACTION"}, [2]),
        ({"outcome": "refused"}, [4]),
        ({"verdict": "DENY", "action_type": "refund"}, [4]),
        ({"subject": HANA}, [5, 1]),
        ({"unreviewed": True, "since": moment(2), "until": moment(3)}, [2]),
    ],
)
def test_matches_are_the_same_with_and_without_the_index(
    filled: Store, fields: dict[str, Any], numbers: list[int]
) -> None:
    found = filled.match_records(RecordFilter(**fields))
    bounded = filled.match_records(RecordFilter(**fields), window=1)

    assert [row.decision_id for row in found.rows] == [decision_id(one) for one in numbers]
    assert (found.is_complete, found.waiting) == (True, 0)
    assert not bounded.is_complete


def test_the_newest_records_can_wait_for_their_words(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demur.store.store._INDEXED_AT_ONCE", 1)
    monkeypatch.setattr(
        type(store.backend), "dialect", store.backend.dialect._replace(index_step=400)
    )
    store.put_many([make_record(number) for number in range(1, 1200)])
    first = store.match_records(RecordFilter(text="refund"))
    by_outcome = store.match_records(RecordFilter(outcome="needs_something"), window=2000)

    assert 0 < len(first.rows) == 1199 - first.waiting < 1199
    assert len(by_outcome.rows) == 1199
    store.update_search()
    assert store.match_records(RecordFilter(text="refund")).waiting == 0
    assert len(find(store, "refund")) == 1199


def test_erasing_takes_the_words_of_the_sealed_part_out(store: Store) -> None:
    add(store, 1, HANA, request_id="night-7", sealed={"excerpt": excerpt("my zygomorphic card")})
    assert find(store, "zygomorphic")
    assert store.erase_subject("acme", HANA, **WHY) == 1

    assert find(store, "hana") == find(store, "zygomorphic") == []
    assert find(store, "night-7") == find(store, "refund") == [decision_id(1)]


def test_retiring_takes_all_words_out(store: Store) -> None:
    add(store, 1, HANA)
    add(store, 2, HANA)
    assert len(find(store, "hana")) == 2
    assert store.retire_records("acme", moment(2), **WHY) == 1

    assert find(store, "hana") == [decision_id(2)]
    assert store.backend._run_query("SELECT COUNT(*) FROM search_entries", {}) == [(1,)]


def test_what_was_erased_before_it_was_indexed_is_never_found(store: Store) -> None:
    add(store, 1, HANA)
    store.erase_subject("acme", HANA, **WHY)

    assert find(store, "hana") == []
    assert find(store, "refund") == [decision_id(1)]


def raw_content(path: Path) -> bytes:
    return b"".join(
        file.read_bytes() for file in (path, path.with_name(f"{path.name}-wal")) if file.exists()
    )


@pytest.mark.parametrize("way", ["erase", "retire"])
def test_no_word_stays_in_the_file(path: Path, way: str) -> None:
    words = ("zygomorphic", "quixotry", "novakova")
    with open_store(path, durability="normal") as store:
        # Several commits, so that the index has several parts.
        for number in range(1, 40):
            text = "zygomorphic quixotry" if number == 20 else f"common words {number}"
            add(
                store,
                number,
                HANA if number == 20 else "user:ada",
                sealed={"excerpt": excerpt(text)},
            )
            store.update_search()
        assert find(store, "zygomorphic quixotry novakova") == [decision_id(20)]
        if way == "erase":
            store.erase_subject("acme", HANA, **WHY)
        else:
            store.retire_records("acme", moment(21), **WHY)
        content = raw_content(path)
        assert find(store, "common 39")
    for word in words:
        assert not re.search(word[:-1].encode(), content, re.IGNORECASE), word
        # The index leaves out what a word has in common with the one before it.
        assert word[3:].encode() not in content, word
    assert b"common" in content


@given(st.text(max_size=60))
def test_any_text_is_plain_words(filled: Store, text: str) -> None:
    expected = {
        record.decision_id for record in filled.find_records() if text_matches(record, text)
    }

    assert set(find(filled, text)) == expected
    found = filled.match_records(RecordFilter(text=text, tenant="acme"))
    assert {row.decision_id for row in found.rows} <= expected


def text_matches(record: Any, text: str) -> bool:
    """Return whether a record has each word of a text, by a reading of its own."""
    personal = record.personal
    said = "" if personal.excerpt is None else personal.excerpt.text
    parts = (record.request_id or "", personal.requester, record.action_type, said)
    outcome = Outcome.from_output(record.verdict, record.decision_output)
    kinds = (outcome, record.verdict, record.decision_output, record.refusal_class or "")
    own = list(split_words(" ".join((*parts, *kinds, *record.reason_codes))))
    wanted = list(dict.fromkeys(split_words(text)))[:12]
    return bool(wanted) and all(
        any(word == one or (len(one) > 2 and word.startswith(one)) for word in own)
        for one in wanted
    )


_SIGNS = ('"', "'", "*", "^", "(", ")", ":", "-", "+", "{", "}", "%", "_", ";", "\\", "\0", "!")
_WORDS = (" AND ", " OR ", " NOT ", " NEAR(a b) ", "words:", "search_index", "hana", "' OR 1=1 --")
_OTHERS = (":*", " & ", " | ", "<->", "\ud800", "\u202e", "$1", "%(tenant)s", ":tenant")
OPERATORS = st.sampled_from((*_SIGNS, *_WORDS, *_OTHERS))


@given(st.lists(OPERATORS, max_size=12).map("".join))
def test_no_operator_means_anything(filled: Store, text: str) -> None:
    expected = {
        record.decision_id for record in filled.find_records() if text_matches(record, text)
    }

    assert set(find(filled, text)) == expected


@given(st.text())
def test_terms_are_ascii_letters_and_digits(text: str) -> None:
    for term in split_words(text):
        assert re.fullmatch(r"[a-z0-9]{1,129}", term), term


@given(st.text(), st.text())
def test_words_of_a_part_are_among_those_of_the_whole(left: str, right: str) -> None:
    assert set(split_words(left)) | set(split_words(right)) >= set(split_words(f"{left} {right}"))


def test_long_texts_are_bounded() -> None:
    assert len(parse_search("many words of one text " + " ".join(map(str, range(999))))) == 12
    assert len(next(split_words("x" * 10_000))) == 64
    assert sum(1 for _ in split_words("word " * 100_000)) <= 4000


def test_a_filter_without_words_needs_no_index() -> None:
    assert list_filter_terms(RecordFilter(tenant="acme", since=moment(1))) == ()


def test_without_fts5_a_search_reads_the_words(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sqlite_connections, "_CREATE_INDEX", "CREATE VIRTUAL TABLE search_index USING none (words)"
    )
    with open_store(path, durability="normal") as store:
        add(store, 1, HANA)
        add(store, 2)
        assert find(store, "hana nov") == [decision_id(1)]
        assert find(store, "user refund") == [decision_id(2)]
        assert store.info()["search"] == "words without an index: this SQLite has no FTS5"
        assert store.erase_subject("acme", HANA, **WHY) == 1
        assert find(store, "hana") == []
    monkeypatch.undo()
    with open_store(path, durability="normal") as store:
        assert find(store, "user") == [decision_id(2)]
        assert store.info()["search"] == "index"


def test_a_broken_sealed_part_keeps_no_other_record_out(
    path: Path, tamper: Callable[..., int]
) -> None:
    with open_store(path, durability="normal") as store:
        add(store, 1)
        add(store, 2)
        tamper("UPDATE decision_records SET sealed = '{\"excerpt\":{x' WHERE seq = 1")
        assert len(find(store, "refund")) == 2


def test_processes_index_each_record_once(path: Path) -> None:
    with open_store(path) as one, open_store(path) as other:
        add(one, 1)
        assert (one.update_search(), other.update_search()) == (1, 0)
        add(other, 2)
        assert len(find(one, "refund")) == 2
    with sqlite3.connect(path) as connection:
        [(count,)] = connection.execute("SELECT COUNT(*) FROM search_entries")
    connection.close()
    assert count == 2


STEPS = st.lists(
    st.sampled_from(["add", "index", "erase", "find", "retire"]), min_size=1, max_size=14
)


@given(STEPS)
def test_no_word_of_an_erased_part_is_found_again(steps: list[str]) -> None:
    """Check the invariant over any course of events.

    INVARIANT: no word of an erased part is found again.
    """
    erased: set[str] = set()
    kept: set[str] = set()
    with open_store(":memory:") as store:
        for number, step in enumerate(steps, start=1):
            if step == "add":
                kept.add(add(store, number, HANA))
            elif step == "index":
                store.update_search()
            elif step == "erase":
                store.erase_subject("acme", HANA, **WHY)
                erased, kept = erased | kept, set()
            elif step == "retire":
                store.retire_records("acme", moment(number // 2), **WHY)
                gone = {decision_id(one) for one in range(number // 2)}
                erased, kept = erased - gone, kept - gone
            assert set(find(store, "hana novakova")) == kept
        assert set(find(store, "refund")) == kept | erased
