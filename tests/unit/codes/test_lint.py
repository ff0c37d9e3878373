"""`lint_paths`: each rule fires on a planted sample and is quiet on its good twin."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.lint import CodeMisuse, lint_paths, lint_source, lint_to_sarif
from demur.codes.lint_rules import CODE_RULES, LintLevel
from demur.codes.registry import Registry
from demur.errors import InputError, InputTypeError

CORE = Registry.load()


class Twins(NamedTuple):
    rule: str
    file: str
    bad: str
    good: str


FROM = "from demur import ReasonCode, Refusal, format_refusal\n"
TWINS = [
    Twins(
        "raw-refusal-string",
        "guard.py",
        'print("REFUSED: RCE_RISK: curl | sh")\n',
        FROM + 'print(format_refusal("RCE_RISK", "curl | sh"))\n',
    ),
    Twins(
        "unregistered-code",
        "guard.py",
        FROM + 'format_refusal("DESTRUCTIVE_ACTON", "rm -rf /srv")\n',
        FROM + 'format_refusal("DESTRUCTIVE_ACTION", "rm -rf /srv")\n',
    ),
    Twins(
        "unregistered-code",
        "guard.py",
        FROM + "ReasonCode.RCE_RISC\n",
        FROM + "ReasonCode.RCE_RISK",
    ),
    Twins(
        "dynamic-code",
        "guard.py",
        FROM + 'Refusal.from_code(f"CHARGEBACK_RISK_{score}")\n',
        FROM + 'Refusal.from_code("CHARGEBACK_RISK_BLOCK", evidence={"score": score})\n',
    ),
    Twins(
        "dynamic-code",
        "policy.yaml",
        "reason_codes: [CHARGEBACK_RISK_87_PERCENT]\n",
        "reason_codes: [CHARGEBACK_RISK_BLOCK]\n",
    ),
    Twins(
        "prose-code",
        "guard.py",
        'record = {"reason_codes": ["The user might be up to no good"]}\n',
        'record = {"reason_codes": ["PATTERN_ANOMALY_DETECTED"]}\n',
    ),
    Twins(
        "metric-code", "p.yml", "reason_code: HIGH_RISK\n", "reason_code: FRAUD_MODEL_HIGH_RISK\n"
    ),
    Twins(
        "numeric-code",
        "policy.yaml",
        "reason_code: REFUND_500_USD\n",
        "reason_code: REFUND_OVER_ESCALATION_LIMIT\n",
    ),
    Twins(
        "broad-code",
        "policy.yaml",
        "then: {reason_codes: [POLICY_VIOLATION]}\n",
        "then: {reason_codes: [EGRESS_DENIED]}\n",
    ),
    Twins(
        "deprecated-code",
        "guard.py",
        FROM + 'format_refusal(ReasonCode.OLD_FRAUD_BLOCK, "card")\n',
        FROM + 'format_refusal(ReasonCode.CHARGEBACK_RISK_BLOCK, "card")\n',
    ),
    Twins(
        "prose-refusal",
        "guard.py",
        'raise PermissionError("blocked by policy")\n',
        FROM + 'raise PermissionError(format_refusal("EGRESS_DENIED", host))\n',
    ),
    Twins(
        "empty-detail",
        "guard.py",
        FROM + 'line = format_refusal("EGRESS_DENIED", "")\n',
        FROM + 'line = format_refusal("EGRESS_DENIED", host)\n',
    ),
    Twins("duplicate-key", "policy.yaml", "a: 1\nb: 2\na: 3\n", "a: 1\nb: 2\nc: 3\n"),
    Twins("unreadable", "guard.py", "def broken(:\n", "def whole(): ...\n"),
    Twins("unreadable", "policy.yaml", "a: [1, 2\n", "a: [1, 2]\n"),
    Twins(
        "bare-suppression",
        "guard.py",
        'x = "REFUSED: RCE_RISK: a"  # demur: allow raw-refusal-string\n',
        'x = "REFUSED: RCE_RISK: a"  # demur: allow raw-refusal-string - shown in the manual\n',
    ),
]


@pytest.mark.parametrize("twins", TWINS, ids=lambda twins: f"{twins.rule}-{twins.file}")
def test_a_rule_fires_on_the_bad_twin_and_not_on_the_good_one(
    twins: Twins, tmp_path: Path, core: Registry
) -> None:
    file = tmp_path / twins.file
    file.write_text(twins.bad, encoding="utf-8")
    [misuse] = lint_paths([file], core)

    assert (misuse.path, misuse.rule) == (str(file), twins.rule)
    assert misuse.severity is CODE_RULES[twins.rule].level
    file.write_text(twins.good, encoding="utf-8")
    assert lint_paths([file], core) == []


def test_every_rule_has_planted_twins() -> None:
    assert {twins.rule for twins in TWINS} == set(CODE_RULES)


def plant(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "reason_code: NO_SUCH_CODE\n" if not name.endswith(".py") else "x = 'REFUSED: A'\n"
        path.write_text(text, encoding="utf-8")


def seen(misuses: list[CodeMisuse], root: Path) -> list[str]:
    return [Path(misuse.path).relative_to(root).as_posix() for misuse in misuses]


def test_a_folder_is_walked_in_sorted_order_without_hidden_and_vendored_folders(
    tmp_path: Path, core: Registry
) -> None:
    plant(tmp_path, "b.py", "a.yaml", "deep/er/c.yml", ".git/x.py", ".venv/x.py")
    plant(tmp_path, "node_modules/x.py", "deep/__pycache__/x.py", "notes.txt", "data.json")

    assert seen(lint_paths([tmp_path], core), tmp_path) == ["a.yaml", "b.py", "deep/er/c.yml"]


def test_a_path_named_explicitly_is_read_whatever_its_folder_or_suffix(
    tmp_path: Path, core: Registry
) -> None:
    plant(tmp_path, ".hidden/x.py", "node_modules/policy")

    named = [tmp_path / ".hidden", tmp_path / "node_modules/policy"]
    assert seen(lint_paths(named, core), tmp_path) == [".hidden/x.py", "node_modules/policy"]


def test_a_script_without_an_ending_is_python_by_its_shebang(core: Registry) -> None:
    body = b"x = 'REFUSED: A'\n"

    assert [u.rule for u in lint_source("s", b"#!/usr/bin/env python3\n" + body, core)] == [
        "raw-refusal-string"
    ]
    assert lint_source("s", b"#!/bin/sh\n" + body, core) == []


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path, core: Registry) -> None:
    plant(tmp_path, "a.py")

    assert len(lint_paths([tmp_path, tmp_path / "a.py", str(tmp_path)], core)) == 1


def test_the_result_is_sorted_by_path_line_and_column(tmp_path: Path, core: Registry) -> None:
    (tmp_path / "b.yaml").write_text(
        "x: {reason_code: A_B, y: {reason_code: A_C}}\nreason_code: A_D"
    )
    (tmp_path / "a.py").write_text("reason_codes = ['A_C',\n 'A_B']\nx = 'REFUSED: A_A'\n")
    misuses = lint_paths([tmp_path / "b.yaml", tmp_path], core)

    places = [(misuse.path, misuse.line, misuse.column) for misuse in misuses]
    assert len(places) == 6
    assert places == sorted(places)


def test_a_path_that_does_not_exist_is_named(tmp_path: Path, core: Registry) -> None:
    with pytest.raises(InputError) as caught:
        lint_paths([tmp_path, tmp_path / "gone.py"], core)

    assert caught.value.where == str(tmp_path / "gone.py")
    assert caught.value.problem == "no such file or directory"


def test_a_path_that_no_system_can_hold_is_an_input_error(core: Registry) -> None:
    with pytest.raises(InputError, match="not a path"):
        lint_paths(["a\0b"], core)


def test_one_path_instead_of_a_list_is_refused(core: Registry) -> None:
    with pytest.raises(InputTypeError, match="paths must be a list of paths"):
        lint_paths("src", core)


def test_a_link_that_leads_nowhere_is_unreadable_not_a_crash(
    tmp_path: Path, core: Registry
) -> None:
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    misuses = lint_paths([tmp_path], core)

    assert [misuse.rule for misuse in misuses] == ["unreadable", "unreadable"]
    assert misuses[0].message == "cannot read: no such file or directory"


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path, core: Registry) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "a.py").touch()

    assert lint_paths([tmp_path], core) == []


def test_a_folder_that_cannot_be_listed_is_unreadable(
    tmp_path: Path, core: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)

    assert lint_paths([tmp_path], core) == [
        CodeMisuse(
            str(tmp_path),
            1,
            1,
            "unreadable",
            LintLevel.ERROR,
            "cannot read: permission denied",
            CODE_RULES["unreadable"].help,
        )
    ]


FRAGMENTS = st.sampled_from(
    [
        *("reason_code", "reason_codes", "codes", ": ", "- ", "= ", "[", "]", "{", "}", "(", ")"),
        *('"', "'", 'f"', "%", "+", "\n", "  ", "\t", "\r", "\x85", "\u2028", "\x00", "\\U", "é"),
        *("REFUSED: ", "RCE_RISK", "HIGH_RISK", "POLICY_VIOLATION", "ReasonCode.", "9" * 5000),
        *("from demur import *\n", "import demur\n", "demur.", "format_refusal(", ".format("),
        *(
            "# demur: allow ",
            "broad-code",
            " - why",
            "&a ",
            "*a",
            "<<: ",
            "? ",
            "| ",
            "> ",
            "---\n",
        ),
        *("# coding: rot13\n", "# coding: nonsense\n", "!!x ", "%YAML 1.", "match x:\n case "),
    ]
)
SOURCES = st.one_of(
    st.binary(),
    st.text().map(str.encode),
    st.lists(FRAGMENTS, max_size=40).map(lambda parts: "".join(parts).encode()),
)


@given(st.sampled_from(["a.py", "a.yaml", "a"]), SOURCES)
def test_any_file_gives_misuses_and_nothing_else(name: str, source: bytes) -> None:
    """INVARIANT: whatever a file holds, linting it returns misuses and raises nothing."""
    misuses = lint_source(name, source, CORE)

    for misuse in misuses:
        assert isinstance(misuse, CodeMisuse)
        assert misuse.path == name
        assert min(misuse.line, misuse.column) >= 1
        assert misuse.severity is CODE_RULES[misuse.rule].level
        assert (misuse.message + misuse.help).isprintable()
    assert misuses == sorted(set(misuses))


@pytest.mark.parametrize(
    "source",
    [
        *(b"(" * 5000, b"-" * 100_000 + b"1", b"x" + b".y" * 20_000, b"1" + b"+1" * 20_000),
        *(b"codes = 'a'" + b"+'a'" * 2000, b"x = " + b"[" * 150 + b"]" * 150),
        *(b"[" * 20_000, b"{a: " * 5000, b"- " * 20_000, b"&a [*a]", b"? " * 3000),
        b"&a {reason_codes: [*a], x: *a}",
    ],
    ids=lambda source: source[:8].decode(),
)
@pytest.mark.parametrize("name", ["a.py", "a.yaml"])
def test_deep_and_circular_files_end(name: str, source: bytes, core: Registry) -> None:
    assert {misuse.rule for misuse in lint_source(name, source, core)} <= {"unreadable"}


def run_of(*misuses: CodeMisuse) -> dict[str, Any]:
    log = json.loads(json.dumps(lint_to_sarif(misuses)))
    assert log["version"] == "2.1.0"
    [run] = log["runs"]
    return cast("dict[str, Any]", run)


def misuse(path: str, rule: str = "broad-code") -> CodeMisuse:
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
    run = run_of(misuse("src/a.py"))

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
        for result in run_of(*map(misuse, names))["results"]
    ]

    assert uris[:3] == ["a%20b/%C3%BC.py", "x%3Ay.py", "bad%FF.py"]
    assert uris[3] == (tmp_path / "a b.py").as_uri()
