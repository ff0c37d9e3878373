import json
from pathlib import Path

import pytest
from support.command_line import demur

from demur.observe.alerts.rules import builtin_rules

RULES = """
schema_version: alert_rules.v1
rules:
  - {id: A1, kind: count, verdict: DENY, over: 3, window: 90m, severity: low, description: d}
  - {id: B1, kind: share, code: RCE_RISK, over_percent: 2.5, of: refusals, window: 1h, for: 10m,
     severity: low, description: d}
  - {id: C1, kind: rate_change, class: HARD_BLOCK, factor: 3, before: 1d, window: 1h,
     severity: low, description: d}
  - {id: D1, kind: new_unknown_code, before: 7d, window: 1h, severity: low, description: d}
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    return path


def test_the_built_in_rules_are_listed() -> None:
    ran = demur("alerts", "list")

    assert ran.status == 0
    assert ran.out.count("\n") == 1 + len(builtin_rules().rules)
    assert "CHARGEBACK_RISK_BLOCK > 50 in 1h" in ran.out


def test_each_kind_says_when_it_fires(rules: Path) -> None:
    lines = demur("alerts", "list", "--rules", rules).out.splitlines()

    assert "DENY > 3 in 90m" in lines[1]
    assert "RCE_RISK > 2.5 % of refusals in 1h for 10m" in lines[2]
    assert "share of HARD_BLOCK x 3 in 1h against 1d before" in lines[3]
    assert "an unknown code in 1h, not in 7d before" in lines[4]


def test_alerts_list_json_shows_rules_as_written(rules: Path) -> None:
    rows = [
        json.loads(line)
        for line in demur("alerts", "list", "--rules", rules, "--json").out.splitlines()
    ]

    assert rows[1]["for"] == "10m"
    assert rows[1]["of"] == "refusals"
    assert rows[1]["selector"] == {"code": "RCE_RISK"}
    assert rows[0]["for"] is None
    assert rows[3]["selector"] is None


def test_rules_that_cannot_be_used_are_an_error(rules: Path) -> None:
    rules.write_text(RULES.replace("DENY", "DENIED"))
    ran = demur("alerts", "list", "--rules", rules)

    assert ran.status == 1
    assert "rules.yaml:4:" in ran.err
    assert "unknown verdict `DENIED`" in ran.err
