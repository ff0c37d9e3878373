"""Refusals written before the linter was looked at: their faults are named, the good ones pass."""

import json
from pathlib import Path

import pytest

from demur.respond import lint_refusal

ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("lint_rows.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"][:40])
def test_the_fault_of_a_refusal_is_named(row: dict[str, str]) -> None:
    report = lint_refusal(row["text"])

    if row["fault"]:
        assert row["fault"] in report.broken_rules
        assert report.score is not None
        assert report.score <= 90
    else:
        assert (report.score, report.problems) == (100, ())


def test_a_lecture_costs_more_than_a_slip() -> None:
    scores = [lint_refusal(row["text"]).score or 0 for row in ROWS if row["fault"] == "lecture"]

    assert len(scores) == 5
    assert max(scores) <= 60
