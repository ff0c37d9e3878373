import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.command_line import demur
from support.small_policies import rule, written

EXAMPLE = Path(__file__).parents[3] / "examples/policies/support.yaml"
WARNS = written()
WRONG = written(rule({"evidence.check": {"ne": "passed"}}, "DENY"))


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def file(text: str) -> str:
    Path("p.yaml").write_text(text, encoding="utf-8")
    return "p.yaml"


def test_there_is_nothing_to_remark_on_the_example() -> None:
    ran = demur("policy", "lint", "--strict", EXAMPLE)

    assert (ran.status, ran.out) == (0, "no diagnostics\n")


@pytest.mark.parametrize(("text", "plain", "strict"), [(WARNS, 0, 1), (WRONG, 1, 1)])
def test_the_status_is_1_for_errors_and_under_strict_for_warnings_too(
    text: str, plain: int, strict: int
) -> None:
    assert demur("policy", "lint", file(text)).status == plain
    assert demur("policy", "lint", "--strict", file(text)).status == strict
    assert demur("policy", "lint", "--json", "--strict", file(text)).status == strict


def test_a_remark_is_two_lines_and_a_count_closes() -> None:
    ran = demur("policy", "lint", file(WARNS))

    assert ran.out == (
        "p.yaml: warning[no-rules] the policy has no rules\n"
        "  help: every request gets the default, ESCALATE\n"
        "0 errors, 1 warning\n"
    )


def test_a_policy_that_does_not_load_is_an_error_among_others() -> None:
    ran = demur("policy", "lint", "gone.yaml", file(WARNS))

    assert ran.status == 1
    assert "gone.yaml: error[invalid-policy] cannot read the policy" in ran.out
    assert "warning[no-rules]" in ran.out
    assert ran.out.endswith("\n1 error, 1 warning\n")


def test_json_is_a_list_of_objects() -> None:
    [remark] = json.loads(demur("policy", "lint", "--json", file(WRONG)).out)

    assert list(remark) == ["rule", "level", "where", "message", "help"]
    assert (remark["rule"], remark["level"]) == ("negated-field", "error")
    assert json.loads(demur("policy", "lint", "--json", EXAMPLE).out) == []


def test_colour_tells_errors_from_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert "\x1b[1;31merror[negated-field]\x1b[0m" in demur("policy", "lint", file(WRONG)).out
    assert "\x1b[1;33mwarning[no-rules]\x1b[0m" in demur("policy", "lint", file(WARNS)).out


def test_an_organisation_s_codes_are_known(acme_text: Callable[..., str]) -> None:
    policy = file(written(rule({}, "DENY", ["acme.com/KYC_EXPIRED"])))
    Path("acme.json").write_text(acme_text({"code": "acme.com/KYC_EXPIRED"}), encoding="utf-8")

    assert demur("policy", "lint", policy).status == 1
    assert demur("policy", "lint", "--registry", "acme.json", policy).status == 0
