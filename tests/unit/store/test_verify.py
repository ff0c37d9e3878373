import json
from collections.abc import Callable
from typing import Any

import pytest
from support.store_records import DIGEST, decision_id, make_record, moment

from demur.errors import InputError
from demur.store.events import ChainEvent, link_event
from demur.store.rows import ChainHead, LinkedRow, genesis_head, link_hash
from demur.store.store import Store
from demur.store.verify import (
    ChainBreak,
    ChainSummary,
    ChainVerification,
    LetGo,
    heads_document,
    read_heads,
    verify_chain,
)

Tamper = Callable[..., int]
LENGTH = 5
NO_BEGINNING = "the beginning is missing: no event retired the records up to here"


@pytest.fixture
def filled(store: Store) -> Store:
    """Return a store with a chain of five, and one of another tenant."""
    store.put_many([make_record(n, request_id=f"r-{n}") for n in range(1, LENGTH + 1)])
    store.put(make_record(9, tenant="other"))
    return store


def found(store: Store, **settings: Any) -> ChainBreak:
    [only] = verify_chain(store.backend, **settings).breaks
    return only


def test_an_untouched_store_holds(filled: Store) -> None:
    chains = (
        ChainSummary("acme", 1, 5, records=5, events=0, erased=0, let_go=()),
        ChainSummary("other", 1, 1, records=1, events=0, erased=0, let_go=()),
    )
    assert verify_chain(filled.backend) == ChainVerification(2, 6, 0, 0, (), 0, chains)
    assert verify_chain(filled.backend, "other").records == 1
    assert verify_chain(filled.backend).holds
    assert verify_chain(filled.backend, "nobody")[:5] == (1, 0, 0, 0, ())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("record = replace(record, '400', '401')", "hash differs"),
        ("record = record || ' '", "hash differs"),
        ("record = CAST(x'ff' AS TEXT)", "hash differs"),
        ("record_hash = 'sha256:0'", "hash differs"),
        ("previous_hash = 'sha256:0'", "does not follow"),
        ("sealed = replace(sealed, 'ada', 'eve')", "the seal does not hold"),
        ("sealed = 'no json'", "the seal does not hold"),
        ("sealed = NULL", "column differs from the record: `subject`"),
        ("created_at = '2020-01-01T00:00:00.000Z'", "column differs from the record: `created_at`"),
        ("request_id = 'r-99'", "column differs from the record: `request_id`"),
        ("root_id = 'x'", "column differs from the record: `root_id`"),
        ("subject = 'user:eve'", "column differs from the record: `subject`"),
        ("verdict = 'ALLOW'", "column differs from the record: `verdict`"),
        ("decision_output = 'ALLOW_EXECUTE'", "column differs from the record: `decision_output`"),
        ("refusal_class = NULL", "column differs from the record: `refusal_class`"),
        ("action_type = CAST(x'fffe' AS TEXT)", "column differs from the record: `action_type`"),
        ("amount_value = 400.5", "column differs from the record: `amount_value`"),
        ("amount_currency = 'EUR'", "column differs from the record: `amount_currency`"),
        ("reason_codes = '[]'", "column differs from the record: `reason_codes`"),
        ("reason_codes = 'no json'", "column differs from the record: `reason_codes`"),
        ("policy_digest = ''", "column differs from the record: `policy_digest`"),
        ("registry_digest = ''", "column differs from the record: `registry_digest`"),
        (
            "verdict = 'ALLOW', amount_value = 1",
            "differs from the record: `verdict`, `amount_value`",
        ),
        ("decision_id = 'someone-else'", "hash differs"),
        ("decision_id = CAST(x'ff' AS TEXT)", "hash differs"),
    ],
)
def test_any_change_names_the_record(
    filled: Store, tamper: Tamper, change: str, problem: str
) -> None:
    assert tamper(f"UPDATE decision_records SET {change} WHERE seq = 3 AND tenant = 'acme'") == 1  # noqa: S608 - ours
    broken = found(filled)

    assert (broken.tenant, broken.seq) == ("acme", 3)
    assert problem in broken.problem
    if not change.startswith("decision_id"):
        assert broken.decision_id == decision_id(3)


