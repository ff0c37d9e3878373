"""From a hook event of Claude Code to the enforcer, and from its check to the hook's output.

A model reads the reason of a refused call, a person that of a refused prompt or of a question.
Claude Code may show only one reason of several, so all of them are one text.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

import msgspec

from demur.codes.refusal_line import parse_refusal
from demur.codes.vocabulary import Surface
from demur.emit.hosts import to_claude_code
from demur.enforce.context import CallContext, Steps
from demur.enforce.enforcer import Enforcer
from demur.enforce.history import CallHistories
from demur.enforce.result import CheckResult
from demur.errors import InputError
from demur.guards.tool_loop import RecordedCall
from demur.integrations.claude_code.fallback import PinnedRules, unguarded_output, withhold_texts
from demur.model.grant import Grant

_MCP_PREFIX = "mcp__"
# Known members that are not content. A later Claude Code may add or rename members.
_KNOWN_MEMBERS = frozenset(
    {"hook_event_name", "session_id", "transcript_path", "cwd", "permission_mode", "effort"}
    | {"agent_id", "agent_type", "tool_name", "tool_input", "tool_use_id", "duration_ms"}
)
_NAME_SEPARATORS = re.compile(r"[^A-Za-z0-9_-]")


class HookEventError(InputError):
    """An event, or a file that it names, cannot be read."""


class Hook(NamedTuple):
    """One event with its members as received; guards validate them."""

    event: str
    members: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """Return a member, or None."""
        return self.members.get(name)

    def get_or_unknown(self, name: str) -> Any:
        """Return a member; if it is missing, all unknown members."""
        if name in self.members:
            return self.members[name]
        return {name: value for name, value in self.members.items() if name not in _KNOWN_MEMBERS}

    def get_text(self, name: str) -> str | None:
        """Return a member that is a non-empty text, or None."""
        value = self.members.get(name)
        return value if isinstance(value, str) and value else None

    def for_call(self, members: Any) -> "Hook":
        """Return the event of one call of a batch; a value that is no object is its output."""
        known = members if isinstance(members, dict) else {"tool_response": members}
        return Hook(self.event, known)

    @property
    def run(self) -> str | None:
        """The run of the event: the session's own agent, or a subagent."""
        session, agent = self.get_text("session_id"), self.get_text("agent_id")
        return f"{session}/{agent}" if session and agent else session

    @property
    def tool_output(self) -> Any:
        """The tool's output as the model reads it; a failure starts with `Error:`."""
        if self.event == "PostToolUseFailure":
            return f"Error: {self.get_or_unknown('error')}"
        return self.get_or_unknown("tool_response")

    def mcp_server(self, own_servers: Collection[str] = ()) -> str:
        """Return the server of an MCP tool (`mcp__server__tool`); empty for every other tool.

        Claude Code writes other characters than letters, digits, `_` and `-` as `_`.
        """
        name = self.get_text("tool_name") or ""
        if not name.startswith(_MCP_PREFIX):
            return ""
        rest = name.removeprefix(_MCP_PREFIX)
        servers = sorted((_NAME_SEPARATORS.sub("_", server) for server in own_servers), key=len)
        # The longest first, because one name may begin with another.
        matches = (server for server in reversed(servers) if rest.startswith(f"{server}__"))
        return next(matches, rest.partition("__")[0])

    def tool_name(self, own_servers: Collection[str]) -> Any:
        """Return the tool's name; for a server in `own_servers`, without the server."""
        name, source = self.get("tool_name"), self.mcp_server(own_servers)
        is_own = source in {_NAME_SEPARATORS.sub("_", server) for server in own_servers}
        return name.removeprefix(f"{_MCP_PREFIX}{source}__") if source and is_own else name


def read_hook(raw: bytes | str) -> Hook:
    """Return the event in a hook's input.

    Raises:
        HookEventError: It is no JSON object, or has no event name.
    """
    try:
        members = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise HookEventError("the hook's input is not JSON", where="standard input") from error
    event = members.get("hook_event_name") if isinstance(members, dict) else None
    if not isinstance(event, str) or not event:
        raise HookEventError("the hook's input names no event", where="standard input")
    return Hook(event, members)


# The surfaces whose texts a hook can change; a prompt or an answer it can only refuse.
CARRIED = frozenset({Surface.TOOL_CALL, Surface.TOOL_RESULT})
# Claude Code honours a block only at these events; at others it only reports it.
_BLOCKING_EVENTS = ("PreToolUse", "UserPromptSubmit", "PostToolUse", "Stop", "SubagentStop")


class HookStyle(NamedTuple):
    """How a refusal is reported.

    `ask`: ask the person at the terminal about a call that waits for approval.
    `halt`: stop the agent after a hard block.
    """

    ask: bool = False
    halt: bool = True


