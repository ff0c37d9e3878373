import argparse
import json
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from gates import finding, opened, refund

from demur.cli.respond import configure_respond, run_respond
from demur.errors import InputError, UnknownCodeError

OWN = """\
schema_version: refusal_templates.v1
locale: en
templates:
  - id: our_limit
    codes: [RATE_LIMIT]
    acknowledgment: I see you're in a hurry.
    boundary: I can't answer just now
    reason: the kettle is on
    alternatives: [pour you a cup, call you back]
    engagement: Milk?
"""


def respond(*words: str) -> int:
    parser = argparse.ArgumentParser()
    configure_respond(parser)
    return run_respond(parser.parse_args(list(words)))


def test_the_words_for_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert respond("CONTENT_PRIVACY", "--slot", "target=your neighbour") == 0
    assert "looking into your neighbour without their knowledge" in capsys.readouterr().out


def test_locale_persona_and_own_templates(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(OWN, encoding="utf-8")
    respond("JAILBREAK_WRAPPER", "--locale", "es-MX", "--persona", "Milo")
    respond("RATE_LIMIT", "--templates", str(path))
    out = capsys.readouterr().out

    assert out.startswith("Soy Milo, entiendo")
    assert out.endswith("I can pour you a cup, or call you back. Milk?\n")


def test_a_stored_decision_for_each_audience(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with opened() as gate:
        record = gate.decide(refund(), findings=[finding(evidence={"command": "curl | sh"})])
    path = tmp_path / "decision.json"
    path.write_text(json.dumps(dict(record)), encoding="utf-8")

    respond(str(path))
    person = capsys.readouterr().out
    respond(str(path), "--audience", "agent", "--json")
    agent = json.loads(capsys.readouterr().out)
    respond(str(path), "--audience", "operator", "--json")
    operator = json.loads(capsys.readouterr().out)

    assert "curl" not in person
    assert "RCE_RISK" not in person
    assert (agent["code"], agent["decision_id"]) == ("RCE_RISK", record.decision_id)
    assert "findings" not in agent
    assert operator["findings"][0]["evidence"] == {"command": "curl | sh"}


def test_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = b'{"verdict": "ALLOW", "reason_codes": [], "refusal_class": null, '
    raw += b'"decision_output": "ALLOW_EXECUTE"}'
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(raw)))

    with pytest.raises(InputError, match="nothing was refused"):
        respond("-")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[1]", "not a decision"),
        ("3", "not a decision"),
        ("{}", "object missing required field"),
        ('{"schema_version": "refusal.v1"', "not JSON"),
    ],
)
def test_a_file_that_is_no_decision_is_told(content: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(InputError, match=problem) as caught:
        respond(str(path))
    assert (caught.value.where or "").startswith(str(path))


def test_wrong_words_on_the_command_line_are_told() -> None:
    with pytest.raises(UnknownCodeError, match="RATE_LIMITS"):
        respond("RATE_LIMITS")
    with pytest.raises(InputError, match="`tool` is not NAME=TEXT"):
        respond("RATE_LIMIT", "--slot", "tool")
    with pytest.raises(InputError, match="unknown slot `tol`"):
        respond("RATE_LIMIT", "--slot", "tol=x")
