"""LiteLLM's requests and responses as plain values.

Chat, text completions, Anthropic's messages and OpenAI's responses have each a form of their
own; all are read here as JSON, by their structure.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from litellm.integrations.custom_guardrail import get_session_id_from_request_data

from demur.enforce.enforcer import Occasion

__all__ = [
    "Called",
    "Question",
    "Returned",
    "as_json",
    "beside_in",
    "called_in",
    "filled_in",
    "listed",
    "occasion",
    "older_calls_in",
    "question_in",
    "readings_of",
    "said_in",
    "together",
    "words_in",
]

_FRAMEWORK = "litellm"
_TOOL_ROLES = ("tool", "function")
_NOT_ASKING = (*_TOOL_ROLES, "system", "developer")
_FILES = ("image", "image_url", "input_image", "input_audio", "file", "input_file")
# Types of items that are calls, and the field with their arguments.
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_ASKED = ("messages", "input", "prompt")


class Returned(NamedTuple):
    """A tool output in a request: its message's position, and its call.

    It is `replaceable` if its message holds nothing else.
    """

    place: int
    name: str
    content: Any
    call_id: str | None
    arguments: Any = None
    replaceable: bool = False


class Called(NamedTuple):
    """A tool call in a response, with the JSON text of its arguments."""

    name: str
    arguments: Any
    call_id: str | None


# Tool calls of a conversation, by id.
Calls = Mapping[str | None, Called]


class Question(NamedTuple):
    """The new part of a request: all since the model last answered."""

    prompt: str
    results: tuple[Returned, ...]


def as_json(value: Any) -> Any:
    """Return a response or chunk as plain values."""
    return value.model_dump() if hasattr(value, "model_dump") else value


def occasion(data: Mapping[str, Any], who: Any, said: Occasion) -> Occasion:
    """Return the call context of a request; the subject is the holder of the proxy's key.

    The host's `given` context takes precedence.
    """
    user = _text(who, "user_id") or _text(who, "api_key") or _text(who, "token")
    holder = None if user is None else {"id": user, "type": "user"}
    return said._replace(
        framework=_FRAMEWORK,
        run=said.run or get_session_id_from_request_data(dict(data)),
        call_id=said.call_id or _text(data, "litellm_call_id"),
        subject=said.subject or holder,
        tenant=said.tenant or _text(who, "team_id"),
    )


def _text(holder: Any, name: str) -> str | None:
    value = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
    return value if isinstance(value, str) and value else None


def question_in(data: Mapping[str, Any]) -> Question:
    """Return the new part of a request, from every field that the caller may have used."""
    asked = [_question(data.get(name), messages=name == "messages") for name in _ASKED]
    asked.append(Question(_joined(filled_in(data)), ()))
    return together(*asked, *(_fixed(question_in(one)) for one in beside_in(data)))


def together(*asked: Question) -> Question:
    """Return several contents as one."""
    return Question(
        _joined(one.prompt for one in asked),
        tuple(result for one in asked for result in one.results),
    )


def filled_in(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the variables of a stored prompt."""
    prompt = data.get("prompt")
    stored = prompt.get("variables") if isinstance(prompt, Mapping) else None
    for given in (stored, data.get("prompt_variables")):
        if isinstance(given, Mapping):
            yield from _texts([as_json(one) for one in given.values()])


def beside_in(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the mappings that may override a request: `extra_body` and `fallbacks`."""
    extra, others = data.get("extra_body"), data.get("fallbacks")
    given = [extra, *(others if isinstance(others, list | tuple) else ())]
    return [one for one in given if isinstance(one, Mapping)]


def _fixed(asked: Question) -> Question:
    """Return the content with tool outputs that cannot be replaced."""
    return Question(asked.prompt, tuple(one._replace(replaceable=False) for one in asked.results))


def _question(given: Any, *, messages: bool) -> Question:
    if isinstance(given, str):
        return Question(given, ())
    talk = [as_json(one) for one in given] if isinstance(given, list | tuple) else []
    new = list(enumerate(talk))[_answered(talk) :]
    prompt = "\n".join(text for _, one in new for text in _asked(one) if text)
    calls = {call.call_id: call for one in talk for call in called_in(one)}
    results = [result for place, one in new for result in _returned(place, one, calls)]
    asked = Question(prompt, tuple(results))
    return asked if messages else _fixed(asked)


def _answered(messages: list[Any]) -> int:
    """Return the position after the model's last answer.

    Assistant messages at the very end are prefill for the model to continue.
    """
    end = len(messages)
    while end and _answers(messages[end - 1]):
        end -= 1
    return max((place + 1 for place in range(end) if _answers(messages[place])), default=0)


def _answers(message: Any) -> bool:
    return isinstance(message, Mapping) and (
        message.get("role") == "assistant" or message.get("type") in _CALLS
    )


def _asked(message: Any) -> Iterator[str]:
    if isinstance(message, str):
        yield message
    elif isinstance(message, Mapping) and message.get("role") not in _NOT_ASKING:
        yield from _texts(message.get("content", message.get("text")))


def _texts(content: Any) -> Iterator[str]:
    """Yield the texts of a message's content."""
    if isinstance(content, str):
        yield content
    for one in content if isinstance(content, list | tuple) else ():
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping) and one.get("type") != "tool_result":
            yield from _part(one)


