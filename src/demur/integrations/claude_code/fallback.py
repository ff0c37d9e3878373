"""Hook answers that need only the standard library: fallback denials and pinned rules.

Claude Code reads a decision only with status 0; status 2 blocks wherever a hook can, and shows
stderr. Every other status lets the action run.

Withheld tool output keeps its shape, because Claude Code keeps the original if a replacement
does not fit the tool's schema. Every text is replaced, except the names of output kinds.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from demur.errors import InputError, one_line

_KIND_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_/+.-]{0,29}")
_KEY_PATTERN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.-]{0,39}")
# Kinds of message parts that are not text.
_MEDIA_KINDS = ("image", "audio", "video", "document", "resource", "file", "pdf")
_BLANK_PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
_FILE_KINDS = (*_MEDIA_KINDS, "notebook", "parts")
_DATA_MEMBERS = ("base64", "data", "blob", "image_data")
_MEDIA_TYPES = ("media_type", "mediaType", "mimeType", "type")


def withhold_texts(output: Any, text: str, kept_texts: Collection[object] = ()) -> Any:
    """Return `output` with `text` in place of every text in it; empty ones stay empty.

    `kept_texts` may stay because the agent wrote them itself, like a path. Pictures and documents
    become texts where texts are allowed, or else an empty picture.
    """
    return _OutputWithholder(text, kept_texts).replace_value(output)


class _OutputWithholder(NamedTuple):
    text: str
    kept_texts: Collection[object]

    def replace_value(self, output: Any) -> Any:
        # INVARIANT: the replacement keeps no text of the output, except kinds and kept texts.
        if isinstance(output, str):
            return output if not output or output in self.kept_texts else self.text
        if isinstance(output, list):
            return [self._replace_part(item) for item in output]
        if isinstance(output, dict):
            return self._replace_file(output) or self._replace_members(output)
        return output

    def _replace_part(self, item: Any) -> Any:
        """Return the replacement of a list item: a text for media."""
        if isinstance(item, dict) and item.get("type") in _MEDIA_KINDS:
            return {"type": "text", "text": self.text}
        return self.replace_value(item)

    def _replace_file(self, output: dict[str, Any]) -> dict[str, Any] | None:
        """Return a text file in place of a file of another kind; else None."""
        file = output.get("file")
        if output.get("type") not in _FILE_KINDS or not isinstance(file, dict):
            return None
        path = file.get("filePath")
        lines = {"numLines": 1, "startLine": 1, "totalLines": 1}
        named = {"filePath": path if path in self.kept_texts else self.text}
        return {"type": "text", "file": {**named, "content": self.text, **lines}}

    def _replace_members(self, output: dict[str, Any]) -> dict[str, Any]:
        replaced = {}
        for number, (name, value) in enumerate(output.items()):
            key = name if _KEY_PATTERN.fullmatch(name) else f"withheld_{number}"
            is_kind = name == "type" and _is_kind(value)
            replaced[key] = value if is_kind else self.replace_value(value)
        kinds = (name for name in _MEDIA_TYPES if _is_kind(output.get(name)))
        kind = next((name for name in kinds if output[name].startswith("image/")), None)
        data = [name for name in _DATA_MEMBERS if isinstance(output.get(name), str)]
        # An empty picture in place of a picture's data.
        picture = {kind: "image/png", **dict.fromkeys(data, _BLANK_PNG)} if kind and data else {}
        return {**replaced, **picture}


def _is_kind(value: Any) -> bool:
    return isinstance(value, str) and _KIND_PATTERN.fullmatch(value) is not None


BLOCKED = 2
_MAX_DETAIL_LENGTH = 300
_EMPTY: Mapping[str, Any] = {}


class HookExit(NamedTuple):
    """How a hook ends: its status and output."""

    status: int = 0
    stdout: str = ""
    stderr: str = ""


def refusal_line(code: str, detail: str) -> str:
    """Return the refusal line of a code of the core registry."""
    shown = one_line(detail)[:_MAX_DETAIL_LENGTH]
    return f"REFUSED: {code}: {shown}"  # demur: allow raw-refusal-string - loads no registry


def stop_output(line: str) -> dict[str, Any]:
    """Return the output that stops the run, so that the model does not read the tool's output."""
    return {"continue": False, "stopReason": line}


