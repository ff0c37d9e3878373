"""From an event of Claude Code to its point of the enforcer, and back."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from demur.codes.vocabulary import Surface
from demur.gate.enforcer import Enforcer
from demur.gate.occasion import Occasion
from demur.integrations.claude_code.answering import Manner, answer
from demur.integrations.claude_code.hook import Hook
from demur.integrations.claude_code.pins import Pins, keeping, reminding
from demur.integrations.claude_code.transcript import compaction_of

if TYPE_CHECKING:
    from demur.gate.ruling import Ruling

__all__ = ["CLAUDE_CODE", "SURFACES", "ajudge", "judge", "unguarded"]

CLAUDE_CODE = "claude-code"
# What has to be guarded to judge an event; every other event needs no guard.
SURFACES: Mapping[str, tuple[Surface, ...]] = {
    "PreToolUse": (Surface.TOOL_CALL, Surface.CODE_EXECUTION, Surface.TOOL_LOOP),
    "PostToolUse": (Surface.TOOL_RESULT, Surface.TOOL_LOOP),
    "PostToolUseFailure": (Surface.TOOL_RESULT, Surface.TOOL_LOOP),
    "UserPromptSubmit": (Surface.INPUT,),
    "PostCompact": (Surface.COMPACTION,),
    "Stop": (Surface.OUTPUT,),
    "SubagentStop": (Surface.OUTPUT,),
}


class _Asked(NamedTuple):
    """A point of the enforcer, and what it is asked."""

    point: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]


def judge(
    hook: Hook,
    enforcer: Enforcer,
    manner: Manner = Manner(),  # noqa: B008 - a frozen value
    *,
    pins: Pins = (),
    own: Collection[str] = (),
    framework: str = CLAUDE_CODE,
) -> dict[str, Any]:
    """Return what to answer to an event; nothing to those that are not guarded.

    `pins` are rules that outlive a compaction; tools of MCP servers of one's `own` go by their
    bare names.
    """
    asked = _asked(hook, own, framework)
    if asked is None:
        return unguarded(hook, pins)
    ruling: Ruling = getattr(enforcer, asked.point)(*asked.arguments, **asked.named)
    return answer(hook, ruling, manner)


async def ajudge(
    hook: Hook,
    enforcer: Enforcer,
    manner: Manner = Manner(),  # noqa: B008 - a frozen value
    *,
    pins: Pins = (),
    own: Collection[str] = (),
    framework: str = CLAUDE_CODE,
) -> dict[str, Any]:
    """Return what to answer to an event, like `judge`; the event loop runs on meanwhile."""
    asked = _asked(hook, own, framework)
    if asked is None:
        return unguarded(hook, pins)
    ruling: Ruling = await getattr(enforcer, f"a{asked.point}")(*asked.arguments, **asked.named)
    return answer(hook, ruling, manner)


def _asked(hook: Hook, own: Collection[str], framework: str) -> _Asked | None:
    at = hook.occasion(framework)
    match hook.event:
        case "PreToolUse" | "PostToolUse" | "PostToolUseFailure":
            return _tool_asked(hook, own, at)
        case "UserPromptSubmit":
            return _Asked("prompt", (hook.get("prompt"), at), {})
        case "PostCompact" if hook.text("compact_summary"):
            named = {"action": "compact"}
            return _Asked("check", (Surface.COMPACTION, compaction_of(hook), at), named)
        case "Stop" | "SubagentStop" if _may_say_it_otherwise(hook):
            return _Asked("answer", (hook.text("last_assistant_message"), at), {})
    return None


def _tool_asked(hook: Hook, own: Collection[str], at: Occasion) -> _Asked:
    name, given = hook.tool(own), hook.get("tool_input")
    if hook.event == "PreToolUse":
        return _Asked("tool_call", (name, given, at), {"source": hook.source})
    failed = hook.event == "PostToolUseFailure"
    # As the model reads it: what failed begins by saying so.
    result = f"Error: {hook.get('error')}" if failed else hook.get("tool_response")
    return _Asked("tool_result", (name, result, at), {"arguments": given})


def _may_say_it_otherwise(hook: Hook) -> bool:
    """Return whether the agent said something last, and was not told to say it otherwise yet."""
    return not hook.get("stop_hook_active") and hook.text("last_assistant_message") is not None


def unguarded(hook: Hook, pins: Pins) -> dict[str, Any]:
    """Return what to say at an event that nothing is judged at: the pinned rules, or nothing."""
    if hook.event == "PreCompact":
        return keeping(pins)
    if hook.event == "SessionStart" and hook.get("source") == "compact":
        return reminding(pins)
    return {}
