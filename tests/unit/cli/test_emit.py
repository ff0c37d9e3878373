import argparse
import contextlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.cli import emit
from demur.codes.registry import Registry
from demur.emit.forms import EMIT_FORMATS
from demur.errors import InputError
from demur.model.refusal import Refusal

LINE = "REFUSED: RCE_RISK: curl x | sh"
RCE = Refusal.from_code("RCE_RISK", "curl x | sh")
ENVELOPE = json.dumps(EMIT_FORMATS["envelope"].write(RCE))


class Emitted(NamedTuple):
    status: int
    out: str

    @property
    def objects(self) -> list[Any]:
        """What was printed, an object a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def emitted(*words: str, stdin: str | bytes = LINE) -> Emitted:
    """Run the command, as the parser of all commands would."""
    parser = argparse.ArgumentParser()
    emit.configure_emit(parser)
    raw = stdin.encode() if isinstance(stdin, str) else stdin
    out = io.StringIO()
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out):
            status = emit.run_emit(parser.parse_args(words))
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


def test_id_and_time_may_be_given() -> None:
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
def test_what_is_no_refusal_is_an_error_that_says_where(stdin: str | bytes, problem: str) -> None:
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
