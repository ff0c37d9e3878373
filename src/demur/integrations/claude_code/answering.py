"""A ruling as the output of a hook, in the place that each event has for it.

A model reads the reason of a refused call, a person that of a refused prompt or of a question.
Where several reasons are given only one may be shown, so all of it is one text.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from demur.emit.claude_code import to_claude_code
from demur.enforce.ruling import Ruling
from demur.integrations.claude_code.hook import Hook
from demur.integrations.claude_code.withholding import withheld

__all__ = ["Manner", "answer"]

# Claude Code honours a block only at these events; at others it only reports it.
_BLOCKS = ("PreToolUse", "UserPromptSubmit", "PostToolUse", "Stop", "SubagentStop")


class Manner(NamedTuple):
    """How a refusal is reported.

    `ask`: ask the person at the terminal about a call that waits for approval.
    `halt`: stop the agent after a hard block.
    """

    ask: bool = False
    halt: bool = True


def answer(hook: Hook, ruling: Ruling, manner: Manner = Manner()) -> dict[str, Any]:  # noqa: B008 - a frozen value
    """Return the output of the hook; empty if there is nothing to report."""
    # INVARIANT: a hook lets an action pass only if the ruling allows it, or a person is asked.
    if ruling.refusal is None:
        return _allowed(hook, ruling)
    halt = manner.halt and (_is_kept(hook) or (ruling.is_hard and not ruling.failed))
    if hook.event not in _BLOCKS:
        return _told(hook, ruling, halt=halt)
    output = to_claude_code(ruling.refusal, event=hook.event, ask=manner.ask, halt=halt)
    return {**output, **_reason(hook, ruling, output), **_stop(ruling, halt=halt)}


def _is_kept(hook: Hook) -> bool:
    """Return whether the tool's output cannot be replaced, so that only a stop withholds it.

    That holds right before the next model call, and for output under an unknown member.
    """
    unknown = hook.event == "PostToolUse" and "tool_response" not in hook.members
    return unknown or hook.event == "PostToolBatch"


def _reason(hook: Hook, ruling: Ruling, output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a refusal that hold its text."""
    if hook.event == "PreToolUse":
        special = output["hookSpecificOutput"]
        asks = special["permissionDecision"] == "ask"
        reason = _for_a_person(ruling) if asks else ruling.message
        return {"hookSpecificOutput": {**special, "permissionDecisionReason": reason}}
    if hook.event == "UserPromptSubmit":
        # The words quote the relevant part, so the prompt is not shown again.
        special = {"hookEventName": hook.event, "suppressOriginalPrompt": True}
        return {"reason": _for_a_person(ruling), "hookSpecificOutput": special}
    if hook.event == "PostToolUse":
        given = hook.get("tool_input")
        paths = (given.get("file_path"),) if isinstance(given, dict) else ()
        instead = withheld(hook.get("tool_response"), ruling.line, paths)
        special = {"hookEventName": hook.event, "updatedToolOutput": instead}
        return {"reason": ruling.message, "hookSpecificOutput": special}
    return {"reason": ruling.message}


def _told(hook: Hook, ruling: Ruling, *, halt: bool) -> dict[str, Any]:
    """Return the output of events that cannot block: a notice."""
    if hook.event in {"PostToolUseFailure", "PostToolBatch"}:
        special = {"hookEventName": hook.event, "additionalContext": ruling.message}
        return {"hookSpecificOutput": special, **_stop(ruling, halt=halt)}
    return {"systemMessage": _for_a_person(ruling), **_stop(ruling, halt=halt)}


def _stop(ruling: Ruling, *, halt: bool) -> dict[str, Any]:
    return {"continue": False, "stopReason": _for_a_person(ruling)} if halt else {}


def _for_a_person(ruling: Ruling) -> str:
    return f"{ruling.words}\n{ruling.line}"


def _allowed(hook: Hook, ruling: Ruling) -> dict[str, Any]:
    output: dict[str, Any] = {}
    if ruling.constraints and hook.event == "PreToolUse":
        limits = f"Allowed within these limits: {', '.join(ruling.constraints)}."
        output["hookSpecificOutput"] = {"hookEventName": hook.event, "additionalContext": limits}
    if ruling.resources:
        output["systemMessage"] = "\n".join(ruling.resources)
    return output
