"""Read LiteLLM's requests, responses and event streams as plain values.

Chat, text completions, Anthropic messages and OpenAI responses are read by their structure.
Other streams (server-sent events, Anthropic and Responses events) are assembled into whole
responses; a text may come in pieces, in a last event, or both.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from litellm.integrations.custom_guardrail import get_session_id_from_request_data

from demur.enforce.context import CallContext

_FRAMEWORK = "litellm"
_TOOL_ROLES = ("tool", "function")
_NON_PROMPT_ROLES = (*_TOOL_ROLES, "system", "developer")
_FILE_TYPES = ("image", "image_url", "input_image", "input_audio", "file", "input_file")
# Types of items that are calls, and the field with their arguments.
_CALL_TYPES = {"function_call": "arguments", "custom_tool_call": "input"}
_PROMPT_FIELDS = ("messages", "input", "prompt")


class LiteLLMToolOutput(NamedTuple):
    """A tool output in a request: its message's position, and its call.

    It is `replaceable` if its message holds nothing else.
    """

    position: int
    name: str
    content: Any
    call_id: str | None
    arguments: Any = None
    replaceable: bool = False


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
    results: tuple[LiteLLMToolOutput, ...]


def as_json(value: Any) -> Any:
    """Return a response or chunk as plain values."""
    return value.model_dump() if hasattr(value, "model_dump") else value


def build_context(data: Mapping[str, Any], key_holder: Any, given: CallContext) -> CallContext:
    """Return the call context of a request; the subject is the holder of the proxy's key.

    The host's `given` context takes precedence.
    """
    user = (
        _text_field(key_holder, "user_id")
        or _text_field(key_holder, "api_key")
        or _text_field(key_holder, "token")
    )
    holder = None if user is None else {"id": user, "type": "user"}
    return given._replace(
        framework=_FRAMEWORK,
        run=given.run or get_session_id_from_request_data(dict(data)),
        call_id=given.call_id or _text_field(data, "litellm_call_id"),
        subject=given.subject or holder,
        tenant=given.tenant or _text_field(key_holder, "team_id"),
    )


def _text_field(holder: Any, name: str) -> str | None:
    value = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
    return value if isinstance(value, str) and value else None


def read_request(data: Mapping[str, Any]) -> RequestContent:
    """Return the new part of a request, from every field that the caller may have used."""
    asked = [_read_field(data.get(name), messages=name == "messages") for name in _PROMPT_FIELDS]
    asked.append(RequestContent(_join_lines(iter_prompt_variables(data)), ()))
    return merge_contents(
        *asked, *(_mark_fixed(read_request(one)) for one in list_substitutes(data))
    )


def merge_contents(*asked: RequestContent) -> RequestContent:
    """Return several contents as one."""
    return RequestContent(
        _join_lines(one.prompt for one in asked),
        tuple(result for one in asked for result in one.results),
    )


def iter_prompt_variables(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the variables of a stored prompt."""
    prompt = data.get("prompt")
    stored = prompt.get("variables") if isinstance(prompt, Mapping) else None
    for given in (stored, data.get("prompt_variables")):
        if isinstance(given, Mapping):
            yield from _iter_texts([as_json(one) for one in given.values()])


def list_substitutes(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the mappings that may override a request: `extra_body` and `fallbacks`."""
    extra, others = data.get("extra_body"), data.get("fallbacks")
    given = [extra, *(others if isinstance(others, list | tuple) else ())]
    return [one for one in given if isinstance(one, Mapping)]


def _mark_fixed(asked: RequestContent) -> RequestContent:
    """Return the content with tool outputs that cannot be replaced."""
    return RequestContent(
        asked.prompt, tuple(one._replace(replaceable=False) for one in asked.results)
    )


def _read_field(given: Any, *, messages: bool) -> RequestContent:
    if isinstance(given, str):
        return RequestContent(given, ())
    talk = [as_json(one) for one in given] if isinstance(given, list | tuple) else []
    new = list(enumerate(talk))[_find_new_start(talk) :]
    prompt = "\n".join(text for _, one in new for text in _prompt_texts(one) if text)
    calls = {call.call_id: call for one in talk for call in read_calls(one)}
    results = [result for place, one in new for result in _iter_tool_outputs(place, one, calls)]
    asked = RequestContent(prompt, tuple(results))
    return asked if messages else _mark_fixed(asked)


def _find_new_start(messages: list[Any]) -> int:
    """Return the position after the model's last answer.

    Assistant messages at the very end are prefill for the model to continue.
    """
    end = len(messages)
    while end and _is_answer(messages[end - 1]):
        end -= 1
    return max((place + 1 for place in range(end) if _is_answer(messages[place])), default=0)


def _is_answer(message: Any) -> bool:
    return isinstance(message, Mapping) and (
        message.get("role") == "assistant" or message.get("type") in _CALL_TYPES
    )


def _prompt_texts(message: Any) -> Iterator[str]:
    if isinstance(message, str):
        yield message
    elif isinstance(message, Mapping) and message.get("role") not in _NON_PROMPT_ROLES:
        yield from _iter_texts(message.get("content", message.get("text")))


def _iter_texts(content: Any) -> Iterator[str]:
    """Yield the texts of a message's content."""
    if isinstance(content, str):
        yield content
    for one in content if isinstance(content, list | tuple) else ():
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping) and one.get("type") != "tool_result":
            yield from _part_texts(one)


