import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.command_line import demur
from support.small_policies import rule, written

EXAMPLES = Path(__file__).parents[3] / "examples/policies"
POLICY = written(
    rule({"action_type": "x"}, "DENY", ["RCE_RISK"]), rule({"action_type": "y"}), rule({}, "ALLOW")
)
GOOD = """\
- note: x is denied
  request: {action: {type: x}}
  want: {verdict: DENY, reason_codes: [RCE_RISK]}
"""
WRONG = """\
- note: x is fine
  request: {action: {type: x}}
  want: {verdict: ALLOW, reason_codes: []}
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(POLICY, encoding="utf-8")
    Path("good.yaml").write_text(GOOD, encoding="utf-8")
    Path("wrong.yaml").write_text(WRONG, encoding="utf-8")


def test_the_example_keeps_its_table() -> None:
    files = (EXAMPLES / "support.yaml", EXAMPLES / "support.test.yaml")
    ran = demur("policy", "test", "--require-coverage", *files)

    assert (ran.status, ran.out) == (0, "19 passed, 0 failed\n")


def test_a_difference_is_shown_with_note_and_place() -> None:
    ran = demur("policy", "test", "p.yaml", "good.yaml", "wrong.yaml")

    assert ran.status == 1
    assert ran.out == (
        "wrong.yaml:1:3: failed: x is fine\n"
        "  verdict\n"
        "    want ALLOW\n"
        "    got  DENY\n"
        "  reason_codes\n"
        "    want none\n"
        "    got  RCE_RISK\n"
        "note: no case matches R1\n"
        "1 passed, 1 failed\n"
    )


def test_rules_that_no_case_matches_are_a_note_unless_coverage_is_required() -> None:
    ran = demur("policy", "test", "p.yaml", "good.yaml")

    assert (ran.status, ran.out) == (0, "note: no case matches R1\n1 passed, 0 failed\n")
    assert demur("policy", "test", "p.yaml", "good.yaml", "--require-coverage").status == 1


def test_json_tells_all_of_it() -> None:
    ran = demur("policy", "test", "--json", "p.yaml", "good.yaml", "wrong.yaml")
    told = json.loads(ran.out)

    assert ran.status == 1
    assert (told["passed"], told["failed"], told["unmatched_rules"]) == (1, 1, ["R1"])
    assert [case["passed"] for case in told["cases"]] == [True, False]
    assert told["cases"][1]["differences"][1] == {
        "field": "reason_codes",
        "want": [],
        "got": ["RCE_RISK"],
    }


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("gone.yaml", "good.yaml"), "gone.yaml: cannot read the policy"),
        (("p.yaml", "gone.yaml"), "gone.yaml: cannot read the table"),
        (("p.yaml", "p.yaml"), "p.yaml:1:1: a table is a list of cases"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error(words: tuple[str, ...], problem: str) -> None:
    ran = demur("policy", "test", *words)

    assert (ran.status, ran.out) == (1, "")
    assert problem in ran.err


def test_an_organisation_s_codes_are_known(acme_text: Callable[..., str]) -> None:
    Path("acme.json").write_text(acme_text({"code": "acme.com/KYC_EXPIRED"}), encoding="utf-8")
    Path("good.yaml").write_text(GOOD + "  findings: [acme.com/KYC_EXPIRED]\n", encoding="utf-8")
    ran = demur("policy", "test", "p.yaml", "good.yaml", "--registry", "acme.json")

    assert demur("policy", "test", "p.yaml", "good.yaml").status == 1
    assert "got  RCE_RISK, acme.com/KYC_EXPIRED\n" in ran.out
