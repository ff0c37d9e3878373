"""Responses, in the form that OpenAI gave them and others took over.

What is new in a request, and what refuses in a response; an SDK names its own types.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from demur.enforce.ruling import Refused, Ruling
from demur.integrations.model_client.cutter import Cutter
from demur.integrations.model_client.form import Opened, Posted, Said
from demur.integrations.model_client.memory import is_refusal
from demur.integrations.model_client.owned import Kind, entries, owned
from demur.integrations.model_client.responses_made import Made, item_of
from demur.integrations.model_client.responses_stream import CALLS, ResponsesStream, texts_of
from demur.integrations.model_client.settings import Settings
from demur.integrations.model_client.stream import (
    AsyncGuardedStream,
    AsyncSaidStream,
    GuardedStream,
    SaidStream,
)
from demur.integrations.model_client.trail import Trail, keep
from demur.integrations.model_client.turn import (
    Read,
    Reading,
    Returned,
    Turn,
    field,
    listed,
    result_of,
    text_of,
    turn_of,
)

__all__ = ["ItemsForm", "ResponsesForm", "ResponsesKinds"]

_OURS = {"system", "developer"}
_OUTPUT = "_output"
_APPROVAL = "mcp_approval_response"


class ResponsesKinds(NamedTuple):
    """An SDK's types for responses; each pair is sync, then async."""

    made: Made
    streams: tuple[Any, Any]
    guarded: tuple[Any, Any] = (GuardedStream, AsyncGuardedStream)


class ResponsesForm:
    """Reads and writes requests and responses of `responses`."""

    def __init__(self, kinds: ResponsesKinds, settings: Settings, *, awaits: bool) -> None:
        self._kinds = kinds
        self._made = kinds.made
        self._settings = settings
        self._awaits = awaits

    def turn(self, body: Mapping[str, Any], *, whole: bool) -> Turn:
        """Return the new part of a request."""
        given = body.get("input")
        said = [{"role": "user", "content": given}] if isinstance(given, str) else listed(given)
        items = [*listed(body.get("items")), *said]
        calls = {field(item, "call_id"): item for item in items if field(item, "name")}
        reading = Reading(_is_answer, _is_ours, partial(_read, calls))
        turn = turn_of(items, reading, self._settings.refused, whole=whole)
        # The variables of a stored prompt are new in each request.
        filled = text_of(list((field(body.get("prompt"), "variables") or {}).values()))
        texts = tuple(filter(None, (filled, *turn.said)))
        return turn._replace(text="\n".join(texts), said=texts)

    def own(self, answer: Any, posted: Posted) -> Any:
        """Return the value of a fallback function as a response or a stream."""
        head = {
            "id": "resp_demur",
            "object": "response",
            "created_at": 0,
            "model": posted.model,
            "parallel_tool_calls": False,
            "tool_choice": "none",
            "tools": [],
        }
        stream = self._kinds.streams[self._awaits]
        return owned(answer, posted, Kind(self._made.kind, stream, "output", head))

    def said(self, response: Any) -> Sequence[Said]:
        """Return the response as its only choice."""
        items = entries(response, "output")
        texts = texts_of(items)
        asks = any(field(item, "type") in CALLS for item in items)
        return [Said(response, tuple(text for _, text in texts), asks)]

    def refusing(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a response that refuses."""
        return self._made.response(ruling, posted, [item_of(ruling)])

    def replaced(self, response: Any, refused: Mapping[int, Ruling]) -> Any:
        """Return a response with all its output replaced by a refusal."""
        [ruling] = refused.values()
        item = self._made.message(item_of(ruling), response)
        return response.model_copy(update={"output": [item], "status": "completed"})

    def refusing_stream(self, ruling: Ruling, posted: Posted) -> Any:
        """Return a stream of events that refuses."""
        started = self._made.response(ruling, posted, [], status="in_progress")
        first = self._made.created(started)
        form = ResponsesStream(self._made, posted)
        form.portions(first)
        events = [first, *form.refusal(0, ruling, ruling.words)]
        kind = self._kinds.streams[self._awaits]
        return AsyncSaidStream(events, kind) if self._awaits else SaidStream(events, kind)

    def guarded_stream(self, opened: Opened, posted: Posted) -> Any:
        """Return a stream of the cleared events."""
        form = ResponsesStream(self._made, posted)
        cutter = Cutter(form, opened, self._settings, awaits=self._awaits)
        return self._kinds.guarded[self._awaits](opened.stream, cutter)

    def unparsed(self, response: Any, posted: Posted) -> Any:
        """Return a refusing response in the parsed type; it has no text to parse."""
        assert posted.parse is not None
        return posted.parse(response)


class ItemsForm(ResponsesForm):
    """Reads items that the provider stores for a model to read later; no model answers."""

    def said(self, response: Any) -> Sequence[Said]:  # noqa: ARG002 - part of the form
        """Return no choices: no model answers."""
        return ()

    def refusing(self, ruling: Ruling, posted: Posted) -> Any:  # noqa: ARG002 - part of the form
        """Raise: this API cannot represent a refusal."""
        raise keep(Refused(ruling), Trail(prompt=ruling))


def _is_output(item: Any) -> bool:
    return str(field(item, "type") or "").endswith(_OUTPUT)


def _is_answer(item: Any) -> bool:
    if field(item, "role") == "assistant":
        content = field(item, "content")
        # demur's own refusal does not answer the items before it.
        parts = [content] if isinstance(content, str) else listed(content)
        return not any(is_refusal(_refusal(part)) for part in parts)
    # Calls and reasoning come from the model, too, and have no role.
    return field(item, "type") not in {None, "message", _APPROVAL} and not _is_output(item)


def _refusal(part: Any) -> Any:
    return part if isinstance(part, str) else field(part, "refusal") or field(part, "text")


def _is_ours(item: Any) -> bool:
    return field(item, "role") in _OURS


def _read(calls: Mapping[Any, Any], item: Any) -> Read:
    if field(item, "type") == _APPROVAL:
        return Read((field(item, "reason") or "",))
    if not _is_output(item):
        return Read((text_of(field(item, "content")),))
    call_id = field(item, "call_id")
    call = calls.get(call_id)
    name, result = field(call, "name") or "tool", result_of(field(item, "output"))
    return Read(returned=(Returned(name, result, call_id, field(call, "arguments")),))
