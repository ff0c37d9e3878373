import io
import json
from pathlib import Path

import pytest

from demur.cli.main import main

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


def test_a_text_can_be_given_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
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
