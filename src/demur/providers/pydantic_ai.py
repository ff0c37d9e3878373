"""Read Pydantic AI: responses with provider details, exceptions, denied tools.

Its `finish_reason` has five values, and some reasons of Gemini become `error` or nothing.
The provider's own reason in `provider_details` decides.
"""

from demur.codes.vocabulary import Surface
from demur.providers.carried import carried
from demur.providers.mapping import system
from demur.providers.node import ABSENT, Node
from demur.providers.raised import raised
from demur.providers.shape import Shape, parsed, shaped
from demur.providers.signal import Signal, strongest
from demur.providers.upstream import by_block_reason, by_category, by_error_behind, by_finish_reason

__all__ = ["NAME", "read"]

NAME = "pydantic_ai"


def read(shape: Shape) -> Signal | None:
    """Return the refusal in a response, run, exception or tool result, or None."""
    own = shape.own
    error = raised(NAME, shape)
    if error is None:
        said = next((one for one in (own, own["response"]) if _responds(one)), ABSENT)
        found = _response(said)
        return _denied(own) if found is None else found._replace(leaves=_rest(shape, said))
    if error.kind == "ApprovalRequired":
        return carried(NAME, own["metadata"]) or error.signal()
    body = own.beside(parsed(own["body"].raw), "body")
    behind = _response(body if _responds(body) else _last(body))
    if behind is not None and behind.tells:
        return behind
    return by_error_behind(NAME, own) or error.signal()


def _responds(one: Node) -> bool:
    """Return whether this is a response, by its kind or by its provider details."""
    return one["parts"].present and (
        one["kind"].text == "response" or one["provider_details"].present
    )


def _last(messages: Node) -> Node:
    """Return the last response among messages; earlier refusals are over."""
    return next((one for one in reversed([*messages]) if _responds(one)), ABSENT)


def _response(said: Node) -> Signal | None:
    details = said["provider_details"]
    ratings = details["safety_ratings"]
    found = strongest(
        [
            by_block_reason(NAME, details["block_reason"], ratings),
            by_category(NAME, details["refusal_category"]),
            by_finish_reason(NAME, details["finish_reason"], ratings),
            _declined(details["refusal"]),
        ]
    )
    if found is not None:
        # The provider's reason is exact, even if nothing was refused.
        return found
    judged = system(NAME).judge("finish_reason", said["finish_reason"].text)
    return judged.signal(said["finish_reason"]) if judged.known else None


def _declined(words: Node) -> Signal | None:
    if not words.text:
        return None
    return carried(NAME, words, last=True) or system(NAME).judge("refusal", "*").signal(words)


def _rest(shape: Shape, said: Node) -> Shape:
    """Return the response without the framework's finish reason, which others misread."""
    body = shape.body.beside(shaped(said, "finish_reason"))
    return shape._replace(own=body, body=body)


def _denied(own: Node) -> Signal | None:
    """Return the refusal of a tool call by its approver, or None."""
    if own["kind"].text == "tool-denied":
        words = own["message"]
        judged = system(NAME).judge("tool_denied", "tool-denied")
        line = carried(NAME, words, last=True)
        return line or judged.signal(own["kind"], detail=words.text or "")
    if own["part_kind"].text == "tool-return" and own["outcome"].text == "denied":
        judged = system(NAME).judge("tool_denied", "denied")
        line = carried(NAME, own["content"], surface=Surface.TOOL_CALL)
        return line or judged.signal(own["outcome"], evidence={"tool": own["tool_name"].text})
    return None
