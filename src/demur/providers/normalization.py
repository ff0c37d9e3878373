"""Read any refusal of a provider or framework: `normalize(obj) -> Refusal | None`.

Takes a response, an exception, an HTTP error, a batch line or the events of a stream, as SDK
objects, dictionaries or JSON, and reads them by structure. Needs no SDK and never raises. An
unknown value that looks as if content was stopped is never taken for success.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from demur.codes.loading import registry_or_core
from demur.codes.registry import Registry
from demur.errors import DemurError
from demur.model.refusal import Refusal, RefusalSource
from demur.providers.event_streams import StreamAccumulator, stored_events
from demur.providers.node import (
    Node,
    ReadBudget,
    ResponseTooLargeError,
    safe_value,
    to_bounded_json,
)
from demur.providers.readers import ProviderReader, load_readers
from demur.providers.shape import ResponseShape, parse_json, shape_of
from demur.providers.signals import Signal, SignalOutcome, max_signal

_BATCH_KEYS = ("custom_id", "key", "recordId", "request")


def read_batch_line(line: Node) -> Any:
    """Return the response or error in a batch line, or None if it is not a batch line."""
    if not any(line[name].present for name in _BATCH_KEYS):
        return None
    response, result = line["response"], line["result"]
    if response["status_code"].number is not None and response["body"].present:
        return response["status_code"].raw, response["body"].raw
    if result["message"].present:
        return result["message"].raw
    for failed in (result["error"], line["error"]):
        if isinstance(failed.raw, Mapping):
            return failed.raw if failed["error"].present else {"error": failed.raw}
    return next((part.raw for part in (response, line["modelOutput"]) if part.present), None)


_MAX_CAUSES = 8
_MAX_EVENT_STEPS = 6_000_000
_INTERNAL_CODE = "INTERNAL_ERROR"


class UnreadStreamError(DemurError):
    """The stream is unread. Reading it would take its events from the caller."""


def normalize(obj: Any, *, registry: Registry | None = None) -> Refusal | None:
    """Return the refusal in `obj`, or None.

    A guard that failed gives a refusal with `decided = false`: nothing was judged. Content
    that was only detected or masked is not a refusal. If another model answered instead,
    `source.served_by` names it.
    """
    return _answer_safely(lambda: read_signal(obj), registry)


# Fields of the responses, events and errors that readers know.
_KNOWN_FIELDS = frozenset(
    """
    action answers assessments body candidates choices code completion content data decision delta
    detail error errors evaluated_permission event finishReason finish_reason generatedImages
    generatedVideos generations guardrailAction guardrails hookEventType hookSpecificOutput
    is_valid jsonrpc message messages moderation object output outputs permission permission_denials
    promptFeedback reason_code refusal refusal_class response result results role
    sanitizationResult serverContent status status_code stopReason stop_reason text trace type
    """.split()  # noqa: SIM905 - a list would take a line for each
)


def has_known_shape(obj: Any) -> bool:
    """Return whether `obj` has a field of a response, an event or an error that readers know.

    `normalize` returns None both for a response without a refusal and for an unrelated object.
    """
    raw = parse_json(obj)
    if isinstance(raw, Mapping):
        return not _KNOWN_FIELDS.isdisjoint(raw)
    events = stored_events(raw, ReadBudget())
    return any(isinstance(one, Mapping) and has_known_shape(one) for one in events or ())


def normalize_stream(
    stream: StreamAccumulator, *, registry: Registry | None = None
) -> Refusal | None:
    """Return the refusal in the events of a stream so far, or None."""
    return _answer_safely(lambda: _read_stream(stream, ReadBudget()), registry)


def make_accumulator() -> StreamAccumulator:
    """Return an accumulator for the events of a live stream."""
    return StreamAccumulator(lambda event: _read_object(event, ReadBudget()))


def read_signal(obj: Any) -> Signal | None:
    """Return the deciding native signal in `obj`, including one that was only detected."""
    budget = ReadBudget()
    streamed, stream_error = _try_read(lambda: _read_stored_stream(obj, budget))
    whole, object_error = _try_read(lambda: _read_object(obj, budget))
    error = stream_error or object_error or _unread_stream_error(obj)
    return _signal_or_raise([streamed, whole], error)


def _signal_or_raise(signals: Iterable[Signal | None], error: Exception | None) -> Signal | None:
    """Return the strongest signal. Without a refusal, raise the error of an unreadable part."""
    strongest = max_signal(signals)
    if error is not None and (strongest is None or not strongest.must_report):
        raise error
    return strongest


def _try_read(read: Callable[[], Signal | None]) -> tuple[Signal | None, Exception | None]:
    try:
        return read(), None
    except Exception as error:  # noqa: BLE001 - someone else's object may raise anything
        return None, error


def _read_stored_stream(obj: Any, budget: ReadBudget) -> Signal | None:
    # Feeding an event is cheap, and a stream may have very many.
    event_budget = ReadBudget(_MAX_EVENT_STEPS)
    events = stored_events(obj, event_budget)
    if events is None:
        return None
    stream = StreamAccumulator(lambda event: _read_object(event, budget))
    stream.feed_all(events, event_budget)
    return _read_stream(stream, budget)


def _read_stream(stream: StreamAccumulator, budget: ReadBudget) -> Signal | None:
    if isinstance(stream.error, ResponseTooLargeError):
        # The responses accumulated so far are small, and must still be read.
        budget = ReadBudget()
    signals = (_deciding_signal(shape_of(response, budget)) for response in stream.responses)
    return _signal_or_raise([*signals, stream.signal], stream.error)


def _read_object(obj: Any, budget: ReadBudget) -> Signal | None:
    return max_signal(_deciding_signal(shape) for shape in _iter_shapes(obj, budget))


def _unread_stream_error(obj: Any) -> Exception | None:
    """Return an error if `obj` is an unread stream, else None."""
    kind = type(obj)
    running = hasattr(kind, "__next__") or hasattr(kind, "__anext__")
    return UnreadStreamError("nobody read the events of the stream") if running else None


def _answer_safely(read: Callable[[], Signal | None], registry: Registry | None) -> Refusal | None:
    # INVARIANT: normalising any object gives an answer, never an exception.
    try:
        signal = read()
        return (
            None if signal is None or not signal.must_report else _build_refusal(signal, registry)
        )
    # A response that no reader can handle was not judged.
    except Exception as error:  # noqa: BLE001 - see above
        detail = f"the response could not be read: {type(error).__name__}"
        source, core = "demur.providers", Registry.load()
        return Refusal.from_code(_INTERNAL_CODE, detail, source=source, registry=core)


def _iter_shapes(obj: Any, budget: ReadBudget) -> Iterator[ResponseShape]:
    """Yield the shape of `obj`, of the response in a batch line, and of causing exceptions."""
    waiting = [safe_value(obj)]
    inner = read_batch_line(Node(parse_json(obj), budget=budget))
    if inner is not None:
        waiting.append(inner)
    seen: set[int] = set()
    while waiting and len(seen) < _MAX_CAUSES:
        value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield shape_of(value, budget)
        if isinstance(value, BaseException):
            waiting += _list_causes(value)


def _list_causes(error: BaseException) -> list[BaseException]:
    grouped = list(error.exceptions) if isinstance(error, BaseExceptionGroup) else []
    linked = [error.__cause__, None if error.__suppress_context__ else error.__context__]
    return [*grouped, *(cause for cause in linked if cause is not None)]


def _deciding_signal(shape: ResponseShape) -> Signal | None:
    """Return the first refusal that a reader finds, or else the strongest signal."""
    found: list[Signal] = []
    first_error: Exception | None = None
    for reader in load_readers():
        # A bug or an endless read in one reader must not hide the signals of another.
        signal, error = _try_read(partial(_read_with_reserve, reader, shape))
        first_error = first_error or error
        if signal is not None:
            found.append(signal)
            # A failure or a mere detection does not end the search for a refusal.
            if signal.outcome is SignalOutcome.REFUSAL or signal.is_final:
                return _with_request(signal, shape)
            if signal.rest is not None:
                shape = signal.rest
    strongest = _signal_or_raise(found, first_error)
    return None if strongest is None else _with_request(strongest, shape)


def _read_with_reserve(reader: ProviderReader, shape: ResponseShape) -> Signal | None:
    budget = shape.own.budget or ReadBudget()
    budget.reserve()
    try:
        return reader(shape)
    finally:
        budget.release()


def _with_request(signal: Signal, shape: ResponseShape) -> Signal:
    return signal if signal.request_id else signal._replace(request_id=shape.request_id)


def _build_refusal(signal: Signal, registry: Registry | None) -> Refusal:
    if signal.refusal is not None:
        return signal.refusal
    known = registry_or_core() if registry is None else registry
    code = str(signal.code)
    native = to_bounded_json(signal.native)
    evidence = to_bounded_json(dict(signal.evidence))
    facts = dict(evidence.value)
    if native.cut or evidence.cut:
        facts["native_cut"] = True
    return Refusal.from_code(
        code,
        signal.detail or _default_detail(signal, native.value),
        evidence=facts,
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


def _default_detail(signal: Signal, native: Any) -> str:
    """Return path and value as the detail of a signal without words of its own."""
    if isinstance(native, str | int | float | bool) and signal.path:
        return f"{signal.path}: {native}"
    return signal.path or signal.name


class StreamReader:
    """Finds a refusal in a live stream. Feed it each event and read `refusal` at any time.

    Accepts the events of OpenAI (chat and Responses), Anthropic, Gemini and Bedrock, and of
    servers with the same formats. If the stream breaks off, the events so far count.
    demur does not keep the text of the answer.
    """

    def __init__(self, *, registry: Registry | None = None) -> None:
        self._accumulator = make_accumulator()
        self._registry = registry

    def feed(self, event: Any) -> "StreamReader":
        """Feed one event and return the reader. Never raises."""
        self._accumulator.feed(event)
        return self

    @property
    def refusal(self) -> Refusal | None:
        """The refusal in the events so far, or None."""
        return normalize_stream(self._accumulator, registry=self._registry)
