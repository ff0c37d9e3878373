"""Events of any stream, gathered into responses: by their form, whichever it is."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from demur.providers.node import Node
from demur.providers.shape import parsed
from demur.providers.stream_forms import FORMS, StreamForm

__all__ = ["Gatherer", "events_of"]

_MOST_EVENTS = 1_000_000
_MOST_LOOSE = 200
_DATA = "data:"


class Gatherer:
    """Takes events of any form. `responses` is what they amount to so far.

    Events of a form that is not known are kept one by one, the newest 200 of them.
    """

    def __init__(self) -> None:
        self._forms: list[StreamForm] = []
        self._loose: deque[Any] = deque(maxlen=_MOST_LOOSE)

    def feed(self, event: Any) -> None:
        """Take in one event: an SDK object, a dictionary, JSON, or a line of a stream."""
        node = Node(_unwrapped(event))
        if not node.present:
            return
        form = next((form for form in self._forms if form.accepts(node)), None)
        if form is None:
            kind = next((kind for kind in FORMS if kind.accepts(node)), None)
            if kind is None:
                self._loose.append(node.raw)
                return
            form = kind()
            self._forms.append(form)
        form.feed(node)

    @property
    def responses(self) -> list[Any]:
        """The responses that the events amount to, and the events of no known form."""
        return [*(form.response for form in self._forms), *self._loose]


def events_of(obj: Any) -> Iterable[Any] | None:
    """Return the events of a stream that was kept as a list or as text; None if it is neither."""
    raw = parsed(obj)
    if isinstance(raw, str):
        lines = list(_lines(raw))
        return lines or None
    if isinstance(raw, list) or (isinstance(raw, tuple) and _all_events(raw)):
        return list(islice(raw, _MOST_EVENTS)) or None
    return None


def _all_events(raw: tuple[Any, ...]) -> bool:
    plain = (str, bytes, int, float, bool, type(None))
    return not hasattr(raw, "_fields") and not any(isinstance(Node(one).raw, plain) for one in raw)


def _lines(text: str) -> Iterator[Any]:
    """Yield the events in server-sent events or in JSON lines; of other text, nothing."""
    if "\n" not in text.strip() and not text.lstrip().startswith(_DATA):
        return
    for line in islice(text.splitlines(), _MOST_EVENTS):
        event = _unwrapped(line)
        if isinstance(event, Mapping):
            yield event


def _unwrapped(event: Any) -> Any:
    """Return the event inside a line, inside Bedrock's bytes, or inside a named event."""
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
