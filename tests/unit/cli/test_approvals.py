"""People decide in a terminal: list, show, approve, decline, wait, and what is due."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_line import demur

from demur.gate.clock import format_timestamp, system_clock
from demur.service.people import Passwords, make_person
from demur.store.opening import open_store

PASSWORD = "a sentence that mary knows"
POLICY = """
schema_version: policy.v1
policy_id: desk
policy_version: 1.0.0
rules:
  - id: R_REFUND
    stage: ESCALATIONS
    if: {action_type: refund}
    then: {verdict: ESCALATE, reason_codes: [APPROVAL_REQUIRED], approvals: NEEDED}
"""
REQUEST: dict[str, Any] = {
    "action": {
        "type": "refund",
        "intent": "the parcel never came",
        "amount": {"value": 900, "currency": "USD"},
    },
    "subject": {"type": "agent", "id": "billing"},
}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with settings, a service key, people, and no decision yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)
    (tmp_path / "demur.toml").write_text("[approvals]\nexpires_s = 3600\n")
    (tmp_path / "policy.yaml").write_text(POLICY.replace("NEEDED", "1"))
    (tmp_path / "request.json").write_text(json.dumps(REQUEST))
    cheap = Passwords(time_cost=1, memory_cost=8, parallelism=1)
    now = format_timestamp(system_clock())
    with open_store(tmp_path / "demur.db") as store:
        for login, role in (("mary", "approver"), ("john", "approver"), ("rita", "reader")):
            person = make_person(
                login, role, tenant="", now=now, password_hash=cheap.hash(PASSWORD)
            )
            store.add_person(person, by="tests", reason="a test", now=now)
    assert demur("people", "init").status == 0
    return tmp_path


def show_request() -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(demur("approvals", "show", "last", "--json").out)
    return shown


def ask() -> dict[str, Any]:
    asked = demur("decide", "request.json", "--json")
    record: dict[str, Any] = json.loads(asked.out)
    return record


@pytest.mark.usefixtures("desk")
def test_the_queue_is_listed_and_shown() -> None:
    empty = demur("approvals", "list")
    assert (empty.status, empty.out) == (0, "nothing waits for a person\n")
    record = ask()
    listed = demur("approvals", "list")
    head, line, more = listed.out.splitlines()
    assert head.split()[:5] == ["DECISION", "TENANT", "ASKED", "BY", "ACTION"]
    assert line.startswith(record["decision_id"])
    for said in ("agent:billing", "refund 900 USD", "APPROVAL_REQUIRED", "0 of 1"):
        assert said in line
    assert "GROUP" not in head
    assert "demur approvals show ID" in more
    [row] = map(json.loads, demur("approvals", "list", "--json").out.splitlines())
    assert (row["state"], row["reason_codes"]) == ("waiting", ["APPROVAL_REQUIRED"])
    assert demur("approvals", "list", "--state", "declined").out == "nothing is in this state\n"
    assert " waiting " not in demur("approvals", "list", "--state", "all").out
    assert show_request()["votes"] == []
    shown = demur("approvals", "show", "last").out
    assert shown.startswith("waiting\n")
    for said in ("refund of 900 USD", "the parcel never came", "agent:billing", "any approver"):
        assert said in shown
    assert f"demur approvals approve {record['decision_id']} --login NAME" in shown
    assert demur("approvals", "show", "nothing").status == 1


@pytest.mark.usefixtures("desk")
def test_the_oldest_request_is_listed_first_and_its_end_is_told() -> None:
    first, second = ask()["decision_id"], ask()["decision_id"]
    lines = demur("approvals", "list").out.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == [first, second]
    words = ("approvals", "decline", first, "--login", "mary", "--note", "no")
    assert demur(*words, stdin=f"{PASSWORD}\n").status == 0
    shown = demur("approvals", "show", first).out
    assert shown.startswith("declined\n")
    assert "person:mary declined: no" in shown
    assert "--login" not in shown
    every = demur("approvals", "list", "--state", "all").out
    assert every.index(second) < every.index(first)
    assert "declined" in every


def test_a_person_approves_by_name_and_password(desk: Path) -> None:
    record = ask()
    words = ("approvals", "approve", "last", "--login", "mary", "--note", "fine")
    wrong = demur(*words, stdin="another sentence\n")
    assert (wrong.status, "wrong password" in wrong.err) == (1, True)
    assert demur(*words, stdin="").status == 1
    done = demur(*words, stdin=f"{PASSWORD}\n")
    assert done.status == 0, done.err
    assert done.out.startswith(f"approved {record['decision_id']}\n  resolved as ")
    again = demur(*words, "--for", "2h", stdin=f"{PASSWORD}\n")
    assert (again.status, "voted before" in again.err) == (1, True)

    waited = demur("approvals", "wait", record["decision_id"], "--seconds", "0")
    assert waited.status == 0
    assert "approved by person:mary: fine" in waited.out
    assert demur("approvals", "wait", "last", "--seconds", "-1").status == 2
    answer = json.loads(demur("approvals", "wait", record["decision_id"], "--json").out)
    (desk / "request.json").write_text(json.dumps({**REQUEST, "continues": answer["continues"]}))
    assert ask()["verdict"] == "ALLOW"
    assert "approval_vote" not in demur("audit", "verify").err


@pytest.mark.usefixtures("desk")
def test_others_may_not() -> None:
    ask()
    reader = demur("approvals", "approve", "last", "--login", "rita", stdin=f"{PASSWORD}\n")
    assert (reader.status, "may not approve" in reader.err) == (1, True)
    nobody = demur("approvals", "decline", "last", "--login", "zoe", stdin=f"{PASSWORD}\n")
    assert (nobody.status, "wrong password" in nobody.err) == (1, True)
    assert "waiting" in demur("approvals", "show", "last").out


@pytest.mark.usefixtures("desk")
def test_a_person_declines_and_who_waits_learns_it() -> None:
    ask()
    done = demur(
        "approvals", "decline", "last", "--login", "mary", "--note", "no", stdin=f"{PASSWORD}\n"
    )
    assert done.out.startswith("declined ")
    waited = demur("approvals", "wait", "last")
    assert waited.status == 3
    assert waited.out.startswith("declined by person:mary: no\n")


def test_two_people_are_needed(desk: Path) -> None:
    (desk / "policy.yaml").write_text(POLICY.replace("NEEDED", "2"))
    record = ask()
    first = demur("approvals", "approve", "last", "--login", "mary", stdin=f"{PASSWORD}\n")
    assert first.out.startswith("noted: 1 of 2, so 1 more must approve")
    waiting = demur("approvals", "wait", record["decision_id"], "--seconds", "0", "--json")
    assert (waiting.status, json.loads(waiting.out)["state"]) == (4, "waiting")
    words = ("approvals", "approve", record["decision_id"], "--login", "john", "--json")
    second = json.loads(demur(*words, stdin=f"{PASSWORD}\n").out)
    assert (second["state"], second["given"]) == ("approved", 2)


@pytest.mark.usefixtures("desk")
def test_limits_of_an_approval_are_checked() -> None:
    ask()
    words = ("approvals", "approve", "last", "--login", "mary")
    assert demur(*words, "--uses", "2").status == 2
    assert demur(*words, "--scope", "--uses", "0").status == 2
    assert demur(*words, "--for", "5s").status == 2
    assert demur(*words, "--for", "60d").status == 2
    done = demur(*words, "--scope", "--uses", "3", "--for", "8h", stdin=f"{PASSWORD}\n")
    assert done.status == 0
    [vote] = show_request()["votes"]
    assert vote["limits"] == {"covers": "scope", "uses": 3, "valid_s": 28800}


def test_what_is_due_is_done_for_cron(desk: Path) -> None:
    record = ask()
    assert demur("approvals", "run-due").out == "nothing is due\n"
    with open_store(desk / "demur.db") as store, store.backend._open_write() as execute:
        execute("UPDATE approvals SET expires_at = :past", {"past": "2020-01-01T00:00:00.000Z"})
    shown = demur("approvals", "show", "last").out
    assert shown.startswith("expired\n")
    assert "Nobody decided in time" in shown
    [step] = map(json.loads, demur("approvals", "run-due", "--json").out.splitlines())
    assert step == {"decision_id": record["decision_id"], "step": "expire", "group": ""}
    assert demur("approvals", "wait", "last").status == 3
