import json
from pathlib import Path

import pytest
from commandline import Ran, demur
from desk import RISKY, SMALL, decided
from store_records import make_record

from demur.cli.main import main
from demur.store.opening import open_store

RULES = """
schema_version: alert_rules.v1
rules:
  - {id: CHARGEBACKS, kind: count, code: CHARGEBACK_RISK_BLOCK, over: 2, window: 1h,
     severity: critical, cooldown: 1h, description: too many, runbook: look at the model}
  - {id: HALF, kind: share, verdict: DENY, over_percent: 50, window: 1h, severity: low,
     description: d}
"""


@pytest.fixture
def rules(desk: Path) -> str:
    (desk / "rules.yaml").write_text(RULES)
    return "rules.yaml"


def check(*words: object) -> Ran:
    return demur("alerts", "check", *words)


def states(ran: Ran) -> dict[str, str]:
    return {one["id"]: one["state"] for one in json.loads(ran.out)["alerts"]}


def test_a_quiet_store_exits_with_0(desk: Path) -> None:
    assert desk.is_dir()
    decided(SMALL)
    ran = check()

    assert ran.status == 0
    assert "7 quiet at 20" in ran.out


def test_what_fires_exits_with_3_and_says_what_helps(rules: str) -> None:
    for _ in range(3):
        decided(RISKY)
    for _ in range(3):
        decided(SMALL)
    ran = check("--rules", rules)

    assert ran.status == 3
    assert ran.out.startswith(
        "firing[CHARGEBACKS] critical: CHARGEBACK_RISK_BLOCK: 3 in the last hour, over 2\n"
        "  help: look at the model\n"
        "quiet[HALF] low: DENY: 50 % of 6 decisions in the last hour, not over 50 %\n"
    )
    assert states(check("--rules", rules, "--json")) == {"CHARGEBACKS": "firing", "HALF": "quiet"}


def test_a_moment_in_the_past_can_be_checked(rules: str) -> None:
    for _ in range(3):
        decided(RISKY)

    assert check("--rules", rules, "--at", "2h").status == 0


def test_tenants_are_checked_apart(rules: str) -> None:
    for _ in range(3):
        decided(RISKY)

    assert check("--rules", rules, "--tenant", "nobody").status == 0
    assert check("--rules", rules, "--tenant", "default").status == 3


def test_a_store_can_be_named_without_settings(rules: str) -> None:
    for _ in range(3):
        decided(RISKY)
    Path("demur.toml").unlink()

    assert check("--rules", rules, "--store", "demur.db").status == 3
    assert check("--rules", rules).status == 1
    ran = check("--store", "none.db")
    assert (ran.status, Path("none.db").exists()) == (1, False)


def test_the_help_says_how_it_exits(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["alerts", "check", "--help"])

    assert "3 firing; 6 unjudged" in " ".join(capsys.readouterr().out.split())


def test_a_check_as_of_then_knows_nothing_of_what_came_later(rules: str) -> None:
    with open_store("demur.db") as store:
        for number in range(3):
            created = f"2027-01-01T10:39:0{number}.000Z"
            codes = ("CHARGEBACK_RISK_BLOCK",)
            store.put(make_record(number, reason_codes=codes, created_at=created))

    assert check("--rules", rules, "--at", "2027-01-01T10:30Z").status == 0
    assert check("--rules", rules, "--at", "2027-01-01T10:40Z").status == 3
