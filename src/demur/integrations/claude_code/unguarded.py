"""Events of Claude Code that need no judgement, answered with the standard library alone.

So a session starts at once.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from demur.integrations.claude_code.emergency import Ending
from demur.integrations.claude_code.pins import Pins, keeping, read_pins, reminding

__all__ = ["GUARDED", "ending_unguarded", "unguarded"]

# Other events need no judgement.
GUARDED = frozenset(
    {*("PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch")}
    | {*("UserPromptSubmit", "PostCompact", "Stop", "SubagentStop")}
)


def unguarded(event: str, members: Mapping[str, Any], pins: Pins) -> dict[str, Any]:
    """Return the output of an event that is not guarded: the pinned rules, or nothing."""
    if event == "PreCompact":
        return keeping(pins)
    if event == "SessionStart" and members.get("source") == "compact":
        return reminding(pins)
    return {}


def ending_unguarded(raw: bytes, pins: Sequence[str]) -> Ending | None:
    """Return the exit of a hook whose event is not guarded, or None if it has to be judged.

    `pins` name files. On any error in them or in the input, the full hook decides.
    """
    # INVARIANT: an event that is guarded is never answered without a judgement.
    try:
        members = json.loads(raw.decode(), parse_constant=_no_number)
        event = members["hook_event_name"]
        if not isinstance(event, str) or not event or event in GUARDED:
            return None
        output = unguarded(event, members, read_pins(pins))
        return Ending(stdout=f"{json.dumps(output)}\n" if output else "")
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def _no_number(name: str) -> Any:
    raise ValueError(name)
