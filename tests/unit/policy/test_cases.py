import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.small_policies import CORE, policy_of, rule

from demur.codes.vocabulary import Surface
from demur.policy.cases import (
    CaseResult,
    CaseTableError,
    PolicyCase,
    load_cases,
    parse_cases,
    run_cases,
    unmatched_rules,
)
from demur.policy.evaluation import CompiledPolicy
from demur.policy.loader import load_policy

EXAMPLES = Path(__file__).parents[3] / "examples/policies"
POLICY = policy_of(
    rule({"action_type": "x"}, "DENY", ["RCE_RISK"]),
    rule({"action_type": "y"}, constraints=["at most once"]),
    rule({"action_type": "x"}, id="TRIAL", shadow=True),
)
COUNT = f"`demur codes list` shows all {len(CORE)}"
VERDICTS = "one of ALLOW, ESCALATE, ABSTAIN, DENY"
WANT = "want: {verdict: DENY, reason_codes: [RCE_RISK]}"
GOOD = f"- note: one\n  request: {{action: {{type: x}}}}\n  {WANT}\n"


def read(text: str) -> list[PolicyCase]:
    return parse_cases(text, "t.yaml", POLICY, CORE)


def ran(text: str) -> list[CaseResult]:
    return run_cases(CompiledPolicy(POLICY, registry=CORE), read(text))


def problems(text: str) -> list[tuple[str | None, str, str | None]]:
    with pytest.raises(CaseTableError) as caught:
        read(text)
    return [(problem.where, problem.problem, problem.help) for problem in caught.value.problems]


def test_the_example_keeps_its_table_and_every_rule_is_shown() -> None:
    policy = load_policy(EXAMPLES / "support.yaml")
    cases = load_cases(EXAMPLES / "support.test.yaml", policy, CORE)
    results = run_cases(CompiledPolicy(policy, registry=CORE), cases)

    assert [result.differences for result in results if result.differences] == []
    assert unmatched_rules(policy, results) == ()


def test_a_case_gives_the_signals_that_rules_read() -> None:
    policy = policy_of(rule({"signals.fraud": {"lt": 0.5}}, "ALLOW"))
    text = (
        "- {note: low, request: {action: {type: x}}, signals: {fraud: 0.1},"
        " want: {verdict: ALLOW, reason_codes: []}}"
    )
    cases = parse_cases(text, "t.yaml", policy, CORE)

    [result] = run_cases(CompiledPolicy(policy, registry=CORE), cases)

    assert result.differences == ()


def test_a_case_holds_what_was_written() -> None:
    [case] = read(GOOD)

    assert (case.note, case.where) == ("one", "t.yaml:1:3")
    assert case.request == {"action": {"type": "x"}}
    assert case.want == {"verdict": "DENY", "reason_codes": ("RCE_RISK",)}


def test_a_finding_is_a_code_or_a_code_with_a_surface() -> None:
    text = GOOD + "  findings: [RATE_LIMIT, {code: RCE_RISK, surface: skill}, {code: RCE_RISK}]\n"
    [case] = read(text)

    assert [finding.code for finding in case.findings] == ["RATE_LIMIT", "RCE_RISK", "RCE_RISK"]
    assert case.findings[0].surface in CORE["RATE_LIMIT"].surfaces
    assert case.findings[1].surface is Surface.SKILL


def test_a_matching_case_has_no_differences() -> None:
    assert ran(GOOD)[0].differences == ()


def test_each_difference_says_what_was_wanted_and_what_came() -> None:
    [result] = ran(
        "- note: one\n  request: {action: {type: x}}\n"
        "  want: {verdict: ALLOW, reason_codes: [], matched_rules: [R1], shadow_rules: [TRIAL]}\n"
    )

    assert [tuple(difference) for difference in result.differences] == [
        ("verdict", "ALLOW", "DENY"),
        ("reason_codes", (), ("RCE_RISK",)),
        ("matched_rules", ("R1",), ("R0",)),
    ]


def test_the_order_of_a_list_means_nothing() -> None:
    text = (
        "- note: one\n  request: {action: {type: x}}\n  findings: [RATE_LIMIT]\n"
        "  want: {verdict: DENY, reason_codes: [RATE_LIMIT, RCE_RISK]}\n"
    )

    assert ran(text)[0].evaluation.reason_codes == ("RCE_RISK", "RATE_LIMIT")
    assert ran(text)[0].differences == ()


def test_rules_that_no_case_matched_are_named_and_trials_count() -> None:
    assert unmatched_rules(POLICY, ran(GOOD)) == ("R1",)
    assert set(unmatched_rules(POLICY, [])) == {"R0", "R1", "TRIAL"}


