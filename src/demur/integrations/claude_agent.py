"""Claude Agent SDK: hooks and permission callbacks that enforce a gate's decisions.

Each matcher has `on_failure="block"`: without it, a callback that fails lets the call run.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

from demur.enforce.approval import Approval, GrantFor, acollect_grants, check_approval
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations._kit import missing_extra
from demur.integrations.claude_code.fallback import fallback_deny, refusal_line
from demur.integrations.claude_code.hook import (
    Hook,
    HookStyle,
    ajudge_hook,
    ask_about_call,
    astrictest_result,
)
from demur.model.grant import Grant

_MAX_CALLS = 1000


class CallGrants:
    """Grants of the last `max_calls` calls that had some. Safe to share between threads.

    A grant for a call also covers its result.
    """

    def __init__(self, max_calls: int = _MAX_CALLS) -> None:
        self._max_calls = max_calls
        self._lock = Lock()
        self._calls: OrderedDict[str, tuple[Grant, ...]] = OrderedDict()

    def keep(self, call_id: str | None, grants: Iterable[Grant]) -> None:
        """Keep the grants of a call, if it has any."""
        given = tuple(grants)
        if not call_id or not given:
            return
        with self._lock:
            self._calls[call_id] = given
            self._calls.move_to_end(call_id)
            if len(self._calls) > self._max_calls:
                self._calls.popitem(last=False)

    def granted_for(self, call_id: str | None) -> tuple[Grant, ...]:
        """Return the grants of a call."""
        return self._calls.get(call_id or "", ())


_GRANTS_BY_GATE: WeakKeyDictionary[Gate, CallGrants] = WeakKeyDictionary()
_GRANTS_LOCK = Lock()


def grants_by_call(enforcer: Enforcer) -> CallGrants:
    """Return the grants that all enforcers of one gate share."""
    if enforcer.gate is None:
        return CallGrants()
    with _GRANTS_LOCK:
        return _GRANTS_BY_GATE.setdefault(enforcer.gate, CallGrants())


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


_FRAMEWORK = "claude-agent-sdk"
# The SDK's type does not name the last three events, but its CLI asks callbacks at them as well.
_EVENTS = (
    *("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit"),
    *("PreCompact", "Stop", "SubagentStop", "SessionStart", "PostCompact", "PostToolBatch"),
)
# The share of the timeout after which demur refuses, before the CLI gives the hook up.
_TIMEOUT_SHARE = 0.8
_MATCHERS = {"SessionStart": "compact"}


class _ApprovedContext(CallContext):
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
    by = Enforcer.from_gate(enforcer)
    granted = grants_by_call(by).granted_for
    manner = HookStyle(ask=check_approval(approval) == "interrupt", halt=halt)

    async def judged(
        event: HookInput, _tool_use_id: str | None, _context: HookContext
    ) -> HookJSONOutput:
        members = cast("Mapping[str, Any]", event)
        hook = Hook(str(members.get("hook_event_name")), members)
        try:
            async with asyncio.timeout(timeout_s * _TIMEOUT_SHARE):
                output = await ajudge_hook(
                    hook,
                    by,
                    manner,
                    pins=pins,
                    own_servers=own_servers,
                    framework=_FRAMEWORK,
                    grants_for=granted,
                )
        except Exception as error:  # noqa: BLE001 - a failure is no permission
            output = json.loads(fallback_deny(hook.event, _failure_line(error), members).stdout)
        return _sdk_output(output)

    return {
        cast("HookEvent", event): [_hook_matcher(event, judged, timeout_s)] for event in _EVENTS
    }


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
    approver: CanUseTool | None = None,
    grant_for: GrantFor | None = None,
    approver_decides: bool = False,
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
    if approver_decides and grant_for is not None:
        raise InputError("`approver_decides` needs no `grant_for`", where="approver_decides")
    by = Enforcer.from_gate(enforcer)
    return _PermissionCheck(
        by, approver, grant_for, approver_decides, halt, own_servers
    ).decide_permission


class _PermissionCheck(NamedTuple):
    enforcer: Enforcer
    approver: CanUseTool | None
    grant_for: GrantFor | None
    approver_decides: bool
    halt: bool
    own: Collection[str]

    async def decide_permission(
        self, name: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Return whether a call may run, and with what input."""
        # INVARIANT: the input that runs is the one that was judged, whatever an approver changes.
        wanted, answer = deepcopy(given), PermissionResultAllow()
        # Without a run, because the hook has already added this call to the run's history.
        at = CallContext(framework=_FRAMEWORK, call_id=context.tool_use_id)
        ruling, lets = await self._check_call(name, wanted, at), False
        if self.approver is not None and (ruling.allowed or ruling.needs_approval):
            shown = deepcopy(given)
            said = await self.approver(name, shown, context)
            if not isinstance(said, PermissionResultAllow):
                return said
            answer, changed = said, shown if said.updated_input is None else said.updated_input
            if changed != wanted:
                wanted = deepcopy(changed)
                ruling = await self._check_call(name, wanted, at)
            if ruling.needs_approval:
                ruling = await self._check_approved(name, wanted, at, ruling, context)
                lets = self.approver_decides and ruling.needs_approval
        if ruling.allowed or lets:
            return replace(answer, updated_input=wanted)
        ends = self.halt and ruling.is_hard and not ruling.is_undecided
        return PermissionResultDeny(message=ruling.model_message, interrupt=ends)

    async def _check_approved(
        self,
        name: str,
        wanted: Any,
        at: CallContext,
        result: CheckResult,
        context: ToolPermissionContext,
    ) -> CheckResult:
        """Return the ruling on a call that the approver allowed."""
        if self.approver_decides:
            return await self._check_call(name, wanted, _ApprovedContext(*at))
        grants = await acollect_grants(self.grant_for, result, context)
        grants_by_call(self.enforcer).keep(at.call_id, grants)
        return await self._check_call(name, wanted, at, grants)

    async def _check_call(
        self, name: str, wanted: Any, context: CallContext, grants: Iterable[Grant] = ()
    ) -> CheckResult:
        call = Hook("PreToolUse", {"tool_name": name})
        asked = ask_about_call(
            call.tool_name(self.own), wanted, context, call.mcp_server(self.own), grants
        )
        ruling = await astrictest_result(asked, self.enforcer)
        assert ruling is not None
        return ruling


def _failure_line(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return refusal_line("GUARDRAIL_UNAVAILABLE", "it took too long to judge")
    # Name only the type: an error's text may quote secrets.
    return refusal_line("INTERNAL_ERROR", f"the hook failed: {type(error).__name__}")


def _sdk_output(output: Mapping[str, Any]) -> HookJSONOutput:
    """Return a hook's output as the SDK spells it: `continue_`, because `continue` is a keyword."""
    spelled = {"continue_" if name == "continue" else name: value for name, value in output.items()}
    return cast("HookJSONOutput", spelled)


def _hook_matcher(event: str, callback: HookCallback, timeout_s: float) -> HookMatcher:
    return HookMatcher(
        matcher=_MATCHERS.get(event), hooks=[callback], timeout=timeout_s, on_failure="block"
    )
