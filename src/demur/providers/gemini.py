"""Gemini and Vertex AI: prompt feedback before candidates; also Live, Imagen and Veo."""

from collections.abc import Iterator

from demur.codes.vocabulary import Surface
from demur.providers.mapping import Judged, System, system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Outcome, Signal, strongest

__all__ = ["NAME", "read"]

NAME = "gemini"
_REFINED = {"CONTENT_OTHER", "FILTERED_UNSPECIFIED"}


def read(shape: Shape) -> Signal | None:
    """Return the signal of a response, a live message or a media operation."""
    known = system(NAME)
    live = (shape.body["serverContent"], shape.body)
    return strongest(
        [
            _prompt(shape.body["promptFeedback"], known),
            *(_candidate(candidate, known) for candidate in shape.body["candidates"]),
            *(_turn(place["turnCompleteReason"], known) for place in live),
            *_media(shape.body, known),
        ]
    )


def _prompt(feedback: Node, known: System) -> Signal | None:
    reason = feedback["blockReason"]
    word = _word(reason)
    if word is None and not _blocking(feedback):
        return None
    # A number or a rating reports a block too, without its reason.
    judged, evidence = _refined(known.judge("block_reason", word or "OTHER"), feedback, known)
    words = feedback["blockReasonMessage"].text
    evidence = {**evidence, "native_reason": word, "stage": "input"}
    return _named(judged, "block_reason", known).signal(
        reason or feedback["safetyRatings"],
        detail=words or "",
        evidence=evidence,
        surface=Surface.INPUT,
    )


def _candidate(candidate: Node, known: System) -> Signal | None:
    reason = candidate["finishReason"]
    field = "finish_reason" if reason.text else "finish_reason_number"
    word = _word(reason)
    judged = None if word is None else known.judge(field, word)
    if (judged is None or judged.outcome is not Outcome.REFUSAL) and _blocking(candidate):
        # A rating blocked the content, whatever the finish reason says.
        judged = known.judge("finish_reason", "SAFETY")
    if judged is None:
        return None
    judged, evidence = _refined(judged, candidate, known)
    words = candidate["finishMessage"].text
    evidence = {**evidence, "native_reason": word, "stage": "output"}
    return judged.signal(
        reason or candidate["safetyRatings"],
        detail=words or "",
        evidence=evidence,
        surface=Surface.OUTPUT,
    )


def _word(reason: Node) -> str | None:
    """Return the reason as text. It may be serialised as a number; zero means none."""
    number = reason.number
    return reason.text or (f"{number:.0f}" if number else None)


def _blocking(place: Node) -> list[Node]:
    return [rating for rating in place["safetyRatings"] if rating["blocked"].true]


def _refined(judged: Judged, place: Node, known: System) -> tuple[Judged, dict[str, object]]:
    """Return the meaning, made more exact by the rating that blocked, if there is one."""
    names = [rating["category"].text for rating in _blocking(place) if rating["category"].text]
    evidence: dict[str, object] = {"categories": names} if names else {}
    if judged.outcome is not Outcome.REFUSAL or judged.code not in _REFINED:
        return judged, evidence
    for name in names:
        narrow = known.judge("rating", name)
        if narrow.known and narrow.code not in _REFINED:
            return judged._replace(code=narrow.code, refusal_class=narrow.refusal_class), evidence
    return judged, evidence


def _named(judged: Judged, name: str, known: System) -> Judged:
    return judged._replace(field=known[name])


def _turn(reason: Node, known: System) -> Signal | None:
    if reason.text is None:
        return None
    side = "input" if "INPUT" in reason.text or "PROMPT" in reason.text else "output"
    judged = known.judge("turn_complete_reason", reason.text)
    evidence = {"native_reason": reason.text, "stage": side}
    return judged.signal(reason, evidence=evidence, surface=side)


def _media(body: Node, known: System) -> Iterator[Signal]:
    """Yield signals for filtered images and videos; others of the request may have passed."""
    for place in (body, body["response"], body["response"]["generateVideoResponse"]):
        for name in ("generatedImages", "generatedVideos", "predictions"):
            for made in place[name]:
                reason = made["raiFilteredReason"]
                if reason.text:
                    yield known.judge("rai_reason", reason.text).signal(reason, detail=reason.text)
        reasons = place["raiMediaFilteredReasons"]
        words = [reason.text for reason in reasons if reason.text]
        count = place["raiMediaFilteredCount"].number or 0
        if words:
            evidence = {"count": count or len(words)}
            judged = known.judge("rai_reason", words[0])
            yield judged.signal(reasons, detail=words[0], evidence=evidence)
        elif count > 0:
            judged = known.judge("rai_count", str(count))
            yield judged.signal(place["raiMediaFilteredCount"], evidence={"count": count})
