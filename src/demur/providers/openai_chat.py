"""Chat completions of OpenAI and of the many servers with the same format.

The refusal is read before the finish reason, and both before any content: a refused turn
has no answer, even if its content parses.
"""

from collections.abc import Iterator

from demur.providers.mapping import Judged, System, system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Signal, strongest

__all__ = ["NAME", "read"]

NAME = "openai"
_DIALECTS = ("groq_finish_reason", "together_finish_reason")


def read(shape: Shape) -> Signal | None:
    """Return the signal of a chat completion, a chunk, or an exception around one."""
    body = _completion(shape)
    if not body["choices"].present:
        return _raised(shape)
    known = system(NAME)
    signals = [*_choices(body, known), *_moderated(body["moderation"], known)]
    return strongest(signals) or _raised(shape)


def _completion(shape: Shape) -> Node:
    carried = shape.own["completion"]
    return carried if carried.present else shape.body


def _raised(shape: Shape) -> Signal | None:
    if not shape.named("ContentFilterFinishReasonError"):
        return None
    judged = system(NAME).judge("parse_exception", "ContentFilterFinishReasonError")
    return judged.signal(shape.own, path="", native=shape.message)


def _choices(body: Node, known: System) -> Iterator[Signal]:
    dialect = _dialect(body)
    for choice in body["choices"]:
        for place in (choice["message"], choice["delta"]):
            if place["refusal"].text:
                yield _declined(place["refusal"], known)
            for part in place["content"]:
                if part["type"].text == "refusal":
                    yield _declined(part["refusal"] or part["type"], known)
        reason = choice["finish_reason"]
        if reason.text:
            yield _finished(reason.text, known, dialect).signal(reason)


def _declined(words: Node, known: System) -> Signal:
    judged = known.judge("refusal_text", words.text)
    return judged.signal(words, detail=words.text or "", evidence={"refusal_text": words.text})


def _finished(reason: str, known: System, dialect: str | None) -> Judged:
    """Return the meaning of a finish reason, in the server's own dialect if it has one."""
    if dialect is not None:
        return system("openai_compatible").judge(dialect, reason)
    judged = known.judge("finish_reason", reason)
    if judged.known:
        return judged
    others = system("openai_compatible")
    spoken = (others.judge(name, reason) for name in (*_OTHERS, "other_finish_reason"))
    return next((judged for judged in spoken if judged.known), judged)


_OTHERS = ("zhipu_finish_reason", *_DIALECTS, "vllm_finish_reason")


def _dialect(body: Node) -> str | None:
    return "groq_finish_reason" if body["x_groq"].present else None


def _moderated(moderation: Node, known: System) -> Iterator[Signal]:
    """Yield the results of requested moderation: flagged is not blocked."""
    for side in ("input", "output"):
        place = moderation[side]
        if place["type"].text:
            judged = known.judge("moderated", place["type"].text)
            evidence = {"stage": side, "cause": place["code"].text}
            yield judged.signal(place, surface=side, evidence=evidence)
