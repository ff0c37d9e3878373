"""The no of a hook that cannot even ask: made of nothing but the standard library.

Claude Code reads a decision only with status 0; status 2 blocks wherever a hook can, and
shows the error stream. Every other status lets the action run.
"""

import json
from typing import Any, NamedTuple

from demur.errors import one_line

__all__ = ["BLOCKED", "Ending", "denial", "refusal_line"]

BLOCKED = 2
_LONGEST = 300


class Ending(NamedTuple):
    """How a hook ends: its status and what it prints."""

    status: int = 0
    stdout: str = ""
    stderr: str = ""


def refusal_line(code: str, detail: str) -> str:
    """Return the refusal line of a code of the core registry."""
    shown = one_line(detail)[:_LONGEST]
    return f"REFUSED: {code}: {shown}"  # demur: allow raw-refusal-string - loads no registry


def denial(event: str | None, line: str) -> Ending:
    """Return the ending that says no with a refusal line; None is an event nobody could read.

    What has happened already is not undone by it: there the line only tells.
    """
    # INVARIANT: without a judgement, nothing passes that a hook can still stop.
    if event is None:
        return Ending(BLOCKED, stderr=f"{line}\n")
    if event == "PreToolUse":
        answer = {"permissionDecision": "deny", "permissionDecisionReason": line}
        return _printed({"hookSpecificOutput": {"hookEventName": event, **answer}}, line)
    if event == "PermissionRequest":
        decision = {"behavior": "deny", "message": line}
        return _printed(
            {"hookSpecificOutput": {"hookEventName": event, "decision": decision}}, line
        )
    if event in {"UserPromptSubmit", "PostToolUse"}:
        return _printed({"decision": "block", "reason": line}, line)
    return _printed({"systemMessage": line}, line)


def _printed(output: dict[str, Any], line: str) -> Ending:
    return Ending(stdout=f"{json.dumps(output)}\n", stderr=f"{line}\n")
