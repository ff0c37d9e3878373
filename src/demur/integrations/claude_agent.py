"""Claude Agent SDK: hooks that hold an agent to the gate's word, as the SDK's own callbacks.

Each matcher has `on_failure="block"`: without it, a callback that fails lets the call run.
"""

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from demur.enforce.approval import Approval, GrantFor, check_approval
from demur.enforce.enforcer import Enforcer
from demur.enforce.occasion import Occasion
from demur.enforce.ruling import Ruling
from demur.gate.gate import Gate
from demur.integrations.claude_code.answering import Manner
from demur.integrations.claude_code.emergency import denial, refusal_line
from demur.integrations.claude_code.hook import Hook
from demur.integrations.claude_code.judging import ajudge
from demur.integrations.claude_code.questions import about_call, aput
from demur.integrations.extras import missing_extra
from demur.model.grant import Grant

try:
    from claude_agent_sdk import (
        CanUseTool,
        ClaudeAgentOptions,
        HookCallback,
        HookContext,
        HookInput,
        HookJSONOutput,
        HookMatcher,
        PermissionResultAllow,
        PermissionResultDeny,
        ToolPermissionContext,
    )
    from claude_agent_sdk.types import HookEvent
except ImportError as error:
    raise missing_extra("claude-agent-sdk") from error

__all__ = ["can_use_tool", "claude_hooks", "merge_hooks"]

_FRAMEWORK = "claude-agent-sdk"
# The SDK's type does not name the last three events, but its CLI asks callbacks at them as well.
_EVENTS = (
    *("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit"),
    *("PreCompact", "Stop", "SubagentStop", "SessionStart", "PostCompact", "PostToolBatch"),
)
# What is not judged by then is refused, before the CLI gives the hook up.
_OWN_SHARE = 0.8
_MATCHERS = {"SessionStart": "compact"}


def claude_hooks(
    enforcer: Enforcer | Gate,
    *,
    approval: Approval = "message",
    halt: bool = True,
    pins: Sequence[str] = (),
    own_servers: Collection[str] = (),
    timeout_s: float = 60,
) -> dict[HookEvent, list[HookMatcher]]:
    """Return the hooks, for `ClaudeAgentOptions(hooks=...)`.

    With `approval="interrupt"`, a call that waits for approval goes to `can_use_tool`, or to who
    sits at the terminal, instead of being refused. The SDK runs what is approved there without
    asking again: `can_use_tool(enforcer, grant_for=...)` demands a grant beside it.

    With `halt`, a hard block ends the run. `pins` are rules that outlive a compaction. Tools of
    `own_servers`, those of this program, go by their bare names (`refund`) in policies; others
    by their whole one (`mcp__shop__refund`).

    Raises:
        InputError: There is no such way to ask for approval.
        InputTypeError: Neither an enforcer nor a gate is given.
    """
    by = Enforcer.of(enforcer)
    manner = Manner(ask=check_approval(approval) == "interrupt", halt=halt)

    async def judged(
        event: HookInput, _tool_use_id: str | None, _context: HookContext
    ) -> HookJSONOutput:
        members = cast("Mapping[str, Any]", event)
        hook = Hook(str(members.get("hook_event_name")), members)
        try:
            async with asyncio.timeout(timeout_s * _OWN_SHARE):
                output = await ajudge(
                    hook, by, manner, pins=pins, own=own_servers, framework=_FRAMEWORK
                )
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no permission
            output = json.loads(denial(hook.event, _line_of(error), members).stdout)
        return _to_output(output)

    return {cast("HookEvent", event): [_matcher(event, judged, timeout_s)] for event in _EVENTS}


def merge_hooks(
    options: ClaudeAgentOptions, hooks: Mapping[HookEvent, Sequence[HookMatcher]]
) -> ClaudeAgentOptions:
    """Return the options with more hooks beside their own."""
    merged = {event: list(matchers) for event, matchers in hooks.items()}
    for event, matchers in (options.hooks or {}).items():
        merged[event] = [*merged.get(event, ()), *matchers]
    return replace(options, hooks=merged)


def can_use_tool(
    enforcer: Enforcer | Gate,
    *,
    person: CanUseTool | None = None,
    grant_for: GrantFor | None = None,
    halt: bool = True,
    own_servers: Collection[str] = (),
) -> CanUseTool:
    """Return a second line of defence, for `ClaudeAgentOptions(can_use_tool=...)`.

    It is asked only about calls that no allow rule has let through, so it never replaces the
    hooks. `person` is asked about what may run, and about what waits for approval; input that
    they change is judged like any other. With `grant_for`, their yes alone lifts nothing: the
    call is decided again with the grants that it gives for the ruling and the SDK's context.

    Raises:
        InputTypeError: Neither an enforcer nor a gate is given.
    """
    by = Enforcer.of(enforcer)

    async def judged(
        name: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        hook = Hook("PreToolUse", {"tool_name": name})
        # Without a run: the hook has put this call into its history already.
        at = Occasion(framework=_FRAMEWORK, call_id=context.tool_use_id)

        async def ruled(asked: Any, grants: Iterable[Grant] = ()) -> Ruling:
            tool, source = hook.tool(own_servers), hook.source(own_servers)
            ruling = await aput(about_call(tool, asked, at, source, grants), by)
            assert ruling is not None
            return ruling

        ruling = await ruled(given)
        if person is not None and (ruling.allowed or ruling.may_be_approved):
            answer = await person(name, given, context)
            if not isinstance(answer, PermissionResultAllow):
                return answer
            wanted = given if answer.updated_input is None else answer.updated_input
            ruling = ruling if wanted == given else await ruled(wanted)
            if ruling.may_be_approved and grant_for is not None:
                ruling = await ruled(wanted, tuple(grant_for(ruling, context)))
            if ruling.allowed or (ruling.may_be_approved and grant_for is None):
                return answer
        if ruling.allowed:
            return PermissionResultAllow()
        ends = halt and ruling.is_hard and not ruling.failed
        return PermissionResultDeny(message=ruling.message, interrupt=ends)

    return judged


def _line_of(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return refusal_line("GUARDRAIL_UNAVAILABLE", "it took too long to judge")
    # Its words may quote what must not be told.
    return refusal_line("INTERNAL_ERROR", f"the hook failed: {type(error).__name__}")


def _to_output(output: Mapping[str, Any]) -> HookJSONOutput:
    """Return a hook's output as the SDK spells it: `continue` is a word of the language."""
    spelled = {"continue_" if name == "continue" else name: value for name, value in output.items()}
    return cast("HookJSONOutput", spelled)


def _matcher(event: str, callback: HookCallback, timeout_s: float) -> HookMatcher:
    return HookMatcher(
        matcher=_MATCHERS.get(event), hooks=[callback], timeout=timeout_s, on_failure="block"
    )
