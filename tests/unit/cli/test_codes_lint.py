import json
from collections.abc import Callable
from pathlib import Path

import pytest
from commandline import demur

GOOD = "reason_code: RCE_RISK\n"
WARNS = "reason_code: POLICY_VIOLATION\n"
WRONG = "reason_code: RCE_RISC\n"


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return the function that writes `policy.yaml` into the working folder."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        Path("policy.yaml").write_text(text, encoding="utf-8")
        return "policy.yaml"

    return write


@pytest.mark.parametrize(("text", "plain", "strict"), [(GOOD, 0, 0), (WARNS, 0, 1), (WRONG, 1, 1)])
def test_the_status_is_1_for_errors_and_under_strict_for_warnings_too(
    policy: Callable[[str], str], text: str, plain: int, strict: int
) -> None:
    file = policy(text)

    assert demur("codes", "lint", file).status == plain
    assert demur("codes", "lint", "--strict", file).status == strict
    assert demur("codes", "lint", "--json", "--strict", file).status == strict


def test_a_usage_is_two_lines_and_a_count_closes(policy: Callable[[str], str]) -> None:
    ran = demur("codes", "lint", policy(WRONG))

    assert ran.out == (
        "policy.yaml:1:14: error[unregistered-code] unknown reason code `RCE_RISC`\n"
        "  help: did you mean `RCE_RISK`? `demur codes list` shows those there are; "
        "`--registry FILE` adds your own\n"
        "1 error, 0 warnings\n"
    )


def test_nothing_wrong_says_so(policy: Callable[[str], str]) -> None:
    assert demur("codes", "lint", policy(GOOD)).out == "no misused codes\n"


def test_the_count_knows_one_from_many(policy: Callable[[str], str]) -> None:
    ran = demur("codes", "lint", policy(f"a:\n  {WARNS}b:\n  {WRONG}c:\n  {WRONG}"))

    assert ran.out.endswith("\n2 errors, 1 warning\n")


def test_colour_tells_errors_from_warnings(
    policy: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = demur("codes", "lint", policy(f"a:\n  {WARNS}b:\n  {WRONG}")).out

    assert "\x1b[1;31merror[unregistered-code]\x1b[0m" in out
    assert "\x1b[1;33mwarning[broad-code]\x1b[0m" in out


def test_json_is_a_list_of_objects(policy: Callable[[str], str]) -> None:
    [usage] = json.loads(demur("codes", "lint", "--json", policy(WRONG)).out)

    assert list(usage) == ["path", "line", "column", "rule", "severity", "message", "help"]
    assert usage["severity"] == "error"
    assert json.loads(demur("codes", "lint", "--json", policy(GOOD)).out) == []


def test_sarif_is_a_log_of_one_run(policy: Callable[[str], str]) -> None:
    log = json.loads(demur("codes", "lint", "--sarif", policy(WRONG)).out)

    assert log["version"] == "2.1.0"
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["unregistered-code"]


def test_json_and_sarif_together_are_a_usage_error(policy: Callable[[str], str]) -> None:
    ran = demur("codes", "lint", "--json", "--sarif", policy(GOOD))

    assert ran.status == 2
    assert "not allowed with argument" in ran.err


def test_registries_add_codes_to_the_default_one(
    policy: Callable[[str], str],
    acme_text: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = policy("reason_codes: [acme.com/KYC_EXPIRED, b.org/KYC_EXPIRED, RCE_RISK]\n")
    Path("acme.json").write_text(acme_text({"code": "acme.com/KYC_EXPIRED"}))
    Path("b.json").write_text(acme_text({"code": "b.org/KYC_EXPIRED"}, domain="b.org"))

    assert demur("codes", "lint", file).out.count("unknown reason code") == 2
    assert demur("codes", "lint", "--registry", "acme.json", file).status == 1
    both = ("--registry", "acme.json", "--registry", "b.json")
    assert demur("codes", "lint", *both, file).status == 0
    monkeypatch.setenv("DEMUR_REGISTRY", "acme.json")
    assert demur("codes", "lint", "--registry", "b.json", file).status == 0


def test_a_broken_registry_is_an_error_before_anything_is_read(
    policy: Callable[[str], str],
) -> None:
    ran = demur("codes", "lint", "--registry", "gone.json", policy(WRONG))

    assert (ran.status, ran.out) == (1, "")
    assert "gone.json: cannot read the registry" in ran.err


def test_a_path_that_does_not_exist_is_named(policy: Callable[[str], str]) -> None:
    ran = demur("codes", "lint", policy(GOOD), "src/gone")

    assert (ran.status, ran.out) == (1, "")
    assert ran.err == "error: src/gone: no such file or directory\n"


def test_without_a_path_the_usage_is_shown() -> None:
    ran = demur("codes", "lint")

    assert ran.status == 2
    assert "PATH" in ran.err


def test_a_file_name_that_no_terminal_can_print_is_escaped(tmp_path: Path) -> None:
    file = tmp_path / "bad\udcff\n.yaml"
    file.write_text(WRONG)

    assert r"bad\udcff\n.yaml:1:14: error" in demur("codes", "lint", tmp_path).out
