"""Read LiteLLM's requests, responses and event streams as plain values.

Chat, text completions, Anthropic messages and OpenAI responses are read by their structure.
Other streams (server-sent events, Anthropic and Responses events) are assembled into whole
responses; a text may come in pieces, in a last event, or both.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic import BaseModel

from demur.enforce.changes import TextChanges
from demur.enforce.describe import parse_arguments
from demur.integrations._kit.conversation import ToolOutput, find_new_start, get_field, list_texts
from demur.integrations._kit.model_api import list_readings

_TOOL_ROLES = ("tool", "function")
_NON_PROMPT_ROLES = (*_TOOL_ROLES, "system", "developer")
# Fields of a request that `read_request` reads.
_REQUEST_FIELDS = ("messages", "input", "prompt", "prompt_variables", "extra_body", "fallbacks")
_ARGUMENT_FIELDS = ("arguments", "input")
_FILE_TYPES = ("image", "image_url", "input_image", "input_audio", "file", "input_file")
# Types of items that are calls, and the field with their arguments.
_CALL_TYPES = {"function_call": "arguments", "custom_tool_call": "input"}


class LiteLLMToolOutput(NamedTuple):
    """A tool output in a request, and the position of its message if it can be replaced."""

    output: ToolOutput
    position: int | None = None


class RequestedCall(NamedTuple):
    """A tool call in a response, with the JSON text of its arguments."""

    name: str
    arguments: Any
    call_id: str | None


# Tool calls of a conversation, by id.
CallsById = Mapping[str | None, RequestedCall]


class RequestContent(NamedTuple):
    """The new part of a request: all since the model last answered."""

    prompt: str
    results: tuple[LiteLLMToolOutput, ...] = ()


def as_json(value: Any) -> Any:
    """Return a response or chunk as plain values."""
    return value.model_dump() if hasattr(value, "model_dump") else value


def text_field(holder: Any, name: str) -> str | None:
    """Return a text of a mapping or an object; None if it is empty or something else."""
    value = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
    return value if isinstance(value, str) and value else None


def read_request(data: Mapping[str, Any]) -> RequestContent:
    """Return the new part of a request, from every field that the caller may have used."""
    messages = _read_field(data.get("messages"))
    others = [_read_field(data.get(name)) for name in ("input", "prompt")]
    others.append(RequestContent(_join_lines(_iter_prompt_variables(data))))
    others += [read_request(one) for one in list_substitutes(data)]
    # Only messages can be replaced.
    fixed = [result._replace(position=None) for one in others for result in one.results]
    prompt = _join_lines(one.prompt for one in (messages, *others))
    return RequestContent(prompt, (*messages.results, *fixed))


def change_request(data: dict[str, Any], changes: TextChanges) -> bool:
    """Change the texts of a request; return whether nothing is left to change."""
    for name in _REQUEST_FIELDS:
        if name in data:
            data[name] = change_value(data[name], changes, changes)
    content = read_request(data)
    return is_free_of(changes, [content.prompt, *(one.output.result for one in content.results)])


def change_value(value: Any, texts: TextChanges | None, calls: TextChanges | None) -> Any:
    """Return a value, or an object of LiteLLM, with changed texts and changed arguments of calls.

    If nothing in it changes, the same object returns.
    """
    if isinstance(value, BaseModel):
        fields = dict(value)
        changed = _change_fields(fields, texts, calls)
        return value if changed is fields else value.model_copy(update=changed)
    if isinstance(value, Mapping):
        return _change_fields(value, texts, calls)
    if isinstance(value, list | tuple):
        parts = [change_value(one, texts, calls) for one in value]
        is_same = all(new is old for new, old in zip(parts, value, strict=True))
        return value if is_same else parts
    return value if texts is None else texts.apply(value)


def _change_fields(
    fields: Mapping[str, Any], texts: TextChanges | None, calls: TextChanges | None
) -> Mapping[str, Any]:
    def change(name: str, item: Any) -> Any:
        if name in _ARGUMENT_FIELDS and isinstance(item, str | Mapping):
            return change_arguments(item, calls)
        return change_value(item, texts, calls)

    changed = {name: change(name, item) for name, item in fields.items()}
    return fields if all(changed[name] is item for name, item in fields.items()) else changed


def change_arguments(arguments: Any, changes: TextChanges | None) -> Any:
    """Return the arguments of a call with changed texts, as JSON text if they came as that."""
    if changes is None:
        return arguments
    values = parse_arguments(arguments) if isinstance(arguments, str) else None
    if values is None:
        return changes.apply(arguments)
    changed = changes.apply(values)
    return arguments if changed is values else json.dumps(changed, ensure_ascii=False)


def is_free_of(changes: TextChanges | None, values: list[Any]) -> bool:
    """Return whether the values hold nothing any more that was to be taken out of them."""
    return changes is None or changes.apply(values) is values


def merge_contents(*contents: RequestContent) -> RequestContent:
    """Return several contents as one."""
    results = (result for one in contents for result in one.results)
    return RequestContent(_join_lines(one.prompt for one in contents), tuple(results))


def _iter_prompt_variables(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the variables of a stored prompt."""
    prompt = data.get("prompt")
    stored = prompt.get("variables") if isinstance(prompt, Mapping) else None
    for variables in (stored, data.get("prompt_variables")):
        if isinstance(variables, Mapping):
            yield from _content_texts([as_json(one) for one in variables.values()])


