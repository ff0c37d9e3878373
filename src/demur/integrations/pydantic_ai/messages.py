"""The framework's messages and tools as plain values, and its history after a refusal."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
from pydantic_ai import RunContext
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.output import OutputContext
from pydantic_ai.tools import ToolDefinition as TheirDefinition
from pydantic_core import to_jsonable_python

from demur.codes.vocabulary import Surface
from demur.enforce.answers import with_resources
from demur.enforce.ruling import Ruling
from demur.errors import GrantError
from demur.guards.tool_call.manifest import ToolDefinition
from demur.integrations.pydantic_ai.refused import denial
from demur.model.grant import Grant

__all__ = [
    "Asked",
    "asked_in",
    "calls_of",
    "content_text",
    "definition",
    "grants_of",
    "new_prompts",
    "plain",
    "returned",
    "said",
    "tidy",
    "to_call",
    "unanswered",
    "with_help",
]


# Here, or elsewhere. What waits for a person's approval is judged once that is given.
_RUN = ("function", "external")


class Asked(NamedTuple):
    """A tool call that a model asked for, with the arguments that its tool will get."""

    call: ToolCallPart
    tool: TheirDefinition
    arguments: Mapping[str, Any]


def plain(value: Any) -> Any:
    """Return a value as JSON; what has no such form, as text."""
    return to_jsonable_python(_readable(value), fallback=str, bytes_mode="base64")


def _readable(value: Any) -> Any:
    """Return a value without the files in it."""
    if isinstance(value, list | tuple):
        return [one for one in value if not isinstance(one, BinaryContent)]
    return None if isinstance(value, BinaryContent) else value


def unanswered(messages: Iterable[ModelMessage]) -> list[ModelRequest]:
    """Return the messages since the model last said something."""
    new: list[ModelRequest] = []
    for message in messages:
        if isinstance(message, ModelRequest):
            new.append(message)
        else:
            new = []
    return new


def new_prompts(messages: Iterable[ModelMessage]) -> list[UserPromptPart]:
    """Return what the user said since the model last did."""
    parts = (part for message in unanswered(messages) for part in message.parts)
    return [part for part in parts if isinstance(part, UserPromptPart)]


def content_text(content: str | Sequence[UserContent] | None) -> str:
    """Return the text in a prompt, or in what a tool adds to one, whatever else is in it."""
    listed = [content] if isinstance(content, str) else content or ()
    texts = (one.content if isinstance(one, TextContent) else one for one in listed)
    return "\n".join(text for text in texts if isinstance(text, str))


def said(response: ModelResponse) -> str:
    """Return the text of a response, part by part."""
    texts = (part.content for part in response.parts if isinstance(part, TextPart))
    return "\n".join(text for text in texts if text)


def with_help(response: ModelResponse, resources: Iterable[str]) -> ModelResponse:
    """Return the response with the lines that it must show."""
    lines = tuple(resources)
    if not lines:
        return response
    return replace(response, parts=[*response.parts, TextPart(with_resources("", lines))])


def definition(tool: TheirDefinition) -> ToolDefinition:
    """Return a tool as it is presented now."""
    return ToolDefinition(
        name=tool.name,
        description=tool.description or "",
        schema=plain(tool.parameters_json_schema),
    )


def returned(result: Any) -> Any:
    """Return all that a model would read of a tool's result."""
    if not isinstance(result, ToolReturn):
        return plain(result)
    value = plain(result.return_value)
    return value if result.content is None else [value, plain(result.content)]


def to_call(output: OutputContext, given: Any) -> ToolCallPart:
    """Return the call of the function that makes an output of what the model gave."""
    asked, tool = output.tool_call, output.tool_def
    name = output.function_name or (tool.name if tool is not None else "output")
    named = given if isinstance(given, dict) else _by_name(given, tool)
    return ToolCallPart(name, named, asked.tool_call_id if asked is not None else "")


def _by_name(given: Any, tool: TheirDefinition | None) -> dict[str, Any]:
    """Return the one value that a function takes under its name, as far as that is known."""
    names = list((tool.parameters_json_schema if tool is not None else {}).get("properties", ()))
    return {names[0] if len(names) == 1 else "output": given}


def asked_in(ctx: RunContext[Any], call: ToolCallPart) -> ModelResponse | None:
    """Return the response that `call` stands in, if it is the last one."""
    response = _last_response(ctx.messages)
    if response is None or call.tool_call_id not in {
        one.tool_call_id for one in response.tool_calls
    }:
        return None
    return response


def calls_of(response: ModelResponse, ctx: RunContext[Any]) -> list[Asked]:
    """Return the calls of a response that are about to be made."""
    tools = (ctx.tool_manager.tools if ctx.tool_manager is not None else None) or {}
    found = []
    for call in response.tool_calls:
        tool = tools.get(call.tool_name)
        if tool is not None and tool.tool_def.kind in _RUN:
            # Arguments that are not valid come to nothing: the model is asked again.
            with suppress(ValueError):
                given = tool.args_validator.validate_python(call.args_as_dict())
                found.append(Asked(call, tool.tool_def, plain(given)))
    return found


def grants_of(metadata: Any) -> list[Grant]:
    """Return the grants in the metadata of an approval; what is none is left out."""
    given = metadata if isinstance(metadata, Mapping) else {}
    more = given.get("grants")
    listed = [given.get("grant"), *(more if isinstance(more, list | tuple) else ())]
    grants = []
    for one in listed:
        with suppress(msgspec.MsgspecError, GrantError):
            if isinstance(one, str | bytes):
                grants.append(Grant.from_json(one))
            else:
                grants.append(one if isinstance(one, Grant) else msgspec.convert(one, Grant))
    return grants


def tidy(messages: list[ModelMessage], ruling: Ruling) -> None:
    """Leave a history that can go on: no refused prompt in it, no tool call without an answer."""
    if ruling.surface is Surface.INPUT:
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
        denials = [denial(ruling, one.tool_name, one.tool_call_id) for one in open_calls]
        messages.append(ModelRequest(denials))


def _forget_prompts(messages: list[ModelMessage]) -> None:
    response = _last_response(messages)
    start = 0 if response is None else messages.index(response) + 1
    kept: list[ModelMessage] = []
    for message in messages[start:]:
        assert isinstance(message, ModelRequest)
        parts = [part for part in message.parts if not isinstance(part, UserPromptPart)]
        if parts:
            kept.append(replace(message, parts=parts))
    messages[start:] = kept


def _last_response(messages: Iterable[ModelMessage]) -> ModelResponse | None:
    responses = [one for one in messages if isinstance(one, ModelResponse)]
    return responses[-1] if responses else None
