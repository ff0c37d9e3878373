"""Any provider's or framework's refusal as one type: `normalize(obj) -> Refusal | None`.

Takes a response, an exception, an HTTP error or a stream's events, as SDK objects,
dictionaries or JSON, and reads them by structure. Needs no SDK and never raises: what is
not known of a newer version degrades to an answer, and a value that reads as if content
had been stopped is never taken for success.
"""

from collections.abc import Callable, Iterator
from typing import Any

from demur.codes.default import registry_or_core
from demur.codes.registry import Registry
from demur.model.refusal import Refusal
from demur.model.refusal_source import RefusalSource
from demur.providers.gathering import Gatherer, events_of
from demur.providers.node import tamed
from demur.providers.plain import plain
from demur.providers.readers import readers
from demur.providers.shape import Shape, shape_of
from demur.providers.signal import Outcome, Signal, strongest

__all__ = ["normalize", "normalize_gathered", "read_signal"]

_LONGEST_CHAIN = 8
_INTERNAL = "INTERNAL_ERROR"


def normalize(obj: Any, *, registry: Registry | None = None) -> Refusal | None:
    """Return the refusal that `obj` carries, or None if it carries none.

    A guard that broke gives a refusal with `decided = false`: nothing was refused, and
    nothing was judged either. What was only detected or masked is no refusal. Where another
    model answered instead, `source.served_by` names it.
    """
    return _answer(lambda: read_signal(obj), registry)


def normalize_gathered(stream: Gatherer, *, registry: Registry | None = None) -> Refusal | None:
    """Return the refusal that the events of a stream carry so far, or None."""
    return _answer(lambda: _of_stream(stream), registry)


def read_signal(obj: Any) -> Signal | None:
    """Return the native signal that decides in `obj`, one that was only detected too."""
    events = events_of(obj)
    found = None
    if events is not None:
        stream = Gatherer()
        for event in events:
            stream.feed(event)
        found = _of_stream(stream)
    return strongest([found, *(_deciding(shape) for shape in _shapes(obj))])


def _of_stream(stream: Gatherer) -> Signal | None:
    return strongest(_deciding(shape_of(response)) for response in stream.responses)


def _answer(read: Callable[[], Signal | None], registry: Registry | None) -> Refusal | None:
    # INVARIANT: normalising any object gives an answer, never an exception.
    try:
        signal = read()
        return None if signal is None or not signal.tells else _refusal(signal, registry)
    # One that defeats every reader was not judged, and says so.
    except Exception as error:  # noqa: BLE001 - see above
        detail = f"the response could not be read: {type(error).__name__}"
        return Refusal.of(_INTERNAL, detail, source="demur.providers", registry=Registry.load())


def _shapes(obj: Any) -> Iterator[Shape]:
    """Yield the shape of `obj`, and of an exception also those of what lies behind it."""
    waiting = [tamed(obj)]
    seen: set[int] = set()
    while waiting and len(seen) < _LONGEST_CHAIN:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield shape_of(one)
        if isinstance(one, BaseException):
            waiting += _behind(one)


def _behind(error: BaseException) -> list[BaseException]:
    grouped = list(error.exceptions) if isinstance(error, BaseExceptionGroup) else []
    hidden = None if error.__suppress_context__ else error.__context__
    linked = [error.__cause__, hidden]
    return [*grouped, *(one for one in linked if one is not None)]


def _deciding(shape: Shape) -> Signal | None:
    """Return the first refusal that a reader finds; otherwise the strongest of what there is."""
    found: list[Signal] = []
    broken: Exception | None = None
    for reader in readers():
        try:
            signal = reader.read(shape)
        # A mistake in one reader must not hide what another one can read.
        except Exception as error:  # noqa: BLE001 - see above
            broken = broken or error
            continue
        if signal is not None:
            found.append(signal)
            # What broke or was only seen waits: another reader may know of a refusal.
            if signal.outcome is Outcome.REFUSAL or signal.settles:
                return _with_request(signal, shape)
    decided = strongest(found)
    if broken is not None and (decided is None or not decided.tells):
        raise broken
    return None if decided is None else _with_request(decided, shape)


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
    """Return path and value, for the many signals that have no words of their own."""
    if isinstance(native, str | int | float | bool) and signal.path:
        return f"{signal.path}: {native}"
    return signal.path or signal.name
