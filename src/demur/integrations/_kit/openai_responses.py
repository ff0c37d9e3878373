"""The responses API of OpenAI, which other providers copied.

Reads the new part of a request and writes refusals into responses and streams. Each SDK passes
its own types.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from demur.emit.hosts import to_openai_part
from demur.enforce.result import CheckResult, Refused
from demur.integrations._kit.conversation import (
    MessageContent,
    MessageReader,
    NewTurn,
    ToolOutput,
    get_field,
    is_refusal,
    join_texts,
    list_entries,
    simplify_tool_output,
)
from demur.integrations._kit.guarded_response import (
    AnswerType,
    ApiFormat,
    AsyncSdkStreamProxy,
    SdkStreamProxy,
    read_entries,
)
from demur.integrations._kit.model_api import (
    AnswerChoice,
    CallTrace,
    ModelClientSettings,
    OutgoingRequest,
    attach_trace,
)
from demur.integrations._kit.stream_filter import EventPortion, PartText

# Maps a response and the `type` of an event or item to the SDK's type for it.
TypeResolver = Callable[[Any, str], Any]


class RefusalPosition(NamedTuple):
    """The position of a refusal in a response, and the number of the event before it."""

    item: str
    output: int
    content: int
    number: int


def build_refusal_item(result: CheckResult, name: str | None = None) -> dict[str, Any]:
    """Return a refusing item."""
    assert result.refusal is not None
    part = to_openai_part(result.refusal, words=result.user_text)
    return {
        "id": name or f"msg_{_refusal_id(result)}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


class ResponseBuilder:
    """Builds refusing responses and events in the types of an SDK."""

    def __init__(self, response_type: Any, resolve_type: TypeResolver) -> None:
        self.response_type = response_type
        self._resolve_type = resolve_type

    def build_message(self, item: Mapping[str, Any], like: Any) -> Any:
        """Return an item in the type that matches the response `like`."""
        return self._resolve_type(like, "message").model_validate(item)

    def build_response(
        self,
        result: CheckResult,
        request: OutgoingRequest,
        output: list[Any],
        status: str = "completed",
    ) -> Any:
        """Return a response that demur wrote in place of a model."""
        head = {**_default_fields(request), "id": f"resp_{_refusal_id(result)}"}
        kind = request.response_type(self.response_type)
        return kind.model_validate({**head, "status": status, "output": output})

    def created_event(self, response: Any) -> Any:
        """Return the event that begins a response."""
        return self._make_event("response.created", 0, response, response=response)

    def opening_event(self, result: CheckResult, response: Any, position: RefusalPosition) -> Any:
        """Return the event that begins the item of a refusal."""
        item = {**build_refusal_item(result, position.item), "content": [], "status": "in_progress"}
        fields = {"output_index": position.output, "item": item}
        return self._make_event("response.output_item.added", position.number, response, **fields)

    def closing_events(
        self,
        result: CheckResult,
        response: Any,
        position: RefusalPosition,
        unfinished: Sequence[Any] = (),
    ) -> list[Any]:
        """Return the events that write a refusal and end its part, its item and the response."""
        item = build_refusal_item(result, position.item)
        [part] = item["content"]
        words = part["refusal"]
        index = {"output_index": position.output}
        here = {"item_id": position.item, **index, "content_index": position.content}
        output = [*unfinished, self.build_message(item, response)]
        ended = response.model_copy(update={"output": output, "status": "completed"})
        events: list[tuple[str, dict[str, Any]]] = [
            ("response.content_part.added", {**here, "part": {**part, "refusal": ""}}),
            ("response.refusal.delta", {**here, "delta": words}),
            ("response.refusal.done", {**here, "refusal": words}),
            ("response.content_part.done", {**here, "part": part}),
            ("response.output_item.done", {**index, "item": item}),
            ("response.completed", {"response": ended}),
        ]
        return [
            self._make_event(kind, position.number + after, response, **fields)
            for after, (kind, fields) in enumerate(events, 1)
        ]

    def _make_event(self, kind: str, number: int, like: Any, **fields: Any) -> Any:
        event = {"type": kind, "sequence_number": number, **fields}
        return self._resolve_type(like, kind).model_validate(event)


def _default_fields(request: OutgoingRequest) -> dict[str, Any]:
    return {
        "id": "resp_demur",
        "object": "response",
        "created_at": 0,
        "model": request.model,
        "parallel_tool_calls": False,
        "tool_choice": "none",
        "tools": [],
    }


def _refusal_id(result: CheckResult) -> str:
    return "demur" if result.record is None else f"demur_{result.record.decision_id}"


_DELTA = "response.output_text.delta"
_REFUSAL_DELTA = "response.refusal.delta"
_TEXT_FIELDS = {"output_text": "text", "refusal": "refusal"}
_FINAL_EVENTS = {"response.completed", "response.incomplete", "response.failed"}
# Calls that the client has to make; the provider makes the others.
CLIENT_CALLS = {
    "apply_patch_call",
    "computer_call",
    "custom_tool_call",
    "function_call",
    "local_shell_call",
    "mcp_approval_request",
    "shell_call",
}


class ResponsesStreamFormat:
    """Events of a response. Its answer consists of content parts, by item and number."""

    def __init__(self, builder: ResponseBuilder, request: OutgoingRequest) -> None:
        self._builder = builder
        self._request = request
        self._response: Any = None
        self._latest: dict[Hashable, Any] = {}
        self._number = 0
        self._calls: set[int] = set()
        self._refusals: dict[Hashable, str] = {}
        # Items that have begun and not ended, by number.
        self._open_items: dict[int, Any] = {}
        self._contents = 0
        self._next = 0

    def is_plain_delta(self, event: Any) -> bool:
        """Return whether an event adds text."""
        return bool(event.type == _DELTA)

    def split_event(self, event: Any) -> Sequence[EventPortion]:
        """Return the content of an event."""
        if self._response is None:
            self._response = get_field(event, "response")
        output = get_field(event, "output_index")
        if get_field(get_field(event, "item"), "type") in CLIENT_CALLS:
            self._calls.add(output)
        kind = event.type
        if kind == _DELTA:
            part = (event.item_id, event.content_index)
            self._latest[part] = event
            return [EventPortion(event, part=part, text=event.delta)]
        if kind == _REFUSAL_DELTA:
            part = (event.item_id, event.content_index)
            text = self._refusals[part] = self._refusals.get(part, "") + event.delta
            whole_texts = [PartText(part, text)]
        else:
            whole_texts = _read_whole_texts(event)
        has_calls, is_last = output in self._calls, kind in _FINAL_EVENTS
        return [EventPortion(event, 0, None, "", tuple(whole_texts), has_calls, is_last)]

    def strip_text(self, event: Any) -> None:
        """Return None: an event that adds text carries nothing else."""

    def make_text_event(self, part: Hashable, text: str) -> Any:
        """Return an event that adds text to a content part."""
        # Token log probabilities would spell the text that is held back.
        return self._latest[part].model_copy(update={"delta": text, "logprobs": []})

    def note_sent(self, event: Any) -> None:
        """Note which items are open, and how many parts the last one has."""
        self._number = get_field(event, "sequence_number") or self._number
        kind = event.type
        if kind == "response.output_item.added":
            self._open_items[event.output_index] = event.item
            self._next, self._contents = event.output_index + 1, 0
        elif kind == "response.content_part.added":
            self._contents = event.content_index + 1
        elif kind == "response.output_item.done":
            self._open_items.pop(event.output_index, None)

    def build_refusal_events(
        self,
        answer: Hashable,  # noqa: ARG002 - part of the protocol
        result: CheckResult,
        words: str,  # noqa: ARG002 - part of the protocol
    ) -> Sequence[Any]:
        """Return the events that end a response with a refusal."""
        builder, response = self._builder, self._response
        if response is None:
            response = builder.build_response(result, self._request, [])
        last, item = next(reversed(self._open_items.items()), (self._next, None))
        if get_field(item, "type") == "message":
            others = [one for output, one in self._open_items.items() if output != last]
            position = RefusalPosition(get_field(item, "id"), last, self._contents, self._number)
            return builder.closing_events(result, response, position, others)
        item_id, number = build_refusal_item(result)["id"], self._number + 1
        position = RefusalPosition(item_id, self._next, 0, number)
        begin = builder.opening_event(result, response, position)
        others = list(self._open_items.values())
        return [begin, *builder.closing_events(result, response, position, others)]

    def is_complete(self, refused: Collection[Hashable], ended: Collection[Hashable]) -> bool:  # noqa: ARG002 - part of the protocol
        """Return true: a response has one answer."""
        return True


def read_item_texts(items: Sequence[Any]) -> list[PartText]:
    """Return the text of each content part of messages, refusals included."""
    return [
        PartText((get_field(item, "id"), number), _part_text(part))
        for item in items
        if get_field(item, "type") == "message"
        for number, part in enumerate(list_entries(get_field(item, "content")))
        if get_field(part, "type") in _TEXT_FIELDS
    ]


def _part_text(part: Any) -> str:
    name = _TEXT_FIELDS.get(get_field(part, "type"))
    return "" if name is None else get_field(part, name) or ""


def _read_whole_texts(event: Any) -> list[PartText]:
    """Return the complete texts that the end of a part, an item or the response repeats."""
    found: list[PartText] = []
    kind = event.type
    if kind == "response.output_text.done":
        found = [PartText((event.item_id, event.content_index), event.text)]
    elif kind == "response.refusal.done":
        found = [PartText((event.item_id, event.content_index), event.refusal)]
    elif kind.startswith("response.content_part."):
        found = [PartText((event.item_id, event.content_index), _part_text(event.part))]
    elif kind.startswith("response.output_item."):
        found = read_item_texts([event.item])
    elif get_field(event, "response") is not None:
        found = read_item_texts(list_entries(get_field(event.response, "output")))
    return [piece for piece in found if piece.text]


_OPERATOR_ROLES = {"system", "developer"}
_OUTPUT_SUFFIX = "_output"
_APPROVAL_TYPE = "mcp_approval_response"


class ResponsesTypes(NamedTuple):
    """An SDK's types for responses; each pair is sync, then async."""

    builder: ResponseBuilder
    stream_types: tuple[Any, Any]
    stream_proxies: tuple[Any, Any] = (SdkStreamProxy, AsyncSdkStreamProxy)


