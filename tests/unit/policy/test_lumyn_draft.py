from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.vocabulary import Verdict
from demur.policy.lumyn_draft import (
    DIAGNOSTIC_LEVELS,
    ImportDiagnostic,
    ImportLevel,
    ImportLog,
    PolicyDraft,
    RuleDraft,
    render_policy,
)
from demur.policy.policy import Mode, Stage
from demur.source.reading import read_source

PAGE = Path(__file__).parents[3] / "docs/how-to/import-a-policy.md"


@pytest.mark.parametrize("kind", DIAGNOSTIC_LEVELS)
def test_each_diagnostic_is_documented_with_its_level(kind: str) -> None:
    assert f"\n| `{kind}` | {DIAGNOSTIC_LEVELS[kind]} | " in PAGE.read_text(encoding="utf-8")


def test_a_diagnostic_is_about_the_rule_that_is_read_or_the_one_that_is_named() -> None:
    diagnostics = ImportLog("R1")
    diagnostics.add("moved", "p:1:1", "here")
    diagnostics.add("moved", "p:2:1", "there", "help", rule="R2")

    assert diagnostics.found == [
        ImportDiagnostic("moved", ImportLevel.NOTE, "p:1:1", "here", None, "R1"),
        ImportDiagnostic("moved", ImportLevel.NOTE, "p:2:1", "there", "help", "R2"),
    ]


def test_a_policy_wide_diagnostic_is_reported_once() -> None:
    first, second, both = ImportLog("R1"), ImportLog("R2"), ImportLog()
    for place, diagnostics in (("p:1:1", first), ("p:2:1", second)):
        diagnostics.add("rates", place, "money")
        diagnostics.add("moved", place, "here")
    both.add_all(first, "R1")
    both.add_all(second, "R2_2")

    assert [(diagnostic.kind, diagnostic.where, diagnostic.rule) for diagnostic in both.found] == [
        ("rates", "p:1:1", None),
        ("moved", "p:1:1", "R1"),
        ("moved", "p:2:1", "R2_2"),
    ]


def draft(*rules: RuleDraft, **more: Any) -> PolicyDraft:
    head = PolicyDraft("old.yml", "p", "1", Mode.ENFORCE, Verdict.ESCALATE, "SCOPE_MISSING", rules)
    return head._replace(**more)


def rule(condition: dict[str, Any], **more: Any) -> RuleDraft:
    made = RuleDraft("R", Stage.ESCALATIONS, Verdict.ESCALATE, condition, "p", ("SCOPE_MISSING",))
    return made._replace(**more)


def test_a_rule_is_written_as_people_write_it() -> None:
    condition = {
        "action_type": "a.b",
        "evidence.a": {"gte": 1, "lt": 5},
        "any": [{"evidence.b": {"missing": True}}, {"evidence.b": {"in": ["x", "no, no"]}}],
    }
    text = render_policy(
        draft(rule(condition), rule({}, id="S", shadow=True), policy_version="1.0")
    )

    assert text == (
        "# Imported from old.yml.\n"
        "schema_version: policy.v1\n"
        "policy_id: p\n"
        "policy_version: '1.0'\n"
        "mode: enforce\n"
        "defaults: { verdict: ESCALATE, reason_code: SCOPE_MISSING }\n"
        "\n"
        "rules:\n"
        "  - id: R\n"
        "    stage: ESCALATIONS\n"
        "    if:\n"
        "      action_type: a.b\n"
        "      evidence.a: { gte: 1, lt: 5 }\n"
        "      any:\n"
        "        - { evidence.b: { missing: true } }\n"
        "        - { evidence.b: { in: [x, 'no, no'] } }\n"
        "    then: { verdict: ESCALATE, reason_codes: [SCOPE_MISSING] }\n"
        "\n"
        "  - id: S\n"
        "    stage: ESCALATIONS\n"
        "    shadow: true\n"
        "    if: {}\n"
        "    then: { verdict: ESCALATE, reason_codes: [SCOPE_MISSING] }\n"
    )


def test_a_long_value_is_split_over_lines() -> None:
    missing = tuple(f"evidence.a_rather_long_name_{number}" for number in range(4))
    text = render_policy(draft(rule({}, missing=missing)))

    assert "    then:\n      verdict: ESCALATE\n      reason_codes: [SCOPE_MISSING]\n" in text
    assert f"      missing: [{', '.join(missing)}]\n" in text


def test_a_policy_without_rules_and_code_can_be_written() -> None:
    text = render_policy(draft(verdict=Verdict.ALLOW, code=None))

    assert "defaults: { verdict: ALLOW }\n\nrules: []\n" in text


def test_a_diagnostic_is_a_comment_at_its_rule_and_stays_inside_it() -> None:
    diagnostics = [
        ImportDiagnostic("rates", ImportLevel.WARNING, "p:1:1", "word " * 40, None, None),
        ImportDiagnostic("moved", ImportLevel.NOTE, "p:2:1", "line\nbreak: yes", None, "R"),
    ]
    text = render_policy(draft(rule({})), diagnostics)

    assert "  # moved: line\\nbreak: yes\n  - id: R\n" in text
    assert text.startswith("# Imported from old.yml.\n# rates: word word")
    assert all(len(line) <= 100 for line in text.splitlines())


# What a file can hold: no lone surrogates.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
VALUES = st.one_of(
    TEXTS,
    st.booleans(),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["no", "1_000", "12:30", "2020-01-01", "~", "<<", "=", "- a", "a: b", "# x"]),
)


@given(st.lists(VALUES, min_size=1), TEXTS, TEXTS)
def test_every_value_is_read_back_as_it_was(values: list[Any], name: str, key: str) -> None:
    text = render_policy(draft(rule({key: {"in": values}}, id=name), policy_id=name))
    read = read_source("p", text).plain_value

    assert read["policy_id"] == name
    assert read["rules"][0]["id"] == name
    if key not in {"any", "all"}:
        got = read["rules"][0]["if"][key]["in"]
        assert got == values
        assert [type(one) for one in got] == [type(one) for one in values]
