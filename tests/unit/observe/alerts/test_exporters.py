"""The shape is that of a monitor in Datadog's published API, its queries those of the docs."""

import json
import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from support.alert_samples import HOUR, count_rule

from demur.codes.registry import Registry
from demur.observe.alerts.exporters import (
    DATADOG_METRICS,
    datadog_check,
    datadog_monitors,
    grafana_dashboard,
    prometheus_rules,
    rule_condition,
    rule_expression,
)
from demur.observe.alerts.rules import (
    AlertKind,
    AlertRule,
    DecisionSelector,
    SelectorField,
    ShareWhole,
    builtin_rules,
)
from demur.observe.metrics import Metrics

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
DENY = DecisionSelector(SelectorField.VERDICT, "DENY")
HARD = DecisionSelector(SelectorField.CLASS, "HARD_BLOCK")
CONTEXT = DecisionSelector(SelectorField.OUTPUT, "NEED_CONTEXT")
BELOW = DecisionSelector(
    SelectorField.PARENT, "CONTENT_SEXUAL", ("CONTENT_SEXUAL", "acme.com/SPICY")
)
EVERY = (
    count_rule("COUNT", threshold=50),
    count_rule("BY_CLASS", threshold=1234567, selector=HARD),
    count_rule("SHARE", kind=AlertKind.SHARE, threshold=12.5, minimum=20, selector=CONTEXT),
    count_rule("OF_REFUSALS", kind=AlertKind.SHARE, threshold=10, whole=ShareWhole.REFUSALS),
    count_rule("CHANGE", kind=AlertKind.RATE_CHANGE, threshold=2, minimum=20, selector=DENY),
    count_rule("UNKNOWN", kind=AlertKind.NEW_UNKNOWN_CODE, selector=None),
    count_rule("BELOW", threshold=5, selector=BELOW),
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


def test_a_rule_over_several_codes_sums_their_series() -> None:
    rule = count_rule("BELOW", threshold=5, selector=BELOW)
    [monitor] = datadog_monitors([rule])

    codes = "CONTENT_SEXUAL|acme\\\\.com/SPICY"
    assert rule_condition(rule) == f'sum(increase(demur_reasons_total{{code=~"{codes}"}}[1h])) > 5'
    assert "{code IN (content_sexual,acme.com/spicy)}" in monitor["query"]


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


def test_settings_that_a_monitor_cannot_express_are_in_its_message() -> None:
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

    assert {name.removeprefix("demur_").removesuffix("_total") for name in served} == set(
        DATADOG_METRICS
    )


RULES = builtin_rules().rules
DASHBOARD = grafana_dashboard(RULES)
KNOWN_PANELS = {"row", "stat", "timeseries", "bargauge", "table"}

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
SOURCE = {
    "type": "object",
    "required": ["type", "uid"],
    "additionalProperties": False,
    "properties": {"type": {"const": "prometheus"}, "uid": {"const": "${datasource}"}},
}


def closed(required: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required.split(),
        "additionalProperties": False,
        "properties": fields,
    }


def listed(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


PLACE = closed(
    "h w x y",
    h={"type": "integer", "minimum": 1},
    w={"type": "integer", "minimum": 1, "maximum": 24},
    x={"type": "integer", "minimum": 0, "maximum": 23},
    y={"type": "integer", "minimum": 0},
)
STEP = closed("color value", color=TEXT, value={"type": ["number", "null"]})
FIELD = closed(
    "",
    unit=TEXT,
    min={"type": "number"},
    decimals=WHOLE,
    custom={"type": "object"},
    thresholds=closed("mode steps", mode={"enum": ["absolute", "percentage"]}, steps=listed(STEP)),
)
OVERRIDE = closed(
    "matcher properties",
    matcher=closed("id", id=TEXT, options={}),
    properties=listed(closed("id", id=TEXT, value={})),
)
TARGET = closed(
    "refId expr datasource",
    refId=TEXT,
    expr=TEXT,
    datasource=SOURCE,
    legendFormat=TEXT,
    editorMode={"enum": ["code", "builder"]},
    instant={"type": "boolean"},
    range={"type": "boolean"},
    format={"enum": ["time_series", "table", "heatmap"]},
)
PANEL = closed(
    "type id title gridPos",
    type={"enum": sorted(KNOWN_PANELS)},
    id=WHOLE,
    title=TEXT,
    description=TEXT,
    gridPos=PLACE,
    datasource=SOURCE,
    targets=listed(TARGET),
    options={"type": "object"},
    fieldConfig=closed("defaults overrides", defaults=FIELD, overrides=listed(OVERRIDE)),
    collapsed={"type": "boolean"},
    panels=listed({}),
)
WORDS = {"anyOf": [TEXT, listed(TEXT)]}
VARIABLE = closed(
    "type name",
    type={"enum": ["query", "datasource"]},
    name=TEXT,
    label=TEXT,
    hide={"enum": [0, 1, 2]},
    query=TEXT,
    datasource=SOURCE,
    current=closed("text value", selected={"type": "boolean"}, text=WORDS, value=WORDS),
    multi={"type": "boolean"},
    options=listed({}),
    refresh={"enum": [0, 1, 2]},
    sort=WHOLE,
    includeAll={"type": "boolean"},
    allValue=TEXT,
    regex=TEXT,
)
SHAPE = closed(
    "title schemaVersion templating annotations panels",
    title=TEXT,
    uid={"type": "string", "minLength": 8, "maxLength": 40},
    description=TEXT,
    tags=listed(TEXT),
    editable={"type": "boolean"},
    graphTooltip={"enum": [0, 1, 2]},
    schemaVersion={"type": "integer", "minimum": 36},
    version=WHOLE,
    refresh=TEXT,
    timezone=TEXT,
    time=closed("from to", **{"from": TEXT, "to": TEXT}),
    templating=closed("list", list=listed(VARIABLE)),
    annotations=closed("list", list=listed({})),
    links=listed({}),
    panels=listed(PANEL),
)


def expressions() -> list[str]:
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_it_has_the_shape_of_a_dashboard() -> None:
    problems = list(Draft7Validator(SHAPE).iter_errors(json.loads(json.dumps(DASHBOARD))))

    assert problems == []


def test_nothing_in_it_has_to_be_edited() -> None:
    assert "__inputs" not in DASHBOARD
    assert "DS_PROMETHEUS" not in json.dumps(DASHBOARD)
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\}?", json.dumps(DASHBOARD)))
    assert used == names == {"datasource", "surface"}


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_it_answers_what_people_ask() -> None:
    titles = {panel["title"] for panel in DASHBOARD["panels"]}

    assert {"Decisions by verdict", "Top reasons", "Share of decisions by reason"} <= titles
    assert {"Time of guards (99 %)", "Time of decisions", "Not stored"} <= titles


def test_each_rule_has_a_panel_with_its_number() -> None:
    for rule in RULES:
        [panel] = [one for one in DASHBOARD["panels"] if one["title"].startswith(f"{rule.id} (")]
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert steps[-1]["value"] == rule.threshold


def test_every_metric_in_it_exists() -> None:
    names = set(re.findall(r"\bdemur_[a-z_]+", " ".join(expressions())))
    text = Metrics(Registry.load()).render_metrics().decode()
    served = set(re.findall(r"^# TYPE (demur_\w+)", text, re.MULTILINE))

    assert names
    assert {name.removesuffix("_bucket") for name in names} <= served


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_prometheus_understands_every_expression(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    plain = [re.sub(r"\$__\w+", "5m", one).replace("$surface", ".*") for one in expressions()]
    rules = [{"record": f"a:{number}", "expr": expr} for number, expr in enumerate(plain)]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))

    ran = subprocess.run(
        [PROMTOOL, "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
