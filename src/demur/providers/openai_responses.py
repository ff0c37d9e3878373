"""OpenAI beyond chat: Responses, Realtime, Assistants, Decisions and moderation."""

from collections.abc import Iterator

from demur.providers.mapping import System, system
from demur.providers.node import Node
from demur.providers.openai_errors import explained
from demur.providers.shape import Shape
from demur.providers.signal import Outcome, Signal, strongest

__all__ = ["NAME", "read"]

NAME = "openai"


def read(shape: Shape) -> Signal | None:
    """Return the signal of a response, message, spoken answer, decision or moderation."""
    known = system(NAME)
    body = shape.body
    # Events of streams and of Realtime carry the response inside.
    inner = body["response"] if body["response"]["object"].text else body
    return strongest(_signals(body, inner, known))


def _signals(body: Node, inner: Node, known: System) -> Iterator[Signal | None]:
    for place in (body, inner) if inner is not body else (body,):
        yield from _declined(place, known)
        yield from _ended(place, known)
    yield explained(inner["error"], known) if inner["object"].text else None
    yield from _images(inner["output"], known)
    yield from _decided(body["answers"], known)
    yield from _moderated(body["results"], known)


def _declined(place: Node, known: System) -> Iterator[Signal]:
    parts = [part for item in place["output"] for part in item["content"]]
    for part in (*parts, *place["content"], place):
        if part["type"].text in {"refusal", "response.refusal.done"}:
            # The type alone refuses; the text may be empty.
            words = part["refusal"]
            judged = known.judge("response_refusal", "refusal")
            said = words.text or ""
            yield judged.signal(words or part["type"], detail=said, evidence={"refusal_text": said})


def _ended(place: Node, known: System) -> Iterator[Signal]:
    for field, details in (
        ("incomplete_reason", place["incomplete_details"]),
        ("realtime_reason", place["status_details"]),
    ):
        reason = details["reason"]
        if reason.text:
            yield known.judge(field, reason.text).signal(reason)


def _images(output: Node, known: System) -> Iterator[Signal]:
    for item in output:
        code = item["error"]["code"]
        judged = known.judge("image_error", code.text)
        # Other tools put their own error codes in the same place.
        ours = judged.known or "image" in (item["type"].text or "image")
        if code.text and ours:
            details = item["error"]["moderation_details"]
            stage = details["moderation_stage"].text
            categories = [part.text for part in details["categories"] if part.text]
            yield judged.signal(
                item["error"],
                surface=stage if stage in {"input", "output"} else "output",
                evidence={"native_reason": code.text, "stage": stage, "categories": categories},
            )


def _decided(answers: Node, known: System) -> Iterator[Signal]:
    """Yield one signal for all declined questions; the others were answered."""
    kinds = [(answer["name"].text, answer["type"]) for answer in answers]
    for _, kind in kinds:
        judged = known.judge("decision_answer", kind.text)
        if judged.outcome is Outcome.REFUSAL:
            declined = [name for name, other in kinds if other.text == kind.text]
            evidence = {"declined": declined, "answered": len(kinds) - len(declined)}
            yield judged.signal(kind, evidence=evidence)
            return


def _moderated(results: Node, known: System) -> Iterator[Signal]:
    for result in results:
        for category, flagged in result["categories"].fields():
            if flagged.true:
                yield known.judge("moderation_category", category).signal(
                    flagged, evidence={"category": category}
                )
