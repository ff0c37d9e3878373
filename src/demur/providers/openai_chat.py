"""Chat completions of OpenAI and of the many servers with the same format.

The refusal is read before the finish reason, and both before any content: a refused turn
has no answer, even if its content parses.
"""

from collections.abc import Iterator

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import (
    Interpretation,
    ProviderSystem,
    Signal,
    load_system,
    strongest_signal,
)

__all__ = ["NAME", "read"]

NAME = "openai"
_DIALECTS = ("groq_finish_reason", "together_finish_reason")


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of a chat completion, a chunk, or an exception around one."""
    body = _find_completion(shape)
    if not body["choices"].present:
        return _read_parse_error(shape)
    known = load_system(NAME)
    signals = [*_read_choices(body, known), *_read_moderation(body["moderation"], known)]
    return strongest_signal(signals) or _read_parse_error(shape)


def _find_completion(shape: ResponseShape) -> Node:
    carried = shape.own["completion"]
    return carried if carried.present else shape.body


def _read_parse_error(shape: ResponseShape) -> Signal | None:
    if not shape.has_type("ContentFilterFinishReasonError"):
        return None
    judged = load_system(NAME).interpret("parse_exception", "ContentFilterFinishReasonError")
    return judged.to_signal(shape.own, path="", native=shape.message)


def _read_choices(body: Node, known: ProviderSystem) -> Iterator[Signal]:
    dialect = _find_dialect(body)
    for choice in body["choices"]:
        for place in (choice["message"], choice["delta"]):
            if place["refusal"].text:
                yield _refusal_text_signal(place["refusal"], known)
            for part in place["content"]:
                if part["type"].text == "refusal":
                    yield _refusal_text_signal(part["refusal"] or part["type"], known)
        reason = choice["finish_reason"]
        if reason.text:
            yield _interpret_finish_reason(reason.text, known, dialect).to_signal(reason)


def _refusal_text_signal(words: Node, known: ProviderSystem) -> Signal:
    judged = known.interpret("refusal_text", words.text)
    return judged.to_signal(words, detail=words.text or "", evidence={"refusal_text": words.text})


def _interpret_finish_reason(
    reason: str, known: ProviderSystem, dialect: str | None
) -> Interpretation:
    """Return the meaning of a finish reason, in the server's own dialect if it has one."""
    if dialect is not None:
        return load_system("openai_compatible").interpret(dialect, reason)
    judged = known.interpret("finish_reason", reason)
    if judged.known:
        return judged
    others = load_system("openai_compatible")
    spoken = (others.interpret(name, reason) for name in (*_OTHERS, "other_finish_reason"))
    return next((judged for judged in spoken if judged.known), judged)


_OTHERS = ("zhipu_finish_reason", *_DIALECTS, "vllm_finish_reason")


def _find_dialect(body: Node) -> str | None:
    return "groq_finish_reason" if body["x_groq"].present else None


def _read_moderation(moderation: Node, known: ProviderSystem) -> Iterator[Signal]:
    """Yield the results of requested moderation: flagged is not blocked."""
    for side in ("input", "output"):
        place = moderation[side]
        if place["type"].text:
            judged = known.interpret("moderated", place["type"].text)
            evidence = {"stage": side, "cause": place["code"].text}
            yield judged.to_signal(place, surface=side, evidence=evidence)
