"""The shape is that of Grafana's published dashboard schema (version 1 of the model)."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from demur.codes.registry import Registry
from demur.observe.alerts.grafana import grafana_dashboard
from demur.observe.alerts.loader import builtin_rules
from demur.observe.metrics import Metrics

RULES = builtin_rules().rules
DASHBOARD = grafana_dashboard(RULES)
PROMTOOL = shutil.which("promtool")
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
