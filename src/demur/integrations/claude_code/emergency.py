"""Fallback denials of a hook, from the standard library alone.

Claude Code reads a decision only with status 0; status 2 blocks wherever a hook can, and
shows the error stream. Every other status lets the action run.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from demur.errors import one_line
from demur.integrations.claude_code.withholding import withhold_texts

__all__ = ["BLOCKED", "HookExit", "fallback_deny", "refusal_line", "stop_output"]

BLOCKED = 2
_MAX_DETAIL_LENGTH = 300
_NO_MEMBERS: Mapping[str, Any] = {}


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


def fallback_deny(
    event: str | None, line: str, members: Mapping[str, Any] = _NO_MEMBERS
) -> HookExit:
    """Return the exit that denies an event with a refusal line; None is an unreadable event.

    It undoes nothing that has happened. It withholds what a tool returned, one of the event's
    `members`; where that is impossible, it stops the run.
    """
    # INVARIANT: without a judgement, no action passes that a hook can still stop.
    if event is None:
        return HookExit(BLOCKED, stderr=f"{line}\n")
    return HookExit(
        stdout=f"{json.dumps(_deny_output(event, line, members))}\n", stderr=f"{line}\n"
    )


def _deny_output(event: str, line: str, members: Mapping[str, Any]) -> dict[str, Any]:
    match event:
        case "PreToolUse":
            answer: dict[str, Any] = {
                "permissionDecision": "deny",
                "permissionDecisionReason": line,
            }
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
