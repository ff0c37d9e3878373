"""Responses, in the form that OpenAI gave them and others took over.

What is new in a request, and what refuses in a response; an SDK names its own types.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from demur.enforce.ruling import Refused, CheckResult
from demur.integrations.model_client.cutter import EventStreamFilter
from demur.integrations.model_client.form import OpenStream, OutgoingRequest, AnswerChoice
from demur.integrations.model_client.memory import is_refusal
from demur.integrations.model_client.owned import AnswerType, read_entries, coerce_answer
from demur.integrations.model_client.responses_made import ResponseBuilder, build_refusal_item
from demur.integrations.model_client.responses_stream import (
    CLIENT_CALLS,
    ResponsesStreamFormat,
    read_item_texts,
)
from demur.integrations.model_client.settings import ModelClientSettings
from demur.integrations.model_client.stream import (
    AsyncSdkStreamProxy,
    AsyncRefusalStream,
    SdkStreamProxy,
    RefusalStream,
)
from demur.integrations.model_client.trail import CallTrace, attach_trace
from demur.integrations.model_client.turn import (
    MessageContent,
    MessageReader,
    ToolOutput,
    NewTurn,
    get_field,
    list_entries,
    simplify_tool_output,
    join_texts,
    read_new_turn,
)

__all__ = ["StoredItemsFormat", "ResponsesFormat", "ResponsesTypes"]

_OPERATOR_ROLES = {"system", "developer"}
_OUTPUT_SUFFIX = "_output"
_APPROVAL_TYPE = "mcp_approval_response"


class ResponsesTypes(NamedTuple):
    """An SDK's types for responses; each pair is sync, then async."""

    builder: ResponseBuilder
    stream_types: tuple[Any, Any]
    stream_proxies: tuple[Any, Any] = (SdkStreamProxy, AsyncSdkStreamProxy)


class ResponsesFormat:
    """Reads and writes requests and responses of `responses`."""

    def __init__(
        self, types: ResponsesTypes, settings: ModelClientSettings, *, is_async: bool
    ) -> None:
        self._types = types
        self._builder = types.builder
        self._settings = settings
        self._is_async = is_async

    def read_turn(self, body: Mapping[str, Any], *, include_history: bool) -> NewTurn:
        """Return the new part of a request."""
        given = body.get("input")
        said = (
            [{"role": "user", "content": given}] if isinstance(given, str) else list_entries(given)
        )
        items = [*list_entries(body.get("items")), *said]
        calls = {get_field(item, "call_id"): item for item in items if get_field(item, "name")}
        reading = MessageReader(_is_answer, _is_operator, partial(_read_item, calls))
        turn = read_new_turn(
            items, reading, self._settings.refused_texts, include_history=include_history
        )
        # The variables of a stored prompt are new in each request.
        filled = join_texts(list((get_field(body.get("prompt"), "variables") or {}).values()))
        texts = tuple(filter(None, (filled, *turn.texts)))
        return turn._replace(text="\n".join(texts), texts=texts)

    def coerce_answer(self, answer: Any, request: OutgoingRequest) -> Any:
        """Return the value of a fallback function as a response or a stream."""
        head = {
            "id": "resp_demur",
            "object": "response",
            "created_at": 0,
            "model": request.model,
            "parallel_tool_calls": False,
            "tool_choice": "none",
            "tools": [],
        }
        stream = self._types.stream_types[self._is_async]
        return coerce_answer(
            answer, request, AnswerType(self._builder.response_type, stream, "output", head)
        )

    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:
        """Return the response as its only choice."""
        items = read_entries(response, "output")
        texts = read_item_texts(items)
        asks = any(get_field(item, "type") in CLIENT_CALLS for item in items)
        return [AnswerChoice(response, tuple(text for _, text in texts), asks)]

    def build_refusal(self, result: CheckResult, request: OutgoingRequest) -> Any:
        """Return a response that refuses."""
        return self._builder.build_response(result, request, [build_refusal_item(result)])

    def replace_choices(self, response: Any, refused: Mapping[int, CheckResult]) -> Any:
        """Return a response with all its output replaced by a refusal."""
        [ruling] = refused.values()
        item = self._builder.build_message(build_refusal_item(ruling), response)
        return response.model_copy(update={"output": [item], "status": "completed"})

    def build_refusal_stream(self, result: CheckResult, request: OutgoingRequest) -> Any:
        """Return a stream of events that refuses."""
        started = self._builder.build_response(result, request, [], status="in_progress")
        first = self._builder.created_event(started)
        form = ResponsesStreamFormat(self._builder, request)
        form.split_event(first)
        events = [first, *form.build_refusal_events(0, result, result.user_text)]
        kind = self._types.stream_types[self._is_async]
        return AsyncRefusalStream(events, kind) if self._is_async else RefusalStream(events, kind)

    def filter_stream(self, opened: OpenStream, request: OutgoingRequest) -> Any:
        """Return a stream of the cleared events."""
        form = ResponsesStreamFormat(self._builder, request)
        cutter = EventStreamFilter(form, opened, self._settings, is_async=self._is_async)
        return self._types.stream_proxies[self._is_async](opened.stream, cutter)

    def to_parsed_type(self, response: Any, request: OutgoingRequest) -> Any:
        """Return a refusing response in the parsed type; it has no text to parse."""
        assert request.parse is not None
        return request.parse(response)


class StoredItemsFormat(ResponsesFormat):
    """Reads items that the provider stores for a model to read later; no model answers."""

    def read_choices(self, response: Any) -> Sequence[AnswerChoice]:  # noqa: ARG002 - part of the form
        """Return no choices: no model answers."""
        return ()

    def build_refusal(self, result: CheckResult, request: OutgoingRequest) -> Any:  # noqa: ARG002 - part of the form
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
    name, result = (
        get_field(call, "name") or "tool",
        simplify_tool_output(get_field(item, "output")),
    )
    return MessageContent(
        tool_outputs=(ToolOutput(name, result, call_id, get_field(call, "arguments")),)
    )
