"""Chat completions, in the form that OpenAI gave them and others took over.

What is new in a request, and what refuses in a response; an SDK names its own types.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from demur.emit.openai import to_openai
from demur.enforce.ruling import CheckResult
from demur.integrations.model_client.chat_stream import ChatStreamFormat, ChunkTypes
from demur.integrations.model_client.cutter import EventStreamFilter
from demur.integrations.model_client.form import OpenStream, OutgoingRequest, AnswerChoice
from demur.integrations.model_client.memory import is_refusal
from demur.integrations.model_client.owned import AnswerType, read_entries, coerce_answer
from demur.integrations.model_client.settings import ModelClientSettings
from demur.integrations.model_client.stream import (
    AsyncSdkStreamProxy,
    AsyncRefusalStream,
    SdkStreamProxy,
    RefusalStream,
)
from demur.integrations.model_client.turn import (
    MessageContent,
    MessageReader,
    ToolOutput,
    NewTurn,
    get_field,
    list_entries,
    list_texts,
    simplify_tool_output,
    join_texts,
    read_new_turn,
)

__all__ = ["ChatFormat", "ChatTypes", "build_refusal_message", "read_choice"]

_REFUSAL_ID = "chatcmpl-demur"
_OPERATOR_ROLES = {"system", "developer"}
_TOOL_ROLES = {"tool", "function"}


def build_refusal_message(result: CheckResult) -> dict[str, Any]:
    """Return a refusal message: words, then the line, in OpenAI's `build_refusal_events` field."""
    assert result.refusal is not None
    return to_openai(result.refusal, words=result.user_text)


def read_choice(view: Any, choice: Any) -> AnswerChoice:
    """Return the texts and calls of a choice of a completion."""
    message = get_field(choice, "message")
    asks = bool(get_field(message, "tool_calls") or get_field(message, "function_call"))
    refusing = get_field(message, "refusal")
    content = get_field(message, "content")
    texts = (content,) if isinstance(content, str) else list_texts(content)
    return AnswerChoice(view, texts, asks, refusing if isinstance(refusing, str) else "")


class ChatTypes(NamedTuple):
    """An SDK's types for chat completions; each pair is sync, then async.

    `make_message` returns the fields of a refusal message.
    """

    completion: Any
    chunk: Any
    chunk_types: ChunkTypes
    stream_types: tuple[Any, Any]
    stream_proxies: tuple[Any, Any] = (SdkStreamProxy, AsyncSdkStreamProxy)
    make_message: Callable[[CheckResult], dict[str, Any]] = build_refusal_message


