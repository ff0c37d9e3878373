import argparse
import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.command_line import Ran, demur

from demur.cli import lint as lint_refusal
from demur.cli.lint import LintDiagnostic, print_diagnostics
from demur.cli.main import Arguments, UsageError
from demur.codes.lint_rules import LintLevel
from demur.errors import InputError


def test_each_remark_has_its_place_rule_and_help_and_a_count_closes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_diagnostics(
        [
            LintDiagnostic("a.py:1:2", LintLevel.ERROR, "bad-code", "no\nsuch code", "look it up"),
            LintDiagnostic("b.py:3:4", LintLevel.WARNING, "odd-code", "an odd code", None),
        ],
        "all is well",
    )

    assert capsys.readouterr().out.splitlines() == [
        r"a.py:1:2: error[bad-code] no\nsuch code",
        "  help: look it up",
        "b.py:3:4: warning[odd-code] an odd code",
        "1 error, 1 warning",
    ]


def test_print_diagnostics_prints_the_clean_message_if_there_are_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_diagnostics([], "all is well")

    assert capsys.readouterr().out == "all is well\n"


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


GRACEFUL = (
    "You'd like the old files gone. I can't run a command that deletes them for good, because"
    " nothing could bring them back. I can list what would be deleted. Which would help?"
)
PREACHY = "I absolutely cannot open her mailbox. You should seriously reconsider your choices."


def lint(*words: str) -> Ran:
    parser = argparse.ArgumentParser()
    lint_refusal.configure_lint_refusal(Arguments(parser))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = lint_refusal.run_lint_refusal(parser.parse_args(words))
    return Ran(status, out.getvalue(), "")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "88")
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


def write(text: str, name: str = "r.txt") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


@pytest.mark.usefixtures("folder")
def test_a_clean_refusal_is_shown_with_its_parts_in_the_margin() -> None:
    ran = lint(write(GRACEFUL))

    assert ran.status == 0
    assert ran.out == (
        "r.txt:1: graceful, 100 of 100 (en)\n"
        "  acknowledgment | You'd like the old files gone.\n"
        "        boundary | I can't run a command that deletes them for good,\n"
        "          reason | because nothing could bring them back.\n"
        "    alternatives | I can list what would be deleted.\n"
        "      engagement | Which would help?\n"
    )


@pytest.mark.usefixtures("folder")
def test_each_fault_is_quoted_once_with_a_suggestion() -> None:
    ran = lint(write(PREACHY))

    assert ran.status == 3
    assert (
        "  moralising: lectures the reader\n"
        '    "absolutely cannot", "You should seriously reconsider"\n'
        "    try: cut it; the boundary already says no, and one plain reason is enough\n"
    ) in ran.out
    assert ran.out.count("try: ") == 4


@pytest.mark.usefixtures("folder")
def test_several_refusals_stand_apart_by_rules() -> None:
    ran = lint(write(f"{PREACHY}\n---\n\n{GRACEFUL}\n---\n"))

    heads = [line for line in ran.out.splitlines() if line.startswith("r.txt:")]
    assert [head.split(",")[0] for head in heads] == ["r.txt:1: preachy", "r.txt:4: graceful"]
    assert ran.status == 3


@pytest.mark.usefixtures("folder")
def test_json_lines_bring_their_own_code_and_locale() -> None:
    hint = "I can't write that worm. Try rephrasing it."
    rows = [{"text": hint, "code": "CONTENT_CYBER"}, hint, {"text": hint, "locale": "fi"}]
    ran = lint(write("\n".join(map(json.dumps, rows)) + "\n"), "--json")

    found = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["verdict"] for row in found] == ["unsafe", "incomplete", "unjudged"]
    assert found[0]["where"] == "r.txt:1"
    assert "Try rephrasing" in [problem.get("quote") for problem in found[0]["problems"]]
    assert found[0]["parts"][0]["quote"] == "I can't write that worm."


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", ['{"a": 1}\nI can\'t open it.', "[1]", '{"text": 3}'])
def test_json_that_holds_no_refusals_is_read_as_text(text: str) -> None:
    ran = lint(write(text), "--locale", "en")

    assert ran.out.startswith("r.txt:1: ")


@pytest.mark.usefixtures("folder")
def test_a_code_on_the_command_line_holds_for_all() -> None:
    assert "bypass-hint" in lint(write("I can't do it. Try rephrasing."), "--code", "RCE_RISK").out


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The sky is blue.", "not a refusal"),
        ("Het spijt me, ik kan je niet helpen.", "unjudged"),
    ],
)
def test_an_unjudged_refusal_does_not_pass(text: str, said: str) -> None:
    ran = lint(write(text))

    assert ran.status == 6
    assert ran.out.startswith(f"r.txt:1: {said}")


@pytest.mark.usefixtures("folder")
def test_a_question_that_offers_something_is_named_as_both() -> None:
    out = lint(write("I can't open it. Shall I draft a letter to her for you?")).out

    assert "alternatives" in out
    assert "engagement" in out


@pytest.mark.usefixtures("folder")
def test_a_long_text_is_shortened_between_its_parts() -> None:
    out = lint(write(f"I can't open it. {'Some words. ' * 500}Which would help?")).out

    assert len(out) < 3000
    assert " … " in out


@pytest.mark.usefixtures("folder")
def test_a_long_quotation_shows_its_two_ends() -> None:
    out = lint(write(f"I can't open it, because {'really ' * 60}it is hers.")).out

    assert '"because really really' in out
    assert 'really it is hers."' in out


@pytest.mark.usefixtures("folder")
def test_marks_of_ones_own_are_used() -> None:
    own = write(
        "schema_version: refusal_marks.v1\nlocale: xx\nwords: [qua]\n"
        "marks: [{id: a, means: boundary, pattern: nequeo, hit: [nequeo], miss: [queo]}]",
        "xx.yaml",
    )

    assert lint(write("qua nequeo"), "--marks", own).out.startswith("r.txt:1: incomplete")


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + GRACEFUL.encode() + b"\xff"))
    monkeypatch.setattr("sys.stdin", stream)

    assert lint("-").out.startswith("standard input:1: graceful")


@pytest.mark.usefixtures("folder")
def test_invalid_input_of_lint_is_an_error() -> None:
    with pytest.raises(InputError, match="cannot read the refusals: no such file"):
        lint("none.txt")
    with pytest.raises(InputError, match="the input holds no refusal"):
        lint(write("\n---\n \n"))
    with pytest.raises(UsageError):
        lint(write(GRACEFUL), "--code", "NO_SUCH_CODE")


def test_a_folder_without_sources_does_not_pass(tmp_path: Path) -> None:
    ran = demur("codes", "lint", tmp_path)

    assert ran.status == 1
    assert ran.err.startswith(f"error: {tmp_path}: there is nothing to lint\n")
