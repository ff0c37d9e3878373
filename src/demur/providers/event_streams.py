"""Accumulate the events of a stream into the responses they amount to.

An accumulator keeps what can tell of a refusal and none of the answer's text, so a refused
turn leaves no partial text behind. A text counts as a stored stream only if every line of it
is an event; an answer that quotes a few events is an answer.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from itertools import islice
from typing import Any, Protocol

from demur.providers.node import Node, ReadBudget, ResponseTooLargeError
from demur.providers.shape import parse_json
from demur.providers.signals import Signal, max_signal

_MAX_REFUSAL_LENGTH = 4000
_MAX_KEPT = 1000
_Response = dict[str, Any]


class _PastEndings:
    """Earlier responses by their stop reason: a later reason does not undo an earlier one."""

    def __init__(self) -> None:
        self._past: dict[tuple[Any, str], _Response] = {}

    def keep_ending(self, place: Any, word: str | None, new: Node, response: _Response) -> None:
        """Keep a copy of `response` under its reason `word` if the `new` reason differs."""
        if word is not None and new.present and new.text != word:
            check_room(self._past)
            self._past[(place, word)] = dict(response)

    @property
    def responses(self) -> list[_Response]:
        return list(self._past.values())


def check_room(kept: Sized) -> None:
    """Raise if as many items are kept as any real stream could have.

    Raises:
        TooMuchError: The limit is reached.
    """
    if len(kept) >= _MAX_KEPT:
        raise ResponseTooLargeError("the stream is longer than demur can keep")


def _choice_index(index: Node, place: int) -> int:
    """Return the index of an answer, or a negative number from its place if it has none."""
    number = index.number
    # Negative, so that it cannot equal the index of another answer.
    return int(number) if number is not None and 0 <= number < _MAX_KEPT else -1 - place


class EventAccumulator(Protocol):
    """Recognises the events of one stream format and accumulates them."""

    @staticmethod
    def accepts(event: Node) -> bool:
        """Return whether `event` has this format."""

    def feed(self, event: Node) -> None:
        """Add one event."""

    @property
    def responses(self) -> list[_Response]:
        """The events so far, as responses of the same provider.

        There are several if a later event replaced the values of an earlier one.
        """


_DECISIVE_FIELDS = frozenset({"prompt_filter_results", "moderation", "error"})


class ChatAccumulator:
    """Chunks of chat completions, with the filter results that Azure adds."""

    def __init__(self) -> None:
        self._before: list[dict[str, Any]] = []
        self._choices: dict[int, dict[str, Any]] = {}
        self._whole: dict[str, Any] = {}
        self._past = _PastEndings()

    @staticmethod
    def accepts(event: Node) -> bool:
        """Return whether `event` is a chunk: choices with deltas, or filter results."""
        if event["object"].text == "chat.completion.chunk":
            return True
        return any(choice["delta"].present for choice in event["choices"])

    def feed(self, event: Node) -> None:
        """Add one chunk."""
        for name in ("prompt_filter_results", "moderation", "model", "x_groq", "error"):
            if event[name]:
                before = self._whole.get(name)
                if name in _DECISIVE_FIELDS and before is not None and before != event[name].raw:
                    check_room(self._before)
                    self._before.append({"choices": [], name: before})
                self._whole[name] = event[name].raw
        for place, choice in enumerate(event["choices"]):
            index = _choice_index(choice["index"], place)
            if index not in self._choices:
                check_room(self._choices)
                self._choices[index] = {"index": index, "message": {}}
            kept = self._choices[index]
            words = choice["delta"]["refusal"].text
            if words:
                message = kept["message"]
                message["refusal"] = (message.get("refusal", "") + words)[:_MAX_REFUSAL_LENGTH]
            reason = choice["finish_reason"]
            if reason.text:
                self._past.keep_ending(
                    index, kept.get("finish_reason"), reason, {"choices": [{**kept}]}
                )
                kept["finish_reason"] = reason.text
            for category, result in choice["content_filter_results"].fields():
                results = kept.setdefault("content_filter_results", {})
                # Every chunk has results; a later one does not undo a result that filtered.
                if not Node(results.get(category))["filtered"].is_true:
                    check_room(results)
                    results[category] = result.raw

    @property
    def responses(self) -> list[_Response]:
        """The completion, and parts of it from before they were replaced."""
        whole = {**self._whole, "choices": list(self._choices.values())}
        return [whole, *self._past.responses, *self._before]


class ResponsesAccumulator:
    """Events of OpenAI's Responses and of Realtime."""

    def __init__(self) -> None:
        self._refusals: dict[tuple[float, float], str] = {}
        self._failed: list[Any] = []
        self._ended: list[dict[str, Any]] = []
        self._error: Node | None = None

    @staticmethod
    def accepts(event: Node) -> bool:
        """Return whether `event` is one of a response."""
        kind = event["type"].text or ""
        return kind.startswith("response.") or (kind == "error" and event["code"].present)

    def feed(self, event: Node) -> None:
        """Add one event."""
        kind = event["type"].text
        if kind in {"response.refusal.delta", "response.refusal.done"}:
            self._add_refusal(event, event["delta"].text or "", event["refusal"].text)
        elif event["part"]["type"].text == "refusal":
            self._add_refusal(event, "", event["part"]["refusal"].text)
        elif kind == "error":
            self._error = self._error or event
        if event["item"]["error"].present:
            check_room(self._failed)
            self._failed.append(_failed_item(event["item"]))
        # A session has many responses, and any of them may be the refusal.
        ended = _response_ending(event["response"])
        if ended is not None:
            check_room(self._ended)
            self._ended.append(ended)

    def _add_refusal(self, event: Node, more: str, whole: str | None) -> None:
        place = (event["output_index"].number or 0, event["content_index"].number or 0)
        check_room(self._refusals)
        words = whole or self._refusals.get(place, "") + more
        self._refusals[place] = words[:_MAX_REFUSAL_LENGTH]

    @property
    def responses(self) -> list[_Response]:
        """The running response, and each response that ended."""
        said = [{"type": "refusal", "refusal": words} for words in self._refusals.values()]
        running = {
            "object": "response",
            "output": [{"type": "message", "content": said}, *self._failed],
            "error": None if self._error is None else self._error.raw,
        }
        return [running, *self._ended]


