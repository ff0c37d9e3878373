import json

import pytest
from skills import findings

from demur.errors import InputError
from demur.guards.skill.baseline import BASELINE_SCHEMA, read_baseline, write_baseline

TEXT = "import socket\neval(a)\neval(a)\n"


def marks(text: str) -> list[str]:
    return [found.evidence["fingerprint"] for found in findings({"a.py": text})]


def test_what_was_written_is_read_again() -> None:
    every = findings({"a.py": TEXT})

    assert read_baseline(write_baseline(every)) == frozenset(marks(TEXT))


def test_a_row_says_what_was_accepted() -> None:
    rows = json.loads(write_baseline(findings({"a.py": TEXT})))["findings"]

    assert {row["rule"] for row in rows} == {"PY_IMPORT_NETWORK", "PY_EXEC_DYNAMIC"}
    assert all(set(row) == {"fingerprint", "code", "rule", "file", "detail"} for row in rows)


def test_a_shifted_line_keeps_its_mark_and_a_changed_one_does_not() -> None:
    assert marks("\n\n# new\nx = 1\n" + TEXT) == marks(TEXT)
    assert marks(TEXT.replace("socket", "ctypes")) != marks(TEXT)


def test_findings_alike_are_told_apart() -> None:
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
def test_what_is_no_baseline_is_said_to_be_none(text: str) -> None:
    with pytest.raises(InputError, match="baseline"):
        read_baseline(text)
