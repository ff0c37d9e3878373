"""Gemini and Vertex AI: prompt feedback before candidates; also Live, Imagen and Veo."""

from collections.abc import Iterator

from demur.codes.vocabulary import Surface
from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import (
    Interpretation,
    ProviderSystem,
    Signal,
    SignalOutcome,
    load_system,
    strongest_signal,
)

__all__ = ["NAME", "read"]

NAME = "gemini"
_VAGUE_CODES = {"CONTENT_OTHER", "FILTERED_UNSPECIFIED"}


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of a response, a live message or a media operation."""
    known = load_system(NAME)
    live = (shape.body["serverContent"], shape.body)
    return strongest_signal(
        [
            _read_prompt_feedback(shape.body["promptFeedback"], known),
            *(_read_candidate(candidate, known) for candidate in shape.body["candidates"]),
            *(_read_turn(place["turnCompleteReason"], known) for place in live),
            *_read_media(shape.body, known),
        ]
    )


def _read_prompt_feedback(feedback: Node, known: ProviderSystem) -> Signal | None:
    reason = feedback["blockReason"]
    word = _reason_word(reason)
    if word is None and not _blocking_ratings(feedback):
        return None
    # A number or a rating reports a block too, without its reason.
    judged, evidence = _refine_by_ratings(
        known.interpret("block_reason", word or "OTHER"), feedback, known
    )
    words = feedback["blockReasonMessage"].text
    evidence = {**evidence, "native_reason": word, "stage": "input"}
    return _with_field(judged, "block_reason", known).to_signal(
        reason or feedback["safetyRatings"],
        detail=words or "",
        evidence=evidence,
        surface=Surface.INPUT,
    )


def _read_candidate(candidate: Node, known: ProviderSystem) -> Signal | None:
    reason = candidate["finishReason"]
    field = "finish_reason" if reason.text else "finish_reason_number"
    word = _reason_word(reason)
    judged = None if word is None else known.interpret(field, word)
    if (judged is None or judged.outcome is not SignalOutcome.REFUSAL) and _blocking_ratings(
        candidate
    ):
        # A rating blocked the content, whatever the finish reason says.
        judged = known.interpret("finish_reason", "SAFETY")
    if judged is None:
        return None
    judged, evidence = _refine_by_ratings(judged, candidate, known)
    words = candidate["finishMessage"].text
    evidence = {**evidence, "native_reason": word, "stage": "output"}
    return judged.to_signal(
        reason or candidate["safetyRatings"],
        detail=words or "",
        evidence=evidence,
        surface=Surface.OUTPUT,
    )


def _reason_word(reason: Node) -> str | None:
    """Return the reason as text. It may be serialised as a number; zero means none."""
    number = reason.number
    return reason.text or (f"{number:.0f}" if number else None)


def _blocking_ratings(place: Node) -> list[Node]:
    return [rating for rating in place["safetyRatings"] if rating["blocked"].is_true]


def _refine_by_ratings(
    judged: Interpretation, place: Node, known: ProviderSystem
) -> tuple[Interpretation, dict[str, object]]:
    """Return the meaning, made more exact by the rating that blocked, if there is one."""
    names = [
        rating["category"].text for rating in _blocking_ratings(place) if rating["category"].text
    ]
    evidence: dict[str, object] = {"categories": names} if names else {}
    if judged.outcome is not SignalOutcome.REFUSAL or judged.code not in _VAGUE_CODES:
        return judged, evidence
    for name in names:
        narrow = known.interpret("rating", name)
        if narrow.known and narrow.code not in _VAGUE_CODES:
            return judged._replace(code=narrow.code, refusal_class=narrow.refusal_class), evidence
    return judged, evidence


def _with_field(judged: Interpretation, name: str, known: ProviderSystem) -> Interpretation:
    return judged._replace(field=known[name])


def _read_turn(reason: Node, known: ProviderSystem) -> Signal | None:
    if reason.text is None:
        return None
    side = "input" if "INPUT" in reason.text or "PROMPT" in reason.text else "output"
    judged = known.interpret("turn_complete_reason", reason.text)
    evidence = {"native_reason": reason.text, "stage": side}
    return judged.to_signal(reason, evidence=evidence, surface=side)


def _read_media(body: Node, known: ProviderSystem) -> Iterator[Signal]:
    """Yield signals for filtered images and videos; others of the request may have passed."""
    for place in (body, body["response"], body["response"]["generateVideoResponse"]):
        for name in ("generatedImages", "generatedVideos", "predictions"):
            for made in place[name]:
                reason = made["raiFilteredReason"]
                if reason.text:
                    yield known.interpret("rai_reason", reason.text).to_signal(
                        reason, detail=reason.text
                    )
        reasons = place["raiMediaFilteredReasons"]
        words = [reason.text for reason in reasons if reason.text]
        count = place["raiMediaFilteredCount"].number or 0
        if words:
            evidence = {"count": count or len(words)}
            judged = known.interpret("rai_reason", words[0])
            yield judged.to_signal(reasons, detail=words[0], evidence=evidence)
        elif count > 0:
            judged = known.interpret("rai_count", str(count))
            yield judged.to_signal(place["raiMediaFilteredCount"], evidence={"count": count})
