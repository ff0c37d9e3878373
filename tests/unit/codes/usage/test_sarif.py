import json
from pathlib import Path
from typing import Any, cast

from demur.codes.usage.lint import CodeMisuse
from demur.codes.usage.rules import CODE_RULES, LintLevel
from demur.codes.usage.sarif import lint_to_sarif


def run_of(*usages: CodeMisuse) -> dict[str, Any]:
    log = json.loads(json.dumps(lint_to_sarif(usages)))
    assert log["version"] == "2.1.0"
    [run] = log["runs"]
    return cast("dict[str, Any]", run)


def usage(path: str, rule: str = "broad-code") -> CodeMisuse:
    return CodeMisuse(path, 3, 7, rule, LintLevel.WARNING, "a problem", "a help")


def test_every_rule_is_listed_with_its_description_and_level() -> None:
    driver = run_of()["tool"]["driver"]

    assert driver["name"] == "demur codes lint"
    assert [rule["id"] for rule in driver["rules"]] == list(CODE_RULES)
    for rule in driver["rules"]:
        own = CODE_RULES[rule["id"]]
        assert rule["shortDescription"] == {"text": own.summary}
        assert rule["help"] == {"text": own.help}
        assert rule["defaultConfiguration"] == {"level": own.level.value}


def test_a_usage_is_a_result_that_points_to_its_rule_and_place() -> None:
    run = run_of(usage("src/a.py"))

    [result] = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert result["level"] == "warning"
    assert result["message"] == {"text": "a problem\nhelp: a help"}
    assert result["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "src/a.py"},
                "region": {"startLine": 3, "startColumn": 7},
            }
        }
    ]


def test_no_usages_are_an_empty_list_of_results_not_none() -> None:
    assert run_of()["results"] == []


def test_a_path_becomes_a_valid_uri(tmp_path: Path) -> None:
    names = ["a b/ü.py", "x:y.py", "bad\udcff.py", str(tmp_path / "a b.py")]
    uris = [
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in run_of(*map(usage, names))["results"]
    ]

    assert uris[:3] == ["a%20b/%C3%BC.py", "x%3Ay.py", "bad%FF.py"]
    assert uris[3] == (tmp_path / "a b.py").as_uri()
