"""Helpers for readers of frameworks: read past the framework's own word.

A refusal of demur inside another system's answer (`structuredContent`, `output_info`, the
reason of a hook) decides before anything else. Frameworks fold the reasons of many providers
into one or two words, but most keep the provider's own word beside them; that word decides by
the mapping of its provider. Exceptions are matched by the names of their classes.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from demur.codes.loading import registry_or_core
from demur.codes.refusal_line import REFUSAL_MARK, REFUSAL_PREFIX, parse_refusal
from demur.codes.vocabulary import RefusalClass
from demur.model.refusal import Refusal, refusal_from_envelope, tighten_to_registry
from demur.providers.node import ABSENT, Node, to_bounded_json
from demur.providers.shape import ResponseShape, shape_of
from demur.providers.signals import (
    Interpretation,
    Signal,
    SignalOutcome,
    interpret,
    load_system,
    looks_like_policy,
    max_signal,
)

# A framework rarely names the provider of a finish reason. No reason has different meanings
# for two providers.
_FINISH_REASONS = (
    ("gemini", "finish_reason"),
    ("anthropic", "stop_reason"),
    ("bedrock", "stop_reason"),
    ("openai", "finish_reason"),
    ("cohere", "finish_reason"),
    ("openai_compatible", "zhipu_finish_reason"),
)
_VAGUE_CODES = frozenset({"CONTENT_OTHER", "FILTERED_UNSPECIFIED"})


def read_finish_reason(via: str, node: Node, ratings: Node = ABSENT) -> Signal | None:
    """Return the meaning of a provider's finish reason, refined by the ratings that blocked."""
    if node.text is None:
        return None
    for name, field in _FINISH_REASONS:
        judged = load_system(name).interpret(field, node.text)
        if judged.known:
            return _refine_by_ratings(_upstream_signal(via, judged, node), via, ratings)
    if not looks_like_policy(node.text):
        return None
    judged = load_system("openai_compatible").interpret("other_finish_reason", node.text)
    return _refine_by_ratings(_upstream_signal(via, judged, node, name=via), via, ratings)


def read_block_reason(via: str, node: Node, ratings: Node = ABSENT) -> Signal | None:
    """Return the meaning of Gemini's block reason for a prompt, or None."""
    if node.text is None:
        return None
    judged = interpret("gemini", "block_reason", node.text)
    return _refine_by_ratings(_upstream_signal(via, judged, node), via, ratings)


def read_category(via: str, node: Node, **more: Any) -> Signal | None:
    """Return the meaning of Anthropic's refusal category, or None."""
    if node.text is None:
        return None
    judged = interpret("anthropic", "category", node.text)
    return _upstream_signal(via, judged, node, **more)


def read_filter_results(via: str, results: Node) -> Signal | None:
    """Return the strictest category that Azure's filter acted on, not one it only detected."""
    azure = load_system("azure_openai")
    acted = ((name, found) for name, found in results.fields() if found["filtered"].is_true)
    return max_signal(
        _upstream_signal(via, azure.interpret("category", name), found, evidence={"category": name})
        for name, found in acted
    )


def read_error_behind(via: str, own: Node) -> Signal | None:
    """Return the Azure filter result in the client error behind an exception, or None."""
    for name in ("inner_exception", "__cause__", "__context__"):
        raw = own[name].raw
        if isinstance(raw, BaseException):
            inner = shape_of(raw).body["error"]["innererror"]
            if found := read_filter_results(via, inner["content_filter_result"]):
                return found
    return None


def read_moderation(via: str, result: Node, **more: Any) -> Signal | None:
    """Return the strictest category that OpenAI's moderation flagged, as a refusal.

    Only for callers that know that a request was blocked: a flag alone blocks nothing.
    """
    flagged = [name for name, found in result["categories"].fields() if found.is_true]
    field = load_system("openai")["moderation_category"]
    spelled = {_field_spelling(value.value): value.value for value in field.values}
    more = {"native": {"flagged": flagged}, "outcome": SignalOutcome.REFUSAL, **more}
    judged = (field.interpret(spelled.get(_field_spelling(name), name)) for name in flagged)
    return max_signal(_upstream_signal(via, one, result, **more) for one in judged if one.code)


def _field_spelling(name: str) -> str:
    """Return a category's name as its field in Python: `self-harm/intent` is `self_harm_intent`."""
    return name.replace("/", "_").replace("-", "_")


def _refine_by_ratings(signal: Signal, via: str, ratings: Node) -> Signal:
    """Return the signal; a vague one gets the code of the strictest rating that blocked."""
    if signal.outcome is not SignalOutcome.REFUSAL or signal.code not in _VAGUE_CODES:
        return signal
    named = (rating["category"] for rating in ratings if rating["blocked"].is_true)
    judged = ((interpret("gemini", "rating", name.text), name) for name in named)
    closer = max_signal(_upstream_signal(via, one, name) for one, name in judged)
    if closer is None or closer.code in _VAGUE_CODES:
        return signal
    return signal._replace(code=closer.code, refusal_class=closer.refusal_class)