@pytest.mark.parametrize("change", ["tenant = 'other'", "seq = 77", "seq = 'x'", "seq = 2.5"])
def test_a_record_that_is_moved_is_missed(filled: Store, tamper: Tamper, change: str) -> None:
    tamper(f"UPDATE decision_records SET {change} WHERE seq = 3 AND tenant = 'acme'")  # noqa: S608 - ours
    first = verify_chain(filled.backend).breaks[0]

    assert first[:3] == ("acme", 3, None)
    assert "is missing" in first.problem


def test_a_deleted_record_is_missed(filled: Store, tamper: Tamper) -> None:
    tamper("DELETE FROM decision_records WHERE seq = 3")

    assert found(filled) == ChainBreak("acme", 3, None, "is missing: 4 comes next")


def test_two_swapped_records_are_found(filled: Store, tamper: Tamper) -> None:
    for old, new in ((2, 90), (3, 2), (90, 3)):
        tamper("UPDATE decision_records SET seq = ? WHERE seq = ? AND tenant = 'acme'", new, old)

    assert found(filled)[:3] == ("acme", 2, decision_id(3))


def test_a_cut_end_is_found_by_the_stored_head(filled: Store, tamper: Tamper) -> None:
    tamper("DELETE FROM decision_records WHERE tenant = 'acme' AND seq > 3")

    assert found(filled) == ChainBreak("acme", 4, None, "truncated: the stored head is at 5")


def cut(store: Store, tamper: Tamper, length: int) -> None:
    """Make a shorter chain that holds in itself."""
    [row] = store.backend.read_chain("acme", length, length)
    tamper("DELETE FROM decision_records WHERE tenant = 'acme' AND seq > ?", length)
    tamper(
        "UPDATE chain_heads SET seq = ?, record_hash = ? WHERE tenant = 'acme'", length, row.hash
    )


def test_a_cut_end_with_a_forged_head_is_found_by_an_exported_one(
    filled: Store, tamper: Tamper
) -> None:
    heads = filled.list_heads()
    cut(filled, tamper, 3)

    assert verify_chain(filled.backend).holds
    assert found(filled, heads=heads) == ChainBreak(
        "acme", 4, None, "truncated: an exported head is at 5"
    )


def test_a_cut_end_with_a_forged_head_is_found_by_a_checkpoint(
    filled: Store, tamper: Tamper
) -> None:
    filled.save_checkpoint(moment(50))
    cut(filled, tamper, 3)

    assert found(filled).problem == f"truncated: the checkpoint of {moment(50)} is at 5"


def test_an_end_that_was_written_anew_is_found(filled: Store, tamper: Tamper) -> None:
    heads = filled.list_heads()
    cut(filled, tamper, 4)
    filled.put(make_record(60))

    assert verify_chain(filled.backend).holds
    assert found(filled, heads=heads) == ChainBreak(
        "acme", 5, decision_id(60), "an exported head has another hash"
    )


def test_a_tenant_that_vanished_is_found_by_an_exported_head(filled: Store, tamper: Tamper) -> None:
    heads = filled.list_heads()
    tamper("DELETE FROM decision_records WHERE tenant = 'other'")
    tamper("DELETE FROM chain_heads WHERE tenant = 'other'")

    assert verify_chain(filled.backend).holds
    assert found(filled, heads=heads)[:2] == ("other", 1)


def test_a_forged_head_is_found(filled: Store, tamper: Tamper) -> None:
    tamper("UPDATE chain_heads SET record_hash = 'x' WHERE tenant = 'acme'")

    assert found(filled) == ChainBreak(
        "acme", 5, decision_id(5), "the stored head has another hash"
    )


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM chain_heads WHERE tenant = 'acme'", "UPDATE chain_heads SET seq = 0"],
)
def test_a_head_that_is_behind_is_found(filled: Store, tamper: Tamper, statement: str) -> None:
    tamper(statement)
    first = verify_chain(filled.backend).breaks[0]

    assert first[:2] in {("acme", 0), ("acme", 1)}


