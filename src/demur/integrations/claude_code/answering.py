"""A ruling as the output of a hook, in the place that each event has for it.

A model reads the reason of a refused call, a person that of a refused prompt or of a question.
Where several reasons are given only one may be shown, so all of it is one text.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from demur.emit.claude_code import to_claude_code
from demur.enforce.ruling import CheckResult
from demur.integrations.claude_code.hook import Hook
from demur.integrations.claude_code.withholding import withhold_texts

__all__ = ["HookStyle", "hook_output"]

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
