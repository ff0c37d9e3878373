"""A report on a period: the same for the same store, and safe to open and to print."""

import csv
import io
import json
from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.gates import KEY, NOON, RING, gate_over, grant, refund
from support.store_records import decision_id, make_record, moment

from demur.audit.anchors import read_anchor, write_anchor
from demur.audit.period_report import (
    ChainProof,
    PeriodReport,
    build_period_report,
    report_csv,
    report_html,
    report_to_json,
    verify_small_chains,
)
from demur.errors import InputError
from demur.gate.clock import format_timestamp
from demur.store.opening import open_store
from demur.store.rows import Label
from demur.store.store import Store
from demur.store.verify import verify_chain

SINCE, UNTIL = "2000-01-01T00:00:00.000Z", "2100-01-01T00:00:00.000Z"
BAD = '=HYPERLINK("https://evil.example","<script>alert(1)</script>")'


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    place = str(tmp_path / "records.db")
    if request.param == "postgresql":
        place = request.getfixturevalue("postgres_url")
    with open_store(place) as opened:
        yield opened


@pytest.fixture
def filled(store: Store) -> Store:
    """Return a store in which everything happened that a report tells."""
    store.put_many([make_record(number) for number in range(1, 4)])
    store.put(make_record(4, tenant="zoo"))
    store.put(make_record(5, enforced=False, action_type=BAD))
    store.put(
        make_record(
            6,
            resolved_codes=("REFUND_OVER_ESCALATION_LIMIT",),
            lifted_by=("g1",),
            accepted=("at most 100",),
            sealed={"requester": "user:eve", "grants": [msgspec.to_builtins(_recorded())]},
        )
    )
    store.put(make_record(20_000))
    store.add_label(Label(decision_id(1), "acme", moment(7), "review", "good", "", "mary"))
    store.erase_identifier("acme", "user:ada", by="dpo", reason="request 12")
    store.retire_records("acme", moment(2), by="ops", reason="a year is over")
    for number, (by, kind, what) in enumerate(
        (
            ("person:mary", "approval_vote", {"vote": "approve"}),
            ("person:bob", "approval_vote", {"vote": "decline"}),
            ("person:bob", "approval_vote", {"vote": "decline"}),
            ("person:bob", "approval_closed", {"state": "declined"}),
        )
    ):
        now = moment(10 + number)
        store.backend.append_event("acme", kind, what, by=by, reason="seen", now=now)
    store.backend.append_event(
        "acme", "person_changed", {"login": "x"}, by="admin", reason=BAD, now=moment(8)
    )
    return store


def _recorded() -> Any:
    fields = msgspec.to_builtins(grant({"action": "refund"}))
    return {**fields, "signature": "", "digest": "sha256:0"}


def build(store: Store, tenants: tuple[str, ...] = ("acme", "zoo"), **more: Any) -> PeriodReport:
    proof = ChainProof(verify_chain(store.backend))
    # Events of erasing carry the time of the database, which is later than the test's.
    return build_period_report(store, tenants, SINCE, UNTIL, **{"proof": proof, **more})


