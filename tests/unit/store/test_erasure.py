"""An identifier is found and erased wherever it can be, in both databases."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.gates import grant
from support.store_records import decision_id, make_record, moment

from demur.errors import InputError
from demur.service.authentication import make_key
from demur.store.backend import insert_statement
from demur.store.erasure import IdentifierSearch
from demur.store.events import erased_others, read_event
from demur.store.grant_tables import GrantRow, RecordGrants, Revocation
from demur.store.opening import open_store
from demur.store.rows import ApprovalVote, ExperienceRow, Label
from demur.store.store import Store
from demur.store.verify import verify_chain

ANN = "ann@example.org"
AUTHOR = {"by": "dpo", "reason": "request 12"}


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    place = str(tmp_path / "records.db")
    if request.param == "postgresql":
        place = request.getfixturevalue("postgres_url")
    with open_store(place) as opened:
        yield opened


def label(number: int, **fields: Any) -> Label:
    plain = Label(decision_id(number), "acme", moment(number), "review", "good", "", "bob")
    return plain._replace(**fields)


def experience(memory_id: str, number: int, note: str) -> ExperienceRow:
    place = (memory_id, "acme", decision_id(number), "failure", 3, note, "refund")
    return ExperienceRow(*place, "words.v1", b"\0", moment(number), None)


def granted(grant_id: str, number: int, **fields: Any) -> RecordGrants:
    signed = grant({"action": "refund"}, grant_id=grant_id, **fields)
    names = (signed.compute_digest(), grant_id, signed.granted_to, decision_id(number))
    times = (moment(1), moment(10**9))
    return RecordGrants((GrantRow("acme", *names, *times, signed.to_json().decode()),))


@pytest.fixture
def filled(store: Store) -> Store:
    """Return a store that holds Ann everywhere."""
    store.put(make_record(1, sealed={"facts": {"evidence.email": ANN}, "requester": "user:eve"}))
    store.put(
        make_record(2, request_id=ANN, sealed={"facts": {"x": f"to {ANN}."}}),
        grants=granted("g-2", 2),
    )
    store.put(make_record(3), grants=granted("g-3", 3, granted_to=ANN))
    store.put(make_record(4, context_ref={"ticket": [{"who": ANN.upper()}]}))
    store.put(make_record(5, tenant="zoo", sealed={"facts": {"evidence.email": ANN}}))
    store.add_label(label(1, note="she called"))
    store.add_label(label(3, note=f"asked {ANN}"))
    store.add_label(label(4, by=ANN, note="fine"))
    store.add_label(label(5, tenant="zoo", note=ANN))
    store.add_experience(experience("m-1", 1, "charged back"), label(1, kind="outcome"))
    store.add_experience(experience("m-3", 3, f"{ANN} complained"), label(3, kind="outcome"))
    store.add_experience(experience("m-4", 4, "joann@example.org"), label(4, kind="outcome"))
    store.revoke_grant(Revocation("acme", "g-9", moment(9), ANN, ""))
    return store


def notes(store: Store, number: int) -> list[str]:
    return [one.note for one in store.list_labels(decision_id(number))]


def test_a_plan_names_what_goes_and_what_stays(filled: Store) -> None:
    plan = filled.plan_erasure("acme", ANN)

    assert plan.decision_ids == (decision_id(1), decision_id(2))
    assert plan.counts == {
        "records": 2,
        "grants": 1,
        "experiences": 1,
        "notes": 1,
        "approvals": 0,
        "votes": 0,
    }
    assert plan.open_parts == 2
    assert dict(plan.kept) == {
        "record.request_id": 1,
        "record.context_ref": 1,
        "label.by": 1,
        "revocation": 1,
    }
    assert plan.next_seq is None
    # A plan changes nothing.
    assert filled.plan_erasure("acme", ANN) == plan
    assert filled.plan_erasure("acme", "nobody@example.org").is_empty


def test_an_identifier_is_erased_wherever_it_can_be(filled: Store) -> None:
    version = filled.memory_version("acme")

    assert filled.erase_planned(filled.plan_erasure("acme", ANN), **AUTHOR) == 2
    assert {one.decision_id[-1] for one in filled.find_records() if one.sealed is None} == {
        "1",
        "2",
    }
    assert (notes(filled, 1), notes(filled, 3), notes(filled, 5)) == (["", ""], ["", ""], [ANN])
    assert [one.memory_id for one in filled.list_experiences("acme", moment(0))] == ["m-4"]
    assert filled.memory_version("acme") != version
    # The grants of an erased record go as well, whosoever they name.
    assert filled.list_grants("acme") == []
    kept = filled.plan_erasure("acme", ANN)
    assert (kept.counts["records"], kept.counts["notes"], kept.open_parts) == (0, 0, 2)
    assert not kept.is_empty
    found = verify_chain(filled.backend, "acme")
    assert found.holds
    assert [(one.records, dict(one.others)) for one in found.chains[0].let_go] == [
        (2, {}),
        (0, {"grants": 1, "experiences": 1, "notes": 1}),
    ]


def test_the_events_say_who_and_why_and_name_nobody(filled: Store) -> None:
    filled.erase_identifier("acme", ANN, **AUTHOR)
    events = [read_event(row) for row in filled.backend.read_events("acme")]

    assert [(one.by, one.reason) for one in events] == [("dpo", "request 12")] * 2
    assert all(ANN not in str(one.what) for one in events)
    assert list(filled.backend.read_events("zoo")) == []


def test_a_person_in_an_event_stays_and_is_counted(filled: Store) -> None:
    filled.erase_identifier("acme", "user:eve", by=ANN, reason="she asked")

    assert filled.plan_erasure("acme", ANN).kept["event"] == 1


def test_erasing_nothing_leaves_no_event(filled: Store) -> None:
    assert filled.erase_identifier("acme", "nobody@example.org", **AUTHOR) == 0
    assert list(filled.backend.read_events("acme")) == []
    for author in ({"by": "", "reason": "x"}, {"by": "x", "reason": " "}):
        with pytest.raises(InputError):
            filled.erase_identifier("acme", ANN, **author)


def test_a_search_in_parts_finds_the_same(filled: Store) -> None:
    whole = filled.plan_erasure("acme", ANN)
    first, parts = 1, []
    while True:
        part = filled.plan_erasure("acme", ANN, first=first, limit=1)
        parts.append(part)
        if part.next_seq is None:
            break
        first = part.next_seq

    assert len(parts) == 4
    assert tuple(name for part in parts for name in part.decision_ids) == whole.decision_ids
    assert sum(part.open_parts for part in parts) == whole.open_parts
    assert all(not part.others for part in parts[:-1])
    assert parts[-1].others == whole.others


def test_a_search_begins_after_what_was_retired(filled: Store) -> None:
    filled.retire_records("acme", moment(3), **AUTHOR)

    plan = filled.plan_erasure("acme", ANN, limit=2)

    assert (plan.decision_ids, plan.open_parts, plan.next_seq) == ((), 1, 5)


def test_grants_that_came_with_an_erased_record_go_with_it(filled: Store) -> None:
    filled.erase_identifier("acme", "user:eve", **AUTHOR)

    assert {one.grant_id for one in filled.list_grants("acme")} == {"g-2", "g-3"}
    assert notes(filled, 1) == ["", ""]
    assert notes(filled, 3) == [f"asked {ANN}", ""]


@pytest.mark.parametrize(
    ("identifier", "document", "fields"),
    [
        ('o"neil', {"name": 'Mr O"Neil'}, ("name",)),
        ("Öztürk", {"name": "ÖZTÜRK", "other": 1}, ("name",)),
        ("4711", {"a": 4711, "b": 14711, "c": "no 4711."}, ("a", "c")),
        ("ann", {"ann": 1, "x": [{"y": ["Ann"]}], "z": "joann"}, ("ann", "x")),
        ("a\\b", {"x": "a\\b"}, ("x",)),
    ],
)
def test_fields_that_hold_an_identifier_are_named(
    identifier: str, document: dict[str, Any], fields: tuple[str, ...]
) -> None:
    assert IdentifierSearch(identifier).find_fields(msgspec.json.encode(document)) == fields


@pytest.mark.parametrize("identifier", ["", "  a ", "ab", "x" * 501])
def test_an_identifier_has_a_length(identifier: str) -> None:
    with pytest.raises(InputError):
        IdentifierSearch(identifier)


def test_a_document_that_is_no_json_is_searched_as_text() -> None:
    assert IdentifierSearch(ANN).find_fields(b'{"broken": ' + ANN.encode()) == ("",)


def test_every_vote_is_searched_and_only_the_note_that_names_somebody_goes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demur.store.erasure._SEARCHED_PAGE", 1)
    store.put(make_record(1))
    insert = insert_statement("approval_votes", ApprovalVote._fields)
    with store.backend._open_write() as execute:
        for person, note in (("bob", "fine"), ("mary", f"asked {ANN}"), ("zoe", ANN)):
            vote = ApprovalVote(decision_id(1), "acme", person, "approve", note, {}, (), moment(2))
            execute(insert, vote.to_columns())
    plan = store.plan_erasure("acme", ANN)

    assert plan.counts["votes"] == 2
    store.erase_planned(plan, **AUTHOR)
    notes_left = {one.person: one.note for one in store.backend.list_votes(decision_id(1))}
    assert notes_left == {"bob": "fine", "mary": "", "zoe": ""}
    [row] = store.backend.read_events("acme")
    assert erased_others(read_event(row)) == {"votes": 2}
    assert store.plan_erasure("acme", "zoe").kept == {"vote.person": 1}


def test_accounts_and_keys_keep_a_name(store: Store) -> None:
    store.add_key(make_key("acme", ["read"], note=f"of {ANN}").key)

    assert store.plan_erasure("acme", ANN).kept == {"key": 1}


def test_what_was_erased_is_gone_from_the_file(tmp_path: Path) -> None:
    secret = "zelda.fitzgerald@example.org"
    with open_store(tmp_path / "records.db") as store:
        store.put(make_record(1, sealed={"facts": {"evidence.email": secret}}))
        store.put(make_record(2), grants=granted("g-2", 2, granted_to=secret))
        store.add_label(label(1, note=f"asked {secret}"))
        store.add_experience(experience("m-2", 2, f"{secret} called"), label(2, kind="outcome"))
        store.erase_identifier("acme", secret, **AUTHOR)

        for file in tmp_path.iterdir():
            assert secret.encode() not in file.read_bytes(), file
