"""From an event of Claude Code to the enforcer, and back."""

from collections.abc import Collection, Mapping
from typing import Any

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.integrations.claude_code.answering import Manner, answer
from demur.integrations.claude_code.hook import Hook
from demur.integrations.claude_code.pins import Pins
from demur.integrations.claude_code.questions import GrantsOf, aput, no_grants, put, questions
from demur.integrations.claude_code.unguarded import unguarded

__all__ = ["CLAUDE_CODE", "SURFACES", "ajudge", "judge"]

CLAUDE_CODE = "claude-code"
# The surfaces whose guards judge an event; other events are not guarded.
SURFACES: Mapping[str, tuple[Surface, ...]] = {
    "PreToolUse": (Surface.TOOL_CALL, Surface.CODE_EXECUTION, Surface.TOOL_LOOP),
    "PostToolUse": (Surface.TOOL_RESULT, Surface.TOOL_LOOP),
    "PostToolUseFailure": (Surface.TOOL_RESULT, Surface.TOOL_LOOP),
    "PostToolBatch": (Surface.TOOL_RESULT, Surface.TOOL_LOOP),
    "UserPromptSubmit": (Surface.INPUT, Surface.TOOL_LOOP),
    "PostCompact": (Surface.COMPACTION,),
    "Stop": (Surface.OUTPUT,),
    "SubagentStop": (Surface.OUTPUT,),
}


def judge(
    hook: Hook,
    enforcer: Enforcer,
    manner: Manner = Manner(),  # noqa: B008 - a frozen value
    *,
    pins: Pins = (),
    own: Collection[str] = (),
    framework: str = CLAUDE_CODE,
) -> dict[str, Any]:
    """Return the output for an event; empty for events that are not guarded.

    `pins` are rules that outlive a compaction. Tools of `own_servers` have their bare names.
    """
    ruling = put(questions(hook, own, hook.occasion(framework)), enforcer)
    return unguarded(*hook, pins) if ruling is None else answer(hook, ruling, manner)


async def ajudge(
    hook: Hook,
    enforcer: Enforcer,
    manner: Manner = Manner(),  # noqa: B008 - a frozen value
    *,
    pins: Pins = (),
    own: Collection[str] = (),
    framework: str = CLAUDE_CODE,
    granted: GrantsOf = no_grants,
) -> dict[str, Any]:
    """Return the output for an event, like `judge_hook`, without blocking the event loop.

    `grants_for` returns the grants of a call, which also cover its result.
    """
    ruling = await aput(questions(hook, own, hook.occasion(framework), granted), enforcer)
    return unguarded(*hook, pins) if ruling is None else answer(hook, ruling, manner)
