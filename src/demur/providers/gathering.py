"""Events of any stream, gathered into responses: by their form, whichever it is."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from demur.providers.event_text import parse_events, unwrap_event
from demur.providers.node import ReadBudget, Node, ResponseTooLargeError
from demur.providers.shape import parse_json
from demur.providers.signal import Signal, strongest_signal
from demur.providers.stream_forms import ACCUMULATORS, EventAccumulator

__all__ = ["StreamAccumulator", "stored_events"]

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
                self.signal = strongest_signal([self.signal, self._read_unknown(node.raw)])
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
