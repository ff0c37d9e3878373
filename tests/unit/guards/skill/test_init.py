import json

import pytest
from support.skill_samples import findings

from demur.errors import InputError
from demur.guards.skill.event import BASELINE_SCHEMA, SkillConfig, read_baseline, write_baseline


@pytest.mark.parametrize(
    ("module", "allowed"),
    [("http", True), ("http.client", True), ("httpx", False), ("subprocess", False)],
)
def test_an_allowed_module_covers_what_is_below_it(module: str, allowed: bool) -> None:
    assert SkillConfig(allow_imports=("http",)).allows_import(module) is allowed


@pytest.mark.parametrize(
    ("host", "allowed"),
    [("example.com", True), ("api.example.com", True), ("badexample.com", False), ("", False)],
)
def test_an_allowed_host_covers_the_names_below_it(host: str, allowed: bool) -> None:
    assert SkillConfig(allow_hosts=("example.com",)).allows_host(host) is allowed


TEXT = "import socket\neval(a)\neval(a)\n"


def marks(text: str) -> list[str]:
    return [found.evidence["fingerprint"] for found in findings({"a.py": text})]


def test_a_written_baseline_is_read_back() -> None:
    every = findings({"a.py": TEXT})

    assert read_baseline(write_baseline(every)) == frozenset(marks(TEXT))


def test_a_row_says_what_was_accepted() -> None:
    rows = json.loads(write_baseline(findings({"a.py": TEXT})))["findings"]

    assert {row["rule"] for row in rows} == {"PY_IMPORT_NETWORK", "PY_EXEC_DYNAMIC"}
    assert all(set(row) == {"fingerprint", "code", "rule", "file", "detail"} for row in rows)


def test_a_shifted_line_keeps_its_mark_and_a_changed_one_does_not() -> None:
    assert marks("\n\n# new\nx = 1\n" + TEXT) == marks(TEXT)
    assert marks(TEXT.replace("socket", "ctypes")) != marks(TEXT)


def test_identical_findings_have_different_fingerprints() -> None:
    assert len(set(marks(TEXT))) == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        json.dumps({"schema_version": BASELINE_SCHEMA}),
        json.dumps({"schema_version": BASELINE_SCHEMA, "findings": [1]}),
        json.dumps({"schema_version": BASELINE_SCHEMA, "findings": [{}]}),
        json.dumps({"schema_version": "other", "findings": []}),
    ],
)
def test_a_text_that_is_not_a_baseline_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="baseline"):
        read_baseline(text)
