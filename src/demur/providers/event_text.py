"""Streams that were kept as text: server-sent events, or an event of JSON a line.

A text is a stream only if every line of it belongs to one. An answer that quotes a few
events is an answer.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from demur.providers.node import Meter, Node
from demur.providers.shape import parsed

__all__ = ["events_in", "unwrapped"]

_DATA = "data:"
_FIELD = re.compile(r"(?:data|event|id|retry)?:")
_STEPS = 10


def events_in(text: str, meter: Meter) -> list[Any]:
    """Return the events in a stored stream; empty for other texts. The last line may be cut."""
    first = text.lstrip("\ufeff \t\r\n")
    if _FIELD.match(first):
        return [] if _foreign(first) else list(_sent(first, meter))
    return _objects(first, meter) if first[:1] == "{" and "\n" in first else []


def unwrapped(event: Any) -> Any:
    """Return the event inside a line, Bedrock's bytes, or a named event."""
    event = Node(event).raw
    if isinstance(event, bytes | bytearray):
        event = bytes(event).decode("utf-8", "replace")
    if isinstance(event, str):
        event = parsed(event.strip().removeprefix(_DATA))
    node = Node(event)
    if node["chunk"]["bytes"].present:
        return parsed(node["chunk"]["bytes"].raw)
    if node["event"].text and node["data"].present:
        return parsed(node["data"].raw)
    return None if isinstance(event, str) else event


def _foreign(text: str) -> bool:
    """Return whether the text has a line that is not part of an event."""
    *lines, last = (line for line in text.splitlines() if line.strip())
    return any(not _FIELD.match(line) for line in lines) or not (
        _FIELD.match(last) or any(name.startswith(last) for name in ("data", "event", "retry"))
    )


def _sent(text: str, meter: Meter) -> Iterator[Any]:
    """Yield the data of server-sent events; one event may span several lines."""
    block: list[str] = []
    for line in (*text.splitlines(), ""):
        if line.startswith(_DATA):
            meter.spend(_STEPS)
            block.append(line.removeprefix(_DATA).strip())
        elif not line.strip():
            yield from _data(block)
            block = []


def _data(block: list[str]) -> Iterator[Any]:
    whole = unwrapped("\n".join(block)) if block else None
    # Some servers omit the blank line between events.
    found = [whole] if isinstance(whole, Mapping) else [unwrapped(line) for line in block]
    yield from (event for event in found if isinstance(event, Mapping) and event)


def _objects(text: str, meter: Meter) -> list[Any]:
    found: list[Any] = []
    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        meter.spend(_STEPS)
        event = unwrapped(line)
        if isinstance(event, Mapping):
            found.append(event)
        elif number < len(lines) or not found or not line.startswith("{"):
            return []
    return found