def hook_output(hook: Hook, result: CheckResult, style: HookStyle = HookStyle()) -> dict[str, Any]:  # noqa: B008 - a frozen value
    """Return the output of the hook; empty if there is nothing to report."""
    # INVARIANT: a hook lets an action pass only if the ruling allows it, or a person is asked.
    if result.refusal is None:
        return _allowed_output(hook, result)
    # Right before the next model call, and under an unknown member, a tool's output cannot be
    # replaced: only a stop withholds it.
    is_kept = hook.event == "PostToolBatch" or (
        hook.event == "PostToolUse" and "tool_response" not in hook.members
    )
    halt = style.halt and (is_kept or (result.is_hard and not result.could_not_judge))
    for_person = f"{result.user_text}\n{result.line}"
    stop = {"continue": False, "stopReason": for_person} if halt else {}
    if hook.event in {"PostToolUseFailure", "PostToolBatch"}:
        special = {"hookEventName": hook.event, "additionalContext": result.model_message}
        return {"hookSpecificOutput": special, **stop}
    if hook.event not in _BLOCKING_EVENTS:
        return {"systemMessage": for_person, **stop}
    ask = style.ask and result.needs_approval
    output = to_claude_code(result.refusal, event=hook.event, ask=ask, halt=halt)
    return {**output, **_refusal_output(hook, result, output, for_person), **stop}


def _refusal_output(
    hook: Hook, result: CheckResult, output: Mapping[str, Any], for_person: str
) -> dict[str, Any]:
    """Return the members of a refusal that hold its text."""
    if hook.event == "PreToolUse":
        special = output["hookSpecificOutput"]
        asks = special["permissionDecision"] == "ask"
        reason = for_person if asks else result.model_message
        return {"hookSpecificOutput": {**special, "permissionDecisionReason": reason}}
    if hook.event == "UserPromptSubmit":
        # The words quote the relevant part, so the prompt is not shown again.
        special = {"hookEventName": hook.event, "suppressOriginalPrompt": True}
        return {"reason": for_person, "hookSpecificOutput": special}
    if hook.event == "PostToolUse":
        arguments = hook.get("tool_input")
        paths = (arguments.get("file_path"),) if isinstance(arguments, dict) else ()
        instead = withhold_texts(hook.get("tool_response"), result.line, paths)
        special = {"hookEventName": hook.event, "updatedToolOutput": instead}
        return {"reason": result.model_message, "hookSpecificOutput": special}
    return {"reason": result.model_message}


def _allowed_output(hook: Hook, result: CheckResult) -> dict[str, Any]:
    output: dict[str, Any] = {}
    special: dict[str, Any] = {}
    if result.constraints and hook.event == "PreToolUse":
        special["additionalContext"] = (
            f"Allowed within these limits: {', '.join(result.constraints)}."
        )
    if result.changes is not None:
        is_call = hook.event == "PreToolUse"
        name = "updatedInput" if is_call else "updatedToolOutput"
        old = hook.get("tool_input" if is_call else "tool_response")
        special[name] = result.apply_changes(old)
    if special:
        output["hookSpecificOutput"] = {"hookEventName": hook.event, **special}
    if result.resources:
        output["systemMessage"] = "\n".join(result.resources)
    return output


# Returns the grants of a call by its id.
GrantsForCall = Callable[[str | None], Iterable[Grant]]

# Loaded only for compactions: they are rare, and the module takes long to load.
_TRANSCRIPT = "demur.integrations.claude_code.transcript"


def no_grants(_call_id: str | None) -> Iterable[Grant]:
    """Return no grants for any call."""
    return ()


