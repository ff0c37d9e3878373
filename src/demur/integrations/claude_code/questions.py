"""What an enforcer is asked about an event of Claude Code, and which of its answers counts.

A call of a tool of which only its argument tells that it runs a command is two questions.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.enforce.occasion import Occasion
from demur.enforce.ruling import Ruling
from demur.guards.code_execution.event import Command
from demur.integrations.claude_code.hook import Hook
from demur.integrations.claude_code.running import further_commands
from demur.model.grant import Grant

__all__ = ["Question", "about_call", "aput", "put", "questions"]

# A compaction is rare, and what reads one takes long to load.
_TRANSCRIPT = "demur.integrations.claude_code.transcript"


class Question(NamedTuple):
    """A point of the enforcer, and what it is asked."""

    point: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]


def questions(hook: Hook, own: Collection[str], at: Occasion) -> Iterator[Question]:
    """Yield what is to be asked about an event; nothing if it is not guarded."""
    match hook.event:
        case "PreToolUse":
            given = hook.get("tool_input")
            yield from about_call(hook.tool(own), given, at, hook.source(own))
        case "PostToolUse" | "PostToolUseFailure":
            named = {"arguments": hook.get("tool_input")}
            yield Question("tool_result", (hook.tool(own), _returned(hook), at), named)
        case "PostToolBatch":
            calls = hook.said("tool_calls")
            for call in calls if isinstance(calls, list) else [calls]:
                yield from _about_batch(hook.of_call(call), own, at)
        case "UserPromptSubmit":
            yield Question("prompt", (hook.get("prompt"), at), {})
        case "PostCompact" if hook.text("compact_summary"):
            named = {"action": "compact"}
            compaction = import_module(_TRANSCRIPT).compaction_of(hook)
            yield Question("check", (Surface.COMPACTION, compaction, at), named)
        case "Stop" | "SubagentStop" if _may_say_it_otherwise(hook):
            yield Question("answer", (hook.text("last_assistant_message"), at), {})


def _about_batch(call: Hook, own: Collection[str], at: Occasion) -> Iterator[Question]:
    """Yield what is to be asked about one of the calls whose results are read next.

    What was withheld is gone from them. What a failing tool said is still there, and so is an
    output of which Claude Code did not take the replacement.
    """
    where = at._replace(call_id=call.text("tool_use_id"))
    named = {"arguments": call.get("tool_input")}
    yield Question("tool_result", (call.tool(own), call.said("tool_response"), where), named)


def about_call(
    name: Any, given: Any, at: Occasion, source: str, grants: Iterable[Grant] = ()
) -> Iterator[Question]:
    """Yield what is to be asked about a tool call; `grants` speak for it."""
    for text in further_commands(name, given):
        yield Question("check", (Surface.CODE_EXECUTION, Command(text=text), at), {"action": name})
    yield Question("tool_call", (name, given, at), {"source": source, "grants": grants})


def put(asked: Iterable[Question], enforcer: Enforcer) -> Ruling | None:
    """Return the strictest ruling, or None if nothing is asked."""
    strictest = None
    for one in asked:
        ruling: Ruling = getattr(enforcer, one.point)(*one.arguments, **one.named)
        strictest = _stricter(strictest, ruling)
        if _is_final(strictest):
            break
    return strictest


async def aput(asked: Iterable[Question], enforcer: Enforcer) -> Ruling | None:
    """Return the strictest ruling, like `put`; the event loop runs on meanwhile."""
    strictest = None
    for one in asked:
        ruling: Ruling = await getattr(enforcer, f"a{one.point}")(*one.arguments, **one.named)
        strictest = _stricter(strictest, ruling)
        if _is_final(strictest):
            break
    return strictest


def _stricter(one: Ruling | None, other: Ruling) -> Ruling:
    # INVARIANT: nobody is asked to approve what another ruling refuses for good.
    return other if one is None or one.allowed or _is_final(other) else one


def _is_final(ruling: Ruling) -> bool:
    return not ruling.allowed and not ruling.may_be_approved


def _returned(hook: Hook) -> Any:
    """Return what came back, as the model reads it: what failed begins by saying so."""
    failed = hook.event == "PostToolUseFailure"
    return f"Error: {hook.said('error')}" if failed else hook.said("tool_response")


def _may_say_it_otherwise(hook: Hook) -> bool:
    """Return whether the agent said something last, and was not told to say it otherwise yet."""
    return not hook.get("stop_hook_active") and hook.text("last_assistant_message") is not None
