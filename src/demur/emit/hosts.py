"""A refusal in the words of agent hosts: Claude Code hooks, MCP, and OpenAI-style messages.

- Claude Code reads the JSON only if the hook exits with 0. With status 2 it ignores the JSON
  and shows stderr, so that form is the bare line; any other status lets the action run. After
  a tool has run, a block only informs the model.
- An MCP tool result carries the line for the model and the envelope in `structuredContent`
  for the host. Only the envelope is read back, because anyone may write a tool's text. The
  MCP denial (SEP-2643) is a draft; its error number is from the range for implementations.
- OpenAI's `refusal` is text for people: optional words, then the refusal line.
"""

from typing import Any, NamedTuple

from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass
from demur.emit.envelope import (
    check_refuses,
    from_envelope,
    from_refusal_line,
    nested_value,
    to_envelope,
)
from demur.errors import InputError
from demur.model.next_steps import NextStep, next_step
from demur.model.refusal import Refusal

HOOK_EVENTS = (
    "PreToolUse",
    "PermissionRequest",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "PostToolUse",
    "Stop",
    "SubagentStop",
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
        help_text = f"one of {', '.join(HOOK_EVENTS)}"
        raise InputError(f"the hook event `{event}` cannot refuse", help=help_text)
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


MCP_META_KEY = "demur/refusal"


def to_mcp(refusal: Refusal) -> dict[str, Any]:
    """Return a `CallToolResult` that refuses.

    The envelope is in `_meta`, because `structuredContent` has to fit the tool's output schema:
    clients check it even in a result that is marked as an error.

    Raises:
        InputError: The code allows.
    """
    # INVARIANT: an MCP tool result keeps the whole refusal.
    return {
        "content": [{"type": "text", "text": refusal.line}],
        "isError": True,
        "_meta": {MCP_META_KEY: to_envelope(refusal)},
    }


def from_mcp(data: object) -> Refusal | None:
    """Return the refusal in a tool result that is marked as an error, or None.

    It is read from `_meta`, or from `structuredContent.refusal`, where it may stand as well.
    """
    if nested_value(data, "isError") is not True:
        return None
    found = from_envelope(nested_value(data, "_meta", MCP_META_KEY))
    return found or from_envelope(nested_value(data, "structuredContent", "refusal"))


DENIAL_ERROR_CODE = -32010
HINT_PREFIX = "demur/"
DENIAL_REASON = "insufficient_authorization"


def to_mcp_denial(
    refusal: Refusal, *, request_id: int | str | None = None, registry: Registry | None = None
) -> dict[str, Any]:
    """Return the JSON-RPC response to `request_id` that denies it.

    The decision's id is the `authorizationContextId` that a retry can echo.

    Raises:
        InputError: The code allows.
    """
    authorization: dict[str, Any] = {"reason": DENIAL_REASON}
    if refusal.decision_id is not None:
        authorization["authorizationContextId"] = refusal.decision_id
    step = next_step(refusal, registry=registry)
    authorization["remediationHints"] = _remediation_hints(refusal, step)
    # INVARIANT: an MCP denial keeps the whole refusal.
    data = {"authorization": authorization, "refusal": to_envelope(refusal)}
    error = {"code": DENIAL_ERROR_CODE, "message": refusal.line, "data": data}
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def from_mcp_denial(data: object) -> Refusal | None:
    """Return the refusal in a JSON-RPC error, or None."""
    return from_envelope(nested_value(data, "error", "data", "refusal"))


def _remediation_hints(refusal: Refusal, step: NextStep) -> list[dict[str, Any]]:
    """Return the next step as a hint of demur's own type, and an appeal URL as another."""
    hint: dict[str, Any] = {"type": f"{HINT_PREFIX}{step.advice}", "retry": step.retry}
    hint["description"] = step.sentence
    if step.wait is not None:
        hint["retryAfter"] = step.wait
    if step.ask is not None:
        hint["ask"] = str(step.ask)
    if step.needs:
        hint["needs"] = list(step.needs)
    url = refusal.evidence.get("appeal_url")
    is_address = isinstance(url, str) and url.startswith("https://")
    return [hint, {"type": "url", "url": url}] if is_address else [hint]


def to_openai(refusal: Refusal, *, words: str | None = None) -> dict[str, Any]:
    """Return a chat message that refuses, for `choices[].message`.

    Raises:
        InputError: The code allows.
    """
    return {"role": "assistant", "content": None, "refusal": _refusal_text(refusal, words)}


def to_openai_part(refusal: Refusal, *, words: str | None = None) -> dict[str, Any]:
    """Return a content part of a Responses message that refuses, for `output[].content[]`.

    Raises:
        InputError: The code allows.
    """
    return {"type": "refusal", "refusal": _refusal_text(refusal, words)}


def from_openai(data: object, *, registry: Registry | None = None) -> Refusal | None:
    """Return the refusal in a message or part, or None; class and advice are the registry's."""
    text = nested_value(data, "refusal")
    if not isinstance(text, str):
        return None
    return from_refusal_line(text.rpartition("\n")[2], registry=registry)


def _refusal_text(refusal: Refusal, words: str | None) -> str:
    check_refuses(refusal)
    # INVARIANT: a message that refuses keeps code and detail, whatever words stand before.
    return f"{words}\n{refusal.line}" if words else refusal.line
