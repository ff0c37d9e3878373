import json
from pathlib import Path
from typing import Any

import pytest
from commandline import Ran, demur
from desk import setting

RULES = """
schema_version: alert_rules.v1
rules:
  - {id: CHARGEBACKS, kind: count, code: CHARGEBACK_RISK_BLOCK, over: 2, window: 1h,
     severity: critical, cooldown: 1h, description: too many, runbook: look at the model}
  - {id: HALF, kind: share, verdict: DENY, over_percent: 50, window: 1h, severity: low,
     description: d}
"""


LOG = """\
2027-01-01T10:59:59Z app REFUSED: RCE_RISK: too old
2027-01-01T11:30:00Z app REFUSED: RCE_RISK: one
2027-01-01T11:59:59Z app REFUSED: MADE_UP_CODE: who knows it
"""
NOON = ("--at", "2027-01-01T12:00Z")


@pytest.fixture
def rules(desk: Path) -> str:
    (desk / "rules.yaml").write_text(RULES)
    return "rules.yaml"


def check(*words: object) -> Ran:
    return demur("alerts", "check", *words)


def test_a_log_is_checked_and_what_it_cannot_answer_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text(LOG)
    ran = check("--log", log, *NOON)

    assert ran.status == 3
    assert "RCE_RISK: 1 in the last hour, over 0" in ran.out
    assert "no registry knows MADE_UP_CODE (1)" in ran.out
    assert ran.out.endswith("a log cannot answer STORAGE_LOST, BLOCKS_DOUBLED\n")


def test_the_window_of_a_log_is_exact(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text(LOG)
    ran = check("--log", log, "--at", "2027-01-01T11:59:59Z", "--json")

    by_id = {one["id"]: one for one in json.loads(ran.out)["alerts"]}
    assert by_id["CODE_EXECUTION_TRIED"]["value"] == 2
    assert by_id["NEW_UNKNOWN_CODE"]["state"] == "quiet"


def test_several_logs_are_one(tmp_path: Path) -> None:
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    for log in logs:
        log.write_text(LOG)
    ran = check("--log", logs[0], "--log", logs[1], *NOON, "--json")

    by_id = {one["id"]: one for one in json.loads(ran.out)["alerts"]}
    assert by_id["CODE_EXECUTION_TRIED"]["value"] == 2


def test_refusals_without_a_time_keep_a_log_from_being_quiet(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("REFUSED: PII_DETECTED: at some time\n")
    ran = check("--log", log, *NOON)
    log.write_text(log.read_text() * 2)

    assert "2 refusals in the log have no time" in check("--log", log, *NOON).out
    assert ran.status == 6
    assert "could not judge: 1 refusal in the log has no time" in ran.out


def test_own_rules_that_a_log_cannot_answer_are_unjudged(rules: str, desk: Path) -> None:
    (desk / "app.log").write_text(LOG)
    ran = check("--log", "app.log", "--rules", rules, *NOON)

    assert ran.status == 6
    assert "unjudged[HALF] low: could not judge: the source does not tell it" in ran.out


def test_a_log_counts_classes_by_its_codes_and_says_if_it_is_damaged(desk: Path) -> None:
    text = RULES.replace("code: CHARGEBACK_RISK_BLOCK, over: 2", "class: HARD_BLOCK, over: 0")
    (desk / "rules.yaml").write_text(text)
    (desk / "app.log").write_text(LOG)
    ran = check("--log", "app.log", "--rules", "rules.yaml", *NOON)
    assert "HARD_BLOCK: 1 in the last hour, over 0" in ran.out

    (desk / "app.log").write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x00")
    ran = check("--log", "app.log", *NOON)
    assert (ran.status, "could not be read to its end" in ran.out) == (6, True)


def test_what_somebody_wrote_into_a_structured_log_is_no_refusal(tmp_path: Path) -> None:
    rows = [
        {"time": "2027-01-01T11:30:00Z", "message": "REFUSED: SECRET_LEAK: the guard said so"},
        {"time": "2027-01-01T11:30:00Z", "message": "user: REFUSED: RCE_RISK: forged"},
    ]
    log = tmp_path / "app.jsonl"
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    ran = check("--log", log, *NOON)

    assert ran.status == 0
    assert "RCE_RISK: 0 in the last hour" in ran.out


def test_a_log_knows_the_codes_of_organisations_in_the_settings(desk: Path, acme_text: Any) -> None:
    (desk / "acme.json").write_text(acme_text({"code": "acme.com/LATE"}))
    (desk / "app.log").write_text("2027-01-01T11:30:00Z REFUSED: acme.com/LATE: x\n")
    assert "no registry knows acme.com/LATE" in check("--log", "app.log", *NOON).out
    setting('registries = ["acme.json"]')
    (desk / "rules.yaml").write_text(RULES.replace("CHARGEBACK_RISK_BLOCK", "acme.com/LATE"))

    assert "quiet[NEW_UNKNOWN_CODE]" in check("--log", "app.log", *NOON).out
    ran = check("--log", "app.log", "--rules", "rules.yaml", *NOON)
    assert "acme.com/LATE: 1 in the last hour" in ran.out


def test_a_folder_of_logs_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    (tmp_path / "b.log").write_text(LOG)

    assert "RCE_RISK: 2 in the last hour" in check("--log", tmp_path, *NOON).out


@pytest.mark.parametrize("name", ["nowhere.log", "-"])
def test_a_log_that_cannot_be_read_is_an_error(name: str) -> None:
    assert check(f"--log={name}").status == 1
