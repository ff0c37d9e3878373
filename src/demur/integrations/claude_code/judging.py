"""From an event of Claude Code to the enforcer, and back."""

from collections.abc import Collection, Mapping
from typing import Any

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.integrations.claude_code.answering import HookStyle, hook_output
from demur.integrations.claude_code.hook import Hook
from demur.integrations.claude_code.pins import PinnedRules
from demur.integrations.claude_code.questions import (
    GrantsForCall,
    astrictest_result,
    no_grants,
    strictest_result,
    ask_about_event,
)
from demur.integrations.claude_code.unguarded import unguarded_output

__all__ = ["CLAUDE_CODE", "GUARDED_SURFACES", "ajudge_hook", "judge_hook"]

CLAUDE_CODE = "claude-code"
# The surfaces whose guards judge an event; other events are not guarded.
GUARDED_SURFACES: Mapping[str, tuple[Surface, ...]] = {
    "PreToolUse": (Surface.TOOL_CALL, Surface.CODE_EXECUTION, Surface.TOOL_LOOP),
    "PostToolUse": (Surface.TOOL_RESULT, Surface.TOOL_LOOP),
    "PostToolUseFailure": (Surface.TOOL_RESULT, Surface.TOOL_LOOP),
    "PostToolBatch": (Surface.TOOL_RESULT, Surface.TOOL_LOOP),
    "UserPromptSubmit": (Surface.INPUT, Surface.TOOL_LOOP),
    "PostCompact": (Surface.COMPACTION,),
    "Stop": (Surface.OUTPUT,),
    "SubagentStop": (Surface.OUTPUT,),
}


def judge_hook(
    hook: Hook,
    enforcer: Enforcer,
    style: HookStyle = HookStyle(),  # noqa: B008 - a frozen value
    *,
    pins: PinnedRules = (),
    own_servers: Collection[str] = (),
    framework: str = CLAUDE_CODE,
) -> dict[str, Any]:
    """Return the output for an event; empty for events that are not guarded.

    `pins` are rules that outlive a compaction. Tools of `own_servers` have their bare names.
    """
    ruling = strictest_result(
        ask_about_event(hook, own_servers, hook.call_context(framework)), enforcer
    )
    return unguarded_output(*hook, pins) if ruling is None else hook_output(hook, ruling, style)


async def ajudge_hook(
    hook: Hook,
    enforcer: Enforcer,
    style: HookStyle = HookStyle(),  # noqa: B008 - a frozen value
    *,
    pins: PinnedRules = (),
    own_servers: Collection[str] = (),
    framework: str = CLAUDE_CODE,
    grants_for: GrantsForCall = no_grants,
) -> dict[str, Any]:
    """Return the output for an event, like `judge_hook`, without blocking the event loop.

    `grants_for` returns the grants of a call, which also cover its result.
    """
    ruling = await astrictest_result(
        ask_about_event(hook, own_servers, hook.call_context(framework), grants_for), enforcer
    )
    return unguarded_output(*hook, pins) if ruling is None else hook_output(hook, ruling, style)
