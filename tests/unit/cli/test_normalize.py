import argparse
import io
import json
import sys
from pathlib import Path

import pytest

from demur.cli import normalize
from demur.errors import InputError

DECLINED = {"choices": [{"message": {"refusal": "No."}, "finish_reason": "stop"}]}
ANSWERED = {"choices": [{"message": {"content": "42"}, "finish_reason": "stop"}]}
BROKE = {
    "sanitizationResult": {"filterMatchState": "NO_MATCH_FOUND", "invocationResult": "FAILURE"}
}


def ran(*words: str) -> int:
    parser = argparse.ArgumentParser()
    normalize.configure_normalize(parser)
    return normalize.run_normalize(parser.parse_args(words))


@pytest.fixture
def write(tmp_path: Path) -> Path:
    return tmp_path / "response.json"


def test_a_refusal_is_printed_as_its_line(write: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write.write_text(json.dumps(DECLINED), encoding="utf-8")
    assert ran(str(write)) == 3
    assert capsys.readouterr().out == "REFUSED: MODEL_DECLINED: No.\n"


def test_json_holds_the_source(write: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write.write_text(json.dumps(DECLINED), encoding="utf-8")
    assert ran(str(write), "--json") == 3
    assert json.loads(capsys.readouterr().out)["source"]["native"] == "No."


def test_an_answer_prints_nothing(write: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write.write_text(json.dumps(ANSWERED), encoding="utf-8")
    assert ran(str(write)) == 0
    assert capsys.readouterr().out == ""


def test_a_guard_that_broke_has_a_status_of_its_own(write: Path) -> None:
    write.write_text(json.dumps(BROKE), encoding="utf-8")
    assert ran(str(write)) == 6


def test_each_line_may_be_a_response(write: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.dumps(one) for one in (BROKE, ANSWERED, DECLINED)]
    write.write_text("\n\n".join(lines), encoding="utf-8")
    assert ran(str(write), "--lines") == 3
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_stream_is_one_response(write: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [{"choices": [{"delta": {"refusal": word}}]} for word in ("No", ".")]
    write.write_text("".join(f"data: {json.dumps(part)}\n\n" for part in parts), encoding="utf-8")
    assert ran(str(write)) == 3
    assert capsys.readouterr().out == "REFUSED: MODEL_DECLINED: No.\n"


def test_the_status_comes_in_beside_the_body(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = b'{"error": {"code": "cyber_policy", "message": "m"}}'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
    assert ran("--status", "400") == 3
    assert capsys.readouterr().out.startswith("REFUSED: CONTENT_CYBER: ")


def test_what_cannot_be_read_is_named(write: Path) -> None:
    with pytest.raises(InputError, match="cannot read the response: no such file"):
        ran(str(write))
    write.write_text(" \n", encoding="utf-8")
    with pytest.raises(InputError, match="the input holds no response"):
        ran(str(write))


def test_any_bytes_give_an_answer(write: Path) -> None:
    write.write_bytes(b"\xff\x00{")
    assert ran(str(write)) == 0
