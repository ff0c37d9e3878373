"""Pydantic AI's messages and tools as plain values, and refusals in its own types."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from pydantic_ai.exceptions import AgentRunError, ToolFailedError
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputContext
from pydantic_ai.tools import ToolDefinition as TheirDefinition
from pydantic_core import to_jsonable_python

from demur.codes.vocabulary import Surface
from demur.enforce.result import CheckResult, Refused, append_resources
from demur.guards.tool_manifest import ToolDefinition

_JSON_TYPES = frozenset({str, int, bool, type(None)})
# Output modes in which text is meant to be read, or comes beside the output.
_TEXT_MODES = frozenset({"text", "tool", "tool_or_text", "image"})
# Endings of media types, besides `text/...`, that models read as text.
_TEXT_FILES = ("json", "xml", "yaml", "toml")


def to_jsonable(value: Any) -> Any:
    """Return a value as plain JSON; objects without a JSON format become text."""
    if type(value) in _JSON_TYPES:
        return value
    return to_jsonable_python(_read_files(value), fallback=str, bytes_mode="base64")


def _read_files(value: Any) -> Any:
    """Return a value with text files as text and without other files."""
    if isinstance(value, list | tuple):
        parts = (_read_files(one) if isinstance(one, BinaryContent) else one for one in value)
        return [part for part in parts if part is not None]
    return _file_text(value) if isinstance(value, BinaryContent) else value


def _file_text(file: BinaryContent) -> str | None:
    """Return the text of a text file; None for other files."""
    kind = file.media_type.partition(";")[0].strip().lower()
    is_text = kind.startswith("text/") or kind.endswith(_TEXT_FILES)
    return file.data.decode("utf-8", "replace") if is_text else None


def content_text(content: str | Sequence[UserContent] | None) -> str:
    """Return the text in a prompt, or in content that a tool adds to one."""
    if isinstance(content, str):
        return content
    texts = [
        _file_text(item)
        if isinstance(item, BinaryContent)
        else item.content
        if isinstance(item, TextContent)
        else item
        for item in content or ()
    ]
    return "\n".join(text for text in texts if isinstance(text, str))


def list_readings(response: ModelResponse, *, data: bool) -> tuple[str, ...]:
    """Return the readings of a response's text: joined, and with its parts on separate lines.

    Structured output is only read joined. An empty text has no reading.
    """
    texts = [part.content for part in response.parts if isinstance(part, TextPart) and part.content]
    if not texts:
        return ()
    joined = "".join(texts)
    return (joined,) if data or len(texts) == 1 else (joined, "\n".join(texts))


def is_structured(parameters: ModelRequestParameters) -> bool:
    """Return whether the text of an answer is structured output."""
    return parameters.output_mode not in _TEXT_MODES


def add_resources(response: ModelResponse, resources: Iterable[str]) -> ModelResponse:
    """Return the response with the help lines added."""
    lines = tuple(resources)
    if not lines:
        return response
    return replace(response, parts=[*response.parts, TextPart(append_resources("", lines))])


def convert_definition(tool: TheirDefinition) -> ToolDefinition:
    """Return the current definition of a tool."""
    return ToolDefinition(
        name=tool.name,
        description=tool.description or "",
        schema=to_jsonable(tool.parameters_json_schema),
    )


def result_content(result: Any) -> Any:
    """Return the parts of a tool's result that a model reads."""
    if not isinstance(result, ToolReturn):
        return to_jsonable(result)
    value = to_jsonable(result.return_value)
    return value if result.content is None else [value, to_jsonable(result.content)]


def change_content(content: Any, result: CheckResult) -> Any:
    """Return the content of a prompt or result with changed texts."""
    if isinstance(content, TextContent):
        return replace(content, content=result.apply_changes(content.content))
    if isinstance(content, list | tuple):
        return [change_content(one, result) for one in content]
    return result.apply_changes(content)


def change_result(value: Any, result: CheckResult) -> Any:
    """Return what a tool returned with changed texts."""
    if result.changes is None:
        return value
    if not isinstance(value, ToolReturn):
        return change_content(value, result)
    content = change_content(value.content, result)
    return replace(value, return_value=result.apply_changes(value.return_value), content=content)


def change_response(
    response: ModelResponse, result: CheckResult, outputs: Collection[str]
) -> ModelResponse:
    """Return a response with changed texts, and changed arguments of output tools."""

    def change(part: ModelResponsePart) -> ModelResponsePart:
        if isinstance(part, TextPart):
            return replace(part, content=result.apply_changes(part.content))
        if isinstance(part, ToolCallPart) and part.tool_name in outputs:
            return replace(part, args=result.apply_changes(part.args))
        return part

    return replace(response, parts=list(map(change, response.parts)))


def build_output_call(context: OutputContext, output: Any) -> ToolCallPart:
    """Return the call of the output function with the model's output as arguments."""
    call, tool = context.tool_call, context.tool_def
    name = context.function_name or (tool.name if tool is not None else "output")
    arguments = output
    if not isinstance(output, dict):
        # A single value gets the name of the function's only parameter.
        schema = tool.parameters_json_schema if tool is not None else {}
        names = list(schema.get("properties", ()))
        arguments = {names[0] if len(names) == 1 else "output": output}
    return ToolCallPart(name, arguments, call.tool_call_id if call is not None else "")


class RunRefused(Refused, AgentRunError):  # noqa: N818 - a refusal is no error
    """A refusal ended the run; `result` and `envelope` say why.

    `str()` is the text for a person, because the framework's UI streams send it to people. The
    refusal line is in the notes, so that tracebacks show it.
    """

    def __init__(self, result: CheckResult) -> None:
        super().__init__(result)
        self.add_note(result.line)

    def __str__(self) -> str:
        return self.result.user_text


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
        name, result.model_message, call_id, outcome="denied", metadata={"refusal": result.envelope}
    )


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
