"""Events of any stream, gathered into responses: by their form, whichever it is."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from demur.providers.event_text import events_in, unwrapped
from demur.providers.node import Meter, Node, TooMuchError
from demur.providers.shape import parsed
from demur.providers.signal import Signal, strongest
from demur.providers.stream_forms import FORMS, StreamForm

__all__ = ["Gatherer", "events_of"]

_MOST_IN_TUPLE = 100_000
# More than any event needs, and cheap enough for every event of a long stream.
_MOST_VISITS = 100_000


class Gatherer:
    """Accumulates events of any format into `responses`.

    An event of an unknown format is read on its own and not kept; `signal` is the strongest
    signal of such events. `error` is the first error that an event caused.
    """

    def __init__(self, judge: Callable[[Any], Signal | None]) -> None:
        self._judge = judge
        self._forms: list[StreamForm] = []
        self.found: Signal | None = None
        self.broken: Exception | None = None

    def feed_all(self, events: Iterable[Any], meter: Meter) -> None:
        """Feed all events within the budget; an error that ends the list is kept."""
        try:
            for event in events:
                self.feed(event, meter)
                if isinstance(self.broken, TooMuchError):
                    return
        except Exception as error:  # noqa: BLE001 - someone else's list may raise anything
            self.broken = self.broken or error

    def feed(self, event: Any, meter: Meter | None = None) -> None:
        """Feed one event: an SDK object, a dictionary, JSON, or a line of a stream."""
        meter = meter or Meter(_MOST_VISITS)
        try:
            meter.spend(1)
            self._take(Node(unwrapped(event), "", meter))
        # An unreadable event must not end the stream, but its error is kept.
        except Exception as error:  # noqa: BLE001 - someone else's object may raise anything
            self.broken = self.broken or error

    def _take(self, node: Node) -> None:
        if not node.present or (type(node.raw) is dict and not node.raw):
            return
        form = next((form for form in self._forms if form.accepts(node)), None)
        if form is None:
            kind = next((kind for kind in FORMS if kind.accepts(node)), None)
            if kind is None:
                self.found = strongest([self.found, self._judge(node.raw)])
                return
            form = kind()
            self._forms.append(form)
        form.feed(node)

    @property
    def responses(self) -> list[Any]:
        """The responses accumulated from events of known formats."""
        return [response for form in self._forms for response in form.responses]


def events_of(obj: Any, meter: Meter | None = None) -> Iterable[Any] | None:
    """Return the events of a stream stored as a list or text, or None."""
    raw = parsed(obj)
    if isinstance(raw, str):
        return events_in(raw, meter or Meter()) or None
    if isinstance(raw, list) or (isinstance(raw, tuple) and _all_events(raw)):
        return raw or None
    return None


def _all_events(raw: tuple[Any, ...]) -> bool:
    plain = (str, bytes, int, float, bool, type(None))
    first = islice(raw, _MOST_IN_TUPLE)
    return not hasattr(raw, "_fields") and not any(
        isinstance(Node(one).raw, plain) for one in first
    )