def test_a_record_that_is_no_record_is_found_though_its_hash_holds(
    filled: Store, tamper: Tamper
) -> None:
    head = filled.list_heads()[1]
    forged = link_hash(head, "01K", b"[]")
    columns = "created_at, verdict, decision_output, action_type, reason_codes, policy_digest"
    tamper(
        f"INSERT INTO decision_records ({columns}, registry_digest, tenant, seq, decision_id, "  # noqa: S608 - ours
        "record, previous_hash, record_hash) VALUES ('', '', '', '', '[]', '', '', "
        "'other', 2, '01K', '[]', ?, ?)",
        head.hash,
        forged,
    )
    tamper("UPDATE chain_heads SET seq = 2, record_hash = ? WHERE tenant = 'other'", forged)

    assert found(filled)[:3] == ("other", 2, "01K")
    assert "not a decision record" in found(filled).problem


def test_a_part_of_a_chain_can_be_verified(filled: Store, tamper: Tamper) -> None:
    tamper("UPDATE decision_records SET verdict = 'ALLOW' WHERE seq = 2")

    assert verify_chain(filled.backend, "acme", first=3).records == 3
    assert verify_chain(filled.backend, "acme", first=3, last=4).records == 2
    assert verify_chain(filled.backend, "acme", first=3).holds
    assert verify_chain(filled.backend, "acme", last=1).holds
    assert found(filled, tenant="acme", first=2).seq == 2


def test_a_part_begins_where_the_record_before_it_ends(filled: Store, tamper: Tamper) -> None:
    tamper("UPDATE decision_records SET record_hash = 'x' WHERE seq = 2 AND tenant = 'acme'")
    assert found(filled, tenant="acme", first=3) == ChainBreak(
        "acme", 3, decision_id(3), "does not follow the link before it"
    )

    tamper("DELETE FROM decision_records WHERE seq = 2")
    assert found(filled, tenant="acme", first=3) == ChainBreak("acme", 2, None, "is missing")


def test_erasure_keeps_the_chain(filled: Store) -> None:
    filled.erase_subject("acme", "user:ada", by="ops", reason="test")

    assert verify_chain(filled.backend)[:6] == (2, 6, 5, 0, (), 1)


def test_unconfirmed_records_are_counted(filled: Store) -> None:
    assert filled.backend.mark_unconfirmed([decision_id(1)]) == []

    assert verify_chain(filled.backend).unconfirmed == 1


def test_retirement_keeps_the_chain_and_what_is_known_of_its_ends(filled: Store) -> None:
    early = [ChainHead("acme", 1, DIGEST), *filled.list_heads()]
    filled.save_checkpoint(moment(50))
    filled.retire_records("acme", moment(4), by="ops", reason="test")

    checked = verify_chain(filled.backend, heads=early[1:])
    assert (checked.records, checked.breaks) == (3, ())
    filled.retire_records("acme", moment(99), by="ops", reason="test")
    assert verify_chain(filled.backend, heads=early[1:]).holds


def test_an_exported_end_that_was_retired_is_not_taken_for_checked(filled: Store) -> None:
    filled.retire_records("acme", moment(4), by="ops", reason="test")
    [broken] = verify_chain(filled.backend, heads=[ChainHead("acme", 1, DIGEST)]).breaks

    assert (broken.tenant, broken.seq) == ("acme", 1)
    assert "cannot be checked: the chain now begins after 3" in broken.problem


def test_a_forged_beginning_is_found(filled: Store, tamper: Tamper) -> None:
    filled.retire_records("acme", moment(4), by="ops", reason="test")
    tamper("UPDATE chain_anchors SET record_hash = 'x'")
    assert found(filled) == ChainBreak("acme", 3, None, NO_BEGINNING)

    tamper("DELETE FROM chain_anchors")
    assert found(filled) == ChainBreak(
        "acme", 3, None, "the event at 6 retired the records up to here, and they are back"
    )


def test_records_deleted_behind_a_forged_anchor_are_missed(filled: Store, tamper: Tamper) -> None:
    [row] = filled.backend.read_chain("acme", 3, 3)
    tamper("DELETE FROM decision_records WHERE tenant = 'acme' AND seq <= 3")
    tamper("INSERT INTO chain_anchors VALUES ('acme', 3, ?, '2027-01-01')", row.hash)

    assert found(filled) == ChainBreak("acme", 3, None, NO_BEGINNING)


