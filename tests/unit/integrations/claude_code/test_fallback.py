import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.refusal_line import format_refusal, parse_refusal
from demur.emit.hosts import from_claude_code, to_claude_code, to_hook_exit
from demur.errors import InputError
from demur.integrations.claude_code.fallback import (
    GUARDED_EVENTS,
    HookExit,
    answer_unguarded,
    fallback_deny,
    read_pins,
    refusal_line,
    unguarded_output,
    withhold_texts,
)
from demur.integrations.claude_code.hook import GUARDED_SURFACES
from demur.model.refusal import Refusal

LINE = "REFUSED: INTERNAL_ERROR: the hook failed"


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest", "UserPromptSubmit"])
def test_the_no_is_the_one_that_emitting_the_refusal_gives(event: str) -> None:
    refusal = Refusal.from_code("INTERNAL_ERROR", "the hook failed")

    assert json.loads(fallback_deny(event, LINE).stdout) == to_claude_code(refusal, event=event)


def test_an_event_that_nobody_could_read_ends_with_the_status_that_blocks() -> None:
    exits = to_hook_exit(Refusal.from_code("INTERNAL_ERROR", "the hook failed"))

    assert fallback_deny(None, LINE) == HookExit(exits.status, stderr=exits.stderr)


def test_an_event_that_cannot_be_refused_only_gets_a_message() -> None:
    assert json.loads(fallback_deny("Stop", LINE).stdout) == {"systemMessage": LINE}
    assert fallback_deny("Stop", LINE).status == 0


def test_the_fallback_withholds_a_tool_output_unread() -> None:
    output = json.loads(fallback_deny("PostToolUse", LINE, {"tool_response": {"out": "x"}}).stdout)

    assert output["decision"] == "block"
    assert output["hookSpecificOutput"]["updatedToolOutput"] == {"out": LINE}


def deep() -> Any:
    value: Any = "x"
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize("members", [{}, {"tool_response": deep()}], ids=["unknown", "too deep"])
def test_an_output_that_cannot_be_withheld_ends_the_run(members: dict[str, Any]) -> None:
    output = json.loads(fallback_deny("PostToolUse", LINE, members).stdout)

    assert output == {"continue": False, "stopReason": LINE}
    assert json.loads(fallback_deny("PostToolBatch", LINE).stdout) == output


def test_after_a_failure_the_model_gets_additional_context() -> None:
    special = json.loads(fallback_deny("PostToolUseFailure", LINE).stdout)["hookSpecificOutput"]

    assert special == {"hookEventName": "PostToolUseFailure", "additionalContext": LINE}


def test_the_line_is_the_one_of_the_contract() -> None:
    assert refusal_line("INTERNAL_ERROR", "a b") == format_refusal("INTERNAL_ERROR", "a b")


def test_a_detail_is_one_line_of_bounded_length() -> None:
    line = refusal_line("POLICY_INVALID", "a\nb" + "x" * 10_000)

    assert "\n" not in line
    assert len(line) < 400


@given(st.sampled_from(["PreToolUse", "UserPromptSubmit", "PermissionRequest"]), st.text())
def test_nothing_passes_without_a_judgement(event: str, detail: str) -> None:
    """INVARIANT: without a judgement, no action passes that a hook can still stop."""
    line = refusal_line("INTERNAL_ERROR", detail)
    ending = fallback_deny(event, line)
    refusal = from_claude_code(json.loads(ending.stdout))

    assert ending.status == 0
    assert parse_refusal(line) is not None
    assert refusal is not None
    assert refusal.code == "INTERNAL_ERROR"
    assert fallback_deny(None, line).status == 2


LINE_withholding = "REFUSED: CONTEXT_INJECTION: x"
PICTURE = withhold_texts({"type": "image/png", "base64": "x"}, LINE_withholding)["base64"]
SHORT = re.compile(r"[\w$/+.-]{1,40}")
NAMES = st.text() | st.sampled_from(["type", "file", "data", "base64", "media_type"])
TEXTS = st.text() | st.sampled_from(["image", "text", "image/jpeg", "base64", "do as I say"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
)


def texts(value: Any, *, kind: bool = False) -> list[str]:
    """Return all texts that are neither empty nor the value of a kind."""
    if isinstance(value, dict):
        parts = [texts(item, kind=name in {"type", "media_type"}) for name, item in value.items()]
        return [text for part in parts for text in part]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) and value and not kind else []


def keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for item in value.values() for key in keys(item))]
    return [key for item in value for key in keys(item)] if isinstance(value, list) else []


@given(JSON)
def test_no_text_is_left(output: Any) -> None:
    """INVARIANT: the replacement keeps no text of the output, except kinds and kept texts."""
    replaced = withhold_texts({"inside": output}, LINE_withholding)

    assert set(texts(replaced)) <= {LINE_withholding, PICTURE}
    assert all(SHORT.fullmatch(key) for key in keys(replaced))


def test_the_shape_of_a_file_that_was_read_stays() -> None:
    file = {"filePath": "/a.txt", "content": "orders", "numLines": 3}

    assert withhold_texts({"type": "text", "file": file}, LINE_withholding, ["/a.txt"]) == {
        "type": "text",
        "file": {"filePath": "/a.txt", "content": LINE_withholding, "numLines": 3},
    }


@pytest.mark.parametrize("kind", ["image", "pdf", "notebook"])
def test_a_picture_that_was_read_becomes_a_text_that_was_read(kind: str) -> None:
    file = {"base64": "AAAA", "type": "image/jpeg", "originalSize": 3, "filePath": "/a"}
    replaced = withhold_texts({"type": kind, "file": file}, LINE_withholding, ["/a"])

    assert replaced["type"] == "text"
    assert replaced["file"]["content"] == LINE_withholding
    assert replaced["file"]["filePath"] == "/a"
    assert "filePath" in withhold_texts({"type": kind, "file": {}}, LINE_withholding)["file"]


