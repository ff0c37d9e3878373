"""What waits for a person: which refusals begin a request, whose own it is, and what is due."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from support.gates import (
    CORE,
    NOON,
    POLICY,
    cleanup,
    finding,
    gate_over,
    grant,
    opened,
    refund,
    stored,
)

from demur.gate.approvals import (
    ApprovalSettings,
    DueStep,
    describe_next_step,
    find_due,
    is_own_request,
    is_settled,
)
from demur.gate.clock import format_timestamp
from demur.gate.config import Config, load_config
from demur.gate.gate import Gate
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.policy.policy import Mode, Policy
from demur.store.rows import ApprovalRow

LARGE = refund(900)
SCOPE = {"action": "refund"}


def several(number: int) -> Policy:
    return parse_policy(
        f"""
schema_version: policy.v1
policy_id: several
policy_version: 1.0.0
rules:
  - id: R_LIMIT
    stage: ESCALATIONS
    if: {{action_type: refund}}
    then: {{verdict: ESCALATE, reason_codes: [APPROVAL_REQUIRED], approvals: {number}}}
""",
        registry=CORE,
    )


def waiting(gate: Gate) -> list[ApprovalRow]:
    return stored(gate).list_approvals(state="waiting")


def test_a_refusal_that_people_can_lift_begins_a_request() -> None:
    with opened(approvals=ApprovalSettings(expires_s=60, groups=("desk", "leads"))) as gate:
        record = gate.decide(LARGE)
        [row] = waiting(gate)

    assert row == ApprovalRow(
        decision_id=record.decision_id,
        tenant="default",
        action_type="refund",
        reason_codes=("REFUND_OVER_ESCALATION_LIMIT",),
        kinds=("approval",),
        needed=1,
        requested_at=record.created_at,
        expires_at=format_timestamp(NOON + timedelta(seconds=60)),
        group_name="desk",
    )


def test_the_row_says_how_many_people_are_needed() -> None:
    with opened(several(3)) as gate:
        record = gate.decide(LARGE)

        assert record.approvals == 3
        assert [row.needed for row in waiting(gate)] == [3]


@pytest.mark.parametrize(
    ("request_", "more"),
    [
        (refund(20), {}),
        (refund(900, subject=None), {}),
        (refund(900), {"findings": [finding("RCE_RISK")]}),
        (refund(900), {"findings": [finding("GUARDRAIL_UNAVAILABLE")]}),
        (refund(900), {"findings": [finding("AUTHORIZATION_MISSING")]}),
        (refund(900), {"findings": [finding("RATE_LIMIT")]}),
        (refund(900, evidence={}), {}),
        (refund(900, evidence={"chargeback_risk": 0.95, "ticket_id": "T"}), {}),
        (cleanup(), {}),
        (refund(900), {"grants": [grant(SCOPE)]}),
    ],
)
def test_nobody_is_asked_about_what_they_cannot_lift(
    request_: dict[str, Any], more: dict[str, Any]
) -> None:
    """INVARIANT: nobody is asked about what they cannot lift."""
    with opened() as gate:
        gate.decide(request_, **more)

        assert waiting(gate) == []


def test_a_soft_code_beside_waits_where_constraints_can_bind_it() -> None:
    with opened() as gate:
        gate.decide(cleanup(), findings=[finding("UNVERIFIED_TOOL")])

        assert [row.reason_codes for row in waiting(gate)] == [("UNVERIFIED_TOOL",)]
        assert [row.kinds for row in waiting(gate)] == [("tool",)]


def test_advisory_decisions_wait_for_nobody() -> None:
    with opened(mode=Mode.ADVISORY) as gate:
        gate.decide(LARGE)

        assert waiting(gate) == []


def test_a_gate_without_a_store_asks_nobody() -> None:
    assert gate_over(None).decide(LARGE).verdict == "ESCALATE"


def test_decisions_made_together_begin_requests_too() -> None:
    with opened() as gate:
        gate.decide_many([LARGE, refund(20), LARGE])

        assert len(waiting(gate)) == 2


def test_a_resolution_by_other_means_ends_the_request() -> None:
    with opened() as gate:
        first = gate.decide(LARGE)
        nothing = gate.resolve(first.decision_id, grants=[grant({"action": "payout"})])
        assert (nothing.verdict, len(waiting(gate))) == ("ESCALATE", 1)
        after = gate.resolve(first.decision_id, grants=[grant(SCOPE)])
        row = stored(gate).get_approval(first.decision_id)

    assert row is not None
    assert (row.state, row.closed_by, row.resolution_id) == (
        "approved",
        "user:mary",
        after.decision_id,
    )


def made_by(subject: dict[str, Any] | None, **more: Any) -> DecisionRecord:
    return gate_over(None).decide(refund(900, subject=subject, **more))


@pytest.mark.parametrize(
    ("record", "is_own"),
    [
        (made_by({"type": "user", "id": "ada"}), True),
        (made_by({"type": "person", "id": "Ada "}), True),
        (made_by({"id": "ADA"}), True),
        (made_by({"type": "agent", "id": "billing", "on_behalf_of": "user:ada"}), True),
        (made_by({"type": "agent", "id": "billing"}, context={"user": {"id": "ada"}}), True),
        (made_by({"type": "agent", "id": "billing"}, evidence={"requested_by": "ada"}), True),
        (made_by({"type": "user", "id": "\uff21da"}), True),
        (made_by({"type": "agent", "id": "billing"}, context={"user": "a\u200bda"}), True),
        (made_by({"type": "agent", "id": "billing", "on_behalf_of": ["bo", "ada"]}), True),
        (made_by({"type": "agent", "id": "billing"}, context={"user": {"email": "ADA"}}), True),
        (made_by({"type": "agent", "id": "adamant"}), False),
        (made_by({"type": "agent", "id": "billing"}, evidence={"requested_by": 7}), False),
        (made_by(None), False),
    ],
)
def test_whose_own_request_it_is(record: DecisionRecord, is_own: bool) -> None:
    assert is_own_request("ada", record) is is_own


def test_an_erased_request_is_nobodys_own() -> None:
    record = msgspec.structs.replace(made_by({"type": "user", "id": "ada"}), sealed=None)

    assert is_own_request("ada", record) is False


def row_at(minutes: float, **fields: Any) -> ApprovalRow:
    row = ApprovalRow(
        decision_id="d",
        tenant="acme",
        action_type="refund",
        reason_codes=("APPROVAL_REQUIRED",),
        kinds=("approval",),
        needed=1,
        requested_at=format_timestamp(NOON - timedelta(minutes=minutes)),
        expires_at=format_timestamp(NOON + timedelta(hours=1)),
        group_name="desk",
    )
    return row._replace(**fields)


STEPS = ApprovalSettings(groups=("desk", "leads", "board"), escalate_after_s=600)


@pytest.mark.parametrize(
    ("row", "due"),
    [
        (row_at(0), None),
        (row_at(9.9), None),
        (row_at(10), ("escalate", "leads")),
        (row_at(25), ("escalate", "board")),
        (row_at(1000), ("escalate", "board")),
        (row_at(1000, group_name="board"), None),
        (row_at(15, group_name="leads"), None),
        (row_at(15, group_name=""), None),
        (row_at(15, group_name="others"), None),
        (row_at(15, expires_at=format_timestamp(NOON)), ("expire", "")),
        (row_at(15, state="declined", expires_at=format_timestamp(NOON)), None),
        (row_at(15, state="approved", closed_at=format_timestamp(NOON)), None),
        (
            row_at(15, state="approved", closed_at=format_timestamp(NOON - timedelta(seconds=9))),
            ("resolve", ""),
        ),
        (row_at(15, state="approved", closed_at="2026", resolution_id="r"), None),
    ],
)
def test_what_is_due_follows_from_rows_and_time(
    row: ApprovalRow, due: tuple[Any, str] | None
) -> None:
    expected = [] if due is None else [DueStep(row, *due)]

    assert list(find_due([row], NOON, STEPS)) == expected


def test_without_a_time_to_escalate_nothing_moves() -> None:
    assert list(find_due([row_at(1000)], NOON, ApprovalSettings(groups=("desk", "leads")))) == []


def test_an_approval_is_settled_once_its_resolution_is_there() -> None:
    closed = row_at(1, state="approved")

    assert not is_settled(row_at(1))
    assert not is_settled(closed)
    assert describe_next_step(closed) == "Nobody has decided yet: wait again."
    assert is_settled(closed._replace(resolution_id="d2"))
    assert "continues: d2" in describe_next_step(closed._replace(resolution_id="d2"))
    assert is_settled(row_at(1, state="declined"))
    assert "said no" in describe_next_step(row_at(1, state="declined"))
    assert "in time" in describe_next_step(row_at(1, state="expired"))


def test_settings_come_from_the_file(tmp_path: Any) -> None:
    path = tmp_path / "demur.toml"
    path.write_text('[approvals]\nexpires_s = 60\ngroups = ["desk"]\nescalate_after_s = 5\n')

    assert load_config(path).approvals == ApprovalSettings(
        expires_s=60, groups=("desk",), escalate_after_s=5
    )
    assert Config().approvals.expires_s == 86_400


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("expires_s = 0", "expires_s"),
        ('groups = ["a b"]', "groups"),
        ('groups = ["a", "a"]', "names a group twice"),
        ("expire = 5", "unknown setting `expire`"),
    ],
)
def test_wrong_settings_name_the_place(tmp_path: Any, line: str, problem: str) -> None:
    path = tmp_path / "demur.toml"
    path.write_text(f"[approvals]\n{line}\n")

    with pytest.raises(ValueError, match=problem) as caught:
        load_config(path)
    assert "approvals" in str(caught.value)


def test_the_policy_is_the_same_whether_or_not_it_waits() -> None:
    with opened(POLICY) as one, opened(POLICY, approvals=STEPS) as other:
        assert one.decide(LARGE).open_bytes() == other.decide(LARGE).open_bytes()
