import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from alert_samples import HOUR, count_rule

from demur.observe.alerts.loader import builtin_rules
from demur.observe.alerts.prometheus import rule_condition, rule_expression, prometheus_rules
from demur.observe.alerts.rule import (
    AlertRule,
    SelectorField,
    AlertKind,
    DecisionSelector,
    ShareWhole,
)

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
DENY = DecisionSelector(SelectorField.VERDICT, "DENY")
HARD = DecisionSelector(SelectorField.CLASS, "HARD_BLOCK")
CONTEXT = DecisionSelector(SelectorField.OUTPUT, "NEED_CONTEXT")
EVERY = (
    count_rule("COUNT", threshold=50),
    count_rule("BY_CLASS", threshold=1234567, selector=HARD),
    count_rule("SHARE", kind=AlertKind.SHARE, threshold=12.5, minimum=20, selector=CONTEXT),
    count_rule("OF_REFUSALS", kind=AlertKind.SHARE, threshold=10, whole=ShareWhole.REFUSALS),
    count_rule("CHANGE", kind=AlertKind.RATE_CHANGE, threshold=2, minimum=20, selector=DENY),
    count_rule("UNKNOWN", kind=AlertKind.NEW_UNKNOWN_CODE, selector=None),
    count_rule(
        "HELD",
        hold=timedelta(minutes=10),
        runbook="https://wiki.example/x",
        description="{{ .Evil }}",
    ),
)


def promtool(*words: str) -> str:
    assert PROMTOOL is not None
    ran = subprocess.run([PROMTOOL, *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def written(rules: tuple[AlertRule, ...]) -> dict[str, Any]:
    [group] = yaml.safe_load(prometheus_rules(rules))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def test_expressions_hold_the_numbers_of_the_rules() -> None:
    assert (
        rule_condition(EVERY[0]) == 'sum(increase(demur_reasons_total{code="RCE_RISK"}[1h])) > 50'
    )
    assert rule_condition(EVERY[1]).endswith('classes_total{class="HARD_BLOCK"}[1h])) > 1234567')
    assert rule_condition(EVERY[2]) == (
        '100 * sum(increase(demur_decisions_total{output="NEED_CONTEXT"}[1h]))'
        " / sum(increase(demur_decisions_total[1h])) > 12.5"
        " and sum(increase(demur_decisions_total[1h])) >= 20"
    )
    assert " / sum(increase(demur_reasons_total[1h])) > 10 and" in rule_condition(EVERY[3])
    assert "[1h] offset 1h)) >= 20" in rule_condition(EVERY[4])
    assert rule_expression(EVERY[5]) == 'sum(increase(demur_reasons_total{code="_other"}[1h]))'


def test_words_go_along_and_are_no_templates() -> None:
    rules = written(EVERY)

    assert rules["COUNT"]["labels"] == {"severity": "high", "source": "demur"}
    assert rules["COUNT"]["annotations"] == {"summary": "too many", "runbook": "look"}
    assert "for" not in rules["COUNT"]
    assert rules["HELD"]["for"] == "10m"
    assert rules["HELD"]["annotations"]["runbook_url"] == "https://wiki.example/x"
    assert rules["HELD"]["annotations"]["summary"] == '{{ "{{" }} .Evil }}'
    bare = count_rule("BARE", runbook="")
    assert set(written((bare,))["BARE"]["annotations"]) == {"summary"}


@needs_promtool
@pytest.mark.parametrize("rules", [builtin_rules().rules, EVERY], ids=["built-in", "every kind"])
def test_promtool_takes_the_file(rules: tuple[AlertRule, ...], tmp_path: Path) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(prometheus_rules(rules), encoding="utf-8")

    assert f"{len(rules)} rules found" in promtool("check", "rules", str(path))


ALLOWED = 'demur_decisions_total{verdict="ALLOW",output="ALLOW_EXECUTE"}'
DENIED = 'demur_decisions_total{verdict="DENY",output="REFUSE_WITH_PATH"}'
RISKY = 'demur_reasons_total{code="RCE_RISK"}'


@needs_promtool
@pytest.mark.parametrize(
    ("series", "firing"),
    [
        ({ALLOWED: "0+10x180", DENIED: "0+1x180", RISKY: "0x180"}, []),
        ({ALLOWED: "0+10x180", DENIED: "0+1x120 120+4x60", RISKY: "0x180"}, ["CHANGE"]),
        ({ALLOWED: "0+10x180", DENIED: "0x120 0+4x60", RISKY: "0x180"}, ["CHANGE"]),
        ({ALLOWED: "0+10x180", DENIED: "0+1x180", RISKY: "0x178 1 1"}, ["ANY"]),
        ({ALLOWED: "0+1x180", DENIED: "0+1x180", RISKY: "0+1x180"}, ["ANY", "SHARE"]),
        ({ALLOWED: "0x180", DENIED: "0x175 1 1 1 1 1", RISKY: "0x175 1 1 1 1 1"}, ["ANY"]),
    ],
    ids=["steady", "doubled", "from nothing", "the first one", "half", "half of few"],
)
def test_prometheus_fires_when_the_rules_say_so(
    series: dict[str, str], firing: list[str], tmp_path: Path
) -> None:
    rules = (
        count_rule("ANY", threshold=0, window=timedelta(minutes=5)),
        count_rule("SHARE", kind=AlertKind.SHARE, threshold=10, minimum=20),
        count_rule("CHANGE", kind=AlertKind.RATE_CHANGE, threshold=2, minimum=20, selector=DENY),
    )
    (tmp_path / "rules.yml").write_text(prometheus_rules(rules), encoding="utf-8")
    label = {"severity": "high", "source": "demur"}
    notes = {"summary": "too many", "runbook": "look"}
    expected = {"exp_labels": label, "exp_annotations": notes}
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": values} for name, values in series.items()
                ],
                "alert_rule_test": [
                    {
                        "eval_time": "3h",
                        "alertname": rule.id,
                        "exp_alerts": [expected] if rule.id in firing else [],
                    }
                    for rule in rules
                ],
            }
        ],
    }
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump(test), encoding="utf-8")

    assert "SUCCESS" in promtool("test", "rules", str(path))
    assert rules[2].before == HOUR