def _part_texts(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a part, also of documents and search results."""
    if isinstance(part.get("text"), str):
        yield part["text"]
    yield from _iter_texts(part.get("content"))
    source = part.get("source")
    if isinstance(source, Mapping):
        yield from _iter_texts(source.get("content"))
        if source.get("type") == "text":
            yield from _iter_texts(source.get("data"))


def _iter_tool_outputs(place: int, message: Any, calls: CallsById) -> Iterator[LiteLLMToolOutput]:
    if not isinstance(message, Mapping):
        return
    if message.get("role") in _TOOL_ROLES:
        yield _read_tool_output(place, message, ("tool_call_id", "content"), calls)._replace(
            replaceable=True
        )
    elif str(message.get("type")).endswith("_call_output"):
        yield _read_tool_output(place, message, ("call_id", "output"), calls)
    for part in list_objects(message, "content"):
        if part.get("type") == "tool_result":
            yield _read_tool_output(place, part, ("tool_use_id", "content"), calls)


def _read_tool_output(
    place: int, holder: Mapping[str, Any], names: tuple[str, str], calls: CallsById
) -> LiteLLMToolOutput:
    call_id, content = _text_field(holder, names[0]), holder.get(names[1])
    call = calls.get(call_id)
    name = _text_field(holder, "name") or "tool" if call is None else call.name
    given = None if call is None else call.arguments
    return LiteLLMToolOutput(place, name, _readable_content(content), call_id, given)


def _readable_content(content: Any) -> Any:
    """Return a tool output with text parts as plain texts and without files."""
    if not isinstance(content, list | tuple):
        return content
    parts = [as_json(one) for one in content]
    return [
        part["text"] if isinstance(part, Mapping) and isinstance(part.get("text"), str) else part
        for part in parts
        if not (isinstance(part, Mapping) and part.get("type") in _FILE_TYPES)
    ]


def read_answer_texts(response: Any) -> list[str]:
    """Return the texts of a response, choice by choice.

    Several blocks are read both ways: joined, and on separate lines.
    """
    return [text for parts in _answer_parts(response) for text in list_readings(parts)]


def join_answer_text(response: Any) -> str:
    """Return the whole text of a response."""
    return _join_lines(text for parts in _answer_parts(response) for text in parts)


def list_readings(parts: Iterable[str]) -> list[str]:
    """Return the readings of a text: its parts on separate lines, and joined."""
    given = [part for part in parts if part]
    return [text for text in dict.fromkeys(("\n".join(given), "".join(given))) if text]


def _answer_parts(response: Any) -> list[list[str]]:
    body = as_json(response)
    if not isinstance(body, Mapping):
        return []
    said = [list(_iter_texts(_choice_content(choice))) for choice in list_objects(body, "choices")]
    said.append(list(_iter_texts(body.get("content"))))
    said.append(
        [text for one in list_objects(body, "output") for text in _iter_texts(one.get("content"))]
    )
    return said


def _choice_content(choice: Mapping[str, Any]) -> Any:
    message = choice.get("message")
    return message.get("content") if isinstance(message, Mapping) else choice.get("text")


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
    used = [one for one in list_objects(body, "content") if one.get("type") == "tool_use"]
    calls += [
        RequestedCall(str(one.get("name")), one.get("input") or {}, _text_field(one, "id"))
        for one in used
    ]
    asked = [one for one in (body, *list_objects(body, "output")) if one.get("type") in _CALL_TYPES]
    return calls + [_item_call(one) for one in asked]


def _item_call(item: Mapping[str, Any]) -> RequestedCall:
    field = _CALL_TYPES[item["type"]]
    given = item.get(field) or ""
    # A custom tool takes plain text, not JSON.
    arguments = given if field == "arguments" else {field: given}
    return RequestedCall(str(item.get("name")), arguments, _text_field(item, "call_id"))


def read_function_calls(response: Any) -> list[RequestedCall]:
    """Return the calls of a chat in the older `function_call` format."""
    body = as_json(response)
    choices = list_objects(body, "choices") if isinstance(body, Mapping) else []
    messages = [choice.get("message") for choice in choices]
    asked = [one.get("function_call") for one in messages if isinstance(one, Mapping)]
    return [_read_function_call({"function": one}) for one in asked if isinstance(one, Mapping)]


def _read_function_call(call: Mapping[str, Any]) -> RequestedCall:
    function = call.get("function")
    said = function if isinstance(function, Mapping) else {}
    return RequestedCall(
        str(said.get("name")), said.get("arguments") or "", _text_field(call, "id")
    )


def list_objects(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list field of another object."""
    given = holder.get(name)
    found = [as_json(one) for one in given] if isinstance(given, list | tuple) else []
    return [one for one in found if isinstance(one, Mapping)]


# Fields in which an event repeats the whole of what other events bring in pieces.
_WHOLE_FIELDS = ("response", "message", "item", "part")


def read_events(chunks: Iterable[Any]) -> list[Mapping[str, Any]]:
    """Return the events of a stream; byte chunks may be cut anywhere."""
    given = list(chunks)
    if all(isinstance(one, bytes | str) for one in given):
        pieces = [one.encode() if isinstance(one, str) else one for one in given]
        return list(_parse_sse(b"".join(pieces).decode("utf-8", "replace")))
    plain = (as_json(one) for one in given)
    return [one for one in plain if isinstance(one, Mapping)]


def _parse_sse(text: str) -> Iterator[Mapping[str, Any]]:
    for line in text.splitlines():
        name, _, data = line.partition(":")
        if name == "data":
            try:
                event = json.loads(data)
            except ValueError:
                continue
            if isinstance(event, Mapping):
                yield event


def assemble_responses(chunks: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the complete responses that the chunks of a stream make up."""
    choices: dict[Any, _AssembledChoice] = {}
    blocks: dict[Any, dict[str, Any]] = {}
    bodies: list[dict[str, Any]] = []
    texts: list[str] = []
    ended: dict[str, Any] = {}
    for event in read_events(chunks):
        for choice in list_objects(event, "choices"):
            choices.setdefault(choice.get("index"), _AssembledChoice()).add(choice)
        bodies += _whole_bodies(event)
        delta, place = event.get("delta"), event.get("index")
        if isinstance(event.get("content_block"), Mapping):
            blocks[place] = dict(event["content_block"])
        if isinstance(delta, Mapping):
            _extend_block(blocks.setdefault(place, {}), delta)
            ended |= {name: value for name, value in delta.items() if name.startswith("stop_")}
        elif isinstance(delta, str) and "arguments" not in str(event.get("type")):
            texts.append(delta)
    if choices:
        bodies.append(
            {"object": "chat.completion", "choices": [one.body for one in choices.values()]}
        )
    if blocks:
        content = [_with_input(one) for one in blocks.values()]
        bodies.append({"type": "message", "role": "assistant", "content": content, **ended})
    if texts:
        bodies.append({"output": [{"content": "".join(texts)}]})
    return bodies


def _whole_bodies(event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the complete bodies in an event."""
    for name in _WHOLE_FIELDS:
        held = event.get(name)
        if isinstance(held, Mapping):
            yield dict(held) if name in {"response", "message"} else {"output": [_to_item(held)]}
    if isinstance(event.get("text"), str):
        yield {"output": [{"content": event["text"]}]}


def _to_item(held: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"content": [held]} if isinstance(held.get("text"), str) else held


def _extend_block(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a delta to an Anthropic content block."""
    for name, to in (("text", "text"), ("partial_json", "partial_json")):
        if isinstance(delta.get(name), str):
            block[to] = block.get(to, "") + delta[name]


def _with_input(block: dict[str, Any]) -> dict[str, Any]:
    given = block.pop("partial_json", "")
    return {**block, "input": given} if given else block


class _AssembledChoice:
    """One choice of a chat or text completion, assembled from chunks."""

    def __init__(self) -> None:
        self.body: dict[str, Any] = {"index": 0, "message": {"content": ""}}
        self._calls: dict[Any, dict[str, Any]] = {}

    def add(self, choice: Mapping[str, Any]) -> None:
        """Add a chunk of the choice."""
        message, delta = self.body["message"], choice.get("delta")
        given = delta if isinstance(delta, Mapping) else {"content": choice.get("text")}
        if isinstance(given.get("content"), str):
            message["content"] += given["content"]
        if isinstance(given.get("refusal"), str):
            message["refusal"] = message.get("refusal", "") + given["refusal"]
        if choice.get("finish_reason") is not None:
            self.body["finish_reason"] = choice["finish_reason"]
        for call in list_objects(given, "tool_calls"):
            self._add_call(call)
        older = given.get("function_call")
        if isinstance(older, Mapping):
            _add_function(message.setdefault("function_call", {}), older)

    def _add_call(self, call: Mapping[str, Any]) -> None:
        place = call.get("index")
        kept = self._calls.get(place)
        if kept is None or (call.get("id") and call["id"] != kept["id"]):
            kept = self._calls[place] = {"id": call.get("id"), "function": {}}
            self.body["message"].setdefault("tool_calls", []).append(kept)
        if isinstance(call.get("function"), Mapping):
            _add_function(kept["function"], call["function"])


def _add_function(kept: dict[str, Any], piece: Mapping[str, Any]) -> None:
    if piece.get("name"):
        kept["name"] = piece["name"]
    kept["arguments"] = kept.get("arguments", "") + (piece.get("arguments") or "")
