"""Claude Agent SDK: hooks and permission callbacks that enforce a gate's decisions.

Each matcher has `on_failure="block"`: without it, a callback that fails lets the call run.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, Unpack, cast
from weakref import WeakKeyDictionary

from demur.codes.vocabulary import Surface
from demur.enforce.context import CallContext, adrive
from demur.enforce.enforcer import Enforcer
from demur.enforce.history import LocalCallHistories
from demur.enforce.result import Approval, CheckResult, GrantFor, acollect_grants, check_approval
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations._kit import (
    AdapterOptions,
    Approver,
    adapt_enforcer,
    choose_grant_for,
    missing_extra,
)
from demur.integrations.claude_code.fallback import fallback_deny, refusal_line
from demur.integrations.claude_code.hook import CARRIED, Hook, HookStyle, judge_steps
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
        kept = tuple(grants)
        if not call_id or not kept:
            return
        with self._lock:
            self._calls[call_id] = kept
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
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "PreCompact",
    "Stop",
    "SubagentStop",
    "SessionStart",
    "PostCompact",
    "PostToolBatch",
)
# The share of the timeout after which demur refuses, before the CLI gives the hook up.
_TIMEOUT_SHARE = 0.8
_MATCHERS = {"SessionStart": "compact"}


def claude_hooks(
    enforcer: Enforcer | Gate,
    *,
    approval: Approval = "message",
    halt: bool = True,
    pins: Sequence[str] = (),
    own_servers: Collection[str] = (),
    timeout_s: float = 60,
    **options: Unpack[AdapterOptions],
) -> dict[HookEvent, list[HookMatcher]]:
    """Return the hooks, for `ClaudeAgentOptions(hooks=...)`.

    With `approval="interrupt"`, a call that waits for approval goes to `can_use_tool`, or to the
    person at the terminal, instead of being refused. The SDK runs an approved call without
    asking again: use demur's `can_use_tool`, which demands a grant. The grant also covers the
    call's result.

    With `halt`, a hard block ends the run. `pins` are rules that outlive a compaction. Policies
    name tools of `own_servers`, those of this program, by their bare names (`refund`), and
    others by their full ones (`mcp__shop__refund`).

    `on_finding`, `mode` and `tools` are those of all adapters. The CLI takes changed arguments and
    changed results, and neither a changed prompt nor a changed answer.

    Raises:
        InputError: `approval` is unknown, or an option cannot be used.
        InputTypeError: Neither an enforcer nor a gate is given.
    """
    # INVARIANT: hooks and `can_use_tool` of one gate share grants, whatever their options.
    grants = grants_by_call(Enforcer.coerce(enforcer))
    judge = partial(
        judge_steps,
        # It has to answer before the time of the hook is over.
        enforcer=adapt_enforcer(
            enforcer, carried=CARRIED, approval=approval, wait_s=timeout_s / 2, **options
        ),
        style=HookStyle(ask=check_approval(approval) == "interrupt", halt=halt),
        pins=pins,
        own_servers=own_servers,
        framework=_FRAMEWORK,
        grants_for=grants.granted_for,
        stops=LocalCallHistories(),
    )

    async def run_hook(
        event: HookInput, _tool_use_id: str | None, _context: HookContext
    ) -> HookJSONOutput:
        members = cast("Mapping[str, Any]", event)
        hook = Hook(str(members.get("hook_event_name")), members)
        try:
            async with asyncio.timeout(timeout_s * _TIMEOUT_SHARE):
                output = await adrive(judge(hook))
        except TimeoutError:
            line = refusal_line("GUARDRAIL_UNAVAILABLE", "it took too long to judge")
            output = json.loads(fallback_deny(hook.event, line, members).stdout)
        except Exception as error:  # noqa: BLE001 - a failure is no permission
            # Name only the type: an error's text may quote secrets.
            line = refusal_line("INTERNAL_ERROR", f"the hook failed: {type(error).__name__}")
            output = json.loads(fallback_deny(hook.event, line, members).stdout)
        # The SDK spells it `continue_`, because `continue` is a keyword.
        spelled = {"continue_" if name == "continue" else name: output[name] for name in output}
        return cast("HookJSONOutput", spelled)

    hooks: list[HookCallback] = [run_hook]
    return {
        cast("HookEvent", event): [
            HookMatcher(
                matcher=_MATCHERS.get(event), hooks=hooks, timeout=timeout_s, on_failure="block"
            )
        ]
        for event in _EVENTS
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
    ask: CanUseTool | None = None,
    approver: Approver | None = None,
    grant_for: GrantFor | None = None,
    halt: bool = True,
    own_servers: Collection[str] = (),
    **options: Unpack[AdapterOptions],
) -> CanUseTool:
    """Return a second line of defence, for `ClaudeAgentOptions(can_use_tool=...)`.

    The SDK asks it only about calls that no allow rule has let through, so it never replaces the
    hooks. It calls `ask`, your own function of this kind, about calls that may run or that wait for
    approval, and judges input that it changes like any other. A yes alone lifts nothing: the call
    is decided again with the grants that `grant_for` returns for the check result and the SDK's
    context, or with those of the `approver`, the authenticated person whose yes it was: a name, or
    a function of the same two that returns one or None. `on_finding`, `mode` and `tools` are those
    of all adapters; only arguments can be changed here.

    Raises:
        InputError: `approver` is given together with `grant_for` or without `ask`, or an option
            cannot be used.
        InputTypeError: Neither an enforcer nor a gate is given.
    """
    if approver is not None and ask is None:
        help_text = "pass `ask`, the function that asks that person"
        raise InputError("nobody asks the approver", where="approver", help=help_text)
    owner = adapt_enforcer(enforcer, carried={Surface.TOOL_CALL}, approver=approver, **options)
    grants_for = choose_grant_for(owner, grant_for, approver)
    kept = grants_by_call(Enforcer.coerce(enforcer))
    return _PermissionCheck(owner, ask, grants_for, kept, halt, own_servers).decide_permission


class _PermissionCheck(NamedTuple):
    enforcer: Enforcer
    ask: CanUseTool | None
    grant_for: GrantFor | None
    kept_grants: CallGrants
    halt: bool
    own_servers: Collection[str]

    async def decide_permission(
        self, name: str, arguments: dict[str, Any], sdk_context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Return whether a call may run, and with what input."""
        # INVARIANT: the input that runs is the one that was judged, whatever a person changes.
        checked, permission = deepcopy(arguments), PermissionResultAllow()
        # Without a run, because the hook has already added this call to the run's history.
        context = CallContext(framework=_FRAMEWORK, call_id=sdk_context.tool_use_id)
        result = await self._check_call(name, checked, context)
        if self.ask is not None and (result.allowed or result.needs_approval):
            shown = deepcopy(arguments)
            answer = await self.ask(name, shown, sdk_context)
            if not isinstance(answer, PermissionResultAllow):
                return answer
            permission = answer
            changed = shown if answer.updated_input is None else answer.updated_input
            if changed != checked:
                checked = deepcopy(changed)
                result = await self._check_call(name, checked, context)
            if result.needs_approval:
                grants = await acollect_grants(self.grant_for, result, sdk_context)
                self.kept_grants.keep(context.call_id, grants)
                result = await self._check_call(name, checked, context, grants)
        if result.allowed:
            return replace(permission, updated_input=result.apply_changes(checked))
        ends = self.halt and result.is_hard and not result.could_not_judge
        return PermissionResultDeny(message=result.model_message, interrupt=ends)

    async def _check_call(
        self, name: str, arguments: Any, context: CallContext, grants: Iterable[Grant] = ()
    ) -> CheckResult:
        call, own = Hook("PreToolUse", {"tool_name": name}), self.own_servers
        bare_name, source = call.tool_name(own), call.mcp_server(own)
        return await adrive(
            self.enforcer.tool_call_steps(
                bare_name, arguments, context, source=source, grants=grants
            )
        )
