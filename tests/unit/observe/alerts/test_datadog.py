"""The shape is that of a monitor in Datadog's published API, its queries those of the docs."""

import re
from datetime import timedelta
from typing import Any

import pytest
import yaml
from alert_samples import count_rule

from demur.codes.registry import Registry
from demur.observe.alerts.datadog import DATADOG_METRICS, datadog_check, datadog_monitors
from demur.observe.alerts.loader import builtin_rules
from demur.observe.alerts.rule import SelectorField, AlertKind, DecisionSelector, ShareWhole
from demur.observe.metrics import Metrics

NUMBER = r"\d+(?:\.\d+)?"
SERIES = r"sum:demur\.[a-z_]+\.count\{(?:\*|[a-z]+:[a-z0-9_./-]+)\}\.as_count\(\)"
FORMULA = rf"(?:100 \* )?{SERIES}(?: / {SERIES})?"
WINDOW = r"last_\d+[mhd]"
QUERY = re.compile(
    rf"(?:sum\({WINDOW}\)|pct_change\(sum\({WINDOW}\),{WINDOW}\)):{FORMULA} >=? (?P<limit>{NUMBER})"
)


def monitor(**more: Any) -> dict[str, Any]:
    [one] = datadog_monitors([count_rule(**more)])
    return one


@pytest.mark.parametrize("rule", builtin_rules().rules, ids=lambda rule: rule.id)
def test_a_monitor_has_the_shape_that_the_api_takes(rule: Any) -> None:
    [one] = datadog_monitors([rule])
    found = QUERY.fullmatch(one["query"])

    assert found is not None, one["query"]
    assert float(found["limit"]) == one["options"]["thresholds"]["critical"]
    assert one["type"] == "query alert"
    assert one["priority"] in range(1, 6)
    assert set(one) == {"name", "type", "query", "message", "tags", "priority", "options"}
    assert one["options"]["renotify_interval"] >= 10


@pytest.mark.parametrize(
    ("more", "query"),
    [
        (
            {"threshold": 50},
            "sum(last_1h):sum:demur.reasons.count{code:rce_risk}.as_count() > 50",
        ),
        (
            {"kind": AlertKind.SHARE, "threshold": 10, "whole": ShareWhole.REFUSALS},
            (
                "sum(last_1h):100 * sum:demur.reasons.count{code:rce_risk}.as_count()"
                " / sum:demur.reasons.count{*}.as_count() > 10"
            ),
        ),
        (
            {
                "kind": AlertKind.RATE_CHANGE,
                "threshold": 1.5,
                "selector": DecisionSelector(SelectorField.VERDICT, "DENY"),
            },
            (
                "pct_change(sum(last_1h),last_1h):"
                "100 * sum:demur.decisions.count{verdict:deny}.as_count()"
                " / sum:demur.decisions.count{*}.as_count() >= 50"
            ),
        ),
        (
            {"kind": AlertKind.NEW_UNKNOWN_CODE, "selector": None},
            "sum(last_1h):sum:demur.reasons.count{code:_other}.as_count() > 0",
        ),
    ],
)
def test_queries_hold_the_numbers_of_the_rules(more: dict[str, Any], query: str) -> None:
    assert monitor(**more)["query"] == query


def test_what_a_monitor_cannot_say_stands_in_its_message() -> None:
    one = monitor(
        kind=AlertKind.SHARE,
        minimum=20,
        hold=timedelta(minutes=10),
        description="{{#is_alert}} evil",
    )

    assert "fewer than 20 decisions" in one["message"]
    assert "stays so for 10 minutes" in one["message"]
    assert "{{" not in one["message"]
    assert "renotify_interval" not in one["options"]


def test_the_check_gives_every_metric_that_monitors_watch() -> None:
    [instance] = yaml.safe_load(datadog_check())["instances"]
    named = {short for row in instance["metrics"] for short in row.values()}
    queries = " ".join(one["query"] for one in datadog_monitors(builtin_rules().rules))

    assert set(re.findall(r"demur\.([a-z_]+)\.count", queries)) <= named
    assert instance["namespace"] == "demur"


def test_the_check_names_every_metric_that_is_served() -> None:
    text = Metrics(Registry.load()).render_metrics().decode()
    served = set(re.findall(r"^# TYPE (demur_\w+) (?:counter|histogram)", text, re.MULTILINE))

    assert {name.removesuffix("_total") for name in served} == set(DATADOG_METRICS)
