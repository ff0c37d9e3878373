"""A refusal in the framework's own forms: an error that ends the run, a denied tool call."""

from typing import NoReturn

from pydantic_ai.exceptions import AgentRunError, ToolFailedError
from pydantic_ai.messages import ToolCallPart, ToolReturnPart

from demur.enforce.ruling import Refused, CheckResult

__all__ = ["RunRefused", "build_denial", "deny_call", "require_allowed"]


class RunRefused(Refused, AgentRunError):  # noqa: N818 - a refusal is no error
    """A refusal ended the run; `result` and `envelope` say why."""


def require_allowed(result: CheckResult) -> CheckResult:
    """Return the check result if it allows; otherwise end the run.

    Raises:
        RunRefused: It refuses.
    """
    if not result.allowed:
        raise RunRefused(result)
    return result


def deny_call(result: CheckResult, call: ToolCallPart) -> NoReturn:
    """Raise the refusal of a call or of its result.

    Raises:
        RunRefused: It is a hard refusal.
        ToolFailedError: It is a soft refusal; the model reads it and goes on.
    """
    if result.is_hard:
        raise RunRefused(result)
    raise ToolFailedError(build_denial(result, call.tool_name, call.tool_call_id))


def build_denial(result: CheckResult, name: str, call_id: str) -> ToolReturnPart:
    """Return the reply to a refused call: a message for the model, the envelope for programs."""
    return ToolReturnPart(
        name,
        result.model_message,
        call_id,
        outcome="denied",
        metadata={"refusal": result.envelope},
    )
