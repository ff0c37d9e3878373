"""Events of Claude Code that need no judgement, answered with the standard library alone.

So a session starts at once.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from demur.integrations.claude_code.emergency import HookExit
from demur.integrations.claude_code.pins import (
    PinnedRules,
    keep_pins_output,
    read_pins,
    restate_pins_output,
)

__all__ = ["GUARDED_EVENTS", "answer_unguarded", "unguarded_output"]

# Other events need no judgement.
GUARDED_EVENTS = frozenset(
    {*("PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch")}
    | {*("UserPromptSubmit", "PostCompact", "Stop", "SubagentStop")}
)


def unguarded_output(event: str, members: Mapping[str, Any], pins: PinnedRules) -> dict[str, Any]:
    """Return the output of an event that is not guarded: the pinned rules, or nothing."""
    if event == "PreCompact":
        return keep_pins_output(pins)
    if event == "SessionStart" and members.get("source") == "compact":
        return restate_pins_output(pins)
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