def _failed_item(item: Node) -> dict[str, Any]:
    return {"type": item["type"].raw, "error": item["error"].raw}


def _response_ending(response: Node) -> dict[str, Any] | None:
    """Return the fields about a response's end, without its text, or None."""
    names = ("incomplete_details", "status_details", "error")
    kept: dict[str, Any] = {name: response[name].raw for name in names if response[name].present}
    items = [_failed_item(item) for item in response["output"] if item["error"].present]
    parts = [part for item in response["output"] for part in item["content"]]
    said = [part.raw for part in parts if part["type"].text == "refusal"]
    if said:
        items.append({"type": "message", "content": said})
    if items:
        kept["output"] = items
    return {"object": "response", **kept} if kept else None


class AnthropicAccumulator:
    """Events of Anthropic's Messages."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {"type": "message", "content": []}
        self._past = _PastEndings()

    @staticmethod
    def accepts(event: Node) -> bool:
        """Return whether `event` is one of a message."""
        kind = event["type"].text or ""
        failed = kind == "error" and event["error"].present
        return failed or kind.startswith(("message_", "content_block_"))

    def feed(self, event: Node) -> None:
        """Add one event."""
        block = event["content_block"]
        if block["type"].text == "fallback":
            check_room(self._message["content"])
            self._message["content"].append(block.raw)
        for name, found in (
            ("model", event["message"]["model"]),
            ("stop_reason", event["message"]["stop_reason"]),
            ("stop_reason", event["delta"]["stop_reason"]),
            ("stop_details", event["message"]["stop_details"]),
            ("stop_details", event["delta"]["stop_details"]),
            ("error", event["error"]),
        ):
            if found.present:
                if name == "stop_reason":
                    self._past.keep_ending(None, self._message.get(name), found, self._message)
                self._message[name] = found.text if name == "stop_reason" else found.raw

    @property
    def responses(self) -> list[_Response]:
        """The message without its text, and its versions with earlier stop reasons."""
        return [self._message, *self._past.responses]


class GeminiAccumulator:
    """Chunks of Gemini, and messages of its live sessions."""

    def __init__(self) -> None:
        self._candidates: dict[int, dict[str, Any]] = {}
        self._whole: dict[str, Any] = {}
        self._past = _PastEndings()

    @staticmethod
    def accepts(event: Node) -> bool:
        """Return whether `event` is a chunk or a live message."""
        return any(event[name] for name in ("candidates", "promptFeedback", "serverContent"))

    def feed(self, event: Node) -> None:
        """Add one chunk."""
        feedback, turn = event["promptFeedback"], event["serverContent"]["turnCompleteReason"]
        # A later chunk may repeat the feedback without the reason.
        if feedback["blockReason"].present or _any_blocked(feedback["safetyRatings"]):
            self._whole["promptFeedback"] = feedback.raw
        if turn.present:
            before = Node(self._whole.get("serverContent"))["turnCompleteReason"].text
            self._past.keep_ending("turn", before, turn, self._whole)
            self._whole["serverContent"] = {"turnCompleteReason": turn.raw}
        for place, candidate in enumerate(event["candidates"]):
            self._feed_candidate(_choice_index(candidate["index"], place), candidate)

    def _feed_candidate(self, index: int, candidate: Node) -> None:
        if index not in self._candidates:
            check_room(self._candidates)
            self._candidates[index] = {"index": index}
        kept = self._candidates[index]
        reason = candidate["finishReason"]
        before = Node(kept.get("finishReason")).text
        self._past.keep_ending(index, before, reason, {"candidates": [{**kept}]})
        for name in ("finishReason", "finishMessage"):
            if candidate[name].present:
                kept[name] = candidate[name].raw
        # Later ratings do not undo one that blocked.
        ratings = candidate["safetyRatings"]
        if ratings.present and not _any_blocked(Node(kept.get("safetyRatings"))):
            kept["safetyRatings"] = ratings.raw

    @property
    def responses(self) -> list[_Response]:
        """The response without its text, and its versions with earlier stop reasons."""
        whole = {**self._whole, "candidates": list(self._candidates.values())}
        return [whole, *self._past.responses]


class BedrockAccumulator:
    """Events of Bedrock's ConverseStream."""

    _KINDS = ("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop")

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._past = _PastEndings()

    @classmethod
    def accepts(cls, event: Node) -> bool:
        """Return whether `event` is one of a conversation."""
        if any(event[kind].present for kind in (*cls._KINDS, "messageStop")):
            return True
        return event["metadata"]["trace"].present or event["metadata"]["usage"].present

    def feed(self, event: Node) -> None:
        """Add one event."""
        stop = event["messageStop"]["stopReason"]
        if stop.text:
            self._past.keep_ending(None, self._response.get("stopReason"), stop, self._response)
            self._response["stopReason"] = stop.text
        if event["metadata"]["trace"].present:
            self._response["trace"] = event["metadata"]["trace"].raw

    @property
    def responses(self) -> list[_Response]:
        """The response without its text, and its versions with earlier stop reasons."""
        # The guardrail's trace comes last, and explains every ending.
        traced = {name: self._response[name] for name in ("trace",) if name in self._response}
        return [self._response, *({**past, **traced} for past in self._past.responses)]


