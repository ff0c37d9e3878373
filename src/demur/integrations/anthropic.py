"""Guard Anthropic's client: `guard_anthropic(client, enforcer)`.

demur checks each request of `messages` (beta too) before it is sent, and each answer before the
caller gets it, streams included. Tool calls are checked where they run, by the adapter of the
framework that runs them.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar, Unpack, cast

from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.errors import InputTypeError
from demur.gate.gate import Gate
from demur.integrations._kit import missing_extra
from demur.integrations._kit.client_proxy import UnguardableError, guard_client
from demur.integrations._kit.conversation import (
    MessageContent,
    MessageReader,
    NewTurn,
    ToolOutput,
    get_field,
    join_texts,
    list_entries,
    simplify_tool_output,
)
from demur.integrations._kit.guarded_response import AnswerType, ApiFormat, read_entries
from demur.integrations._kit.model_api import (
    AnswerChoice,
    CallTrace,
    GuardOptions,
    ModelClientSettings,
    OutgoingRequest,
    build_settings,
    read_check_result,
    read_trace,
)
from demur.integrations._kit.stream_filter import EventPortion, PartText

try:
    from anthropic import (
        Anthropic,
        AnthropicBedrock,
        AnthropicBedrockMantle,
        AnthropicVertex,
        AsyncAnthropic,
        AsyncAnthropicBedrock,
        AsyncAnthropicBedrockMantle,
        AsyncAnthropicVertex,
        AsyncStream,
        Stream,
        types,
    )
    from anthropic.types import beta
    from anthropic.types.beta.parsed_beta_message import ParsedBetaMessage
    from anthropic.types.parsed_message import ParsedMessage
except ImportError as error:
    raise missing_extra("anthropic") from error

__all__ = [
    "CallTrace",
    "GuardOptions",
    "UnguardableError",
    "guard_anthropic",
    "read_check_result",
    "read_trace",
]

# The clients of other platforms (AWS, Foundry, Google Cloud) are subclasses of these.
_SyncClient: TypeAlias = Anthropic | AnthropicBedrock | AnthropicBedrockMantle | AnthropicVertex
_AsyncClient: TypeAlias = (
    AsyncAnthropic | AsyncAnthropicBedrock | AsyncAnthropicBedrockMantle | AsyncAnthropicVertex
)
_Client = TypeVar("_Client", bound=_SyncClient | _AsyncClient)
_RESULT = "_result"
_EVENT_TYPES = {
    "message_start": "RawMessageStartEvent",
    "content_block_start": "RawContentBlockStartEvent",
    "content_block_delta": "RawContentBlockDeltaEvent",
    "content_block_stop": "RawContentBlockStopEvent",
    "message_delta": "RawMessageDeltaEvent",
    "message_stop": "RawMessageStopEvent",
}


class MessagesFormat(ApiFormat):
    """Reads and writes requests and responses of `messages`."""

    def __init__(self, settings: ModelClientSettings) -> None:
        super().__init__(settings, (Stream, AsyncStream))

    def read_turn(self, body: Mapping[str, Any]) -> NewTurn:
        """Return the new part of a request."""
        messages = list_entries(body.get("messages"))
        blocks = (one for each in messages for one in list_entries(get_field(each, "content")))
        calls = {get_field(block, "id"): block for block in blocks if get_field(block, "name")}
        reader = MessageReader(_is_answer, _is_operator, partial(_read_message, calls))
        return self.read_new_turn(messages, reader)

    def add_message(self, body: Mapping[str, Any], text: str) -> dict[str, Any]:
        """Return a request with one more message of the user."""
        messages = list_entries(body.get("messages"))
        return {**body, "messages": [*messages, {"role": "user", "content": text}]}

    def answer_type(self, request: OutgoingRequest) -> AnswerType:
        """Return the type of messages."""
        kind = request.cast_to if request.cast_to is beta.BetaMessage else types.Message
        head = {"id": "msg_demur", "type": "message", "role": "assistant", "model": request.model}
        usage = {"input_tokens": 0, "output_tokens": 0}
        return AnswerType(kind, "content", {**head, "usage": usage})

    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:
        """Return the message as its only choice."""
        blocks = read_entries(response, "content")
        has_calls = any(get_field(block, "type") == "tool_use" for block in blocks)
        return [AnswerChoice(response, tuple(_block_texts(blocks)), has_calls)]

    def build_refusal(self, result: CheckResult, request: OutgoingRequest) -> Any:
        """Return a refusing message."""
        kind = request.response_type(types.Message)
        return kind.model_validate(_refusal_message(result, request.model))

    def replace_choices(self, response: Any, refused: Mapping[int, CheckResult]) -> Any:
        """Return a message with all its content replaced by a refusal."""
        [result] = refused.values()
        update = type(response).model_validate(_refusal_message(result, response.model))
        names = ("content", "stop_reason", "stop_details", "stop_sequence")
        return response.model_copy(update={name: getattr(update, name, None) for name in names})

    def refusal_events(self, result: CheckResult, request: OutgoingRequest) -> Iterable[Any]:
        """Return the events of a refusing stream."""
        message = {**_refusal_message(result, request.model), "content": []}
        start = {**message, "stop_reason": None, "stop_details": None}
        form = self.event_format(request)
        first = form.make_event("message_start", message=start)
        return [first, *form.build_refusal_events(0, result, result.user_text)]

    def event_format(self, request: OutgoingRequest) -> "MessagesStreamFormat":
        """Return the format of the events of one stream."""
        return MessagesStreamFormat(request)

    def to_parsed_type(self, response: Any, request: OutgoingRequest) -> Any:  # noqa: ARG002 - part of the protocol
        """Return a refusing message in the parsed type; its text is not parsed."""
        is_beta = isinstance(response, beta.BetaMessage)
        kind: Any = ParsedBetaMessage if is_beta else ParsedMessage
        return kind.model_validate(response.to_dict())


class _OpenBlock(NamedTuple):
    """A block that has begun and not ended for the client."""

    number: int
    is_text: bool


class MessagesStreamFormat:
    """Events of a message. Its answer consists of blocks, by number."""

    def __init__(self, request: OutgoingRequest) -> None:
        self._is_beta = request.cast_to is beta.BetaMessage
        self._is_parsed = _is_parsed(request.body)
        self._calls: set[int] = set()
        self._open: _OpenBlock | None = None
        self._next = 0

    def is_plain_delta(self, event: Any) -> bool:
        """Return whether an event adds to a block."""
        return bool(event.type == "content_block_delta")

    def split_event(self, event: Any) -> Sequence[EventPortion]:
        """Return the content of an event."""
        index = get_field(event, "index")
        if event.type == "content_block_start" and event.content_block.type == "tool_use":
            self._calls.add(index)
        if event.type == "message_start":
            texts = enumerate(_block_texts(list_entries(get_field(event.message, "content"))))
            wholes = tuple(PartText(("message", number), text) for number, text in texts if text)
            return [EventPortion(event, whole_texts=wholes)]
        ends = event.type in {"message_delta", "message_stop"}
        asks = index in self._calls
        return [EventPortion(event, part=index, text=_delta(event), has_calls=asks, is_last=ends)]

    def strip_text(self, event: Any) -> Any | None:
        """Return an event without its text."""
        if event.type != "content_block_start":
            return None
        block = event.content_block.model_copy(update={"text": ""})
        return event.model_copy(update={"content_block": block})

    def note_sent(self, event: Any) -> None:
        """Note which block is open."""
        if event.type == "content_block_start":
            self._open = _OpenBlock(event.index, event.content_block.type == "text")
            self._next = event.index + 1
        elif event.type == "content_block_stop":
            self._open = None

    def make_text_event(self, part: Hashable, text: str) -> Any:
        """Return an event that adds text to a block."""
        delta = {"type": "text_delta", "text": text}
        return self.make_event("content_block_delta", index=part, delta=delta)

    def make_event(self, kind: str, **fields: Any) -> Any:
        """Return an event in the type of the stream."""
        name = _EVENT_TYPES[kind]
        event_type = getattr(beta, f"Beta{name}") if self._is_beta else getattr(types, name)
        return event_type.model_validate({"type": kind, **fields})

    def build_refusal_events(
        self,
        answer: Hashable,  # noqa: ARG002 - part of the protocol
        result: CheckResult,
        words: str,
    ) -> Sequence[Any]:
        """Return the events that end a message with a refusal."""
        block, out = self._open, []
        if block is None or not block.is_text:
            if block is not None:
                out.append(self.make_event("content_block_stop", index=block.number))
            begin = {"type": "text", "text": ""}
            block = _OpenBlock(self._next, is_text=True)
            out.append(
                self.make_event("content_block_start", index=block.number, content_block=begin)
            )
        out.append(self.make_text_event(block.number, words))
        if not self._is_parsed:
            # The SDK parses a block at its end; neither a refusal nor half an answer parses.
            out.append(self.make_event("content_block_stop", index=block.number))
        delta = {"stop_reason": "refusal", "stop_details": _details(result), "stop_sequence": None}
        ended = self.make_event("message_delta", delta=delta, usage={"output_tokens": 0})
        return [*out, ended, self.make_event("message_stop")]

    def is_complete(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:  # noqa: ARG002 - part of the protocol
        """Return true: a message has one answer."""
        return True


def _is_answer(message: Any) -> bool:
    return get_field(message, "role") == "assistant"


def _is_operator(message: Any) -> bool:
    return get_field(message, "role") == "system"


def _delta(event: Any) -> str:
    """Return the text that an event adds to its block."""
    if event.type == "content_block_start":
        return get_field(event.content_block, "text") or ""
    if event.type == "content_block_delta" and event.delta.type == "text_delta":
        return str(event.delta.text)
    return ""


def _block_texts(blocks: Sequence[Any]) -> Iterator[str]:
    for block in blocks:
        if get_field(block, "type") == "text":
            yield get_field(block, "text") or ""


def _read_message(calls: Mapping[Any, Any], message: Any) -> MessageContent:
    content = get_field(message, "content")
    if isinstance(content, str):
        return MessageContent((content,))
    texts: list[str] = []
    returned: list[ToolOutput] = []
    for block in list_entries(content):
        if str(get_field(block, "type")).endswith(_RESULT) and get_field(block, "tool_use_id"):
            returned.append(_read_tool_output(block, calls))
        else:
            texts.append(join_texts([block]))
    return MessageContent(tuple(texts), tuple(returned))


def _read_tool_output(block: Any, calls: Mapping[Any, Any]) -> ToolOutput:
    call_id = get_field(block, "tool_use_id")
    call = calls.get(call_id)
    result = simplify_tool_output(get_field(block, "content"))
    return ToolOutput(get_field(call, "name") or "tool", result, call_id, get_field(call, "input"))


def _details(result: CheckResult) -> dict[str, Any]:
    return {"type": "refusal", "category": None, "explanation": result.line}


def _refusal_message(result: CheckResult, model: str) -> dict[str, Any]:
    decision = "" if result.record is None else f"_{result.record.decision_id}"
    return {
        "id": f"msg_demur{decision}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": result.user_text}],
        "stop_reason": "refusal",
        "stop_details": _details(result),
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def _is_parsed(body: Mapping[str, Any]) -> bool:
    return bool(body.get("output_format") or get_field(body.get("output_config"), "format"))


def guard_anthropic(
    client: _Client, enforcer: Enforcer | Gate, **options: Unpack[GuardOptions]
) -> _Client:
    """Return a guarded copy of `client`; the client itself stays as it is.

    Clients for Bedrock, Vertex and other platforms are guarded as well.
    `options` are those of `GuardOptions`: `context`, `on_refusal`, `fallbacks`,
    `retry_after_wait`, `sleep`, `recheck_history` and `allow_raw_bytes`. With
    `on_refusal="answer"`, a refusal is a message with `stop_reason="refusal"`.

    Raises:
        InputError: An option is invalid.
        UnguardableError: demur does not support this version of the client.
    """
    if not isinstance(client, _SyncClient | _AsyncClient):
        raise InputTypeError.wrong_type("client", "a client of the `anthropic` package", client)
    is_async = isinstance(client, _AsyncClient)
    settings = build_settings(enforcer, "anthropic", is_async=is_async, **options)
    formats = {"/v1/messages": MessagesFormat(settings)}
    return cast("_Client", guard_client(client, formats, settings, _probe_post))


def _probe_post(client: Any) -> Any:
    return client.messages._post  # noqa: SLF001 - the method that sends requests
