"""Streams that were kept as text: server-sent events, or an event of JSON a line.

A text is a stream only if every line of it belongs to one. An answer that quotes a few
events is an answer.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from demur.providers.node import ReadBudget, Node
from demur.providers.shape import parse_json

__all__ = ["parse_events", "unwrap_event"]

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
            yield from _event_data(block)
            block = []


def _event_data(block: list[str]) -> Iterator[Any]:
    whole = unwrap_event("\n".join(block)) if block else None
    # Some servers omit the blank line between events.
    found = [whole] if isinstance(whole, Mapping) else [unwrap_event(line) for line in block]
    yield from (event for event in found if isinstance(event, Mapping) and event)


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