def _part(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a part, also of documents and search results."""
    if isinstance(part.get("text"), str):
        yield part["text"]
    yield from _texts(part.get("content"))
    source = part.get("source")
    if isinstance(source, Mapping):
        yield from _texts(source.get("content"))
        if source.get("type") == "text":
            yield from _texts(source.get("data"))


def _returned(place: int, message: Any, calls: Calls) -> Iterator[Returned]:
    if not isinstance(message, Mapping):
        return
    if message.get("role") in _TOOL_ROLES:
        yield _result(place, message, ("tool_call_id", "content"), calls)._replace(replaceable=True)
    elif str(message.get("type")).endswith("_call_output"):
        yield _result(place, message, ("call_id", "output"), calls)
    for part in listed(message, "content"):
        if part.get("type") == "tool_result":
            yield _result(place, part, ("tool_use_id", "content"), calls)


def _result(
    place: int, holder: Mapping[str, Any], names: tuple[str, str], calls: Calls
) -> Returned:
    call_id, content = _text(holder, names[0]), holder.get(names[1])
    call = calls.get(call_id)
    name = _text(holder, "name") or "tool" if call is None else call.name
    given = None if call is None else call.arguments
    return Returned(place, name, _read(content), call_id, given)


def _read(content: Any) -> Any:
    """Return a tool output with text parts as plain texts and without files."""
    if not isinstance(content, list | tuple):
        return content
    parts = [as_json(one) for one in content]
    return [
        part["text"] if isinstance(part, Mapping) and isinstance(part.get("text"), str) else part
        for part in parts
        if not (isinstance(part, Mapping) and part.get("type") in _FILES)
    ]


def said_in(response: Any) -> list[str]:
    """Return the texts of a response, choice by choice.

    Several blocks are read both ways: joined, and on separate lines.
    """
    return [text for parts in _said(response) for text in readings_of(parts)]


def words_in(response: Any) -> str:
    """Return the whole text of a response."""
    return _joined(text for parts in _said(response) for text in parts)


def readings_of(parts: Iterable[str]) -> list[str]:
    """Return the readings of a text: its parts on separate lines, and joined."""
    given = [part for part in parts if part]
    return [text for text in dict.fromkeys(("\n".join(given), "".join(given))) if text]


def _said(response: Any) -> list[list[str]]:
    body = as_json(response)
    if not isinstance(body, Mapping):
        return []
    said = [list(_texts(_content(choice))) for choice in listed(body, "choices")]
    said.append(list(_texts(body.get("content"))))
    said.append([text for one in listed(body, "output") for text in _texts(one.get("content"))])
    return said


def _content(choice: Mapping[str, Any]) -> Any:
    message = choice.get("message")
    return message.get("content") if isinstance(message, Mapping) else choice.get("text")


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)


def called_in(response: Any) -> list[Called]:
    """Return the tool calls of a response or message."""
    body = as_json(response)
    if not isinstance(body, Mapping):
        return []
    holders = [body, *(one.get("message") for one in listed(body, "choices"))]
    calls = [
        _function(call)
        for holder in holders
        if isinstance(holder, Mapping)
        for call in listed(holder, "tool_calls")
    ]
    used = [one for one in listed(body, "content") if one.get("type") == "tool_use"]
    calls += [
        Called(str(one.get("name")), one.get("input") or {}, _text(one, "id")) for one in used
    ]
    asked = [one for one in (body, *listed(body, "output")) if one.get("type") in _CALLS]
    return calls + [_item_call(one) for one in asked]


def _item_call(item: Mapping[str, Any]) -> Called:
    field = _CALLS[item["type"]]
    given = item.get(field) or ""
    # A custom tool takes plain text, not JSON.
    arguments = given if field == "arguments" else {field: given}
    return Called(str(item.get("name")), arguments, _text(item, "call_id"))


def older_calls_in(response: Any) -> list[Called]:
    """Return the calls of a chat in the older `function_call` format."""
    body = as_json(response)
    choices = listed(body, "choices") if isinstance(body, Mapping) else []
    messages = [choice.get("message") for choice in choices]
    asked = [one.get("function_call") for one in messages if isinstance(one, Mapping)]
    return [_function({"function": one}) for one in asked if isinstance(one, Mapping)]


def _function(call: Mapping[str, Any]) -> Called:
    function = call.get("function")
    said = function if isinstance(function, Mapping) else {}
    return Called(str(said.get("name")), said.get("arguments") or "", _text(call, "id"))


def listed(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list field of another object."""
    given = holder.get(name)
    found = [as_json(one) for one in given] if isinstance(given, list | tuple) else []
    return [one for one in found if isinstance(one, Mapping)]
