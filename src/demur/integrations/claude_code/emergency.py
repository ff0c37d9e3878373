"""Fallback denials of a hook, from the standard library alone.

Claude Code reads a decision only with status 0; status 2 blocks wherever a hook can, and
shows the error stream. Every other status lets the action run.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from demur.errors import one_line
from demur.integrations.claude_code.withholding import withheld

__all__ = ["BLOCKED", "Ending", "denial", "refusal_line", "stopping"]

BLOCKED = 2
_LONGEST = 300
_NOTHING: Mapping[str, Any] = {}


class Ending(NamedTuple):
    """How a hook ends: its status and output."""

    status: int = 0
    stdout: str = ""
    stderr: str = ""


def refusal_line(code: str, detail: str) -> str:
    """Return the refusal line of a code of the core registry."""
    shown = one_line(detail)[:_LONGEST]
    return f"REFUSED: {code}: {shown}"  # demur: allow raw-refusal-string - loads no registry


def stopping(line: str) -> dict[str, Any]:
    """Return the output that stops the run, so that the model does not read the tool's output."""
    return {"continue": False, "stopReason": line}


def denial(event: str | None, line: str, members: Mapping[str, Any] = _NOTHING) -> Ending:
    """Return the exit that denies an event with a refusal line; None is an unreadable event.

    It undoes nothing that has happened. It withholds what a tool returned, one of the event's
    `members`; where that is impossible, it stops the run.
    """
    # INVARIANT: without a judgement, no action passes that a hook can still stop.
    if event is None:
        return Ending(BLOCKED, stderr=f"{line}\n")
    return Ending(stdout=f"{json.dumps(_denied(event, line, members))}\n", stderr=f"{line}\n")


def _denied(event: str, line: str, members: Mapping[str, Any]) -> dict[str, Any]:
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
            return _unread(line, members)
        case "PostToolUseFailure":
            # Claude Code neither replaces the output nor stops here: PostToolBatch decides.
            answer = {"additionalContext": line}
        case "PostToolBatch":
            return stopping(line)
        case _:
            return {"systemMessage": line}
    return {"hookSpecificOutput": {"hookEventName": event, **answer}}


def _unread(line: str, members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the output that withholds what a tool returned."""
    if "tool_response" not in members:
        return stopping(line)
    try:
        instead = withheld(members["tool_response"], line)
        json.dumps(instead)
    except Exception:  # noqa: BLE001 - for example an output nested too deep to copy
        return stopping(line)
    special = {"hookEventName": "PostToolUse", "updatedToolOutput": instead}
    return {"decision": "block", "reason": line, "hookSpecificOutput": special}
