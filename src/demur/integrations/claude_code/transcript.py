"""A session's transcript as messages, for the guard of compactions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from demur.guards.compaction.guard import Compaction
from demur.guards.compaction.message import Message, Role
from demur.integrations.claude_code.hook import EventError, Hook

__all__ = ["compaction_of", "read_transcript"]

_LARGEST = 64_000_000


def compaction_of(hook: Hook) -> Compaction:
    """Return the compaction of an event: the conversation before it, and the summary.

    The summary counts as the model's message, whatever role delivers it.

    Raises:
        EventError: The transcript cannot be read.
    """
    summary = Message(role="assistant", content=hook.text("compact_summary") or "")
    before = read_transcript(Path(hook.text("transcript_path") or ""))
    return Compaction(before=before, after=(summary,), context=hook.run or "")


def read_transcript(path: Path) -> tuple[Message, ...]:
    """Return the messages since the last compaction, oldest first.

    Raises:
        EventError: It cannot be read, or is too large.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise EventError(f"more than {_LARGEST} bytes", where="transcript_path")
        lines = path.read_bytes().splitlines()
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise EventError(f"cannot be read: {reason}", where="transcript_path") from error
    said: list[Message] = []
    for line in lines:
        entry = _entry(line)
        if entry.get("subtype") == "compact_boundary":
            said.clear()
        said += _messages(entry)
    return tuple(said)


def _entry(line: bytes) -> dict[str, Any]:
    """Return an entry; an incomplete line gives an empty one."""
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _messages(entry: dict[str, Any]) -> Iterator[Message]:
    role, message = entry.get("type"), entry.get("message")
    if role not in ("user", "assistant") or not isinstance(message, dict):
        return
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict):
            yield from _part(role, part)


def _part(role: Role, part: dict[str, Any]) -> Iterator[Message]:
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        yield Message(role=role, content=part["text"])
    if part.get("type") == "tool_result":
        yield Message(role="tool", content=_returned(part.get("content")))


def _returned(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = (
        [one.get("text") for one in content if isinstance(one, dict)]
        if isinstance(content, list)
        else []
    )
    return "\n".join(text for text in texts if isinstance(text, str))
