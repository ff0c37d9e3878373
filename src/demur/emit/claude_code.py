"""A refusal as the output of a Claude Code hook.

Print the JSON and exit with 0: the host reads a decision only then. With status 2 it
ignores the JSON and shows the hook's error stream, so that form is the bare line; every
other status lets the action run. After a tool has run, a block keeps nothing from having
happened: it only tells the model.
"""

from typing import Any, NamedTuple

from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass
from demur.emit.envelope import check_refuses, from_refusal_line, nested_value
from demur.errors import InputError
from demur.model.refusal import Refusal

__all__ = ["HOOK_EVENTS", "HookDenial", "from_claude_code", "to_claude_code", "to_hook_exit"]

HOOK_EVENTS = (
    *("PreToolUse", "PermissionRequest"),
    *("UserPromptSubmit", "UserPromptExpansion", "PostToolUse", "Stop", "SubagentStop"),
)


class HookDenial(NamedTuple):
    """A denial without JSON: the exit status of the hook and its stderr."""

    status: int
    stderr: str


def to_claude_code(
    refusal: Refusal, *, event: str = "PreToolUse", ask: bool = False, halt: bool = False
) -> dict[str, Any]:
    """Return the hook's output on stdout; the hook must exit with status 0.

    With `ask`, the user at the terminal may approve an action that needs approval; without it,
    the hook denies that action too. With `halt` the agent stops altogether.

    Raises:
        InputError: The code allows, or the event cannot refuse.
    """
    check_refuses(refusal)
    if event not in HOOK_EVENTS:
        raise InputError(
            f"the hook event `{event}` cannot refuse", help=f"one of {', '.join(HOOK_EVENTS)}"
        )
    # INVARIANT: a hook's output keeps the code and the detail.
    output = _hook_output(refusal.line, event, "ask" if ask and _may_ask(refusal) else "deny")
    return {**output, "continue": False, "stopReason": refusal.line} if halt else output


def to_hook_exit(refusal: Refusal) -> HookDenial:
    """Return the denial without JSON, which every blocking event understands.

    Raises:
        InputError: The code allows.
    """
    check_refuses(refusal)
    return HookDenial(2, f"{refusal.line}\n")


def from_claude_code(data: object, *, registry: Registry | None = None) -> Refusal | None:
    """Return the refusal in a hook's output, or None; class and advice are the registry's.

    Text for the model may follow the refusal line.
    """
    reason = _refusing_reason(data)
    line = reason.partition("\n")[0] if isinstance(reason, str) else None
    return from_refusal_line(line, registry=registry)


def _may_ask(refusal: Refusal) -> bool:
    # INVARIANT: only a judged workflow block that waits for approval is asked about.
    return (
        refusal.decided
        and refusal.refusal_class is RefusalClass.WORKFLOW_BLOCK
        and refusal.advice is Advice.REQUEST_APPROVAL
    )


def _hook_output(line: str, event: str, decision: str) -> dict[str, Any]:
    if event == "PreToolUse":
        answer = {"permissionDecision": decision, "permissionDecisionReason": line}
        return {"hookSpecificOutput": {"hookEventName": event, **answer}}
    if event == "PermissionRequest":
        # The host is already asking the user; the hook can only answer for them.
        denial = {"behavior": "deny", "message": line}
        return {"hookSpecificOutput": {"hookEventName": event, "decision": denial}}
    return {"decision": "block", "reason": line}


def _refusing_reason(data: object) -> Any:
    """Return the reason in the member that refuses, or None."""
    special = nested_value(data, "hookSpecificOutput")
    if nested_value(special, "permissionDecision") in ("deny", "ask"):
        return nested_value(special, "permissionDecisionReason")
    if nested_value(special, "decision", "behavior") == "deny":
        return nested_value(special, "decision", "message")
    if nested_value(data, "decision") == "block":
        return nested_value(data, "reason")
    return nested_value(data, "stopReason") if nested_value(data, "continue") is False else None
