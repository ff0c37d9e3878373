"""Read Pydantic AI: responses with provider details, exceptions, denied tools.

Its `finish_reason` has five values, and some reasons of Gemini become `error` or nothing.
The provider's own reason in `provider_details` decides.
"""

from demur.codes.vocabulary import Surface
from demur.providers.node import ABSENT, Node
from demur.providers.shape import ResponseShape, fields_without, parse_json
from demur.providers.signals import Signal, load_system, strongest_signal
from demur.providers.upstream import (
    find_own_refusal,
    match_exception,
    read_block_reason,
    read_category,
    read_error_behind,
    read_finish_reason,
)

__all__ = ["NAME", "read"]

NAME = "pydantic_ai"


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal in a response, run, exception or tool result, or None."""
    own = shape.own
    error = match_exception(NAME, shape)
    if error is None:
        said = next((one for one in (own, own["response"]) if _is_response(one)), ABSENT)
        found = _read_response(said)
        return (
            _read_denied_tool(own)
            if found is None
            else found._replace(leaves=_without_finish_reason(shape, said))
        )
    if error.kind == "ApprovalRequired":
        return find_own_refusal(NAME, own["metadata"]) or error.to_signal()
    body = own.derive(parse_json(own["body"].raw), "body")
    behind = _read_response(body if _is_response(body) else _last_response(body))
    if behind is not None and behind.must_report:
        return behind
    return read_error_behind(NAME, own) or error.to_signal()


def _is_response(one: Node) -> bool:
    """Return whether this is a response, by its kind or by its provider details."""
    return one["parts"].present and (
        one["kind"].text == "response" or one["provider_details"].present
    )


def _last_response(messages: Node) -> Node:
    """Return the last response among messages; earlier refusals are over."""
    return next((one for one in reversed([*messages]) if _is_response(one)), ABSENT)


def _read_response(said: Node) -> Signal | None:
    details = said["provider_details"]
    ratings = details["safety_ratings"]
    found = strongest_signal(
        [
            read_block_reason(NAME, details["block_reason"], ratings),
            read_category(NAME, details["refusal_category"]),
            read_finish_reason(NAME, details["finish_reason"], ratings),
            _read_refusal_text(details["refusal"]),
        ]
    )
    if found is not None:
        # The provider's reason is exact, even if nothing was refused.
        return found
    judged = load_system(NAME).interpret("finish_reason", said["finish_reason"].text)
    return judged.to_signal(said["finish_reason"]) if judged.known else None


def _read_refusal_text(words: Node) -> Signal | None:
    if not words.text:
        return None
    return find_own_refusal(NAME, words, last=True) or load_system(NAME).interpret(
        "refusal", "*"
    ).to_signal(words)


def _without_finish_reason(shape: ResponseShape, said: Node) -> ResponseShape:
    """Return the response without the framework's finish reason, which others misread."""
    body = shape.body.derive(fields_without(said, "finish_reason"))
    return shape._replace(own=body, body=body)


def _read_denied_tool(own: Node) -> Signal | None:
    """Return the refusal of a tool call by its approver, or None."""
    if own["kind"].text == "tool-denied":
        words = own["message"]
        judged = load_system(NAME).interpret("tool_denied", "tool-denied")
        line = find_own_refusal(NAME, words, last=True)
        return line or judged.to_signal(own["kind"], detail=words.text or "")
    if own["part_kind"].text == "tool-return" and own["outcome"].text == "denied":
        judged = load_system(NAME).interpret("tool_denied", "denied")
        line = find_own_refusal(NAME, own["content"], surface=Surface.TOOL_CALL)
        return line or judged.to_signal(own["outcome"], evidence={"tool": own["tool_name"].text})
    return None