def event_checks(
    hook: Hook,
    enforcer: Enforcer,
    own_servers: Collection[str],
    context: CallContext,
    grants_for: GrantsForCall = no_grants,
) -> Iterator[Steps[CheckResult]]:
    """Yield the checks of an event; none if it is not guarded.

    `grants_for` returns the grants of a call, which also cover its result.
    """

    def check_result(call: Hook, output: Any, call_id: str | None) -> Steps[CheckResult]:
        return _choose_result_enforcer(call, enforcer).tool_result_steps(
            call.tool_name(own_servers),
            output,
            context._replace(call_id=call_id),
            arguments=call.get("tool_input"),
            grants=grants_for(call_id),
        )

    match hook.event:
        case "PreToolUse":
            name, source = hook.tool_name(own_servers), hook.mcp_server(own_servers)
            arguments = hook.get("tool_input")
            yield enforcer.tool_call_steps(name, arguments, context, source=source)
        case "PostToolUse" | "PostToolUseFailure":
            yield check_result(hook, hook.tool_output, context.call_id)
        case "PostToolBatch":
            calls = hook.get_or_unknown("tool_calls")
            for members in calls if isinstance(calls, list) else [calls]:
                # Withheld output is gone already. Errors of failed tools are still there, and so is
                # output whose replacement Claude Code did not accept.
                call = hook.for_call(members)
                output = call.get_or_unknown("tool_response")
                yield check_result(call, output, call.get_text("tool_use_id"))
        case "UserPromptSubmit":
            yield enforcer.prompt_steps(cast("str", hook.get("prompt")), context)
        case "PostCompact" if hook.get_text("compact_summary"):
            compaction = import_module(_TRANSCRIPT).read_compaction(hook)
            yield enforcer.event_steps(Surface.COMPACTION, compaction, context, action="compact")
        case "Stop" | "SubagentStop" if not hook.get("stop_hook_active"):
            # The agent may rephrase its last message once.
            if message := hook.get_text("last_assistant_message"):
                yield enforcer.answer_steps(message, context)


def _choose_result_enforcer(call: Hook, enforcer: Enforcer) -> Enforcer:
    """Return the enforcer of a result; it changes only what Claude Code lets a hook change."""
    # INVARIANT: an output that stays as it is is refused where it would have to be changed.
    is_kept = call.event != "PostToolUse" or "tool_response" not in call.members
    return enforcer.refuse_changes() if is_kept else enforcer


def strictest_result(checks: Iterable[Steps[CheckResult]]) -> Steps[CheckResult | None]:
    """Run checks until one refuses for good, and return the strictest result; None for none."""
    strictest = None
    for check in checks:
        result = yield from check
        # INVARIANT: a person is never asked to approve what another result refuses for good.
        if strictest is None or strictest.allowed or _is_final(result):
            strictest = result
        if _is_final(strictest):
            break
    return strictest


def _is_final(result: CheckResult) -> bool:
    return not result.allowed and not result.needs_approval


def carry_stop(hook: Hook, output: dict[str, Any], stops: CallHistories) -> dict[str, Any]:
    """Return the output of an event; the end of a batch stops if a call of it was to stop.

    Claude Code 2.1.197 denies such a call and goes on. Every version stops at the end of a batch.
    `stops` keeps the calls from one event to the other.
    """
    # INVARIANT: only a call that demur itself refused for good stops its batch.
    run, call_id = f"stops/{hook.run}", hook.get_text("tool_use_id")
    if hook.event == "PreToolUse" and call_id and "continue" in output:
        stopped = RecordedCall(name=call_id, result=output["stopReason"])
        stops.update(run, lambda history: history.add(stopped))
    elif hook.event == "PostToolBatch" and (ids := set(_refused_calls(hook))):
        known = stops.update(run, lambda history: history).calls
        for call in known:
            if call.name in ids:
                return {**output, "continue": False, "stopReason": call.result}
    return output


def _refused_calls(hook: Hook) -> Iterator[str | None]:
    """Yield the ids of the calls of a batch whose output is a refusal."""
    calls = hook.get("tool_calls")
    for call in map(hook.for_call, calls if isinstance(calls, list) else ()):
        line, _, _ = (call.get_text("tool_response") or "").partition("\n")
        if parse_refusal(line) is not None:
            yield call.get_text("tool_use_id")


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


def judge_steps(
    hook: Hook,
    enforcer: Enforcer,
    style: HookStyle = HookStyle(),  # noqa: B008 - a frozen value
    *,
    pins: PinnedRules = (),
    own_servers: Collection[str] = (),
    framework: str = CLAUDE_CODE,
    grants_for: GrantsForCall = no_grants,
    stops: CallHistories | None = None,
) -> Steps[dict[str, Any]]:
    """Judge an event, and return its output; empty for events that are not guarded.

    `pins` are rules that outlive a compaction. Tools of `own_servers` have their bare names.
    `grants_for` returns the grants of a call, which also cover its result. `stops` keeps the calls
    that stop their batch.
    """
    context = CallContext(framework=framework, run=hook.run, call_id=hook.get_text("tool_use_id"))
    checks = event_checks(hook, enforcer, own_servers, context, grants_for)
    result = yield from strictest_result(checks)
    if result is None:
        return unguarded_output(*hook, pins)
    output = hook_output(hook, result, style)
    special = output.get("hookSpecificOutput", {})
    if special.get("permissionDecision") == "ask":
        # A call that a person lets run is changed as well.
        changes, _ = enforcer.change_arguments(arguments := hook.get("tool_input"))
        if changes is not None:
            special["updatedInput"] = changes.apply(arguments)
    return output if stops is None else carry_stop(hook, output, stops)
