from pathlib import Path

import pytest

from demur.policy.lumyn_draft import (
    DIAGNOSTIC_LEVELS,
    ImportDiagnostic,
    ImportDiagnostics,
    ImportLevel,
)

PAGE = Path(__file__).parents[3] / "docs/how-to/import-a-policy.md"


@pytest.mark.parametrize("kind", DIAGNOSTIC_LEVELS)
def test_each_remark_is_documented_with_its_level(kind: str) -> None:
    assert f"\n| `{kind}` | {DIAGNOSTIC_LEVELS[kind]} | " in PAGE.read_text(encoding="utf-8")


def test_a_remark_is_about_the_rule_that_is_read_or_the_one_that_is_named() -> None:
    remarks = ImportDiagnostics("R1")
    remarks.add("moved", "p:1:1", "here")
    remarks.add("moved", "p:2:1", "there", "help", rule="R2")

    assert remarks.found == [
        ImportDiagnostic("moved", ImportLevel.NOTE, "p:1:1", "here", None, "R1"),
        ImportDiagnostic("moved", ImportLevel.NOTE, "p:2:1", "there", "help", "R2"),
    ]


def test_what_holds_for_the_whole_policy_is_said_once() -> None:
    first, second, both = ImportDiagnostics("R1"), ImportDiagnostics("R2"), ImportDiagnostics()
    for place, remarks in (("p:1:1", first), ("p:2:1", second)):
        remarks.add("rates", place, "money")
        remarks.add("moved", place, "here")
    both.add_all(first, "R1")
    both.add_all(second, "R2_2")

    assert [(remark.kind, remark.where, remark.rule) for remark in both.found] == [
        ("rates", "p:1:1", None),
        ("moved", "p:1:1", "R1"),
        ("moved", "p:2:1", "R2_2"),
    ]
