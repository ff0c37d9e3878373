"""The chat completions API of OpenAI, which other providers copied.

Reads the new part of a request and writes refusals into responses and streams. Each SDK passes
its own types.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from demur.emit.hosts import to_openai
from demur.enforce.result import CheckResult
from demur.integrations._kit.conversation import (
    MessageContent,
    MessageReader,
    NewTurn,
    ToolOutput,
    get_field,
    is_refusal,
    join_texts,
    list_entries,
    list_texts,
    simplify_tool_output,
)
from demur.integrations._kit.guarded_response import (
    AnswerType,
    ApiFormat,
    AsyncSdkStreamProxy,
    SdkStreamProxy,
    read_entries,
)
from demur.integrations._kit.model_api import AnswerChoice, ModelClientSettings, OutgoingRequest
from demur.integrations._kit.stream_filter import EventPortion, PartText

# Fields that some SDKs keep in `model_extra` and that carry no refusal.
_STANDARD_FIELDS = frozenset(
    {"audio", "content", "delta", "finish_reason", "function_call", "index", "logprobs"}
    | {"role", "tool_calls"}
)
# Fields in which providers and gateways report about an answer.
_SIDE_FIELDS = ("moderation", "provider_specific_fields")


def build_refusal_message(result: CheckResult) -> dict[str, Any]:
    """Return a refusal message: words, then the line, in OpenAI's `refusal` field."""
    assert result.refusal is not None
    return to_openai(result.refusal, words=result.user_text)


class ChatTypes(NamedTuple):
    """An SDK's types for chat completions; each pair is sync, then async.

    `choice` and `delta` are those of a chunk. `make_message` returns the fields of a refusal
    message.
    """

    completion: Any
    chunk: Any
    choice: Any
    delta: Any
    stream_types: tuple[Any, Any]
    stream_proxies: tuple[Any, Any] = (SdkStreamProxy, AsyncSdkStreamProxy)
    make_message: Callable[[CheckResult], dict[str, Any]] = build_refusal_message


