"""What an enforcer is asked about an event of Claude Code, and which of its answers counts.

Of some tools only an argument tells that they run a command: the enforcer is told of it, so
that all of a call is decided on at once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.enforce.occasion import CallContext
from demur.enforce.ruling import CheckResult
from demur.integrations.claude_code.hook import Hook
from demur.integrations.claude_code.running import list_unknown_commands
from demur.model.grant import Grant

__all__ = [
    "GrantsForCall",
    "EnforcerQuestion",
    "ask_about_call",
    "astrictest_result",
    "no_grants",
    "strictest_result",
    "ask_about_event",
]

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
            yield EnforcerQuestion("prompt", (hook.get("prompt"), context), {})
        case "PostCompact" if hook.get_text("compact_summary"):
            named = {"action": "compact"}
            compaction = import_module(_TRANSCRIPT).compaction_of(hook)
            yield EnforcerQuestion("check", (Surface.COMPACTION, compaction, context), named)
        case "Stop" | "SubagentStop" if _may_rephrase(hook):
            yield EnforcerQuestion("answer", (hook.get_text("last_assistant_message"), context), {})


def _ask_about_result(
    call: Hook,
    returned: Any,
    own_servers: Collection[str],
    context: CallContext,
    grants_for: GrantsForCall,
) -> EnforcerQuestion:
    """Return the question about the result of a call."""
    named = {"arguments": call.get("tool_input"), "grants": grants_for(context.call_id)}
    return EnforcerQuestion("tool_result", (call.tool_name(own_servers), returned, context), named)


def ask_about_call(
    name: Any, given: Any, context: CallContext, source: str, grants: Iterable[Grant] = ()
) -> Iterator[EnforcerQuestion]:
    """Yield the question about a tool call, with its grants."""
    runs = list_unknown_commands(name, given)
    named = {"source": source, "grants": grants, "commands": runs}
    yield EnforcerQuestion("tool_call", (name, given, context), named)


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
