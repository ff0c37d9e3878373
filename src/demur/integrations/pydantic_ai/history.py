"""The history of a run: what no model has answered yet, and what is left of it after a refusal."""

from collections.abc import Sequence
from dataclasses import replace

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from demur.codes.vocabulary import Surface
from demur.enforce.ruling import CheckResult
from demur.integrations.pydantic_ai.refused import build_denial

__all__ = ["find_response_of", "find_call", "clean_history", "list_unanswered"]


def list_unanswered(messages: Sequence[ModelMessage]) -> list[ModelRequest]:
    """Return the messages since the model's last response."""
    new: list[ModelRequest] = []
    for message in reversed(messages):
        if not isinstance(message, ModelRequest):
            break
        new.append(message)
    new.reverse()
    return new


def find_response_of(messages: Sequence[ModelMessage], call: ToolCallPart) -> ModelResponse | None:
    """Return the last response if it contains `call`, or None."""
    response = _last_response(messages)
    calls = [] if response is None else response.tool_calls
    return response if any(one.tool_call_id == call.tool_call_id for one in calls) else None


def find_call(messages: Sequence[ModelMessage], call_id: str) -> ToolCallPart | None:
    """Return the last call with this id."""
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            for call in message.tool_calls:
                if call.tool_call_id == call_id:
                    return call
    return None


def clean_history(messages: list[ModelMessage], result: CheckResult) -> None:
    """Remove refused prompts, and answer open tool calls, so that the history stays usable."""
    if result.surface is Surface.INPUT:
        _forget_prompts(messages)
        return
    response = _last_response(messages)
    if response is None:
        return
    if messages[-1] is not response and not messages[-1].parts:
        messages.pop()
    answered = {
        part.tool_call_id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }
    open_calls = [call for call in response.tool_calls if call.tool_call_id not in answered]
    if open_calls:
        denials = [build_denial(result, one.tool_name, one.tool_call_id) for one in open_calls]
        messages.append(ModelRequest(denials))


def _forget_prompts(messages: list[ModelMessage]) -> None:
    new = list_unanswered(messages)
    kept: list[ModelMessage] = []
    for message in new:
        parts = [part for part in message.parts if not isinstance(part, UserPromptPart)]
        if parts:
            kept.append(replace(message, parts=parts))
    messages[len(messages) - len(new) :] = kept


def _last_response(messages: Sequence[ModelMessage]) -> ModelResponse | None:
    return next((one for one in reversed(messages) if isinstance(one, ModelResponse)), None)