def _any_blocked(ratings: Node) -> bool:
    return any(rating["blocked"].is_true for rating in ratings)


ACCUMULATORS: tuple[type[EventAccumulator], ...] = (
    ChatAccumulator,
    ResponsesAccumulator,
    AnthropicAccumulator,
    GeminiAccumulator,
    BedrockAccumulator,
)


_DATA_PREFIX = "data:"
_FIELD = re.compile(r"(?:data|event|id|retry)?:")
_LINE_COST = 10


def parse_events(text: str, budget: ReadBudget) -> list[Any]:
    """Return the events in a stored stream; empty for other texts. The last line may be cut."""
    first = text.lstrip("\ufeff \t\r\n")
    if _FIELD.match(first):
        return [] if _has_foreign_line(first) else list(_server_sent_events(first, budget))
    return _json_lines(first, budget) if first[:1] == "{" and "\n" in first else []


def unwrap_event(event: Any) -> Any:
    """Return the event inside a line, Bedrock's bytes, or a named event."""
    event = Node(event).raw
    if isinstance(event, bytes | bytearray):
        event = bytes(event).decode("utf-8", "replace")
    if isinstance(event, str):
        event = parse_json(event.strip().removeprefix(_DATA_PREFIX))
    node = Node(event)
    if node["chunk"]["bytes"].present:
        return parse_json(node["chunk"]["bytes"].raw)
    if node["event"].text and node["data"].present:
        return parse_json(node["data"].raw)
    return None if isinstance(event, str) else event