def rows_of(report: PeriodReport, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report_to_json(report)["tables"][name]
    return found


def test_a_report_counts_the_decisions_of_the_period(filled: Store) -> None:
    report = build_period_report(filled, ("acme", "zoo"), moment(3), moment(10_000))

    summary = {row["what"]: row["count"] for row in rows_of(report, "summary")}
    assert summary["decisions"] == 4
    assert summary["advisory"] == 1
    assert summary["refused, and advisory: the action could run"] == 1
    assert summary["overridden by grants or accepted constraints"] == 1
    assert summary["with inputs erased since"] == 2
    assert rows_of(report, "refusals") == [
        {
            "code": "REFUND_OVER_ESCALATION_LIMIT",
            "class": "WORKFLOW_BLOCK",
            "verdict": "ESCALATE",
            "decisions": 4,
        }
    ]
    assert {row["action"] for row in rows_of(report, "actions")} == {"refund", BAD}
    [policy] = rows_of(report, "policies")
    assert (policy["policy"], policy["version"], policy["decisions"]) == ("support", "1.0.0", 4)
    assert (policy["first"], policy["last"]) == (moment(3), moment(6))
    [engine] = rows_of(report, "registries")
    assert (engine["engine"], engine["registry"]) == ("1.0.0", "1.0.0")


def test_a_report_names_who_approved_judged_and_let_go(filled: Store) -> None:
    report = build(filled)

    [approval] = rows_of(report, "approvals")
    assert approval["granted_by"] == "user:mary"
    assert (approval["kind"], approval["decisions"]) == ("approval", 1)
    [override] = rows_of(report, "overrides")
    assert override["decision"] == decision_id(6)
    assert override["how"] == "approval g1 by user:mary; accepted: at most 100"
    assert rows_of(report, "labels") == [
        {"by": "mary", "kind": "review", "value": "good", "labels": 1}
    ]
    let_go = rows_of(report, "let_go")
    assert [(one["kind"], one["records"], one["by"], one["reason"]) for one in let_go] == [
        ("erase", 5, "dpo", "request 12"),
        ("retire", 1, "ops", "a year is over"),
    ]
    assert [(row["person"], row["vote"], row["votes"]) for row in rows_of(report, "votes")] == [
        ("person:bob", "decline", 2),
        ("person:mary", "approve", 1),
    ]
    assert rows_of(report, "requests") == [{"state": "declined", "requests": 1}]
    events = [(one["kind"], one["by"]) for one in rows_of(report, "events")]
    assert ("person_changed", "admin") in events
    assert len(events) == 5
    # Requesters are nobody's business in a report.
    assert "user:eve" not in json.dumps(report_to_json(report))


def test_an_approval_whose_grant_was_erased_is_counted_without_a_name(filled: Store) -> None:
    filled.erase_identifier("acme", "user:eve", by="dpo", reason="request 13")

    assert rows_of(build(filled), "approvals")[0]["granted_by"] == "(erased)"
    assert rows_of(build(filled), "overrides")[0]["how"].startswith("(erased) g1 by (erased)")


def test_a_report_says_whether_the_chains_are_valid(filled: Store) -> None:
    report = build(filled)
    unverified = build(filled, proof=ChainProof())

    assert report.chains_hold is True
    states = {row["tenant"]: row["state"] for row in rows_of(report, "chains")}
    assert states == {"acme": "verified from 2 to 13", "zoo": "verified from 1 to 1"}
    assert unverified.chains_hold is None
    assert "not verified here" in rows_of(unverified, "chains")[0]["state"]
    assert "were not verified" in report_html(unverified)


def test_a_broken_chain_is_said_with_its_place(tmp_path: Path) -> None:
    with open_store(tmp_path / "records.db") as store:
        store.put_many([make_record(number) for number in range(1, 4)])
        with store.backend._open_write() as execute:
            execute("DROP TRIGGER decision_records_are_not_changed", {})
            execute("UPDATE decision_records SET amount_value = 9 WHERE seq = 2", {})
        report = build(store, ("acme",))

    assert report.chains_hold is False
    assert rows_of(report, "chains")[0]["state"].startswith("broken at 2: column differs")
    assert "A chain is broken." in report_html(report)


def test_short_chains_are_verified_and_long_ones_are_not(filled: Store) -> None:
    small = verify_small_chains(filled, ("acme", "zoo"), 13)
    large = verify_small_chains(filled, ("acme", "zoo"), 12)

    assert small.verification is not None
    assert small.verification.holds
    assert [chain.tenant for chain in small.verification.chains] == ["acme", "zoo"]
    assert large.verification is None


def test_anchors_and_checkpoints_are_listed(filled: Store) -> None:
    filled.save_checkpoint(moment(9))
    line = write_anchor(filled.list_heads(), moment(9), KEY)
    anchor = read_anchor(line, RING)
    ends = list(anchor.anchor.checkpoints)
    proof = ChainProof(verify_chain(filled.backend, anchored=ends), (anchor,))
    report = build(filled, proof=proof)

    assert rows_of(report, "anchors") == [{"time": moment(9), "signed_by": KEY.holder, "heads": 2}]
    assert [row["tenant"] for row in rows_of(report, "checkpoints")] == ["acme", "zoo"]


def test_the_same_store_and_period_give_the_same_report(filled: Store) -> None:
    first, second = build(filled), build(filled)

    assert first == second
    assert report_csv(first) == report_csv(second)
    assert report_html(first) == report_html(second)
    assert report_to_json(first) == report_to_json(second)


def test_a_period_with_too_many_decisions_is_refused(filled: Store) -> None:
    with pytest.raises(InputError, match="more than 2 decisions"):
        build(filled, max_records=2)


def test_no_cell_of_the_csv_is_a_formula(filled: Store) -> None:
    rows = list(csv.reader(io.StringIO(report_csv(build(filled)))))

    assert [f"'{BAD}", "1", "1"] in rows
    assert not [cell for row in rows for cell in row if cell[:1] in {"=", "+", "@", "\t"}]
    names = [row[0] for before, row in pairwise(rows) if not before]
    assert names == [table.name for table in build(filled).tables]


class _Reader(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_the_page_holds_no_script_and_fetches_nothing(filled: Store) -> None:
    page = report_html(build(filled))
    read = _Reader(page)

    assert "&lt;script&gt;alert(1)" in page
    assert not read.tags & {"script", "img", "link", "iframe", "object", "a"}
    assert not read.attributes & {"src", "href", "onerror", "style"}
    assert "default-src" in page
    assert "size: A4" in page
    assert "break-inside: avoid" in page


def test_lists_are_bounded_and_say_so(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demur.audit.period_report.MAX_LISTED", 1)
    report = build(filled)
    tables = {table.name: table for table in report.tables}

    assert len(tables["let_go"].rows) == 1
    assert tables["let_go"].note == "the first 1 of 2"
    assert tables["actions"].note == "the first 1 of 2"


def test_a_report_on_real_decisions_names_the_approver() -> None:
    with gate_over(open_store(":memory:")) as gate:
        refused = gate.decide(refund(400))
        gate.resolve(refused.decision_id, grants=[grant({"action": "refund"})])
        store = gate.store
        assert store is not None
        times = (
            format_timestamp(NOON - timedelta(days=1)),
            format_timestamp(NOON + timedelta(days=1)),
        )
        report = build_period_report(store, store.backend.list_tenants(), *times)

    [approval] = rows_of(report, "approvals")
    assert approval["granted_by"] == KEY.holder