@pytest.mark.parametrize(
    ("text", "where", "problem", "help_text"),
    [
        ("{}", "1:1", "a table is a list of cases", "like `- note: …`"),
        ("[]", "1:1", "a table is a list of cases", "like `- note: …`"),
        ("", "", "the file is empty", None),
        ("- 5", "1:3", "a case is a mapping", None),
        (GOOD + "  wants: 1\n", "4:3", "unknown key `wants`", "did you mean `want`?"),
        (
            GOOD + "  zzz: 1\n",
            "4:3",
            "unknown key `zzz`",
            "a case has note, request, findings, signals, want",
        ),
        (GOOD + GOOD, "4:3", "the note `one` appears twice", "also at t.yaml:1:3"),
        (
            GOOD.replace("one", "7"),
            "1:9",
            "a case needs a `note`, a text that says what it shows",
            None,
        ),
        (
            f"- request: {{}}\n  {WANT}",
            "1:3",
            "a case needs a `note`, a text that says what it shows",
            None,
        ),
        (f"- note: one\n  {WANT}", "1:3", "`request` is missing", None),
        ("- note: one\n  request: {}", "1:3", "`want` is missing", None),
        (f"- note: one\n  request: 5\n  {WANT}", "2:12", "`request` is a mapping", None),
        (
            f"- note: one\n  request: {{evidnce: {{}}}}\n  {WANT}",
            "2:13",
            "unknown key `evidnce`",
            "did you mean `evidence`?",
        ),
        (
            f"- note: one\n  request: {{findings: []}}\n  {WANT}",
            "2:13",
            "a request holds no findings",
            "put `findings` beside `request`",
        ),
        (
            f"- note: one\n  request: {{signals: {{}}}}\n  {WANT}",
            "2:13",
            "a request holds no signals",
            "put `signals` beside `request`",
        ),
        (GOOD + "  findings: RCE_RISK\n", "4:13", "`findings` is a list", None),
        (GOOD + "  findings: [{}]\n", "4:14", "`code` is missing", None),
        (
            GOOD + "  findings: [{code: RCE_RISK, surface: inputs}]\n",
            "4:40",
            "unknown surface `inputs`",
            "did you mean `input`?",
        ),
        (
            GOOD + "  findings: [RCE_RISC]\n",
            "4:14",
            "unknown reason code `RCE_RISC`",
            f"did you mean `RCE_RISK`? {COUNT}",
        ),
        (
            GOOD.replace("DENY", "REFUSE"),
            "3:19",
            "unknown verdict `REFUSE`",
            VERDICTS,
        ),
        (GOOD.replace("verdict: DENY, ", ""), "3:9", "`verdict` is missing", VERDICTS),
        (GOOD.replace(", reason_codes: [RCE_RISK]", ""), "3:9", "`reason_codes` is missing", None),
        (GOOD.replace("[RCE_RISK]", "RCE_RISK"), "3:39", "`reason_codes` is a list", None),
        (GOOD.replace("[RCE_RISK]", "[5]"), "3:40", "`reason_codes` holds texts", "quote it"),
        (
            GOOD.replace("RCE_RISK]", "SCOPE_MISING]"),
            "3:40",
            "unknown reason code `SCOPE_MISING`",
            f"did you mean `SCOPE_MISSING`? {COUNT}",
        ),
        (
            GOOD.replace("DENY", "DENY, matched_rules: [TRIAL]"),
            "3:41",
            "the policy has no such rule in `matched_rules`: `TRIAL`",
            "one of R0, R1",
        ),
        ("- note: one\n  request: {}\n  want: 5", "3:9", "`want` is a mapping", None),
        ("- note: one\n  note: two", "2:3", "the key `note` appears twice", "first at t.yaml:1:3"),
    ],
)
def test_a_problem_has_its_place(
    text: str, where: str, problem: str, help_text: str | None
) -> None:
    place = f"t.yaml:{where}" if where else "t.yaml"

    assert (place, problem, help_text) in problems(text)


def test_every_problem_is_reported_at_once() -> None:
    assert len(problems("- {note: one}\n- {note: two, request: {}, want: {verdict: NEVER}}")) == 4


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(CaseTableError, match="cannot read the table: no such file"):
        load_cases(tmp_path / "gone.yaml", POLICY, CORE)
    with pytest.raises(CaseTableError, match="not UTF-8 text"):
        load_cases(tmp_path / "odd.yaml", POLICY, CORE)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["x", "DENY", "RCE_RISK"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["note", "request", "findings", "want", "verdict", "code", "action"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(st.lists(JSON, max_size=3) | st.text(max_size=30))
def test_nothing_but_a_table_error_comes_of_a_broken_table(raw: Any) -> None:
    with contextlib.suppress(CaseTableError):
        run_cases(CompiledPolicy(POLICY, registry=CORE), read(str(raw)))
