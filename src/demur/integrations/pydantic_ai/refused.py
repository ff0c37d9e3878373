"""A refusal in the framework's own forms: an error that ends the run, a denied tool call."""

from typing import NoReturn

from pydantic_ai.exceptions import AgentRunError, ToolFailedError
from pydantic_ai.messages import ToolCallPart, ToolReturnPart

from demur.enforce.ruling import Refused, Ruling

__all__ = ["RunRefused", "denial", "deny", "or_end"]


class RunRefused(Refused, AgentRunError):  # noqa: N818 - it says what happened, and nothing went wrong
    """A run ended because something in it was refused; `ruling` and `envelope` say what."""


def or_end(ruling: Ruling) -> Ruling:
    """Return the ruling if it allows; otherwise the run ends.

    Raises:
        RunRefused: It does not allow.
    """
    if not ruling.allowed:
        raise RunRefused(ruling)
    return ruling


def deny(ruling: Ruling, call: ToolCallPart) -> NoReturn:
    """Keep a refused call, or its result, from the model.

    Raises:
        RunRefused: Nothing lifts it.
        ToolFailedError: The model reads why in place of a result, and may go on.
    """
    if ruling.is_hard:
        raise RunRefused(ruling)
    raise ToolFailedError(denial(ruling, call.tool_name, call.tool_call_id))


def denial(ruling: Ruling, name: str, call_id: str) -> ToolReturnPart:
    """Return what answers a refused call: the message for the model, the envelope for programs."""
    return ToolReturnPart(
        name,
        ruling.message,
        call_id,
        outcome="denied",
        metadata={"refusal": ruling.envelope},
    )
