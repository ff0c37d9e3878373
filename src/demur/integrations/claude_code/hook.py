"""From a hook event of Claude Code to the enforcer, and from its check to the hook's output.

A model reads the reason of a refused call, a person that of a refused prompt or of a question.
Claude Code may show only one reason of several, so all of them are one text.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

from demur.codes.vocabulary import Surface
from demur.emit.hosts import to_claude_code
from demur.enforce.context import CallContext
from demur.enforce.describe import find_commands
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.errors import InputError, InputTypeError
from demur.integrations.claude_code.fallback import PinnedRules, unguarded_output, withhold_texts
from demur.model.grant import Grant

_MCP_PREFIX = "mcp__"
# Known members that are not content. A later Claude Code may add or rename members.
_KNOWN_MEMBERS = frozenset(
    {*("hook_event_name", "session_id", "transcript_path", "cwd", "permission_mode", "effort")}
    | {*("agent_id", "agent_type", "tool_name", "tool_input", "tool_use_id", "duration_ms")}
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

    def call_context(self, framework: str) -> CallContext:
        """Return the call context of the event."""
        return CallContext(framework=framework, run=self.run, call_id=self.get_text("tool_use_id"))


def read_hook(raw: bytes | str) -> Hook:
    """Return the event in a hook's input.

    Raises:
        EventError: It is no JSON object, or has no event name.
    """
    try:
        members = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise HookEventError("the hook's input is not JSON", where="standard input") from error
    event = members.get("hook_event_name") if isinstance(members, dict) else None
    if not isinstance(event, str) or not event:
        raise HookEventError("the hook's input names no event", where="standard input")
    return Hook(event, members)


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
    halt = style.halt and (_is_irreplaceable(hook) or (result.is_hard and not result.is_undecided))
    if hook.event not in _BLOCKING_EVENTS:
        return _notice_output(hook, result, halt=halt)
    output = to_claude_code(result.refusal, event=hook.event, ask=style.ask, halt=halt)
    return {**output, **_refusal_output(hook, result, output), **_stop_output(result, halt=halt)}


def _is_irreplaceable(hook: Hook) -> bool:
    """Return whether the tool's output cannot be replaced, so that only a stop withholds it.

    That holds right before the next model call, and for output under an unknown member.
    """
    unknown = hook.event == "PostToolUse" and "tool_response" not in hook.members
    return unknown or hook.event == "PostToolBatch"


def _refusal_output(hook: Hook, result: CheckResult, output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a refusal that hold its text."""
    if hook.event == "PreToolUse":
        special = output["hookSpecificOutput"]
        asks = special["permissionDecision"] == "ask"
        reason = _text_for_person(result) if asks else result.model_message
        return {"hookSpecificOutput": {**special, "permissionDecisionReason": reason}}
    if hook.event == "UserPromptSubmit":
        # The words quote the relevant part, so the prompt is not shown again.
        special = {"hookEventName": hook.event, "suppressOriginalPrompt": True}
        return {"reason": _text_for_person(result), "hookSpecificOutput": special}
    if hook.event == "PostToolUse":
        given = hook.get("tool_input")
        paths = (given.get("file_path"),) if isinstance(given, dict) else ()
        instead = withhold_texts(hook.get("tool_response"), result.line, paths)
        special = {"hookEventName": hook.event, "updatedToolOutput": instead}
        return {"reason": result.model_message, "hookSpecificOutput": special}
    return {"reason": result.model_message}


def _notice_output(hook: Hook, result: CheckResult, *, halt: bool) -> dict[str, Any]:
    """Return the output of events that cannot block: a notice."""
    if hook.event in {"PostToolUseFailure", "PostToolBatch"}:
        special = {"hookEventName": hook.event, "additionalContext": result.model_message}
        return {"hookSpecificOutput": special, **_stop_output(result, halt=halt)}
    return {"systemMessage": _text_for_person(result), **_stop_output(result, halt=halt)}


def _stop_output(result: CheckResult, *, halt: bool) -> dict[str, Any]:
    return {"continue": False, "stopReason": _text_for_person(result)} if halt else {}


def _text_for_person(result: CheckResult) -> str:
    return f"{result.user_text}\n{result.line}"


def _allowed_output(hook: Hook, result: CheckResult) -> dict[str, Any]:
    output: dict[str, Any] = {}
    if result.constraints and hook.event == "PreToolUse":
        limits = f"Allowed within these limits: {', '.join(result.constraints)}."
        output["hookSpecificOutput"] = {"hookEventName": hook.event, "additionalContext": limits}
    if result.resources:
        output["systemMessage"] = "\n".join(result.resources)
    return output


_COMMAND_ARGUMENTS = ("command", "cmd", "script")