def list_substitutes(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the mappings that may override a request: `extra_body` and `fallbacks`."""
    extra, others = data.get("extra_body"), data.get("fallbacks")
    found = [extra, *(others if isinstance(others, list | tuple) else ())]
    return [one for one in found if isinstance(one, Mapping)]


def _read_field(value: Any) -> RequestContent:
    if isinstance(value, str):
        return RequestContent(value)
    messages = [as_json(one) for one in value] if isinstance(value, list | tuple) else []
    start = find_new_start(messages, _is_answer)
    new = list(enumerate(messages))[start:]
    calls = {call.call_id: call for one in messages for call in read_calls(one)}
    results = (result for at, one in new for result in _iter_tool_outputs(at, one, calls))
    prompt = _join_lines(text for _, one in new for text in _prompt_texts(one))
    return RequestContent(prompt, tuple(results))


def _is_answer(message: Any) -> bool:
    if not isinstance(message, Mapping):
        return False
    return message.get("role") == "assistant" or message.get("type") in _CALL_TYPES


def _prompt_texts(message: Any) -> tuple[str, ...]:
    if isinstance(message, str):
        return (message,)
    if isinstance(message, Mapping) and message.get("role") not in _NON_PROMPT_ROLES:
        return _content_texts(message.get("content", message.get("text")))
    return ()


def _content_texts(content: Any) -> tuple[str, ...]:
    """Return the texts of a message's content, without tool outputs."""
    if not isinstance(content, list | tuple):
        return (content,) if isinstance(content, str) else ()
    plain = [as_json(one) for one in content]
    return list_texts([one for one in plain if get_field(one, "type") != "tool_result"])


def _iter_tool_outputs(at: int, message: Any, calls: CallsById) -> Iterator[LiteLLMToolOutput]:
    if not isinstance(message, Mapping):
        return
    if message.get("role") in _TOOL_ROLES:
        output = _tool_output(message, ("tool_call_id", "content"), calls)
        yield LiteLLMToolOutput(output, at)
    elif str(message.get("type")).endswith("_call_output"):
        yield LiteLLMToolOutput(_tool_output(message, ("call_id", "output"), calls))
    for part in list_objects(message, "content"):
        if part.get("type") == "tool_result":
            yield LiteLLMToolOutput(_tool_output(part, ("tool_use_id", "content"), calls))


def _tool_output(holder: Mapping[str, Any], names: tuple[str, str], calls: CallsById) -> ToolOutput:
    """Return a tool output with text parts as plain texts and without files."""
    call_id, content = text_field(holder, names[0]), holder.get(names[1])
    if isinstance(content, list | tuple):
        parts = [as_json(one) for one in content]
        content = [
            part["text"] if isinstance(get_field(part, "text"), str) else part
            for part in parts
            if get_field(part, "type") not in _FILE_TYPES
        ]
    call = calls.get(call_id)
    if call is None:
        return ToolOutput(text_field(holder, "name") or "tool", content, call_id)
    return ToolOutput(call.name, content, call_id, call.arguments)


def read_answer_texts(response: Any) -> list[str]:
    """Return the texts of a response, choice by choice.

    Several blocks are read both ways: joined, and on separate lines.
    """
    return [text for parts in _answer_parts(response) for text in list_readings(parts)]


def join_answer_text(response: Any) -> str:
    """Return the whole text of a response."""
    return _join_lines(text for parts in _answer_parts(response) for text in parts)


def _answer_parts(response: Any) -> list[tuple[str, ...]]:
    body = as_json(response)
    if not isinstance(body, Mapping):
        return []
    parts: list[tuple[str, ...]] = []
    for choice in list_objects(body, "choices"):
        message = choice.get("message")
        content = message.get("content") if isinstance(message, Mapping) else choice.get("text")
        parts.append(_content_texts(content))
    items = [_content_texts(one.get("content")) for one in list_objects(body, "output")]
    return [*parts, _content_texts(body.get("content")), tuple(sum(items, ()))]


def _join_lines(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)


def read_calls(response: Any) -> list[RequestedCall]:
    """Return the tool calls of a response or message."""
    body = as_json(response)
    if not isinstance(body, Mapping):
        return []
    holders = [body, *(one.get("message") for one in list_objects(body, "choices"))]
    calls = [
        _read_function_call(call)
        for holder in holders
        if isinstance(holder, Mapping)
        for call in list_objects(holder, "tool_calls")
    ]
    calls += [
        RequestedCall(str(one.get("name")), one.get("input") or {}, text_field(one, "id"))
        for one in list_objects(body, "content")
        if one.get("type") == "tool_use"
    ]
    for item in (body, *list_objects(body, "output")):
        if item.get("type") in _CALL_TYPES:
            field = _CALL_TYPES[item["type"]]
            value = item.get(field) or ""
            # A custom tool takes plain text, not JSON.
            arguments = value if field == "arguments" else {field: value}
            name, call_id = str(item.get("name")), text_field(item, "call_id")
            calls.append(RequestedCall(name, arguments, call_id))
    return calls


def read_function_calls(response: Any) -> list[RequestedCall]:
    """Return the calls of a chat in the older `function_call` format."""
    body = as_json(response)
    choices = list_objects(body, "choices") if isinstance(body, Mapping) else []
    messages = [choice.get("message") for choice in choices]
    found = [one.get("function_call") for one in messages if isinstance(one, Mapping)]
    return [_read_function_call({"function": one}) for one in found if isinstance(one, Mapping)]


def _read_function_call(call: Mapping[str, Any]) -> RequestedCall:
    function = call.get("function")
    fields = function if isinstance(function, Mapping) else {}
    arguments = fields.get("arguments") or ""
    return RequestedCall(str(fields.get("name")), arguments, text_field(call, "id"))


def list_objects(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list field of another object."""
    value = holder.get(name)
    found = map(as_json, value) if isinstance(value, list | tuple) else ()
    return [one for one in found if isinstance(one, Mapping)]


# Fields in which an event repeats the whole of what other events bring in pieces.
_WHOLE_FIELDS = ("response", "message", "item", "part")


def read_events(chunks: Iterable[Any]) -> list[Mapping[str, Any]]:
    """Return the events of a stream; byte chunks may be cut anywhere."""
    events = list(chunks)
    if all(isinstance(one, bytes | str) for one in events):
        pieces = [one.encode() if isinstance(one, str) else one for one in events]
        events = list(_parse_sse(b"".join(pieces).decode("utf-8", "replace")))
    return [event for event in map(as_json, events) if isinstance(event, Mapping)]


def _parse_sse(text: str) -> Iterator[Any]:
    for line in text.splitlines():
        name, _, data = line.partition(":")
        if name == "data":
            with suppress(ValueError):
                yield json.loads(data)


def assemble_responses(chunks: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the complete responses that the chunks of a stream make up."""
    choices: dict[Any, _AssembledChoice] = {}
    blocks: dict[Any, dict[str, Any]] = {}
    bodies: list[dict[str, Any]] = []
    texts: list[str] = []
    stopped: dict[str, Any] = {}
    for event in read_events(chunks):
        for choice in list_objects(event, "choices"):
            choices.setdefault(choice.get("index"), _AssembledChoice()).add(choice)
        bodies += _whole_bodies(event)
        delta, index = event.get("delta"), event.get("index")
        if isinstance(event.get("content_block"), Mapping):
            blocks[index] = dict(event["content_block"])
        if isinstance(delta, Mapping):
            _extend_block(blocks.setdefault(index, {}), delta)
            stopped |= {name: value for name, value in delta.items() if name.startswith("stop_")}
        elif isinstance(delta, str) and "arguments" not in str(event.get("type")):
            texts.append(delta)
    if choices:
        found = [choice.body for choice in choices.values()]
        bodies.append({"object": "chat.completion", "choices": found})
    if blocks:
        content = list(blocks.values())
        bodies.append({"type": "message", "role": "assistant", "content": content, **stopped})
    if texts:
        bodies.append({"output": [{"content": "".join(texts)}]})
    return bodies


def _extend_block(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a delta to an Anthropic content block; the JSON of a call is its `input`."""
    for name, key in (("text", "text"), ("partial_json", "input")):
        if isinstance(delta.get(name), str):
            before = block.get(key)
            block[key] = (before if isinstance(before, str) else "") + delta[name]


def _whole_bodies(event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the complete bodies in an event."""
    for name in _WHOLE_FIELDS:
        value = event.get(name)
        if not isinstance(value, Mapping):
            continue
        if name in {"response", "message"}:
            yield dict(value)
        else:
            is_part = isinstance(value.get("text"), str)
            yield {"output": [{"content": [value]} if is_part else value]}
    if isinstance(event.get("text"), str):
        yield {"output": [{"content": event["text"]}]}


class _AssembledChoice:
    """One choice of a chat or text completion, assembled from chunks."""

    def __init__(self) -> None:
        self.body: dict[str, Any] = {"index": 0, "message": {"content": ""}}
        self._calls: dict[Any, dict[str, Any]] = {}

    def add(self, choice: Mapping[str, Any]) -> None:
        """Add a chunk of the choice."""
        message, delta = self.body["message"], choice.get("delta")
        added = delta if isinstance(delta, Mapping) else {"content": choice.get("text")}
        for name in ("content", "refusal"):
            if isinstance(added.get(name), str):
                message[name] = message.get(name, "") + added[name]
        if choice.get("finish_reason") is not None:
            self.body["finish_reason"] = choice["finish_reason"]
        for call in list_objects(added, "tool_calls"):
            index = call.get("index")
            kept = self._calls.get(index)
            if kept is None or (call.get("id") and call["id"] != kept["id"]):
                kept = self._calls[index] = {"id": call.get("id"), "function": {}}
                self.body["message"].setdefault("tool_calls", []).append(kept)
            if isinstance(call.get("function"), Mapping):
                _add_function(kept["function"], call["function"])
        function_call = added.get("function_call")
        if isinstance(function_call, Mapping):
            _add_function(message.setdefault("function_call", {}), function_call)


def _add_function(kept: dict[str, Any], piece: Mapping[str, Any]) -> None:
    if piece.get("name"):
        kept["name"] = piece["name"]
    kept["arguments"] = kept.get("arguments", "") + (piece.get("arguments") or "")
