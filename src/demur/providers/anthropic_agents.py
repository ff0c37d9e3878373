"""Anthropic's Managed Agents: tool calls that were denied or need confirmation."""

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, SignalOutcome, load_system

__all__ = ["NAME", "read"]

NAME = "anthropic"


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of a session event about a tool call."""
    body = shape.body
    if body["type"].text == "user.tool_confirmation":
        return _read_confirmation(body)
    for place in (body["evaluated_permission"], body["permission"], body):
        if place["type"].text == "deny" or (place is not body and place["type"].text):
            return _read_permission(place, body)
    return None


def _read_confirmation(event: Node) -> Signal:
    judged = load_system(NAME).interpret("confirmation", event["result"].text)
    words = event["deny_message"].text
    return judged.to_signal(event["result"], detail=words or "", evidence=_call_evidence(event))


def _read_permission(permission: Node, event: Node) -> Signal | None:
    known = load_system(NAME)
    judged = known.interpret("permission", permission["type"].text)
    reason = permission["reason_code"]
    if judged.outcome is SignalOutcome.REFUSAL and reason.text:
        exact = known.interpret("deny_reason", reason.text)
        # The list is open: an unknown reason still denies the action.
        judged = exact if exact.known else judged
    return judged.to_signal(
        permission, evidence={**_call_evidence(event), "native_reason": reason.text}
    )


def _call_evidence(event: Node) -> dict[str, str]:
    found = {"tool": event["name"].text, "call": event["tool_use_id"].text or event["id"].text}
    return {key: value for key, value in found.items() if value}
