"""OpenAI beyond chat: Responses, Realtime, Assistants, Decisions and moderation."""

from collections.abc import Iterator

from demur.providers.node import Node
from demur.providers.openai_errors import read_error
from demur.providers.shape import ResponseShape
from demur.providers.signals import (
    ProviderSystem,
    Signal,
    SignalOutcome,
    load_system,
    strongest_signal,
)

__all__ = ["NAME", "read"]

NAME = "openai"


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of a response, message, spoken answer, decision or moderation."""
    known = load_system(NAME)
    body = shape.body
    # Events of streams and of Realtime carry the response inside.
    inner = body["response"] if body["response"]["object"].text else body
    return strongest_signal(_read_signals(body, inner, known))


def _read_signals(body: Node, inner: Node, known: ProviderSystem) -> Iterator[Signal | None]:
    for place in (body, inner) if inner is not body else (body,):
        yield from _read_refusal_parts(place, known)
        yield from _read_endings(place, known)
    yield read_error(inner["error"], known) if inner["object"].text else None
    yield from _read_image_errors(inner["output"], known)
    yield from _read_declined_answers(body["answers"], known)
    yield from _read_moderation_results(body["results"], known)


def _read_refusal_parts(place: Node, known: ProviderSystem) -> Iterator[Signal]:
    parts = [part for item in place["output"] for part in item["content"]]
    for part in (*parts, *place["content"], place):
        if part["type"].text in {"refusal", "response.refusal.done"}:
            # The type alone refuses; the text may be empty.
            words = part["refusal"]
            judged = known.interpret("response_refusal", "refusal")
            said = words.text or ""
            yield judged.to_signal(
                words or part["type"], detail=said, evidence={"refusal_text": said}
            )


def _read_endings(place: Node, known: ProviderSystem) -> Iterator[Signal]:
    for field, details in (
        ("incomplete_reason", place["incomplete_details"]),
        ("realtime_reason", place["status_details"]),
    ):
        reason = details["reason"]
        if reason.text:
            yield known.interpret(field, reason.text).to_signal(reason)


def _read_image_errors(output: Node, known: ProviderSystem) -> Iterator[Signal]:
    for item in output:
        code = item["error"]["code"]
        judged = known.interpret("image_error", code.text)
        # Other tools put their own error codes in the same place.
        ours = judged.known or "image" in (item["type"].text or "image")
        if code.text and ours:
            details = item["error"]["moderation_details"]
            stage = details["moderation_stage"].text
            categories = [part.text for part in details["categories"] if part.text]
            yield judged.to_signal(
                item["error"],
                surface=stage if stage in {"input", "output"} else "output",
                evidence={"native_reason": code.text, "stage": stage, "categories": categories},
            )


def _read_declined_answers(answers: Node, known: ProviderSystem) -> Iterator[Signal]:
    """Yield one signal for all declined questions; the others were answered."""
    kinds = [(answer["name"].text, answer["type"]) for answer in answers]
    for _, kind in kinds:
        judged = known.interpret("decision_answer", kind.text)
        if judged.outcome is SignalOutcome.REFUSAL:
            declined = [name for name, other in kinds if other.text == kind.text]
            evidence = {"declined": declined, "answered": len(kinds) - len(declined)}
            yield judged.to_signal(kind, evidence=evidence)
            return


def _read_moderation_results(results: Node, known: ProviderSystem) -> Iterator[Signal]:
    for result in results:
        for category, flagged in result["categories"].fields():
            if flagged.is_true:
                yield known.interpret("moderation_category", category).to_signal(
                    flagged, evidence={"category": category}
                )