class ResponsesFormat(ApiFormat):
    """Reads and writes requests and responses of `responses`."""

    def __init__(self, types: ResponsesTypes, settings: ModelClientSettings) -> None:
        super().__init__(settings, types.stream_types, types.stream_proxies)
        self._builder = types.builder

    def read_turn(self, body: Mapping[str, Any]) -> NewTurn:
        """Return the new part of a request."""
        value = body.get("input")
        items = list_entries(body.get("items"))
        items += [{"role": "user", "content": value}] if isinstance(value, str) else []
        items += list_entries(value)
        calls = {get_field(item, "call_id"): item for item in items if get_field(item, "name")}
        reader = MessageReader(_is_answer, _is_operator, partial(_read_item, calls))
        turn = self.read_new_turn(items, reader)
        # The variables of a stored prompt are new in each request.
        variables = get_field(body.get("prompt"), "variables") or {}
        texts = tuple(filter(None, (join_texts(list(variables.values())), *turn.texts)))
        return turn._replace(text="\n".join(texts), texts=texts)

    def add_message(self, body: Mapping[str, Any], text: str) -> dict[str, Any]:
        """Return a request with one more message of the user."""
        value = body.get("input")
        items = [{"role": "user", "content": value}] if isinstance(value, str) else value
        return {**body, "input": [*list_entries(items), {"role": "user", "content": text}]}

    def answer_type(self, request: OutgoingRequest) -> AnswerType:
        """Return the type of responses."""
        return AnswerType(self._builder.response_type, "output", _default_fields(request))

    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:
        """Return the response as its only choice."""
        items = read_entries(response, "output")
        texts = tuple(part.text for part in read_item_texts(items))
        has_calls = any(get_field(item, "type") in CLIENT_CALLS for item in items)
        return [AnswerChoice(response, texts, has_calls)]

    def build_refusal(self, result: CheckResult, request: OutgoingRequest) -> Any:
        """Return a response that refuses."""
        return self._builder.build_response(result, request, [build_refusal_item(result)])

    def replace_choices(self, response: Any, refused: Mapping[int, CheckResult]) -> Any:
        """Return a response with all its output replaced by a refusal."""
        [result] = refused.values()
        item = self._builder.build_message(build_refusal_item(result), response)
        return response.model_copy(update={"output": [item], "status": "completed"})

    def refusal_events(self, result: CheckResult, request: OutgoingRequest) -> Iterable[Any]:
        """Return the events of a refusing stream."""
        started = self._builder.build_response(result, request, [], status="in_progress")
        first = self._builder.created_event(started)
        form = self.event_format(request)
        form.split_event(first)
        return [first, *form.build_refusal_events(0, result, result.user_text)]

    def event_format(self, request: OutgoingRequest) -> ResponsesStreamFormat:
        """Return the format of the events of one stream."""
        return ResponsesStreamFormat(self._builder, request)


