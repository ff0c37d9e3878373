"""Any provider's or framework's refusal as one type: `normalize(obj) -> Refusal | None`.

Takes a response, an exception, an HTTP error or a stream's events, as SDK objects,
dictionaries or JSON, and reads them by structure. Needs no SDK and never raises: what is
not known of a newer version degrades to an answer, and a value that reads as if content
had been stopped is never taken for success.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from demur.codes.default import registry_or_core
from demur.codes.registry import Registry
from demur.errors import DemurError
from demur.model.refusal import Refusal
from demur.model.refusal_source import RefusalSource
from demur.providers.batches import in_batch
from demur.providers.gathering import Gatherer, events_of
from demur.providers.node import Meter, Node, TooMuchError, tamed
from demur.providers.plain import plain
from demur.providers.readers import Reader, readers
from demur.providers.shape import Shape, parsed, shape_of
from demur.providers.signal import Outcome, Signal, strongest

__all__ = ["UnreadStreamError", "gatherer", "normalize", "normalize_gathered", "read_signal"]

_LONGEST_CHAIN = 8
_MOST_FOR_EVENTS = 6_000_000
_INTERNAL = "INTERNAL_ERROR"


class UnreadStreamError(DemurError):
    """An unread stream was passed. Reading it would take its events from the caller."""


def normalize(obj: Any, *, registry: Registry | None = None) -> Refusal | None:
    """Return the refusal in `obj`, or None.

    A guard that failed gives a refusal with `decided = false`: nothing was judged. Content
    that was only detected or masked is not a refusal. If another model answered instead,
    `source.served_by` names it.
    """
    return _answer(lambda: read_signal(obj), registry)


def normalize_gathered(stream: Gatherer, *, registry: Registry | None = None) -> Refusal | None:
    """Return the refusal in the events of a stream so far, or None."""
    return _answer(lambda: _of_stream(stream, Meter()), registry)


def gatherer() -> Gatherer:
    """Return an accumulator for the events of a live stream."""
    return Gatherer(lambda event: _of_object(event, Meter()))


def read_signal(obj: Any) -> Signal | None:
    """Return the deciding native signal in `obj`, including one that was only detected."""
    meter = Meter()
    found, broken = _attempted(lambda: _of_kept_stream(obj, meter))
    whole, also_broken = _attempted(lambda: _of_object(obj, meter))
    decided = strongest([found, whole])
    broken = broken or also_broken or _unread(obj)
    # An unreadable part may have held a refusal, unless one was found elsewhere.
    if broken is not None and (decided is None or not decided.tells):
        raise broken
    return decided


def _attempted(read: Callable[[], Signal | None]) -> tuple[Signal | None, Exception | None]:
    try:
        return read(), None
    except Exception as error:  # noqa: BLE001 - someone else's object may raise anything
        return None, error


def _of_kept_stream(obj: Any, meter: Meter) -> Signal | None:
    # Feeding an event is cheap, and a stream may have very many.
    taking = Meter(_MOST_FOR_EVENTS)
    events = events_of(obj, taking)
    if events is None:
        return None
    stream = Gatherer(lambda event: _of_object(event, meter))
    stream.feed_all(events, taking)
    return _of_stream(stream, meter)


def _of_stream(stream: Gatherer, meter: Meter) -> Signal | None:
    if isinstance(stream.broken, TooMuchError):
        # The responses accumulated so far are small, and must still be read.
        meter = Meter()
    signals = (_deciding(shape_of(response, meter)) for response in stream.responses)
    decided = strongest([*signals, stream.found])
    if stream.broken is not None and (decided is None or not decided.tells):
        raise stream.broken
    return decided


def _of_object(obj: Any, meter: Meter) -> Signal | None:
    return strongest(_deciding(shape) for shape in _shapes(obj, meter))


def _unread(obj: Any) -> Exception | None:
    """Return an error if `obj` is an unread stream, else None."""
    kind = type(obj)
    running = hasattr(kind, "__next__") or hasattr(kind, "__anext__")
    return UnreadStreamError("the events of a stream were not read") if running else None


def _answer(read: Callable[[], Signal | None], registry: Registry | None) -> Refusal | None:
    # INVARIANT: normalising any object gives an answer, never an exception.
    try:
        signal = read()
        return None if signal is None or not signal.tells else _refusal(signal, registry)
    # A response that no reader can handle was not judged.
    except Exception as error:  # noqa: BLE001 - see above
        detail = f"the response could not be read: {type(error).__name__}"
        return Refusal.of(_INTERNAL, detail, source="demur.providers", registry=Registry.load())


def _shapes(obj: Any, meter: Meter) -> Iterator[Shape]:
    """Yield the shape of `obj`, of the response in a batch line, and of causing exceptions."""
    waiting = [tamed(obj)]
    inner = in_batch(Node(parsed(obj), meter=meter))
    if inner is not None:
        waiting.append(inner)
    seen: set[int] = set()
    while waiting and len(seen) < _LONGEST_CHAIN:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield shape_of(one, meter)
        if isinstance(one, BaseException):
            waiting += _behind(one)


def _behind(error: BaseException) -> list[BaseException]:
    grouped = list(error.exceptions) if isinstance(error, BaseExceptionGroup) else []
    hidden = None if error.__suppress_context__ else error.__context__
    linked = [error.__cause__, hidden]
    return [*grouped, *(one for one in linked if one is not None)]


def _deciding(shape: Shape) -> Signal | None:
    """Return the first refusal that a reader finds, or else the strongest signal."""
    found: list[Signal] = []
    broken: Exception | None = None
    for reader in readers():
        # A bug or an endless read in one reader must not hide the signals of another.
        signal, error = _attempted(partial(_sparing, reader, shape))
        broken = broken or error
        if signal is not None:
            found.append(signal)
            # A failure or a mere detection does not end the search for a refusal.
            if signal.outcome is Outcome.REFUSAL or signal.settles:
                return _with_request(signal, shape)
            if signal.leaves is not None:
                shape = signal.leaves
    decided = strongest(found)
    if broken is not None and (decided is None or not decided.tells):
        raise broken
    return None if decided is None else _with_request(decided, shape)


def _sparing(reader: Reader, shape: Shape) -> Signal | None:
    meter = shape.own.meter or Meter()
    meter.spare()
    try:
        return reader.read(shape)
    finally:
        meter.share()


def _with_request(signal: Signal, shape: Shape) -> Signal:
    return signal if signal.request_id else signal._replace(request_id=shape.request_id)


def _refusal(signal: Signal, registry: Registry | None) -> Refusal:
    if signal.refusal is not None:
        return signal.refusal
    known = registry_or_core() if registry is None else registry
    code = str(signal.code)
    native = plain(signal.native)
    evidence = plain(dict(signal.evidence))
    noted = dict(evidence.value)
    if native.cut or evidence.cut:
        noted["native_cut"] = True
    return Refusal.of(
        code,
        signal.detail or _described(signal, native.value),
        evidence=noted,
        surface=signal.surface,
        source=RefusalSource(
            name=signal.name,
            path=signal.path or None,
            native=native.value,
            served_by=signal.served_by,
            confidence=signal.confidence,
            request_id=signal.request_id,
        ),
        registry=known if code in known else Registry.load(),
    )


def _described(signal: Signal, native: Any) -> str:
    """Return path and value as the detail of a signal without words of its own."""
    if isinstance(native, str | int | float | bool) and signal.path:
        return f"{signal.path}: {native}"
    return signal.path or signal.name