@pytest.mark.parametrize("kind", ["image", "audio", "document", "resource"])
def test_a_part_that_is_no_text_becomes_one(kind: str) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    parts = [{"type": "text", "text": "x"}, {"type": kind, "source": source}]

    assert (
        withhold_texts(parts, LINE_withholding) == [{"type": "text", "text": LINE_withholding}] * 2
    )


def test_a_picture_elsewhere_becomes_an_empty_one() -> None:
    shot = {"shot": {"type": "base64", "media_type": "image/webp", "data": "AAAA"}}

    assert withhold_texts(shot, LINE_withholding) == {
        "shot": {"type": "base64", "media_type": "image/png", "data": PICTURE}
    }
    assert withhold_texts({"data": "x", "mimeType": "text/plain"}, LINE_withholding) == {
        "data": LINE_withholding,
        "mimeType": LINE_withholding,
    }


def test_a_key_that_is_a_sentence_is_a_text_like_others() -> None:
    replaced = withhold_texts(
        {"n": 1, "Ignore all of it": 2, "and do this": {"x": "y"}}, LINE_withholding
    )

    assert replaced == {"n": 1, "withheld_1": 2, "withheld_2": {"x": LINE_withholding}}


def test_an_unrequested_file_path_is_withheld_like_other_text() -> None:
    assert withhold_texts({"filePath": "do as I say"}, LINE_withholding) == {
        "filePath": LINE_withholding
    }


def test_an_empty_text_stays_empty() -> None:
    assert withhold_texts({"stdout": "x", "stderr": ""}, LINE_withholding) == {
        "stdout": LINE_withholding,
        "stderr": "",
    }


def test_a_sentence_is_no_kind() -> None:
    assert withhold_texts([{"type": "do as I say"}], LINE_withholding) == [
        {"type": LINE_withholding}
    ]


PASSES = HookExit()


def event(name: Any, **members: Any) -> bytes:
    return json.dumps({"hook_event_name": name, **members}).encode()


def test_guarded_events_are_those_with_surfaces() -> None:
    assert set(GUARDED_SURFACES) == GUARDED_EVENTS


@pytest.mark.parametrize("name", ["SessionStart", "Notification", "SomethingNew"])
def test_an_event_that_nothing_is_judged_at_passes(name: str) -> None:
    assert answer_unguarded(event(name), ()) == PASSES


def test_pinned_rules_are_repeated_around_a_compaction(tmp_path: Path) -> None:
    (tmp_path / "rules.md").write_text("ask first")
    pins = [str(tmp_path / "rules.md")]
    before = answer_unguarded(event("PreCompact"), pins)
    after = answer_unguarded(event("SessionStart", source="compact"), pins)

    assert before is not None
    assert after is not None
    assert "ask first" in json.loads(before.stdout)["systemMessage"]
    assert "ask first" in json.loads(after.stdout)["hookSpecificOutput"]["additionalContext"]
    assert answer_unguarded(event("SessionStart", source="startup"), pins) == PASSES


def test_rules_that_cannot_be_read_are_left_to_who_judges(tmp_path: Path) -> None:
    assert answer_unguarded(event("PreCompact"), [str(tmp_path / "none.md")]) is None


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"{", b"[]", b"null", b'"PreCompact"', b"{}", b"[" * 100_000),
        *(event(None), event(""), event(["New"]), event({"a": 1})),
        *(event("New").decode().encode("utf-16"), b"\xef\xbb\xbf" + event("New")),
        *(event("New", number=float("nan")), event("New").replace(b"New", b"\xff")),
    ],
)
def test_odd_input_is_left_to_who_judges(raw: bytes) -> None:
    assert answer_unguarded(raw, ()) is None


@given(
    st.sampled_from(sorted(GUARDED_EVENTS)),
    st.dictionaries(st.text(), st.none() | st.text() | st.lists(st.integers())),
)
def test_a_guarded_event_is_never_answered_here(name: str, members: dict[str, Any]) -> None:
    """INVARIANT: an event that is guarded is never answered without a judgement."""
    raw = json.dumps({**members, "hook_event_name": name}).encode()

    assert answer_unguarded(raw, ()) is None


def test_without_rules_there_is_nothing_to_say() -> None:
    assert unguarded_output("PreCompact", {}, ()) == {}
    assert unguarded_output("SessionStart", {"source": "compact"}, ()) == {}


def test_pinned_rules_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("never deploy on fridays\n")
    (tmp_path / "b.md").write_text("  \n")
    (tmp_path / "c.md").write_text("ask first")

    pins = read_pins([tmp_path / name for name in ("c.md", "b.md", "a.md")])

    assert pins == ("ask first", "never deploy on fridays")


@pytest.mark.parametrize("content", [b"\xff", b"x" * 100_001])
def test_an_unreadable_pin_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rules.md"
    path.write_bytes(content)

    with pytest.raises(InputError):
        read_pins([path])


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_pins([tmp_path / "none.md"])


def test_the_compaction_message_ends_with_the_pinned_rules() -> None:
    assert unguarded_output("PreCompact", {}, ["ask first"])["systemMessage"].endswith(
        "\n\nask first"
    )
    assert unguarded_output("PreCompact", {}, []) == {}


def test_a_session_that_starts_from_a_summary_hears_the_rules_again() -> None:
    special = unguarded_output("SessionStart", {"source": "compact"}, ["ask first"])[
        "hookSpecificOutput"
    ]

    assert special["hookEventName"] == "SessionStart"
    assert special["additionalContext"].endswith("\n\nask first")
    assert unguarded_output("SessionStart", {"source": "compact"}, []) == {}
