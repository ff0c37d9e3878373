from datetime import UTC, datetime, timedelta, timezone

import pytest
from support.store_records import DIGEST, make_record

from demur.errors import InputError
from demur.store.opening import open_store
from demur.store.rows import (
    GENESIS,
    ApiKey,
    ChainHead,
    Label,
    genesis_head,
    hour_of,
    hours_back,
    hours_between,
    link_hash,
)

NOON = datetime(2027, 1, 1, 12, tzinfo=UTC)


def test_a_period_reaches_to_the_end_of_its_last_hour() -> None:
    assert hours_between(NOON, NOON + timedelta(hours=2)) == ("2027-01-01T12", "2027-01-01T14")
    assert hours_between(NOON + timedelta(minutes=59), NOON + timedelta(hours=1, seconds=1)) == (
        "2027-01-01T12",
        "2027-01-01T14",
    )


@pytest.mark.parametrize("minutes", [0, 1, 59])
def test_the_last_hours_end_with_the_one_that_runs(minutes: int) -> None:
    now = (NOON + timedelta(minutes=minutes)).astimezone(timezone(timedelta(hours=5, minutes=30)))

    assert hours_back(now, 1) == NOON
    assert hours_back(now, 24) == NOON - timedelta(hours=23)


def test_hours_are_those_of_utc() -> None:
    assert hour_of(NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))) == "2027-01-01T12"
    with pytest.raises(InputError, match="time zone"):
        hour_of(datetime(2027, 1, 1))  # noqa: DTZ001 - the time zone is what is missing


def test_a_store_tallies_what_is_about_to_be_erased_or_retired() -> None:
    since, until = datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC)
    with open_store(":memory:") as store:
        store.put(make_record(1))
        store.retire_records("acme", "2028", by="ops", reason="test")
        store.put(make_record(2))
        store.erase_subject("acme", "user:ada", by="ops", reason="test")

        assert [one.number for one in store.read_tallies("acme", since, until).decisions] == [2]
        assert [one.number for one in store.read_tallies(None, since, until).reasons] == [2]


def test_a_store_keeps_keys_and_finds_labels() -> None:
    key = ApiKey("k", "acme", "read", "sha256:0", "2027", None, None, "")
    label = Label("d", "acme", "2027", "review", "good", "", "ada")
    with open_store(":memory:") as store:
        store.add_key(key)
        store.add_label(label)

        assert store.find_key("sha256:0") == key
        assert store.list_keys() == [key]
        assert store.revoke_key("k", "2028")
        assert list(store.find_labels("review", ("good",))) == [label]


HEAD = ChainHead("acme", 3, DIGEST)


def test_a_chain_begins_at_nothing() -> None:
    assert genesis_head("acme") == ("acme", 0, GENESIS)


def test_a_link_fits_nowhere_else() -> None:
    hashes = {
        link_hash(HEAD, "01J", b"{}"),
        link_hash(HEAD._replace(tenant="other"), "01J", b"{}"),
        link_hash(HEAD._replace(seq=4), "01J", b"{}"),
        link_hash(HEAD._replace(hash=GENESIS), "01J", b"{}"),
        link_hash(HEAD, "01K", b"{}"),
        link_hash(HEAD, "01J", b"{ }"),
    }

    assert len(hashes) == 6


def test_the_link_is_pinned() -> None:
    assert link_hash(genesis_head("acme"), "01J", b"{}") == (
        "sha256:915bfbfa2d717ccc3403bacc16bcc4c32275a6124b3e86dd5e2a13de73cf9638"
    )
