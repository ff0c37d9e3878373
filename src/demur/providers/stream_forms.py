"""The forms that streams come in, each gathered into the response it amounts to.

A form keeps what can tell of a refusal and nothing of the answer's words, so that a
refused turn leaves no partial text behind.
"""

from typing import Any, Protocol

from demur.providers.node import Node

__all__ = ["FORMS", "StreamForm"]

_LONGEST_REFUSAL = 4000


class StreamForm(Protocol):
    """One form of stream: recognises its events and gathers them."""

    @staticmethod
    def accepts(event: Node) -> bool:
        """Return whether `event` has this form."""

    def feed(self, event: Node) -> None:
        """Take in one event."""

    @property
    def response(self) -> dict[str, Any]:
        """What the events so far amount to, as a response of the same provider."""


class ChatStream:
    """Chunks of chat completions, with the filter results that Azure adds."""

    def __init__(self) -> None:
        self._choices: dict[int, dict[str, Any]] = {}
        self._whole: dict[str, Any] = {}

    @staticmethod
    def accepts(event: Node) -> bool:
        """Return whether `event` is a chunk: choices that hold deltas, or a filter's results."""
        if event["object"].text == "chat.completion.chunk":
            return True
        return any(choice["delta"].present for choice in event["choices"])

    def feed(self, event: Node) -> None:
        """Take in one chunk."""
        for name in ("prompt_filter_results", "moderation", "model", "x_groq", "error"):
            if event[name]:
                self._whole[name] = event[name].raw
        for place, choice in enumerate(event["choices"]):
            index = int(choice["index"].number or place)
            kept = self._choices.setdefault(index, {"index": index, "message": {}})
            words = choice["delta"]["refusal"].text
            if words:
                message = kept["message"]
                message["refusal"] = (message.get("refusal", "") + words)[:_LONGEST_REFUSAL]
            if choice["finish_reason"].text:
                kept["finish_reason"] = choice["finish_reason"].text
            results = kept.setdefault("content_filter_results", {})
            for category, result in choice["content_filter_results"].fields():
                # Results come in every chunk; one that acted is not undone by a later one.
                if not Node(results.get(category))["filtered"].true:
                    results[category] = result.raw

    @property
    def response(self) -> dict[str, Any]:
        """The completion."""
        return {**self._whole, "choices": list(self._choices.values())}


class ResponsesStream:
    """Events of OpenAI's Responses and of Realtime."""

    def __init__(self) -> None:
        self._refusals: dict[tuple[float, float], str] = {}
        self._last: Node | None = None
        self._error: Node | None = None

    @staticmethod
    def accepts(event: Node) -> bool:
        """Return whether `event` is one of a response."""
        kind = event["type"].text or ""
        return kind.startswith("response.") or (kind == "error" and event["code"].present)

    def feed(self, event: Node) -> None:
        """Take in one event."""
        kind = event["type"].text
        place = (event["output_index"].number or 0, event["content_index"].number or 0)
        if kind == "response.refusal.delta":
            words = self._refusals.get(place, "") + (event["delta"].text or "")
            self._refusals[place] = words[:_LONGEST_REFUSAL]
        elif kind == "response.refusal.done":
            self._refusals[place] = event["refusal"].text or self._refusals.get(place, "")
        elif event["part"]["type"].text == "refusal":
            self._refusals[place] = event["part"]["refusal"].text or ""
        elif kind == "error":
            self._error = event
        if event["response"].present:
            self._last = event["response"]

    @property
    def response(self) -> dict[str, Any]:
        """The response, as far as it came."""
        last = self._last or Node({})
        said = [{"type": "refusal", "refusal": words} for words in self._refusals.values() if words]
        error = self._error or last["error"]
        return {
            "object": "response",
            "output": [{"type": "message", "content": said}, *(one.raw for one in last["output"])],
            "incomplete_details": last["incomplete_details"].raw,
            "status_details": last["status_details"].raw,
            "error": error.raw,
        }


class AnthropicStream:
    """Events of Anthropic's Messages."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {"type": "message", "content": []}

    @staticmethod
    def accepts(event: Node) -> bool:
        """Return whether `event` is one of a message."""
        kind = event["type"].text or ""
        return kind.startswith(("message_", "content_block_")) or (
            kind == "error" and event["error"].present
        )

    def feed(self, event: Node) -> None:
        """Take in one event."""
        block = event["content_block"]
        if block["type"].text == "fallback":
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
                self._message[name] = found.raw

    @property
    def response(self) -> dict[str, Any]:
        """The message, without its words."""
        return self._message


class GeminiStream:
    """Chunks of Gemini, and messages of its live sessions."""

    def __init__(self) -> None:
        self._candidates: dict[int, dict[str, Any]] = {}
        self._whole: dict[str, Any] = {}

    @staticmethod
    def accepts(event: Node) -> bool:
        """Return whether `event` is a chunk or a live message."""
        return any(
            event[name].present for name in ("candidates", "promptFeedback", "serverContent")
        )

    def feed(self, event: Node) -> None:
        """Take in one chunk."""
        # A later chunk may repeat the feedback without the reason.
        if event["promptFeedback"]["blockReason"].present:
            self._whole["promptFeedback"] = event["promptFeedback"].raw
        if event["serverContent"]["turnCompleteReason"].present:
            self._whole["serverContent"] = event["serverContent"].raw
        for place, candidate in enumerate(event["candidates"]):
            index = int(candidate["index"].number or place)
            kept = self._candidates.setdefault(index, {"index": index})
            for name in ("finishReason", "finishMessage", "safetyRatings"):
                if candidate[name].present:
                    kept[name] = candidate[name].raw

    @property
    def response(self) -> dict[str, Any]:
        """The response, without its words."""
        return {**self._whole, "candidates": list(self._candidates.values())}


class BedrockStream:
    """Events of Bedrock's ConverseStream."""

    _KINDS = ("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop")

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}

    @classmethod
    def accepts(cls, event: Node) -> bool:
        """Return whether `event` is one of a conversation."""
        if any(event[kind].present for kind in (*cls._KINDS, "messageStop")):
            return True
        return event["metadata"]["trace"].present or event["metadata"]["usage"].present

    def feed(self, event: Node) -> None:
        """Take in one event."""
        if event["messageStop"]["stopReason"].text:
            self._response["stopReason"] = event["messageStop"]["stopReason"].text
        if event["metadata"]["trace"].present:
            self._response["trace"] = event["metadata"]["trace"].raw

    @property
    def response(self) -> dict[str, Any]:
        """The response, without its words."""
        return self._response


FORMS: tuple[type[StreamForm], ...] = (
    ChatStream,
    ResponsesStream,
    AnthropicStream,
    GeminiStream,
    BedrockStream,
)
