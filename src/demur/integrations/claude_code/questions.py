"""What an enforcer is asked about an event of Claude Code, and which of its answers counts.

Of some tools only an argument tells that they run a command: the enforcer is told of it, so
that all of a call is decided on at once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.enforce.occasion import Occasion
from demur.enforce.ruling import Ruling
from demur.integrations.claude_code.hook import Hook
from demur.integrations.claude_code.running import further_commands
from demur.model.grant import Grant

__all__ = ["GrantsOf", "Question", "about_call", "aput", "no_grants", "put", "questions"]

# Returns the grants of a call by its id.
GrantsOf = Callable[[str | None], Iterable[Grant]]

# Loaded only for compactions: they are rare, and the module takes long to load.
_TRANSCRIPT = "demur.integrations.claude_code.transcript"


class Question(NamedTuple):
    """A method of the enforcer, and its arguments."""

    point: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]


def no_grants(_call_id: str | None) -> Iterable[Grant]:
    """Return no grants for any call."""
    return ()


def questions(
    hook: Hook, own: Collection[str], at: Occasion, granted: GrantsOf = no_grants
) -> Iterator[Question]:
    """Yield the questions about an event; none if it is not guarded.

    `grants_for` returns the grants of a call, which also cover its result.
    """
    match hook.event:
        case "PreToolUse":
            given = hook.get("tool_input")
            yield from about_call(hook.tool(own), given, at, hook.source(own))
        case "PostToolUse" | "PostToolUseFailure":
            yield _about_result(hook, _returned(hook), own, at, granted)
        case "PostToolBatch":
            calls = hook.said("tool_calls")
            for call in calls if isinstance(calls, list) else [calls]:
                # Withheld output is gone already. Errors of failed tools are still there, and so is
                # output whose replacement Claude Code did not accept.
                one = hook.of_call(call)
                where = at._replace(call_id=one.text("tool_use_id"))
                yield _about_result(one, one.said("tool_response"), own, where, granted)
        case "UserPromptSubmit":
            yield Question("prompt", (hook.get("prompt"), at), {})
        case "PostCompact" if hook.text("compact_summary"):
            named = {"action": "compact"}
            compaction = import_module(_TRANSCRIPT).compaction_of(hook)
            yield Question("check", (Surface.COMPACTION, compaction, at), named)
        case "Stop" | "SubagentStop" if _may_say_it_otherwise(hook):
            yield Question("answer", (hook.text("last_assistant_message"), at), {})


def _about_result(
    call: Hook, returned: Any, own: Collection[str], at: Occasion, granted: GrantsOf
) -> Question:
    """Return the question about the result of a call."""
    named = {"arguments": call.get("tool_input"), "grants": granted(at.call_id)}
    return Question("tool_result", (call.tool(own), returned, at), named)


def about_call(
    name: Any, given: Any, at: Occasion, source: str, grants: Iterable[Grant] = ()
) -> Iterator[Question]:
    """Yield the question about a tool call, with its grants."""
    runs = further_commands(name, given)
    named = {"source": source, "grants": grants, "commands": runs}
    yield Question("tool_call", (name, given, at), named)


def put(asked: Iterable[Question], enforcer: Enforcer) -> Ruling | None:
    """Ask the enforcer, and return the strictest ruling; None without questions."""
    strictest = None
    for one in asked:
        ruling: Ruling = getattr(enforcer, one.point)(*one.arguments, **one.named)
        strictest = _stricter(strictest, ruling)
        if _is_final(strictest):
            break
    return strictest


async def aput(asked: Iterable[Question], enforcer: Enforcer) -> Ruling | None:
    """Return the strictest ruling, like `strictest_result`, without blocking the event loop."""
    strictest = None
    for one in asked:
        ruling: Ruling = await getattr(enforcer, f"a{one.point}")(*one.arguments, **one.named)
        strictest = _stricter(strictest, ruling)
        if _is_final(strictest):
            break
    return strictest


def _stricter(one: Ruling | None, other: Ruling) -> Ruling:
    # INVARIANT: a person is never asked to approve what another ruling refuses for good.
    return other if one is None or one.allowed or _is_final(other) else one


def _is_final(ruling: Ruling) -> bool:
    return not ruling.allowed and not ruling.may_be_approved


def _returned(hook: Hook) -> Any:
    """Return the tool's output as the model reads it; a failure starts with `Error:`."""
    failed = hook.event == "PostToolUseFailure"
    return f"Error: {hook.said('error')}" if failed else hook.said("tool_response")


def _may_say_it_otherwise(hook: Hook) -> bool:
    """Return whether the agent's last message can still be rephrased."""
    return not hook.get("stop_hook_active") and hook.text("last_assistant_message") is not None