def _upstream_signal(via: str, judged: Interpretation, node: Node, **more: Any) -> Signal:
    evidence = {"via": via, **more.pop("evidence", {})}
    return judged.to_signal(node, evidence=evidence, **more)


_CODES = ("reasonCode", "reasonCodes", "code", "codes", "reason")


def find_own_refusal(name: str, *places: Node, last: bool = False, **more: Any) -> Signal | None:
    """Return the first own refusal at the places: an envelope, or a line at the start.

    With `last` the line may also end the text. Use it only for texts that are known to refuse:
    elsewhere a quoted line could come from anyone. `name` is the carrier; `more` is added to
    the signal of a line. An envelope is kept as it is, unless it is weaker than the registry.
    """
    for place in places:
        for node in (place, place["refusal"]):
            found = _read_envelope(name, node) or _read_line(name, node, more, last=last)
            if found is not None:
                return found
    return None


def find_envelope(name: str, *places: Node) -> Signal | None:
    """Return the first refusal envelope at the places, and ignore refusal lines.

    For tool results, whose text may come from anyone.
    """
    nodes = (node for place in places for node in (place, place["refusal"]))
    return next((found for node in nodes if (found := _read_envelope(name, node))), None)


def find_reason_code(name: str, place: Node, **more: Any) -> Signal | None:
    """Return the refusal by the registered code at `place` or in one of its fields, or None."""
    nodes = _code_nodes(place)
    codes = [(known, node) for node in nodes if (known := _refusing_code(node.text or ""))]
    if not codes:
        return None
    (code, refusal_class), node = max(codes, key=lambda found: found[0][1].strictness)
    said = {"path": node.path, "native": place.raw, "refusal_class": refusal_class}
    return Signal(name=name, code=code, outcome=_code_outcome(code), **{**said, **more})


def _read_envelope(name: str, node: Node) -> Signal | None:
    refusal = _decode_envelope(node)
    if refusal is None or refusal.refusal_class is None:
        return None
    return Signal(
        name=name,
        path=node.path,
        native=node.raw,
        code=refusal.code,
        outcome=SignalOutcome.REFUSAL if refusal.decided else SignalOutcome.NOT_JUDGED,
        refusal_class=refusal.refusal_class,
        refusal=refusal,
    )


def _decode_envelope(node: Node) -> Refusal | None:
    if isinstance(node.raw, Refusal):
        return tighten_to_registry(node.raw)
    if node["schema_version"].text != "refusal.v1":
        return None
    plain = isinstance(node.raw, Mapping)
    return refusal_from_envelope(dict(node.raw) if plain else to_bounded_json(node.raw).value)


def _read_line(name: str, node: Node, more: dict[str, Any], *, last: bool) -> Signal | None:
    # INVARIANT: a line that is quoted within a text is no refusal.
    text = node.text
    if text is None or REFUSAL_MARK not in text:
        return None
    lines = text.strip().splitlines()
    for line in (lines[0], lines[-1]) if last else (lines[0],):
        said = parse_refusal(line) if line.startswith(REFUSAL_PREFIX) else None
        known = None if said is None else _refusing_code(said.code)
        if said is not None and known is not None:
            code, refusal_class = known
            found = {"path": node.path, "native": text, "refusal_class": refusal_class}
            found |= {"code": code, "outcome": _code_outcome(code), "detail": said.detail}
            return Signal(name=name, **{**found, **more})
    return None


def _code_nodes(place: Node) -> Iterator[Node]:
    yield place
    for field in _CODES:
        yield place[field]
        yield from place[field]


def _refusing_code(code: str) -> tuple[str, RefusalClass] | None:
    """Return the registered code and its class, or None if it is unknown or allows."""
    entry = registry_or_core().get(code)
    if entry is None or entry.refusal_class is None:
        return None
    return str(entry.code), entry.refusal_class


def _code_outcome(code: str) -> SignalOutcome:
    return SignalOutcome.REFUSAL if registry_or_core()[code].decided else SignalOutcome.NOT_JUDGED


class ListedException(NamedTuple):
    """An exception listed in the mapping of a framework: its class and its meaning."""

    kind: str
    judged: Interpretation
    shape: ResponseShape

    def to_signal(self, node: Node | None = None, **more: Any) -> Signal:
        """Return the signal at `node` or at the class, with the message of the exception."""
        at = node or Node(self.kind, "exception")
        return self.judged.to_signal(at, **{"detail": self.shape.message, **more})


def match_exception(name: str, shape: ResponseShape) -> ListedException | None:
    """Return the listed exception by its nearest class, or None."""
    if not shape.failed:
        return None
    listed = load_system(name)["exception"]
    for kind in shape.types:
        judged = listed.interpret(kind)
        if judged.known:
            return ListedException(kind, judged, shape)
    return None


def drop_missing(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping without the values that are None."""
    return {name: value for name, value in said.items() if value is not None}