def fallback_deny(event: str | None, line: str, members: Mapping[str, Any] = _EMPTY) -> HookExit:
    """Return the exit that denies an event with a refusal line; None is an unreadable event.

    It undoes nothing that has happened. It withholds what a tool returned, one of the event's
    `members`; where that is impossible, it stops the run.
    """
    # INVARIANT: without a judgement, no action passes that a hook can still stop.
    if event is None:
        return HookExit(BLOCKED, stderr=f"{line}\n")
    output = json.dumps(_deny_output(event, line, members))
    return HookExit(stdout=f"{output}\n", stderr=f"{line}\n")


def _deny_output(event: str, line: str, members: Mapping[str, Any]) -> dict[str, Any]:
    match event:
        case "PreToolUse":
            decision = {"permissionDecision": "deny", "permissionDecisionReason": line}
            answer: dict[str, Any] = decision
        case "PermissionRequest":
            answer = {"decision": {"behavior": "deny", "message": line}}
        case "UserPromptSubmit":
            return {"decision": "block", "reason": line}
        case "PostToolUse":
            return _withhold_output(line, members)
        case "PostToolUseFailure":
            # Claude Code neither replaces the output nor stops here: PostToolBatch decides.
            answer = {"additionalContext": line}
        case "PostToolBatch":
            return stop_output(line)
        case _:
            return {"systemMessage": line}
    return {"hookSpecificOutput": {"hookEventName": event, **answer}}


def _withhold_output(line: str, members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the output that withholds what a tool returned."""
    if "tool_response" not in members:
        return stop_output(line)
    try:
        instead = withhold_texts(members["tool_response"], line)
        json.dumps(instead)
    except Exception:  # noqa: BLE001 - for example an output nested too deep to copy
        return stop_output(line)
    special = {"hookEventName": "PostToolUse", "updatedToolOutput": instead}
    return {"decision": "block", "reason": line, "hookSpecificOutput": special}


PinnedRules = Sequence[str]

_MAX_PIN_LENGTH = 100_000


class PinsError(InputError):
    """A file of pinned rules cannot be used."""


def read_pins(paths: Sequence[Path | str]) -> tuple[str, ...]:
    """Return the rules in files, in order; an empty file pins nothing.

    Raises:
        PinsError: A file cannot be read, or is too long to be repeated.
    """
    return tuple(text for path in paths if (text := _read_pin(Path(path))))


def _read_pin(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or "not UTF-8 text").lower()
        raise PinsError(
            f"the rules that `--pin` names cannot be read: {reason}; put the file back, or "
            "install the hooks without it",
            where=str(path),
        ) from error
    if len(text) > _MAX_PIN_LENGTH:
        raise PinsError(f"more than {_MAX_PIN_LENGTH} characters to pin", where=str(path))
    return text


# Other events need no judgement.
GUARDED_EVENTS = frozenset(
    {"PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch"}
    | {"UserPromptSubmit", "PostCompact", "Stop", "SubagentStop"}
)


def unguarded_output(event: str, members: Mapping[str, Any], pins: PinnedRules) -> dict[str, Any]:
    """Return the output of an event that is not guarded: the pinned rules, or nothing.

    Before a compaction it asks to keep the rules; a session that starts from a summary gets them
    again.
    """
    if not pins:
        return {}
    if event == "PreCompact":
        begin = "Keep these rules in the summary, word for word:"
        return {"systemMessage": "\n\n".join((begin, *pins))}
    if event == "SessionStart" and members.get("source") == "compact":
        begin = "These rules hold as they did before the conversation was summarised:"
        context = "\n\n".join((begin, *pins))
        return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}}
    return {}


def answer_unguarded(raw: bytes, pins: Sequence[str]) -> HookExit | None:
    """Return the exit of a hook whose event is not guarded, or None if it has to be judged.

    `pins` name files. On any error in them or in the input, the full hook decides.
    """
    # INVARIANT: an event that is guarded is never answered without a judgement.
    try:
        members = json.loads(raw.decode(), parse_constant=_reject_constant)
        event = members["hook_event_name"]
        if not isinstance(event, str) or not event or event in GUARDED_EVENTS:
            return None
        output = unguarded_output(event, members, read_pins(pins))
        return HookExit(stdout=f"{json.dumps(output)}\n" if output else "")
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def _reject_constant(name: str) -> Any:
    raise ValueError(name)