def test_a_sealed_part_that_no_event_erased_is_missed(filled: Store, tamper: Tamper) -> None:
    tamper("UPDATE decision_records SET sealed = NULL, subject = NULL WHERE seq = 3")

    assert found(filled) == ChainBreak(
        "acme", 3, decision_id(3), "the sealed part is missing: no event erased it"
    )


def test_a_sealed_part_that_comes_back_is_found(filled: Store, tamper: Tamper) -> None:
    [row] = filled.backend.read_chain("acme", 3, 3)
    filled.erase_subject("acme", "user:ada", by="ops", reason="test")
    assert row.sealed is not None
    tamper(
        "UPDATE decision_records SET sealed = ?, subject = 'user:ada' WHERE seq = 3",
        row.sealed.decode(),
    )

    assert found(filled).problem == "the event at 6 erased the sealed part, and it is back"


def test_a_record_that_is_put_before_the_beginning_is_found(filled: Store, tamper: Tamper) -> None:
    filled.retire_records("acme", moment(4), by="ops", reason="test")
    tamper("UPDATE decision_records SET tenant = 'acme', seq = 2 WHERE tenant = 'other'")

    broken = verify_chain(filled.backend, "acme").breaks[0]
    assert (broken.seq, broken.decision_id) == (2, decision_id(9))
    assert "stands before the beginning" in broken.problem


def test_a_verification_says_where_a_chain_begins_and_what_was_let_go(filled: Store) -> None:
    filled.backend.erase_records(
        "acme", [decision_id(4)], by="dpo", reason="request 12", now=moment(60)
    )
    filled.backend.retire_records(
        "acme", moment(4), by="cron", reason="a year is over", now=moment(70)
    )
    checked = verify_chain(filled.backend)

    assert (checked.holds, checked.records, checked.events) == (True, 3, 2)
    assert checked.chains[0] == ChainSummary(
        "acme",
        begins=4,
        ends=7,
        records=2,
        events=2,
        erased=1,
        let_go=(
            LetGo("erase", 6, moment(60), "dpo", "request 12", 1),
            LetGo("retire", 7, moment(70), "cron", "a year is over", 3, 3),
        ),
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("event = replace(event, 'cron', 'eve')", "event: hash differs"),
        ("event = event || ' '", "event: hash differs"),
        ("event_hash = 'sha256:0'", "event: hash differs"),
        ("previous_hash = 'sha256:0'", "event: hash differs"),
        ("by = 'eve'", "event: column differs"),
        ("reason = ''", "event: column differs"),
        ("kind = 'erase'", "event: column differs"),
        ("created_at = ''", "event: column differs"),
    ],
)
def test_any_change_of_an_event_is_found(
    filled: Store, tamper: Tamper, change: str, problem: str
) -> None:
    filled.retire_records("acme", moment(4), by="cron", reason="a year is over")
    tamper(f"UPDATE chain_events SET {change}")  # noqa: S608 - ours

    assert (found(filled).tenant, found(filled).seq) == ("acme", 6)
    assert problem in found(filled).problem


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("erase", {"decisions": 7}),
        ("erase", {"decisions": {"a": [1]}}),
        ("retire", {"events": 7, "records": "many"}),
        ("retire", {"last": "3", "hash": DIGEST, "events": [[1], {"seq": [1]}]}),
    ],
)
def test_an_event_of_another_shape_lets_nothing_go(
    filled: Store, kind: str, what: dict[str, Any]
) -> None:
    filled.backend.append_event("acme", kind, what, by="mallory", reason="test")
    checked = verify_chain(filled.backend, "acme")

    assert (checked.breaks, checked.records, checked.events) == ((), LENGTH, 1)
    [let_go] = checked.chains[0].let_go
    assert (let_go.by, let_go.records, let_go.last) == ("mallory", 0, None)


@pytest.mark.parametrize("change", ["seq = 'x'", "seq = 9", "tenant = 'other'"])
def test_an_event_that_is_moved_is_missed(filled: Store, tamper: Tamper, change: str) -> None:
    filled.retire_records("acme", moment(4), by="cron", reason="a year is over")
    tamper(f"UPDATE chain_events SET {change}")  # noqa: S608 - ours

    assert not verify_chain(filled.backend).holds


