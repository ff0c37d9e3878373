import argparse
import contextlib
import io
import json
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gates import finding, opened, refund

from demur.cli import formats
from demur.cli.formats import configure_respond, run_respond
from demur.cli.main import Arguments, UsageError
from demur.codes.registry import Registry
from demur.emit.formats import EMIT_FORMATS
from demur.errors import InputError
from demur.model.refusal import Refusal

DECLINED = {"choices": [{"message": {"refusal": "No."}, "finish_reason": "stop"}]}
ANSWERED = {"choices": [{"message": {"content": "42"}, "finish_reason": "stop"}]}
BROKE = {
    "sanitizationResult": {"filterMatchState": "NO_MATCH_FOUND", "invocationResult": "FAILURE"}
}


def ran(*words: str) -> int:
    parser = argparse.ArgumentParser()
    formats.configure_normalize(Arguments(parser))
    return formats.run_normalize(parser.parse_args(words))


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


def test_the_status_is_passed_with_the_body(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = b'{"error": {"code": "cyber_policy", "message": "m"}}'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
    assert ran("--status", "400") == 3
    assert capsys.readouterr().out.startswith("REFUSED: CONTENT_CYBER: ")


def test_an_unreadable_response_is_an_error(write: Path) -> None:
    with pytest.raises(InputError, match="cannot read the response: no such file"):
        ran(str(write))
    write.write_text(" \n", encoding="utf-8")
    with pytest.raises(InputError, match="the input holds no response"):
        ran(str(write))


def test_any_bytes_give_an_answer(write: Path) -> None:
    write.write_bytes(b"\xff\x00{")
    assert ran(str(write)) == 6


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('{"foo": 1}', 6),
        ("just words", 6),
        ("[]", 6),
        ('{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}', 0),
        ('data: {"choices": [{"delta": {"content": "hi"}}]}\n\ndata: [DONE]\n', 0),
    ],
)
def test_an_unknown_shape_is_no_success(
    text: str, status: int, write: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write.write_text(text, encoding="utf-8")

    assert ran(str(write)) == status
    message = f"{write}: the input is no response, error or stream that demur knows"
    assert (message in capsys.readouterr().err) is (status == 6)


def test_unknown_lines_are_counted(write: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write.write_text('{"foo": 1}\n{"content": [], "stop_reason": "end_turn"}\n', encoding="utf-8")

    assert ran(str(write), "--lines") == 6
    assert "1 of the lines are no response" in capsys.readouterr().err


LINE = "REFUSED: RCE_RISK: curl x | sh"
RCE = Refusal.from_code("RCE_RISK", "curl x | sh")
ENVELOPE = json.dumps(EMIT_FORMATS["envelope"].write(RCE))


class Emitted(NamedTuple):
    status: int
    out: str

    @property
    def objects(self) -> list[Any]:
        """The printed objects, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def emitted(*words: str, stdin: str | bytes = LINE) -> Emitted:
    """Run the command, as the parser of all commands would."""
    parser = argparse.ArgumentParser()
    formats.configure_emit(Arguments(parser))
    raw = stdin.encode() if isinstance(stdin, str) else stdin
    out = io.StringIO()
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out):
            status = formats.run_emit(parser.parse_args(words))
    finally:
        sys.stdin = before
    return Emitted(status, out.getvalue())


@pytest.mark.parametrize("form", EMIT_FORMATS)
def test_every_form_can_be_written_from_a_line(form: str) -> None:
    more = ["--source", "/gate"] if "source" in EMIT_FORMATS[form].required_arguments else []
    ran = emitted(form, "--json", *more)

    assert ran.status == 0
    [made] = ran.objects
    assert EMIT_FORMATS[form].read(made) == RCE


@pytest.mark.parametrize("indent", [None, 2])
def test_an_envelope_may_stand_on_one_line_or_on_many(indent: int | None) -> None:
    text = json.dumps(json.loads(ENVELOPE), indent=indent)

    assert json.loads(emitted("mcp", stdin=text).out)["isError"] is True


def test_many_refusals_make_one_object_each() -> None:
    both = f"{LINE}\r\n\n{ENVELOPE}\n"

    assert emitted("envelope", "--json", stdin=both).objects == [json.loads(ENVELOPE)] * 2


def test_without_json_the_object_is_indented_for_people() -> None:
    assert emitted("mcp").out.startswith("{\n  ")


def test_a_hook_s_answer_follows_its_options() -> None:
    asked = emitted("claude-code", "--ask", "--json", stdin="REFUSED: APPROVAL_REQUIRED: refund")
    [made] = asked.objects
    assert made["hookSpecificOutput"]["permissionDecision"] == "ask"

    [made] = emitted("claude-code", "--event", "Stop", "--halt", "--json").objects
    assert made == {"decision": "block", "reason": LINE, "continue": False, "stopReason": LINE}


@pytest.mark.parametrize(
    "stdin",
    [
        "",
        "REFUSED: NO_SUCH_CODE: x",
        f"{LINE}\nno refusal",
        ENVELOPE.replace("refusal.v1", "refusal.v2"),
        b"\xff",
    ],
)
def test_a_hook_that_cannot_write_its_refusal_blocks(
    stdin: str | bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = emitted("claude-code", stdin=stdin)

    assert (ran.status, ran.out) == (2, "")
    assert capsys.readouterr().err.startswith("error: the refusal cannot be written")


@given(st.binary(max_size=80) | st.text(max_size=80).map(lambda text: f"REFUSED: {text}"))
def test_a_hook_ends_in_an_answer_or_in_a_block(stdin: str | bytes) -> None:
    """INVARIANT: what a hook cannot write as a refusal blocks all the same."""
    with contextlib.redirect_stderr(io.StringIO()):
        ran = emitted("claude-code", "--json", stdin=stdin)

    if ran.status == 0:
        [made] = ran.objects
        assert made["hookSpecificOutput"]["permissionDecision"] == "deny"
    else:
        assert (ran.status, ran.out) == (2, "")


def test_a_hook_blocks_even_where_a_registry_or_an_option_is_wrong(tmp_path: Path) -> None:
    with contextlib.redirect_stderr(io.StringIO()):
        assert emitted("claude-code", "--registry", str(tmp_path / "none.json")).status == 2
        assert emitted("claude-code", "--subject", "x").status == 2


def test_a_hook_prints_one_answer_for_many_refusals() -> None:
    both = f"REFUSED: RATE_LIMIT: soon\n{LINE}\nREFUSED: APPROVAL_REQUIRED: refund"
    [made] = emitted("claude-code", "--ask", "--json", stdin=both).objects

    assert made["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert made["hookSpecificOutput"]["permissionDecisionReason"] == LINE


def test_id_and_time_can_be_set() -> None:
    words = ("--event-id", "E1", "--time", "2027-01-31T12:00Z", "--source", "/gate", "--json")
    [made] = emitted("cloudevents", *words, "--subject", "shell").objects

    assert (made["id"], made["time"]) == ("E1", "2027-01-31T12:00:00Z")
    assert made["subject"] == "shell"


def test_ids_that_are_left_out_differ() -> None:
    first, second = emitted("ocsf", "--json", stdin=f"{LINE}\n{LINE}").objects

    assert first["metadata"]["uid"] != second["metadata"]["uid"]


@pytest.mark.parametrize(
    ("stdin", "problem"),
    [
        ("", "the input holds no refusal"),
        (" \n", "the input holds no refusal"),
        ("all is well", "not a refusal"),
        (f"{LINE}\nrate limit exceeded", "not a refusal"),
        ('{"code": "RCE_RISK"}', "not a refusal envelope"),
        (b"\xff", "not UTF-8, from byte 0 on"),
        ("[1]", "not a refusal"),
        ("REFUSED: SUCCESS_MEMORY_SIMILAR_ALLOW: x", "not a refusal"),
    ],
)
def test_an_input_without_a_refusal_is_an_error_with_its_place(
    stdin: str | bytes, problem: str
) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        emitted("mcp", stdin=stdin)
    assert str(caught.value.where).startswith("standard input")


def test_nothing_is_printed_where_one_of_many_is_wrong() -> None:
    with pytest.raises(InputError) as caught:
        emitted("mcp", stdin=f"{LINE}\nno refusal\n")
    assert caught.value.where == "standard input:2"


def test_an_option_of_another_form_is_an_error() -> None:
    with pytest.raises(InputError, match="`mcp` does not take --event") as caught:
        emitted("mcp", "--event", "Stop")
    assert caught.value.help == "it takes no options"
    with pytest.raises(InputError) as caught:
        emitted("ocsf", "--subject", "x")
    assert caught.value.help == "it takes --event-id, --time, --registry"


def test_an_event_needs_a_source() -> None:
    with pytest.raises(InputError, match="needs --source"):
        emitted("cloudevents")


def test_an_unknown_form_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        emitted("carrier-pigeon")
    assert caught.value.code == 2
    assert "problem" in capsys.readouterr().err


def test_an_organisation_s_codes_are_known_by_their_file(
    tmp_path: Path, acme_text: Callable[..., str]
) -> None:
    path = tmp_path / "acme.json"
    path.write_text(acme_text({"code": "acme.com/KYC_EXPIRED"}), encoding="utf-8")

    [made] = emitted(
        *("problem", "--json", "--registry", str(path)), stdin="REFUSED: acme.com/KYC_EXPIRED: x"
    ).objects
    assert made["type"] == "urn:demur:code:acme.com/KYC_EXPIRED"
    assert made["title"] == Registry.load(path)["acme.com/KYC_EXPIRED"].title


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
    configure_respond(Arguments(parser))
    return run_respond(parser.parse_args(list(words)))


def test_the_words_for_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert respond("CONTENT_PRIVACY", "--slot", "target=your neighbour") == 0
    assert "prying into the private life of your neighbour" in capsys.readouterr().out


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
        ("", "there is no decision in it"),
        ("{}", "object missing required field"),
        ('{"schema_version": "refusal.v1"', "not JSON"),
    ],
)
def test_a_file_that_is_not_a_decision_is_an_error(
    content: str, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(InputError, match=problem) as caught:
        respond(str(path))
    assert (caught.value.where or "").startswith(str(path))


def test_invalid_arguments_of_respond_are_errors() -> None:
    with pytest.raises(InputError, match="unknown code `RATE_LIMITS`"):
        respond("RATE_LIMITS")
    with pytest.raises(InputError, match="`tool` is not NAME=VALUE"):
        respond("RATE_LIMIT", "--slot", "tool")
    with pytest.raises(UsageError, match="unknown slot `tol`"):
        respond("RATE_LIMIT", "--slot", "tol=x")


def test_a_crisis_names_the_lines_of_the_locale(capsys: pytest.CaptureFixture[str]) -> None:
    assert respond("CRISIS_ESCALATION", "--locale", "en-US") == 0

    assert "988 Suicide & Crisis Lifeline (US): call or text 988" in capsys.readouterr().out


def test_a_variation_chooses_another_wording(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for key in ("0", "1", "2", "3", "talk 7", "talk 7"):
        respond("RCE_RISK", "--variation", key)
        texts.append(capsys.readouterr().out)

    assert len(set(texts[:3])) == 3
    assert texts[3] == texts[0]
    assert texts[4] == texts[5]
