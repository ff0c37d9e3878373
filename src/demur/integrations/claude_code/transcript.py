"""A session's transcript as messages, for the guard of compactions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from demur.guards.compaction import Compaction
from demur.guards.pinning import ContextMessage
from demur.integrations.claude_code.hook import Hook, HookEventError

_MAX_TRANSCRIPT_BYTES = 64_000_000


def read_compaction(hook: Hook) -> Compaction:
    """Return the compaction of an event: the conversation before it, and the summary.

    The summary counts as the model's message, whatever role delivers it.

    Raises:
        HookEventError: The transcript cannot be read.
    """
    summary = ContextMessage(role="assistant", content=hook.get_text("compact_summary") or "")
    before = read_transcript(Path(hook.get_text("transcript_path") or ""))
    return Compaction(before=before, after=(summary,), context=hook.run or "")


def read_transcript(path: Path) -> tuple[ContextMessage, ...]:
    """Return the messages since the last compaction, oldest first.

    Raises:
        HookEventError: It cannot be read, or is too large.
    """
    try:
        if path.stat().st_size > _MAX_TRANSCRIPT_BYTES:
            problem = f"more than {_MAX_TRANSCRIPT_BYTES} bytes"
            raise HookEventError(problem, where="transcript_path")
        lines = path.read_bytes().splitlines()
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise HookEventError(f"cannot be read: {reason}", where="transcript_path") from error
    messages: list[ContextMessage] = []
    for line in lines:
        entry = _parse_entry(line)
        if entry.get("subtype") == "compact_boundary":
            messages.clear()
        messages += _entry_messages(entry)
    return tuple(messages)


def _parse_entry(line: bytes) -> dict[str, Any]:
    """Return an entry; an incomplete line gives an empty one."""
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _entry_messages(entry: dict[str, Any]) -> Iterator[ContextMessage]:
    role, message = entry.get("type"), entry.get("message")
    if role not in ("user", "assistant") or not isinstance(message, dict):
        return
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for part in parts if isinstance(parts, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            yield ContextMessage(role=role, content=part["text"])
        elif kind == "tool_result":
            yield ContextMessage(role="tool", content=_tool_result_text(part.get("content")))


def _tool_result_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    texts = [part.get("text") for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str))
