import json
from pathlib import Path
from typing import Any

import pytest

from demur.errors import InputError
from demur.guards.pinning import ContextMessage
from demur.integrations.claude_code.hook import Hook
from demur.integrations.claude_code.transcript import read_compaction, read_transcript


def written(path: Path, *entries: Any) -> Path:
    path.write_text("\n".join(json.dumps(entry) for entry in entries))
    return path


def said(role: str, content: Any) -> dict[str, Any]:
    return {"type": role, "message": {"role": role, "content": content}}


def test_each_message_has_its_author(tmp_path: Path) -> None:
    returned = {"type": "tool_result", "content": [{"type": "text", "text": "page"}, "odd", {}]}
    path = written(
        tmp_path / "t",
        said("user", "hello"),
        said("assistant", [{"type": "text", "text": "hi"}, {"type": "tool_use", "name": "Read"}]),
        said("user", [returned, {"type": "tool_result", "content": "plain"}, "odd"]),
        said("user", [{"type": "tool_result", "content": 3}]),
    )

    assert read_transcript(path) == (
        ContextMessage(role="user", content="hello"),
        ContextMessage(role="assistant", content="hi"),
        ContextMessage(role="tool", content="page"),
        ContextMessage(role="tool", content="plain"),
        ContextMessage(role="tool", content=""),
    )


def test_only_messages_after_the_last_compaction_count(tmp_path: Path) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary"}
    path = written(tmp_path / "t", said("user", "old"), boundary, said("user", "new"))

    assert read_transcript(path) == (ContextMessage(role="user", content="new"),)


def test_lines_that_are_no_messages_are_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path / "t", [], said("user", 3), {"type": "user"}, {"type": "mode"})
    with path.open("ab") as file:
        file.write(b'\n{"type": "user", "mess')

    assert read_transcript(path) == ()


def test_a_missing_transcript_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_transcript(tmp_path / "none")


def test_a_transcript_that_is_too_large_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demur.integrations.claude_code.transcript._MAX_TRANSCRIPT_BYTES", 10)

    with pytest.raises(InputError, match="more than 10 bytes"):
        read_transcript(written(tmp_path / "t", said("user", "hello")))


def test_a_summary_is_what_comes_after(tmp_path: Path) -> None:
    path = written(tmp_path / "t", said("user", "hello"))
    members = {"session_id": "s", "transcript_path": str(path), "compact_summary": "greeted"}

    compaction = read_compaction(Hook("PostCompact", members))

    assert compaction.before == (ContextMessage(role="user", content="hello"),)
    assert compaction.after == (ContextMessage(role="assistant", content="greeted"),)
    assert compaction.context == "s"
