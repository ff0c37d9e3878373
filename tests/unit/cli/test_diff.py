import json
from pathlib import Path

import pytest
from support.command_line import demur
from support.gates import CORE, TEXT, entropy_of, finding, gate_over, refund

from demur.audit.pack import write_line
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.store.opening import open_store


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[DecisionRecord]:
    """Return what was decided in the working folder; `candidate.yaml` has another limit."""
    monkeypatch.chdir(tmp_path)
    Path("demur.toml").write_text('policy = "policy.yaml"\nstore = "demur.db"\n')
    Path("policy.yaml").write_text(TEXT)
    Path("candidate.yaml").write_text(TEXT.replace("250", "500"))
    with gate_over(open_store("demur.db"), parse_policy(TEXT, registry=CORE)) as gate:
        made = [gate.decide(refund(value)) for value in (20, 300, 400, 900)]
        made.append(gate.decide(refund(400, tenant={"id": "acme"}), findings=[finding()]))
    Path("records.jsonl").write_bytes(b"".join(write_line(one) + b"\n" for one in made))
    return made


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize("where", [[], ["records.jsonl"], ["--config", "demur.toml"]])
def test_the_policy_that_decided_changes_nothing(where: list[str]) -> None:
    ran = demur("diff", *where, "--policy", "policy.yaml")

    assert ran.status == 0
    assert ran.out == "5 compared, 0 would change\n"


@pytest.mark.usefixtures("records")
def test_made_up_decisions_are_left_out_unless_they_are_named() -> None:
    with gate_over(open_store("demur.db"), entropy=entropy_of("later")) as gate:
        gate.decide(refund(tenant={"id": "sample"}))

    ran = demur("diff", "--policy", "policy.yaml")
    assert ran.out == "5 compared, 0 would change\n"
    assert ran.err == "note: made-up decisions are left out (--tenant sample compares them)\n"
    ran = demur("diff", "--policy", "policy.yaml", "--tenant", "sample")
    assert (ran.out, ran.err) == ("1 compared, 0 would change\n", "")


@pytest.mark.parametrize("where", [[], ["records.jsonl"]])
def test_diff_shows_changed_verdicts(records: list[DecisionRecord], where: list[str]) -> None:
    ran = demur("diff", *where, "--policy", "candidate.yaml")

    assert ran.status == 1
    assert ran.out.splitlines()[:4] == [
        "WAS \\ WOULD BE  ALLOW  ESCALATE  DENY",
        "ALLOW           1      -         -",
        "ESCALATE        2      1         -",
        "DENY            -      -         1",
    ]
    assert "3      -REFUND_OVER_ESCALATION_LIMIT" in ran.out
    assert "another obligations" in ran.out
    row = f"{records[1].decision_id}  refund  ESCALATE -> ALLOW  -REFUND_OVER_ESCALATION_LIMIT"
    assert row in ran.out
    assert ran.out.endswith("5 compared, 3 would change\n")


@pytest.mark.usefixtures("records")
def test_changes_can_be_allowed() -> None:
    assert demur("diff", "--policy", "candidate.yaml", "--allow-changes").status == 0


@pytest.mark.usefixtures("records")
def test_only_so_many_are_shown_and_all_are_counted() -> None:
    ran = demur("diff", "--policy", "candidate.yaml", "--limit", "1")
    assert "... and 2 more" in ran.out
    ran = demur("diff", "--policy", "candidate.yaml", "--limit", "0")
    assert "DECISION" not in ran.out
    assert "3 would change" in ran.out
    ran = demur("diff", "--policy", "candidate.yaml", "--limit", "-1")
    assert ran.status == 2


@pytest.mark.usefixtures("records")
def test_a_change_of_obligations_alone_is_shown_as_such() -> None:
    Path("candidate.yaml").write_text(TEXT.replace("[human_review]", "[]"))
    ran = demur("diff", "--policy", "candidate.yaml", "--tenant", "default")

    assert ran.status == 1
    assert "ESCALATE  another obligations" in ran.out


@pytest.mark.usefixtures("records")
def test_a_json_answer_says_everything() -> None:
    ran = demur("diff", "--policy", "candidate.yaml", "--json")
    answer = json.loads(ran.out)

    assert ran.status == 1
    assert answer["sound"] is True
    assert (answer["compared"], answer["changed"], answer["failed"]) == (5, 3, 0)
    assert {"before": "ESCALATE", "after": "ALLOW", "count": 2} in answer["verdicts"]
    assert answer["codes"] == {"-REFUND_OVER_ESCALATION_LIMIT": 3}
    assert answer["changes"][0]["before"] == "ESCALATE"


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize(
    ("options", "compared"),
    [
        (["--tenant", "acme"], 1),
        (["--action", "refund"], 5),
        (["--since", "2026-11-15"], 5),
        (["--since", "2026-11-01", "--until", "2027-01-01"], 5),
    ],
    ids=str,
)
def test_decisions_of_the_store_can_be_chosen(options: list[str], compared: int) -> None:
    ran = demur("diff", "--policy", "policy.yaml", *options)

    assert ran.status == 0
    assert ran.out.startswith(f"{compared} compared")


@pytest.mark.usefixtures("records")
def test_nothing_to_compare_is_an_error() -> None:
    ran = demur("diff", "--policy", "policy.yaml", "--until", "2020-01-01", "--allow-changes")

    assert ran.status == 1
    assert ran.out == "0 compared, 0 would change: nothing to compare\n"


@pytest.mark.usefixtures("records")
def test_any_record_that_fails_is_an_error_even_where_changes_are_allowed() -> None:
    lines = Path("records.jsonl").read_bytes().splitlines(keepends=True)
    Path("records.jsonl").write_bytes(b"".join([*lines, b"{}\n", b"{}\n", b"\xff\n"]))
    words = ("diff", "records.jsonl", "--policy", "policy.yaml", "--allow-changes")
    ran = demur(*words)

    assert ran.status == 1
    assert "line 6: error: not a line of an export" in ran.out
    assert ran.out.endswith("5 compared, 0 would change, 3 could not be compared\n")
    assert "... and 2 more errors" in demur(*words, "--limit", "1").out


@pytest.mark.usefixtures("records")
def test_diff_reports_skipped_and_erased_decisions() -> None:
    with gate_over(open_store("demur.db"), entropy=entropy_of("later")) as gate:
        assert gate.store is not None
        gate.decide(refund(1, request_id="r", subject={"id": "eve"}))
        gate.decide(refund(2, request_id="r"))
        gate.store.erase_subject("default", "eve", by="ops", reason="test")
    ran = demur("diff", "--policy", "policy.yaml")

    assert ran.status == 0
    assert ran.out == "5 compared, 0 would change, 1 skipped (no policy decided), 1 erased\n"


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize(
    ("words", "problem", "status"),
    [
        (["records.jsonl", "--since", "7d"], "--since selects in the store", 2),
        (["records.jsonl", "--config", "demur.toml"], "--config selects in the store", 2),
        (["nosuch.jsonl"], "no such file", 1),
        (["--config", "nosuch.toml"], "cannot read the settings", 1),
    ],
)
def test_diff_refuses_invalid_arguments(words: list[str], problem: str, status: int) -> None:
    ran = demur("diff", "--policy", "policy.yaml", *words)

    assert ran.status == status
    assert problem in ran.err


@pytest.mark.usefixtures("records")
def test_a_candidate_that_cannot_be_used_is_an_error() -> None:
    Path("candidate.yaml").write_text("rules: 7")

    assert demur("diff", "--policy", "candidate.yaml").status == 1
    assert demur("diff").status == 2