def _has_foreign_line(text: str) -> bool:
    """Return whether the text has a line that is not part of an event."""
    *lines, last = (line for line in text.splitlines() if line.strip())
    return any(not _FIELD.match(line) for line in lines) or not (
        _FIELD.match(last) or any(name.startswith(last) for name in ("data", "event", "retry"))
    )


def _server_sent_events(text: str, budget: ReadBudget) -> Iterator[Any]:
    """Yield the data of server-sent events; one event may span several lines."""
    block: list[str] = []
    for line in (*text.splitlines(), ""):
        if line.startswith(_DATA_PREFIX):
            budget.spend(_LINE_COST)
            block.append(line.removeprefix(_DATA_PREFIX).strip())
        elif not line.strip():
            whole = unwrap_event("\n".join(block)) if block else None
            # Some servers omit the blank line between events.
            found = [whole] if isinstance(whole, Mapping) else map(unwrap_event, block)
            yield from (event for event in found if isinstance(event, Mapping) and event)
            block = []


def _json_lines(text: str, budget: ReadBudget) -> list[Any]:
    found: list[Any] = []
    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        budget.spend(_LINE_COST)
        event = unwrap_event(line)
        if isinstance(event, Mapping):
            found.append(event)
        elif number < len(lines) or not found or not line.startswith("{"):
            return []
    return found


_MAX_TUPLE_LENGTH = 100_000
# More than any event needs, and cheap enough for every event of a long stream.
_MAX_EVENT_VISITS = 100_000


class StreamAccumulator:
    """Accumulates events of any format into `responses`.

    An event of an unknown format is read on its own and not kept; `signal` is the strongest
    signal of such events. `error` is the first error that an event caused.
    """

    def __init__(self, read_unknown: Callable[[Any], Signal | None]) -> None:
        self._read_unknown = read_unknown
        self._accumulators: list[EventAccumulator] = []
        self.signal: Signal | None = None
        self.error: Exception | None = None

    def feed_all(self, events: Iterable[Any], budget: ReadBudget) -> None:
        """Feed all events within the budget; an error that ends the list is kept."""
        try:
            for event in events:
                self.feed(event, budget)
                if isinstance(self.error, ResponseTooLargeError):
                    return
        except Exception as error:  # noqa: BLE001 - someone else's list may raise anything
            self.error = self.error or error

    def feed(self, event: Any, budget: ReadBudget | None = None) -> None:
        """Feed one event: an SDK object, a dictionary, JSON, or a line of a stream."""
        budget = budget or ReadBudget(_MAX_EVENT_VISITS)
        try:
            budget.spend(1)
            self._feed_node(Node(unwrap_event(event), "", budget))
        # An unreadable event must not end the stream, but its error is kept.
        except Exception as error:  # noqa: BLE001 - someone else's object may raise anything
            self.error = self.error or error

    def _feed_node(self, node: Node) -> None:
        if not node.present or (type(node.raw) is dict and not node.raw):
            return
        form = next((form for form in self._accumulators if form.accepts(node)), None)
        if form is None:
            kind = next((kind for kind in ACCUMULATORS if kind.accepts(node)), None)
            if kind is None:
                self.signal = max_signal([self.signal, self._read_unknown(node.raw)])
                return
            form = kind()
            self._accumulators.append(form)
        form.feed(node)

    @property
    def responses(self) -> list[Any]:
        """The responses accumulated from events of known formats."""
        return [response for form in self._accumulators for response in form.responses]


def stored_events(obj: Any, budget: ReadBudget | None = None) -> Iterable[Any] | None:
    """Return the events of a stream stored as a list or text, or None."""
    raw = parse_json(obj)
    if isinstance(raw, str):
        return parse_events(raw, budget or ReadBudget()) or None
    if isinstance(raw, list) or (isinstance(raw, tuple) and _is_event_tuple(raw)):
        return raw or None
    return None


def _is_event_tuple(raw: tuple[Any, ...]) -> bool:
    plain = (str, bytes, int, float, bool, type(None))
    first = islice(raw, _MAX_TUPLE_LENGTH)
    return not hasattr(raw, "_fields") and not any(
        isinstance(Node(one).raw, plain) for one in first
    )