class ChatStreamFormat:
    """Chunks of a completion. Each choice is one answer with one part."""

    def __init__(self, types: ChatTypes, choices: int) -> None:
        self._types = types
        self._choices = choices
        self._latest: Any = None
        self._started: set[Hashable] = set()
        self._refusals: dict[Hashable, str] = {}

    def is_plain_delta(self, event: Any) -> bool:
        """Return whether a chunk only adds text, in known and unknown fields alike."""
        choices = event.choices
        return bool(choices) and _has_no_extra_fields(event) and all(map(_is_plain_choice, choices))

    def split_event(self, event: Any) -> Sequence[EventPortion]:
        """Return the content of a chunk, choice by choice."""
        self._latest = event
        if not event.choices:
            return [EventPortion(event, answer=None)]
        *others, last = event.choices
        apart = [event.model_copy(update={"choices": [one], "usage": None}) for one in others]
        final = event.model_copy(update={"choices": [last]}) if others else event
        return [self._read_portion(chunk) for chunk in (*apart, final)]

    def strip_text(self, event: Any) -> Any | None:
        """Return a chunk without its text."""
        left = [one for one in map(self._strip_choice, event.choices) if one is not None]
        if not left and get_field(event, "usage") is None:
            return None
        return event.model_copy(update={"choices": left})

    def note_sent(self, event: Any) -> None:
        """Do nothing: chunks open nothing that would have to be closed."""

    def make_text_event(self, part: Hashable, text: str) -> Any:
        """Return a chunk that adds text to a choice."""
        return self._chunk(part, {"content": text})

    def build_refusal_events(
        self,
        answer: Hashable,
        result: CheckResult,
        words: str,  # noqa: ARG002 - part of the protocol
    ) -> Sequence[Any]:
        """Return the chunks that end a choice with a refusal."""
        fields = {**self._types.make_message(result)}
        for name in ("role", "content"):
            fields.pop(name, None)
        return [self._chunk(answer, fields), self._chunk(answer, {}, "stop")]

    def is_complete(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:
        """Return whether all choices have ended."""
        return len({*refused, *ended}) >= self._choices

    def _read_portion(self, chunk: Any) -> EventPortion:
        [choice] = chunk.choices
        delta, index = choice.delta, choice.index
        refusing = get_field(delta, "refusal")
        if refusing:
            # Refusal text has no position in the answer; hold it back until it is checked.
            refusing = self._refusals[index] = self._refusals.get(index, "") + refusing
        return EventPortion(
            chunk,
            answer=index,
            part=index,
            text=get_field(delta, "content") or "",
            whole_texts=(PartText(("refusal", index), refusing),) if refusing else (),
            has_calls=bool(get_field(delta, "tool_calls") or get_field(delta, "function_call")),
            is_last=bool(choice.finish_reason),
        )

    def _strip_choice(self, choice: Any) -> Any | None:
        """Return a choice without its text; None if nothing else is in it."""
        others = choice.delta.model_dump(exclude_none=True, exclude={"content"})
        if choice.index in self._started:
            others.pop("role", None)
        self._started.add(choice.index)
        if not others and not choice.finish_reason:
            return None
        # Token log probabilities would spell the text that is held back.
        delta = self._types.delta.model_validate(others)
        return choice.model_copy(update={"delta": delta, "logprobs": None})

    def _chunk(self, index: Hashable, delta: Mapping[str, Any], finish: str | None = None) -> Any:
        added = self._types.delta.model_validate(delta)
        choice = self._types.choice.model_validate(
            {"index": index, "delta": added, "finish_reason": finish}
        )
        return self._latest.model_copy(update={"choices": [choice], "usage": None})


def _is_plain_choice(choice: Any) -> bool:
    delta = choice.delta
    if delta is None or choice.finish_reason or not get_field(delta, "content"):
        return False
    silent = _has_no_extra_fields(delta) and _has_no_extra_fields(choice)
    return silent and not get_field(delta, "refusal")


def _has_no_extra_fields(holder: Any) -> bool:
    """Return whether all fields outside the standard ones are empty."""
    known, extra = vars(holder), holder.model_extra or {}
    if any(known.get(name) is not None for name in _SIDE_FIELDS):
        return False
    return all(name in _STANDARD_FIELDS or value is None for name, value in extra.items())


_REFUSAL_ID = "chatcmpl-demur"
_OPERATOR_ROLES = {"system", "developer"}
_TOOL_ROLES = {"tool", "function"}


def read_choice(source: Any, choice: Any) -> AnswerChoice:
    """Return the texts and calls of a choice of a completion."""
    message = get_field(choice, "message")
    has_calls = bool(get_field(message, "tool_calls") or get_field(message, "function_call"))
    refusal, content = get_field(message, "refusal"), get_field(message, "content")
    texts = (content,) if isinstance(content, str) else list_texts(content)
    return AnswerChoice(source, texts, has_calls, refusal if isinstance(refusal, str) else "")


class ChatFormat(ApiFormat):
    """Reads and writes requests and responses of chat completions."""

    def __init__(self, types: ChatTypes, settings: ModelClientSettings) -> None:
        super().__init__(settings, types.stream_types, types.stream_proxies)
        self._types = types

    def read_turn(self, body: Mapping[str, Any]) -> NewTurn:
        """Return the new part of a request."""
        messages = list_entries(body.get("messages"))
        calls = {
            get_field(call, "id"): get_field(call, "function") or get_field(call, "custom")
            for message in messages
            for call in list_entries(get_field(message, "tool_calls"))
        }
        reader = MessageReader(_is_answer, _is_operator, partial(_read_message, calls))
        return self.read_new_turn(messages, reader)

    def add_message(self, body: Mapping[str, Any], text: str) -> dict[str, Any]:
        """Return a request with one more message of the user."""
        messages = list_entries(body.get("messages"))
        return {**body, "messages": [*messages, {"role": "user", "content": text}]}

    def answer_type(self, request: OutgoingRequest) -> AnswerType:
        """Return the type of completions."""
        head = {"id": _REFUSAL_ID, "created": 0, "model": request.model}
        defaults = {**head, "object": "chat.completion"}
        return AnswerType(self._types.completion, "choices", defaults)

    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:
        """Return the choices of a completion."""
        choices = read_entries(response, "choices")
        if len(choices) == 1:
            return [read_choice(response, choices[0])]

        def keep_only(choice: Any) -> Any:
            update = {"choices": [choice]}
            if isinstance(response, Mapping):
                return {**response, **update}
            return response.model_copy(update=update)

        return [read_choice(keep_only(choice), choice) for choice in choices]

    def build_refusal(self, result: CheckResult, request: OutgoingRequest) -> Any:
        """Return a completion that refuses."""
        choice = {"index": 0, "finish_reason": "stop", "message": self._types.make_message(result)}
        data = {**_refusal_head(result, request), "object": "chat.completion", "choices": [choice]}
        return self._types.completion.model_validate(data)

    def replace_choices(self, response: Any, refused: Mapping[int, CheckResult]) -> Any:
        """Return a completion with these choices replaced by refusals."""
        choices = list(response.choices)
        for number, result in refused.items():
            # The new message drops tool calls; token log probabilities would spell the old text.
            kind = type(choices[number].message)
            message = kind.model_validate(self._types.make_message(result))
            update = {"message": message, "finish_reason": "stop", "logprobs": None}
            choices[number] = choices[number].model_copy(update=update)
        return response.model_copy(update={"choices": choices})

    def refusal_events(self, result: CheckResult, request: OutgoingRequest) -> Iterable[Any]:
        """Return the chunks of a refusing stream."""
        begin = {"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}
        data = {**_refusal_head(result, request), "object": "chat.completion.chunk"}
        first = self._types.chunk.model_validate({**data, "choices": [begin]})
        form = self.event_format(request)
        form.split_event(first)
        return [first, *form.build_refusal_events(0, result, result.user_text)]

    def event_format(self, request: OutgoingRequest) -> ChatStreamFormat:
        """Return the format of the chunks of one stream."""
        return ChatStreamFormat(self._types, int(request.body.get("n") or 1))


def _is_answer(message: Any) -> bool:
    if get_field(message, "role") != "assistant":
        return False
    # demur's own refusal does not answer the messages before it.
    texts = (get_field(message, "refusal"), join_texts(get_field(message, "content")))
    return not any(map(is_refusal, texts))


def _is_operator(message: Any) -> bool:
    return get_field(message, "role") in _OPERATOR_ROLES


def _read_message(calls: Mapping[Any, Any], message: Any) -> MessageContent:
    content = get_field(message, "content")
    if get_field(message, "role") not in _TOOL_ROLES:
        return MessageContent((join_texts(content),))
    call_id = get_field(message, "tool_call_id")
    call = calls.get(call_id)
    name = get_field(call, "name") or get_field(message, "name") or "tool"
    arguments = get_field(call, "arguments")
    output = ToolOutput(name, simplify_tool_output(content), call_id, arguments)
    return MessageContent(tool_outputs=(output,))


def _refusal_head(result: CheckResult, request: OutgoingRequest) -> dict[str, Any]:
    decision = "" if result.record is None else f"-{result.record.decision_id}"
    return {"id": f"{_REFUSAL_ID}{decision}", "created": 0, "model": request.model}
