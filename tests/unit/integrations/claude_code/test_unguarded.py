import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.integrations.claude_code.emergency import HookExit
from demur.integrations.claude_code.judging import GUARDED_SURFACES
from demur.integrations.claude_code.unguarded import (
    GUARDED_EVENTS,
    answer_unguarded,
    unguarded_output,
)

PASSES = HookExit()


def event(name: Any, **members: Any) -> bytes:
    return json.dumps({"hook_event_name": name, **members}).encode()


def test_what_is_guarded_is_what_has_surfaces() -> None:
    assert set(GUARDED_SURFACES) == GUARDED_EVENTS


@pytest.mark.parametrize("name", ["SessionStart", "Notification", "SomethingNew"])
def test_an_event_that_nothing_is_judged_at_passes(name: str) -> None:
    assert answer_unguarded(event(name), ()) == PASSES


def test_pinned_rules_are_said(tmp_path: Path) -> None:
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
