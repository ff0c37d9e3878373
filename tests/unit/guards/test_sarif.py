import json
from typing import Any

import jsonschema
from support.skill_samples import findings

from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.guards.sarif import to_sarif
from demur.model.finding import Action, Finding, Span

REGISTRY = Registry.load()
TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
COUNT = {"type": "integer", "minimum": 1}
PLACE = {"type": "integer", "minimum": 0}


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    """Return the schema of an object that has no other properties."""
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


def many(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


RULE = closed(
    ["id"],
    id={"type": "string"},
    name={"type": "string", "pattern": "^[A-Za-z0-9]+$"},
    shortDescription=TEXT,
    fullDescription=TEXT,
    help=TEXT,
    defaultConfiguration=closed([], level=LEVEL),
    properties={"type": "object"},
)
LOCATION = closed(
    ["physicalLocation"],
    physicalLocation=closed(
        ["artifactLocation", "region"],
        artifactLocation=closed(["uri"], uri={"type": "string", "pattern": "^[!-~]+$"}),
        region={
            **closed([], startLine=COUNT, startColumn=COUNT, charOffset=PLACE, charLength=PLACE),
            "minProperties": 1,
        },
    ),
)
RESULT = closed(
    ["message", "ruleId", "ruleIndex", "level"],
    ruleId={"type": "string"},
    ruleIndex=PLACE,
    level=LEVEL,
    message=TEXT,
    locations=many(LOCATION),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
    suppressions=many(
        closed(
            ["kind"],
            kind={"enum": ["inSource", "external"]},
            justification={"type": "string"},
        )
    ),
    properties={"type": "object"},
)
LOG = closed(
    ["version", "runs", "$schema"],
    **{
        "$schema": {"type": "string"},
        "version": {"const": "2.1.0"},
        "runs": many(
            closed(
                ["tool", "results"],
                tool=closed(
                    ["driver"],
                    driver=closed(["name"], name={"type": "string"}, rules=many(RULE)),
                ),
                columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                results=many(RESULT),
            )
        ),
    },
)


def log_of(*args: Any, **options: Any) -> dict[str, Any]:
    log = to_sarif(*args, registry=REGISTRY, **options)
    jsonschema.validate(json.loads(json.dumps(log)), LOG)
    return log


def test_a_finding_is_a_result_with_its_place_and_rule() -> None:
    every = findings({"my tool/a.py": "y = 1\neval(x)\n"})
    [run] = log_of(every)["runs"]
    [result] = run["results"]

    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "RCE_RISK"
    assert result["level"] == "warning"
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "my%20tool/a.py"},
        "region": {"startLine": 2, "startColumn": 1, "charOffset": 6, "charLength": 7},
    }
    assert result["properties"]["rule"] == "PY_EXEC_DYNAMIC"
    assert list(result["partialFingerprints"].values()) == [every[0].evidence["fingerprint"]]


def test_each_code_is_described_once_and_in_order() -> None:
    every = findings({"a.py": "eval(x)\neval(y)\nimport ctypes\nimport socket\n"})
    rules = log_of(every)["runs"][0]["tool"]["driver"]["rules"]

    assert [rule["id"] for rule in rules] == ["RCE_RISK", "RISKY_IMPORT"]
    assert all(rule["fullDescription"]["text"] for rule in rules)


def test_actions_are_levels() -> None:
    every = [
        Finding(code=ReasonCode.RCE_RISK, surface=Surface.SKILL, action=action) for action in Action
    ]

    assert [row["level"] for row in log_of(every)["runs"][0]["results"]] == [
        "error",
        "warning",
        "note",
    ]


def test_a_finding_of_another_surface_has_the_text_it_was_found_in() -> None:
    found = Finding(
        code=ReasonCode.CONTEXT_INJECTION,
        surface=Surface.RETRIEVAL,
        span=Span(start=3, end=9),
        detail="an order",
        evidence={"via": "base64"},
    )
    [named] = log_of([found], artifact="page.html")["runs"][0]["results"]
    [nameless] = log_of([found])["runs"][0]["results"]

    assert named["locations"][0]["physicalLocation"]["region"] == {
        "charOffset": 3,
        "charLength": 6,
    }
    assert named["properties"]["via"] == "base64"
    assert "locations" not in nameless


def test_a_finding_without_a_span_is_at_the_start() -> None:
    found = Finding(code=ReasonCode.RCE_RISK, surface=Surface.SKILL, evidence={"file": "a"})
    [result] = log_of([found])["runs"][0]["results"]

    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}


def test_an_allowed_finding_is_marked_as_suppressed() -> None:
    [found] = findings({"a.py": "eval(x)"})
    [result] = log_of([], suppressed=[(found, "a calculator")])["runs"][0]["results"]

    assert result["suppressions"] == [{"kind": "inSource", "justification": "a calculator"}]


def test_nothing_found_is_a_log_too() -> None:
    assert log_of([])["runs"][0]["results"] == []
