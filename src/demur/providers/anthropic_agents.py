"""Anthropic's Managed Agents: tool calls that were denied or need confirmation."""

from demur.providers.mapping import system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Outcome, Signal

__all__ = ["NAME", "read"]

NAME = "anthropic"


def read(shape: Shape) -> Signal | None:
    """Return the signal of a session event about a tool call."""
    body = shape.body
    if body["type"].text == "user.tool_confirmation":
        return _answered(body)
    for place in (body["evaluated_permission"], body["permission"], body):
        if place["type"].text == "deny" or (place is not body and place["type"].text):
            return _evaluated(place, body)
    return None


def _answered(event: Node) -> Signal:
    judged = system(NAME).judge("confirmation", event["result"].text)
    words = event["deny_message"].text
    return judged.signal(event["result"], detail=words or "", evidence=_call(event))


def _evaluated(permission: Node, event: Node) -> Signal | None:
    known = system(NAME)
    judged = known.judge("permission", permission["type"].text)
    reason = permission["reason_code"]
    if judged.outcome is Outcome.REFUSAL and reason.text:
        exact = known.judge("deny_reason", reason.text)
        # The list is open: an unknown reason still denies the action.
        judged = exact if exact.known else judged
    return judged.signal(permission, evidence={**_call(event), "native_reason": reason.text})


def _call(event: Node) -> dict[str, str]:
    found = {"tool": event["name"].text, "call": event["tool_use_id"].text or event["id"].text}
    return {key: value for key, value in found.items() if value}
