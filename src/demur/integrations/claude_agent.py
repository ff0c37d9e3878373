"""Claude Agent SDK: hooks and permission callbacks that enforce a gate's decisions.

Each matcher has `on_failure="block"`: without it, a callback that fails lets the call run.
"""

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple, cast

from demur.enforce.approval import Approval, GrantFor, agranted, check_approval
from demur.enforce.enforcer import Enforcer
from demur.enforce.occasion import Occasion
from demur.enforce.ruling import Ruling
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations.claude_code.answering import Manner
from demur.integrations.claude_code.call_grants import call_grants
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
# The share of the timeout after which demur refuses, before the CLI gives the hook up.
_OWN_SHARE = 0.8
_MATCHERS = {"SessionStart": "compact"}


class _Approved(Occasion):
    """A call context that records the approval of a person who may decide."""

    __slots__ = ()

    @property
    def trace(self) -> dict[str, str]:
        """The part of the context that is recorded."""
        return {**super().trace, "approved_by": "person"}


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

    With `approval="interrupt"`, a call that waits for approval goes to `can_use_tool`, or to the
    person at the terminal, instead of being refused. The SDK runs an approved call without
    asking again: use demur's `can_use_tool`, which demands a grant. The grant also covers the
    call's result.

    With `halt`, a hard block ends the run. `pins` are rules that outlive a compaction. Policies
    name tools of `own_servers`, those of this program, by their bare names (`refund`), and
    others by their full ones (`mcp__shop__refund`).

    Raises:
        InputError: `approval` is unknown.
        InputTypeError: Neither an enforcer nor a gate is given.
    """
    by = Enforcer.of(enforcer)
    granted = call_grants(by).of
    manner = Manner(ask=check_approval(approval) == "interrupt", halt=halt)

    async def judged(
        event: HookInput, _tool_use_id: str | None, _context: HookContext
    ) -> HookJSONOutput:
        members = cast("Mapping[str, Any]", event)
        hook = Hook(str(members.get("hook_event_name")), members)
        try:
            async with asyncio.timeout(timeout_s * _OWN_SHARE):
                output = await ajudge(
                    hook,
                    by,
                    manner,
                    pins=pins,
                    own=own_servers,
                    framework=_FRAMEWORK,
                    granted=granted,
                )
        except Exception as error:  # noqa: BLE001 - a failure is no permission
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
    person_decides: bool = False,
    halt: bool = True,
    own_servers: Collection[str] = (),
) -> CanUseTool:
    """Return a second line of defence, for `ClaudeAgentOptions(can_use_tool=...)`.

    The SDK asks it only about calls that no allow rule has let through, so it never replaces the
    hooks. It asks `approver` about calls that may run or that wait for approval, and judges input
    that the approver changes like any other. A yes alone lifts nothing: the call is decided again
    with the grants that `grant_for` returns for the ruling and the SDK's context.

    With `approver_decides`, the approver's yes lets a call run that waits for approval. It is
    recorded as `trace.approved_by`.

    Raises:
        InputError: Both `approver_decides` and `grant_for` are given.
        InputTypeError: Neither an enforcer nor a gate is given.
    """
    if person_decides and grant_for is not None:
        raise InputError("`approver_decides` needs no `grant_for`", where="approver_decides")
    by = Enforcer.of(enforcer)
    return _SecondLine(by, person, grant_for, person_decides, halt, own_servers).judged


class _SecondLine(NamedTuple):
    by: Enforcer
    person: CanUseTool | None
    grant_for: GrantFor | None
    person_decides: bool
    halt: bool
    own: Collection[str]

    async def judged(
        self, name: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Return whether a call may run, and with what input."""
        # INVARIANT: the input that runs is the one that was judged, whatever an approver changes.
        wanted, answer = deepcopy(given), PermissionResultAllow()
        # Without a run, because the hook has already added this call to the run's history.
        at = Occasion(framework=_FRAMEWORK, call_id=context.tool_use_id)
        ruling, lets = await self._ruled(name, wanted, at), False
        if self.person is not None and (ruling.allowed or ruling.may_be_approved):
            shown = deepcopy(given)
            said = await self.person(name, shown, context)
            if not isinstance(said, PermissionResultAllow):
                return said
            answer, changed = said, shown if said.updated_input is None else said.updated_input
            if changed != wanted:
                wanted = deepcopy(changed)
                ruling = await self._ruled(name, wanted, at)
            if ruling.may_be_approved:
                ruling = await self._approved(name, wanted, at, ruling, context)
                lets = self.person_decides and ruling.may_be_approved
        if ruling.allowed or lets:
            return replace(answer, updated_input=wanted)
        ends = self.halt and ruling.is_hard and not ruling.failed
        return PermissionResultDeny(message=ruling.message, interrupt=ends)

    async def _approved(
        self, name: str, wanted: Any, at: Occasion, ruling: Ruling, context: ToolPermissionContext
    ) -> Ruling:
        """Return the ruling on a call that the approver allowed."""
        if self.person_decides:
            return await self._ruled(name, wanted, _Approved(*at))
        grants = await agranted(self.grant_for, ruling, context)
        call_grants(self.by).keep(at.call_id, grants)
        return await self._ruled(name, wanted, at, grants)

    async def _ruled(
        self, name: str, wanted: Any, at: Occasion, grants: Iterable[Grant] = ()
    ) -> Ruling:
        call = Hook("PreToolUse", {"tool_name": name})
        asked = about_call(call.tool(self.own), wanted, at, call.source(self.own), grants)
        ruling = await aput(asked, self.by)
        assert ruling is not None
        return ruling


def _line_of(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return refusal_line("GUARDRAIL_UNAVAILABLE", "it took too long to judge")
    # Name only the type: an error's text may quote secrets.
    return refusal_line("INTERNAL_ERROR", f"the hook failed: {type(error).__name__}")


def _to_output(output: Mapping[str, Any]) -> HookJSONOutput:
    """Return a hook's output as the SDK spells it: `continue_`, because `continue` is a keyword."""
    spelled = {"continue_" if name == "continue" else name: value for name, value in output.items()}
    return cast("HookJSONOutput", spelled)


def _matcher(event: str, callback: HookCallback, timeout_s: float) -> HookMatcher:
    return HookMatcher(
        matcher=_MATCHERS.get(event), hooks=[callback], timeout=timeout_s, on_failure="block"
    )