class ChatFormat:
    """Reads and writes requests and responses of chat completions."""

    def __init__(self, types: ChatTypes, settings: ModelClientSettings, *, is_async: bool) -> None:
        self._types = types
        self._settings = settings
        self._is_async = is_async

    def read_turn(self, body: Mapping[str, Any], *, include_history: bool) -> NewTurn:
        """Return the new part of a request."""
        messages = list_entries(body.get("messages"))
        calls = {
            get_field(call, "id"): get_field(call, "function") or get_field(call, "custom")
            for message in messages
            for call in list_entries(get_field(message, "tool_calls"))
        }
        reading = MessageReader(_is_answer, _is_operator, partial(_read_message, calls))
        return read_new_turn(
            messages, reading, self._settings.refused_texts, include_history=include_history
        )

    def coerce_answer(self, answer: Any, request: OutgoingRequest) -> Any:
        """Return the value of a fallback function as a completion or a stream."""
        head = {
            "id": _REFUSAL_ID,
            "created": 0,
            "model": request.model,
            "object": "chat.completion",
        }
        stream = self._types.stream_types[self._is_async]
        return coerce_answer(
            answer, request, AnswerType(self._types.completion, stream, "choices", head)
        )

    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:
        """Return the choices of a completion."""
        choices = read_entries(response, "choices")
        if len(choices) == 1:
            return [read_choice(response, choices[0])]
        return [read_choice(_with_single_choice(response, choice), choice) for choice in choices]

    def build_refusal(self, result: CheckResult, request: OutgoingRequest) -> Any:
        """Return a completion that refuses."""
        choice = {"index": 0, "finish_reason": "stop", "message": self._types.make_message(result)}
        data = {**_refusal_head(result, request), "object": "chat.completion", "choices": [choice]}
        return self._types.completion.model_validate(data)

    def replace_choices(self, response: Any, refused: Mapping[int, CheckResult]) -> Any:
        """Return a completion with these choices replaced by refusals."""
        choices = [
            self._refuse_choice(choice, refused[number]) if number in refused else choice
            for number, choice in enumerate(response.choices)
        ]
        return response.model_copy(update={"choices": choices})

    def build_refusal_stream(self, result: CheckResult, request: OutgoingRequest) -> Any:
        """Return a stream of chunks that refuses."""
        begin = {"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}
        data = {
            **_refusal_head(result, request),
            "object": "chat.completion.chunk",
            "choices": [begin],
        }
        first = self._types.chunk.model_validate(data)
        form = self._stream_format(request)
        form.split_event(first)
        events = [first, *form.build_refusal_events(0, result, result.user_text)]
        kind = self._types.stream_types[self._is_async]
        return AsyncRefusalStream(events, kind) if self._is_async else RefusalStream(events, kind)

    def filter_stream(self, opened: OpenStream, request: OutgoingRequest) -> Any:
        """Return a stream of the cleared chunks."""
        cutter = EventStreamFilter(
            self._stream_format(request), opened, self._settings, is_async=self._is_async
        )
        return self._types.stream_proxies[self._is_async](opened.stream, cutter)

    def to_parsed_type(self, response: Any, request: OutgoingRequest) -> Any:
        """Return a refusing completion in the parsed type; it has no content to parse."""
        assert request.parse is not None
        return request.parse(response)

    def _stream_format(self, request: OutgoingRequest) -> ChatStreamFormat:
        return ChatStreamFormat(
            self._types.chunk_types, self._types.make_message, int(request.body.get("n") or 1)
        )

    def _refuse_choice(self, choice: Any, result: CheckResult) -> Any:
        # The new message drops tool calls; token log probabilities would spell the old text.
        message = type(choice.message).model_validate(self._types.make_message(result))
        update = {"message": message, "finish_reason": "stop", "logprobs": None}
        return choice.model_copy(update=update)


def _is_answer(message: Any) -> bool:
    if get_field(message, "role") != "assistant":
        return False
    # demur's own refusal does not answer the messages before it.
    return not (is_refusal(get_field(message, "refusal")) or is_refusal(_content_text(message)))


def _is_operator(message: Any) -> bool:
    return get_field(message, "role") in _OPERATOR_ROLES


def _read_message(calls: Mapping[Any, Any], message: Any) -> MessageContent:
    if get_field(message, "role") not in _TOOL_ROLES:
        return MessageContent((_content_text(message),))
    call_id = get_field(message, "tool_call_id")
    call = calls.get(call_id)
    name = get_field(call, "name") or get_field(message, "name") or "tool"
    result = simplify_tool_output(get_field(message, "content"))
    return MessageContent(
        tool_outputs=(ToolOutput(name, result, call_id, get_field(call, "arguments")),)
    )


def _content_text(message: Any) -> str:
    return join_texts(get_field(message, "content"))


def _with_single_choice(response: Any, choice: Any) -> Any:
    if isinstance(response, Mapping):
        return {**response, "choices": [choice]}
    return response.model_copy(update={"choices": [choice]})


def _refusal_head(result: CheckResult, request: OutgoingRequest) -> dict[str, Any]:
    decision = "" if result.record is None else f"-{result.record.decision_id}"
    return {"id": f"{_REFUSAL_ID}{decision}", "created": 0, "model": request.model}
