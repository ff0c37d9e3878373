import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

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
    assert main(["format", "RCE_RISC", "x"]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: unknown reason code `RCE_RISC`\n  help: did you mean `RCE_RISK`?")


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
