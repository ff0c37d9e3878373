"""A refusal in the framework's own forms: an error that ends the run, a denied tool call."""

from typing import NoReturn

from pydantic_ai.exceptions import AgentRunError, ToolFailedError
from pydantic_ai.messages import ToolCallPart, ToolReturnPart

from demur.enforce.ruling import Refused, Ruling

__all__ = ["RunRefused", "denial", "deny", "or_end"]


class RunRefused(Refused, AgentRunError):  # noqa: N818 - a refusal is no error
    """A refusal ended the run; `result` and `envelope` say why."""


def or_end(ruling: Ruling) -> Ruling:
    """Return the check result if it allows; otherwise end the run.

    Raises:
        RunRefused: It refuses.
    """
    if not ruling.allowed:
        raise RunRefused(ruling)
    return ruling


def deny(ruling: Ruling, call: ToolCallPart) -> NoReturn:
    """Raise the refusal of a call or of its result.

    Raises:
        RunRefused: It is a hard refusal.
        ToolFailedError: It is a soft refusal; the model reads it and goes on.
    """
    if ruling.is_hard:
        raise RunRefused(ruling)
    raise ToolFailedError(denial(ruling, call.tool_name, call.tool_call_id))


def denial(ruling: Ruling, name: str, call_id: str) -> ToolReturnPart:
    """Return the reply to a refused call: a message for the model, the envelope for programs."""
    return ToolReturnPart(
        name,
        ruling.message,
        call_id,
        outcome="denied",
        metadata={"refusal": ruling.envelope},
    )