class StoredItemsFormat(ResponsesFormat):
    """Reads items that the provider stores for a model to read later; no model answers."""

    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:  # noqa: ARG002 - part of the protocol
        """Return no choices: no model answers."""
        return ()

    def build_refusal(self, result: CheckResult, request: OutgoingRequest) -> Any:  # noqa: ARG002 - part of the protocol
        """Raise: this API cannot represent a refusal."""
        raise attach_trace(Refused(result), CallTrace(prompt=result))


def _is_output(item: Any) -> bool:
    return str(get_field(item, "type") or "").endswith(_OUTPUT_SUFFIX)


def _is_answer(item: Any) -> bool:
    if get_field(item, "role") == "assistant":
        content = get_field(item, "content")
        # demur's own refusal does not answer the items before it.
        parts = [content] if isinstance(content, str) else list_entries(content)
        return not any(is_refusal(_refusal_text(part)) for part in parts)
    # Calls and reasoning come from the model, too, and have no role.
    return get_field(item, "type") not in {None, "message", _APPROVAL_TYPE} and not _is_output(item)


def _refusal_text(part: Any) -> Any:
    return part if isinstance(part, str) else get_field(part, "refusal") or get_field(part, "text")


def _is_operator(item: Any) -> bool:
    return get_field(item, "role") in _OPERATOR_ROLES


def _read_item(calls: Mapping[Any, Any], item: Any) -> MessageContent:
    if get_field(item, "type") == _APPROVAL_TYPE:
        return MessageContent((get_field(item, "reason") or "",))
    if not _is_output(item):
        return MessageContent((join_texts(get_field(item, "content")),))
    call_id = get_field(item, "call_id")
    call = calls.get(call_id)
    name, result = get_field(call, "name") or "tool", get_field(item, "output")
    arguments = get_field(call, "arguments")
    output = ToolOutput(name, simplify_tool_output(result), call_id, arguments)
    return MessageContent(tool_outputs=(output,))
