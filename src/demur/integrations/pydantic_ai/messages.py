"""The framework's messages and tools as plain values."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    ModelResponse,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturn,
    UserContent,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputContext
from pydantic_ai.tools import ToolDefinition as TheirDefinition
from pydantic_core import to_jsonable_python

from demur.enforce.answers import append_resources
from demur.guards.tool_call.manifest import ToolDefinition

__all__ = [
    "content_text",
    "convert_definition",
    "is_structured",
    "to_jsonable",
    "list_readings",
    "result_content",
    "build_output_call",
    "add_resources",
]

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
    return "\n".join(text for one in content or () if (text := _content_item_text(one)) is not None)


def _content_item_text(item: UserContent) -> str | None:
    if isinstance(item, BinaryContent):
        return _file_text(item)
    text = item.content if isinstance(item, TextContent) else item
    return text if isinstance(text, str) else None


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


def build_output_call(output: OutputContext, given: Any) -> ToolCallPart:
    """Return the call of the output function with the model's output as arguments."""
    asked, tool = output.tool_call, output.tool_def
    name = output.function_name or (tool.name if tool is not None else "output")
    named = given if isinstance(given, dict) else _name_argument(given, tool)
    return ToolCallPart(name, named, asked.tool_call_id if asked is not None else "")


def _name_argument(given: Any, tool: TheirDefinition | None) -> dict[str, Any]:
    """Return a single value under the name of the function's only parameter."""
    names = list((tool.parameters_json_schema if tool is not None else {}).get("properties", ()))
    return {names[0] if len(names) == 1 else "output": given}
