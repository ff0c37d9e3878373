"""LiteLLM's requests and responses as plain values.

Chat, text completions, Anthropic's messages and OpenAI's responses have each a form of their
own; all are read here as JSON, by their structure.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from litellm.integrations.custom_guardrail import get_session_id_from_request_data

from demur.gate.enforcer import Occasion

__all__ = [
    "Called",
    "Question",
    "Returned",
    "as_json",
    "called_in",
    "occasion",
    "older_calls_in",
    "question_in",
    "said_in",
    "text_in",
]

_FRAMEWORK = "litellm"
_TOOL_ROLES = ("tool", "function")
_NOT_ASKING = (*_TOOL_ROLES, "system", "developer")
_ASKED = ("messages", "input", "prompt")


class Returned(NamedTuple):
    """What a tool returned, as a request brings it back: in which message, and of which call.

    It is `replaceable` where it is all there is in its message.
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


# Tool calls of a conversation, by their id.
Calls = Mapping[str | None, Called]


class Question(NamedTuple):
    """What is new in a request since the model last answered."""

    prompt: str
    results: tuple[Returned, ...]


def as_json(value: Any) -> Any:
    """Return a response or chunk as plain values."""
    return value.model_dump() if hasattr(value, "model_dump") else value


def occasion(data: Mapping[str, Any], who: Any) -> Occasion:
    """Return for whom a request is made: the holder of the proxy's key, where there is one."""
    user = _text(who, "user_id") or _text(who, "api_key") or _text(who, "token")
    return Occasion(
        framework=_FRAMEWORK,
        run=get_session_id_from_request_data(dict(data)),
        call_id=_text(data, "litellm_call_id"),
        subject=None if user is None else {"id": user, "type": "user"},
        tenant=_text(who, "team_id"),
    )


def _text(holder: Any, name: str) -> str | None:
    value = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
    return value if isinstance(value, str) and value else None


def question_in(data: Mapping[str, Any]) -> Question:
    """Return what a request asks, wherever it may stand: whoever sends it chooses the fields."""
    asked = [_question(data.get(name), messages=name == "messages") for name in _ASKED]
    return Question(
        "\n".join(one.prompt for one in asked if one.prompt),
        tuple(result for one in asked for result in one.results),
    )


def _question(given: Any, *, messages: bool) -> Question:
    if isinstance(given, str):
        return Question(given, ())
    listed = [as_json(one) for one in given] if isinstance(given, list | tuple) else []
    new = list(enumerate(listed))[_answered(listed) :]
    prompt = "\n".join(text for _, one in new for text in _asked(one) if text)
    calls = {call.call_id: call for one in listed for call in called_in(one)}
    results = [result for place, one in new for result in _returned(place, one, calls)]
    if not messages:
        results = [one._replace(replaceable=False) for one in results]
    return Question(prompt, tuple(results))


def _answered(messages: list[Any]) -> int:
    """Return where the part begins that no model has answered.

    An answer at the very end is one that the caller wants to have continued.
    """
    end = len(messages)
    while end and _answers(messages[end - 1]):
        end -= 1
    return max((place + 1 for place in range(end) if _answers(messages[place])), default=0)


def _answers(message: Any) -> bool:
    return isinstance(message, Mapping) and (
        message.get("role") == "assistant" or message.get("type") == "function_call"
    )


def _asked(message: Any) -> Iterator[str]:
    if isinstance(message, str):
        yield message
    elif isinstance(message, Mapping) and message.get("role") not in _NOT_ASKING:
        yield from _texts(message.get("content", message.get("text")))


def _texts(content: Any) -> Iterator[str]:
    """Yield the texts of a message's content, whatever else is in it."""
    if isinstance(content, str):
        yield content
    for one in content if isinstance(content, list | tuple) else ():
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping) and isinstance(one.get("text"), str):
            yield one["text"]