def list_commands(name: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the commands that a call would run, as far as they can be read."""
    try:
        known = list(find_commands(name, arguments, {}))
    except InputTypeError:
        known = []
    return known or list(_command_texts(name, arguments))


def list_unknown_commands(name: Any, arguments: Any) -> list[str]:
    """Return the commands of a call to a tool that the core does not know as a shell.

    Claude Code adds tools, and servers bring their own, so the argument's name decides here.
    """
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        return []
    try:
        known = next(find_commands(name, arguments, {}), None) is not None
    except InputTypeError:
        known = True
    return [] if known else list(_command_texts(name, arguments))


def _command_texts(name: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    for argument in _COMMAND_ARGUMENTS:
        value = arguments.get(argument)
        words = isinstance(value, list) and all(isinstance(word, str) for word in value)
        if isinstance(value, str) or words:
            yield from find_commands(name, arguments, {name: argument})


# Returns the grants of a call by its id.
GrantsForCall = Callable[[str | None], Iterable[Grant]]

# Loaded only for compactions: they are rare, and the module takes long to load.
_TRANSCRIPT = "demur.integrations.claude_code.transcript"


class EnforcerQuestion(NamedTuple):
    """A method of the enforcer, and its arguments."""

    point: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]


def no_grants(_call_id: str | None) -> Iterable[Grant]:
    """Return no grants for any call."""
    return ()


def ask_about_event(
    hook: Hook,
    own_servers: Collection[str],
    context: CallContext,
    grants_for: GrantsForCall = no_grants,
) -> Iterator[EnforcerQuestion]:
    """Yield the questions about an event; none if it is not guarded.

    `grants_for` returns the grants of a call, which also cover its result.
    """
    match hook.event:
        case "PreToolUse":
            given = hook.get("tool_input")
            yield from ask_about_call(
                hook.tool_name(own_servers), given, context, hook.mcp_server(own_servers)
            )
        case "PostToolUse" | "PostToolUseFailure":
            yield _ask_about_result(hook, _tool_output(hook), own_servers, context, grants_for)
        case "PostToolBatch":
            calls = hook.get_or_unknown("tool_calls")
            for call in calls if isinstance(calls, list) else [calls]:
                # Withheld output is gone already. Errors of failed tools are still there, and so is
                # output whose replacement Claude Code did not accept.
                one = hook.for_call(call)
                where = context._replace(call_id=one.get_text("tool_use_id"))
                yield _ask_about_result(
                    one, one.get_or_unknown("tool_response"), own_servers, where, grants_for
                )
        case "UserPromptSubmit":
            yield EnforcerQuestion("check_prompt", (hook.get("prompt"), context), {})
        case "PostCompact" if hook.get_text("compact_summary"):
            named = {"action": "compact"}
            compaction = import_module(_TRANSCRIPT).read_compaction(hook)
            yield EnforcerQuestion("check_event", (Surface.COMPACTION, compaction, context), named)
        case "Stop" | "SubagentStop" if _may_rephrase(hook):
            yield EnforcerQuestion(
                "check_answer", (hook.get_text("last_assistant_message"), context), {}
            )


def _ask_about_result(
    call: Hook,
    returned: Any,
    own_servers: Collection[str],
    context: CallContext,
    grants_for: GrantsForCall,
) -> EnforcerQuestion:
    """Return the question about the result of a call."""
    named = {"arguments": call.get("tool_input"), "grants": grants_for(context.call_id)}
    return EnforcerQuestion(
        "check_tool_result", (call.tool_name(own_servers), returned, context), named
    )


def ask_about_call(
    name: Any, given: Any, context: CallContext, source: str, grants: Iterable[Grant] = ()
) -> Iterator[EnforcerQuestion]:
    """Yield the question about a tool call, with its grants."""
    runs = list_unknown_commands(name, given)
    named = {"source": source, "grants": grants, "commands": runs}
    yield EnforcerQuestion("check_tool_call", (name, given, context), named)


def strictest_result(
    questions: Iterable[EnforcerQuestion], enforcer: Enforcer
) -> CheckResult | None:
    """Ask the enforcer, and return the strictest ruling; None without questions."""
    strictest = None
    for one in questions:
        ruling: CheckResult = getattr(enforcer, one.point)(*one.arguments, **one.named)
        strictest = _stricter_of(strictest, ruling)
        if _is_final(strictest):
            break
    return strictest


async def astrictest_result(
    questions: Iterable[EnforcerQuestion], enforcer: Enforcer
) -> CheckResult | None:
    """Return the strictest ruling, like `strictest_result`, without blocking the event loop."""
    strictest = None
    for one in questions:
        ruling: CheckResult = await getattr(enforcer, f"a{one.point}")(*one.arguments, **one.named)
        strictest = _stricter_of(strictest, ruling)
        if _is_final(strictest):
            break
    return strictest


def _stricter_of(one: CheckResult | None, other: CheckResult) -> CheckResult:
    # INVARIANT: a person is never asked to approve what another ruling refuses for good.
    return other if one is None or one.allowed or _is_final(other) else one


def _is_final(result: CheckResult) -> bool:
    return not result.allowed and not result.needs_approval


def _tool_output(hook: Hook) -> Any:
    """Return the tool's output as the model reads it; a failure starts with `Error:`."""
    failed = hook.event == "PostToolUseFailure"
    return (
        f"Error: {hook.get_or_unknown('error')}" if failed else hook.get_or_unknown("tool_response")
    )


def _may_rephrase(hook: Hook) -> bool:
    """Return whether the agent's last message can still be rephrased."""
    return not hook.get("stop_hook_active") and hook.get_text("last_assistant_message") is not None


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