def test_events_among_retired_records_stay_and_are_vouched_for(
    filled: Store, tamper: Tamper
) -> None:
    filled.erase_subject("acme", "user:ada", by="dpo", reason="request 12")
    filled.put(make_record(20))
    filled.retire_records("acme", moment(4), by="cron", reason="first")
    filled.put(make_record(30))
    filled.retire_records("acme", moment(25), by="cron", reason="second")
    checked = verify_chain(filled.backend)

    assert checked.breaks == ()
    assert [one.seq for one in checked.chains[0].let_go] == [6, 8, 10]
    tamper("DELETE FROM chain_events WHERE seq = 6")
    assert found(filled) == ChainBreak("acme", 6, None, "event: is missing")


def test_a_forged_event_before_the_beginning_is_found(filled: Store, tamper: Tamper) -> None:
    filled.retire_records("acme", moment(4), by="cron", reason="first")
    forged = link_event(
        ChainHead("acme", 1, DIGEST),
        ChainEvent(
            kind="erase",
            tenant="acme",
            created_at=moment(1),
            by="eve",
            reason="none",
            what={"decisions": [decision_id(4)]},
        ),
    )
    values = (*forged[:6], forged.event.decode(), *forged[7:])
    tamper("INSERT INTO chain_events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *values)

    assert found(filled) == ChainBreak("acme", 2, None, "event: no later event names it as kept")


def test_a_part_may_begin_after_an_event(filled: Store) -> None:
    filled.retire_records("acme", moment(4), by="cron", reason="first")
    filled.put(make_record(20))

    assert verify_chain(filled.backend, "acme", first=7)[:2] == (1, 1)
    assert verify_chain(filled.backend, "acme", first=7).holds


def test_an_anchor_that_contradicts_a_known_end_is_found(filled: Store, tamper: Tamper) -> None:
    heads = filled.list_heads()
    filled.retire_records("acme", moment(99), by="ops", reason="test")
    tamper("UPDATE chain_anchors SET record_hash = 'x'")

    assert found(filled, heads=heads)[:3] == ("acme", 5, None)


def test_records_that_are_retired_meanwhile_are_not_missed(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = filled.backend.read_linked

    def slowly(tenant: str, first: int, last: int | None) -> Any:
        filled.retire_records("acme", moment(3), by="ops", reason="test")
        return linked(tenant, first, last)

    monkeypatch.setattr(filled.backend, "read_linked", slowly)
    assert verify_chain(filled.backend, "acme")[:6] == (1, 3, 0, 0, (), 1)


def test_records_that_are_added_meanwhile_are_no_break(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = filled.backend.read_linked
    more = iter([make_record(70)])

    def busily(tenant: str, first: int, last: int | None) -> Any:
        for record in more:
            filled.put(record)
        return linked(tenant, first, last)

    monkeypatch.setattr(filled.backend, "read_linked", busily)
    assert verify_chain(filled.backend, "acme")[:5] == (1, 6, 0, 0, ())


def test_a_linked_row_holds_every_column(filled: Store) -> None:
    [row] = filled.backend.read_linked("other", 1, 1)

    assert isinstance(row, LinkedRow)
    assert (row.seq, row.previous, row.confirmed) == (1, genesis_head("other").hash, True)
    assert row.row.reason_codes == ("REFUND_OVER_ESCALATION_LIMIT",)


HEADS = [ChainHead("acme", 3, DIGEST), ChainHead("other", 0, DIGEST)]


def test_heads_come_back_from_a_file() -> None:
    document = json.loads(json.dumps(heads_document(HEADS, moment(1))))

    assert document["schema_version"] == "chain_heads.v1"
    assert document["created_at"] == moment(1)
    assert read_heads(document) == HEADS


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"schema_version": "chain_heads.v2", "created_at": "", "heads": []},
        {"schema_version": "chain_heads.v1", "created_at": "", "heads": [["acme", 1, DIGEST]]},
        heads_document([ChainHead("acme", -1, DIGEST)], ""),
        heads_document([ChainHead("acme", 1, "abc")], ""),
        {**heads_document(HEADS, ""), "more": 1},
    ],
)
def test_a_malformed_heads_document_is_refused(document: object) -> None:
    with pytest.raises(InputError, match="no exported heads"):
        read_heads(document)
