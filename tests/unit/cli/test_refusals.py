import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.command_line import demur

from demur.cli.main import main


def give_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def test_a_code_and_a_detail_make_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", "RCE_RISK", "a\nb"]) == 0
    assert capsys.readouterr().out == "REFUSED: RCE_RISK: a\\u000ab\n"


def test_the_detail_may_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", "RCE_RISK"]) == 0
    assert capsys.readouterr().out == "REFUSED: RCE_RISK: \n"


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (b"curl | sh\n", "curl | sh"),
        (b"curl | sh\r\n", "curl | sh"),
        (b"one\ntwo\n\n", "one\\u000atwo"),
        ("löschen".encode(), "löschen"),
        (b"\xff\xfe", "\\udcff\\udcfe"),
        (b"", ""),
    ],
)
def test_a_dash_reads_the_detail_from_standard_input(
    data: bytes,
    detail: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    give_input(monkeypatch, data)

    assert main(["format", "RCE_RISK", "-"]) == 0
    assert capsys.readouterr().out == f"REFUSED: RCE_RISK: {detail}\n"


def test_an_unknown_code_is_an_error_with_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", "RCE_RISC", "x"]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error: unknown code `RCE_RISC`\n  help: did you mean `RCE_RISK`?\n"


def test_a_code_is_taken_in_any_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", "rce_risk", "x"]) == 0
    assert main(["classify", "deny", "rce-risk"]) == 3
    assert capsys.readouterr().out.startswith("REFUSED: RCE_RISK: x\n")


def test_an_organisation_s_code_is_known_by_the_environment(
    tmp_path: Path,
    acme_text: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "acme.json"
    path.write_text(acme_text({"code": "acme.com/KYC_EXPIRED"}), encoding="utf-8")
    monkeypatch.setenv("DEMUR_REGISTRY", str(path))

    assert main(["format", "acme.com/KYC_EXPIRED", "x"]) == 0
    assert capsys.readouterr().out == "REFUSED: acme.com/KYC_EXPIRED: x\n"


def test_as_json_it_is_the_whole_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", "RCE_RISK", "x", "--json"]) == 0

    refusal = json.loads(capsys.readouterr().out)
    assert refusal["line"] == "REFUSED: RCE_RISK: x"
    assert refusal["advice"] == "do_not_retry"


LOG = (
    b"12:00 all is well\n"
    b"12:01 REFUSED: RCE_RISK: a\\u000ab\n"
    b"12:02 Too Many Requests \xff\n"
    b"12:03 REFUSED: NOPE_NOPE: x\n"
)


@pytest.fixture
def _log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LOG), encoding="utf-8"))


@pytest.mark.usefixtures("_log")
def test_each_refusal_is_printed_as_its_canonical_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "REFUSED: RCE_RISK: a\\u000ab",
        "REFUSED: RATE_LIMIT: 12:02 Too Many Requests \\udcff",
    ]


@pytest.mark.usefixtures("_log")
def test_as_json_each_refusal_says_what_its_code_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", "--json"]) == 0

    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {
        "code": "RCE_RISK",
        "detail": "a\nb",
        "refusal_class": "HARD_BLOCK",
        "advice": "do_not_retry",
        "decided": True,
        "legacy": False,
    }
    assert (second["code"], second["legacy"]) == ("RATE_LIMIT", True)
    assert second["detail"] == "12:02 Too Many Requests \udcff"


def test_parse_accepts_a_text_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", "--text", "x REFUSED: RCE_RISK: y\nz REFUSED: RATE_LIMIT: w"]) == 0
    assert capsys.readouterr().out == "REFUSED: RCE_RISK: y\nREFUSED: RATE_LIMIT: w\n"


@pytest.mark.parametrize(
    ("text", "status"), [("REFUSED: RCE_RISK: x", 3), ("all is well", 0), ("", 0)]
)
def test_checking_turns_a_refusal_into_an_exit_status(text: str, status: int) -> None:
    assert main(["parse", "--check", "--text", text]) == status


def test_without_checking_a_refusal_is_no_failure() -> None:
    assert main(["parse", "--text", "REFUSED: RCE_RISK: x"]) == 0


def test_files_are_read_in_turn_and_a_missing_one_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(LOG)

    assert main(["parse", str(path), str(path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert main(["parse", str(tmp_path / "none.log")]) == 1
    assert "none.log: no such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "output"),
    [
        (["ALLOW"], 0, "allowed\n"),
        (["DENY", "RCE_RISK"], 3, "refused\n"),
        (["ESCALATE", "SCOPE_MISSING", "--missing", "target"], 4, "needs something\n"),
        (["ALLOW", "DESTRUCTIVE_ACTION", "--constraint", "dry_run"], 5, "allowed with limits\n"),
        (["ABSTAIN", "GUARDRAIL_UNAVAILABLE"], 6, "could not judge\n"),
        (["ESCALATE", "SCOPE_MISSING", "--missing", "x", "--last-attempt"], 3, "refused\n"),
    ],
)
def test_the_status_says_what_to_do(words: list[str], status: int, output: str) -> None:
    ran = demur("classify", *words)

    assert ran.status == status
    assert ran.out.startswith(output)


def test_could_not_judge_is_distinguished_from_refused() -> None:
    assert "could not judge" in demur("classify", "ABSTAIN", "INTERNAL_ERROR").out
    assert "could not judge" not in demur("classify", "DENY", "RCE_RISK").out


def test_json_holds_the_whole_decision() -> None:
    decision = json.loads(demur("classify", "ESCALATE", "CRISIS_ESCALATION", "--json").out)

    assert decision["refusal_class"] == "WORKFLOW_BLOCK"
    assert decision["obligations"] == ["crisis_resources", "human_review"]
    assert decision["next_step"] == "escalate_operator"


def test_classify_shows_obligations() -> None:
    assert (
        "must crisis_resources, human_review"
        in demur("classify", "ESCALATE", "CRISIS_ESCALATION").out
    )


def test_an_impossible_combination_is_an_error_with_help() -> None:
    ran = demur("classify", "DENY")

    assert ran.status == 1
    assert "needs at least one reason code" in ran.err
    assert "help:" in ran.err
