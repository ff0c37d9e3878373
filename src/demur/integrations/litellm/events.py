"""Streams that are no chunks of a chat, put together to the responses that they are.

Events of Anthropic's messages and OpenAI's responses, and chats or text completions that come
as server-sent events. A text may stand in pieces, in a last event, or in both: all is read.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from demur.integrations.litellm.reading import as_json, list_objects

__all__ = ["assemble_responses", "read_events"]

# Fields in which an event repeats the whole of what other events bring in pieces.
_WHOLE_FIELDS = ("response", "message", "item", "part")


def read_events(chunks: Iterable[Any]) -> list[Mapping[str, Any]]:
    """Return the events of a stream; byte chunks may be cut anywhere."""
    given = list(chunks)
    if all(isinstance(one, bytes | str) for one in given):
        pieces = [one.encode() if isinstance(one, str) else one for one in given]
        return list(_parse_sse(b"".join(pieces).decode("utf-8", "replace")))
    plain = (as_json(one) for one in given)
    return [one for one in plain if isinstance(one, Mapping)]


def _parse_sse(text: str) -> Iterator[Mapping[str, Any]]:
    for line in text.splitlines():
        name, _, data = line.partition(":")
        if name == "data":
            try:
                event = json.loads(data)
            except ValueError:
                continue
            if isinstance(event, Mapping):
                yield event


def assemble_responses(chunks: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the complete responses that the chunks of a stream make up."""
    choices: dict[Any, _AssembledChoice] = {}
    blocks: dict[Any, dict[str, Any]] = {}
    bodies: list[dict[str, Any]] = []
    texts: list[str] = []
    ended: dict[str, Any] = {}
    for event in read_events(chunks):
        for choice in list_objects(event, "choices"):
            choices.setdefault(choice.get("index"), _AssembledChoice()).add(choice)
        bodies += _whole_bodies(event)
        delta, place = event.get("delta"), event.get("index")
        if isinstance(event.get("content_block"), Mapping):
            blocks[place] = dict(event["content_block"])
        if isinstance(delta, Mapping):
            _extend_block(blocks.setdefault(place, {}), delta)
            ended |= {name: value for name, value in delta.items() if name.startswith("stop_")}
        elif isinstance(delta, str) and "arguments" not in str(event.get("type")):
            texts.append(delta)
    if choices:
        bodies.append(
            {"object": "chat.completion", "choices": [one.body for one in choices.values()]}
        )
    if blocks:
        content = [_with_input(one) for one in blocks.values()]
        bodies.append({"type": "message", "role": "assistant", "content": content, **ended})
    if texts:
        bodies.append({"output": [{"content": "".join(texts)}]})
    return bodies


def _whole_bodies(event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the complete bodies in an event."""
    for name in _WHOLE_FIELDS:
        held = event.get(name)
        if isinstance(held, Mapping):
            yield dict(held) if name in {"response", "message"} else {"output": [_to_item(held)]}
    if isinstance(event.get("text"), str):
        yield {"output": [{"content": event["text"]}]}


def _to_item(held: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"content": [held]} if isinstance(held.get("text"), str) else held


def _extend_block(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a delta to an Anthropic content block."""
    for name, to in (("text", "text"), ("partial_json", "partial_json")):
        if isinstance(delta.get(name), str):
            block[to] = block.get(to, "") + delta[name]


def _with_input(block: dict[str, Any]) -> dict[str, Any]:
    given = block.pop("partial_json", "")
    return {**block, "input": given} if given else block


class _AssembledChoice:
    """One choice of a chat or text completion, assembled from chunks."""

    def __init__(self) -> None:
        self.body: dict[str, Any] = {"index": 0, "message": {"content": ""}}
        self._calls: dict[Any, dict[str, Any]] = {}

    def add(self, choice: Mapping[str, Any]) -> None:
        """Add a chunk of the choice."""
        message, delta = self.body["message"], choice.get("delta")
        given = delta if isinstance(delta, Mapping) else {"content": choice.get("text")}
        if isinstance(given.get("content"), str):
            message["content"] += given["content"]
        if isinstance(given.get("refusal"), str):
            message["refusal"] = message.get("refusal", "") + given["refusal"]
        if choice.get("finish_reason") is not None:
            self.body["finish_reason"] = choice["finish_reason"]
        for call in list_objects(given, "tool_calls"):
            self._add_call(call)
        older = given.get("function_call")
        if isinstance(older, Mapping):
            _add_function(message.setdefault("function_call", {}), older)

    def _add_call(self, call: Mapping[str, Any]) -> None:
        place = call.get("index")
        kept = self._calls.get(place)
        if kept is None or (call.get("id") and call["id"] != kept["id"]):
            kept = self._calls[place] = {"id": call.get("id"), "function": {}}
            self.body["message"].setdefault("tool_calls", []).append(kept)
        if isinstance(call.get("function"), Mapping):
            _add_function(kept["function"], call["function"])


def _add_function(kept: dict[str, Any], piece: Mapping[str, Any]) -> None:
    if piece.get("name"):
        kept["name"] = piece["name"]
    kept["arguments"] = kept.get("arguments", "") + (piece.get("arguments") or "")