def _returned(place: int, message: Any, calls: Calls) -> Iterator[Returned]:
    if not isinstance(message, Mapping):
        return
    if message.get("role") in _TOOL_ROLES:
        yield _result(place, message, ("tool_call_id", "content"), calls)._replace(replaceable=True)
    elif message.get("type") == "function_call_output":
        yield _result(place, message, ("call_id", "output"), calls)
    for part in _listed(message, "content"):
        if part.get("type") == "tool_result":
            yield _result(place, part, ("tool_use_id", "content"), calls)


def _result(
    place: int, holder: Mapping[str, Any], names: tuple[str, str], calls: Calls
) -> Returned:
    call_id, content = _text(holder, names[0]), holder.get(names[1])
    texts = list(_texts(content))
    call = calls.get(call_id)
    name = _text(holder, "name") or "tool" if call is None else call.name
    given = None if call is None else call.arguments
    return Returned(place, name, "\n".join(texts) if texts else content, call_id, given)


def said_in(response: Any) -> list[str]:
    """Return the texts of a response: of each choice, or of each block."""
    body = as_json(response)
    if not isinstance(body, Mapping):
        return []
    texts = [_choice(choice) for choice in _listed(body, "choices")]
    texts += ["".join(_texts(body.get("content")))]
    texts += ["".join(_texts(one.get("content"))) for one in _listed(body, "output")]
    return [text for text in texts if text]


def _choice(choice: Mapping[str, Any]) -> str:
    message = choice.get("message")
    content = message.get("content") if isinstance(message, Mapping) else choice.get("text")
    return "".join(_texts(content))


def called_in(response: Any) -> list[Called]:
    """Return the tool calls of a response or message."""
    body = as_json(response)
    if not isinstance(body, Mapping):
        return []
    holders = [body, *(one.get("message") for one in _listed(body, "choices"))]
    calls = [
        _function(call)
        for holder in holders
        if isinstance(holder, Mapping)
        for call in _listed(holder, "tool_calls")
    ]
    used = [one for one in _listed(body, "content") if one.get("type") == "tool_use"]
    calls += [
        Called(str(one.get("name")), one.get("input") or {}, _text(one, "id")) for one in used
    ]
    asked = [one for one in (body, *_listed(body, "output")) if one.get("type") == "function_call"]
    calls += [
        Called(str(one.get("name")), one.get("arguments") or "", _text(one, "call_id"))
        for one in asked
    ]
    return calls


def older_calls_in(response: Any) -> list[Called]:
    """Return the calls of a chat in the form that came before tool calls."""
    body = as_json(response)
    choices = _listed(body, "choices") if isinstance(body, Mapping) else []
    messages = [choice.get("message") for choice in choices]
    asked = [one.get("function_call") for one in messages if isinstance(one, Mapping)]
    return [_function({"function": one}) for one in asked if isinstance(one, Mapping)]


def _function(call: Mapping[str, Any]) -> Called:
    function = call.get("function")
    said = function if isinstance(function, Mapping) else {}
    return Called(str(said.get("name")), said.get("arguments") or "", _text(call, "id"))


def _listed(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    listed = holder.get(name)
    found = [as_json(one) for one in listed] if isinstance(listed, list | tuple) else []
    return [one for one in found if isinstance(one, Mapping)]


def text_in(event: Any) -> str:
    """Return the text that an event of any stream adds to an answer."""
    return "".join(_added(one) for one in _events(event))


def _events(event: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the event, or those in a piece of a stream of server-sent events."""
    if isinstance(event, bytes):
        event = event.decode("utf-8", "replace")
    if not isinstance(event, str):
        plain = as_json(event)
        if isinstance(plain, Mapping):
            yield plain
        return
    for line in event.splitlines():
        name, _, data = line.partition(":")
        if name == "data":
            try:
                plain = json.loads(data)
            except ValueError:
                continue
            if isinstance(plain, Mapping):
                yield plain


def _added(event: Mapping[str, Any]) -> str:
    texts = []
    for choice in _listed(event, "choices"):
        delta = choice.get("delta")
        texts.append(delta.get("content") if isinstance(delta, Mapping) else choice.get("text"))
    delta = event.get("delta")
    texts.append(delta.get("text") if isinstance(delta, Mapping) else delta)
    return "".join(text for text in texts if isinstance(text, str))
