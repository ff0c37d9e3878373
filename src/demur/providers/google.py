"""Read Google: Gemini and Vertex AI, and Model Armor."""

from collections.abc import Iterator
from typing import NamedTuple

from demur.codes.vocabulary import Surface
from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Interpretation, Signal, SignalOutcome, interpret, max_signal

_GEMINI = "gemini"
_VAGUE_CODES = {"CONTENT_OTHER", "FILTERED_UNSPECIFIED"}


def read_gemini(shape: ResponseShape) -> Signal | None:
    """Return the signal of a response, a live message or a media operation."""
    live = (shape.body["serverContent"], shape.body)
    return max_signal(
        [
            _read_prompt_feedback(shape.body["promptFeedback"]),
            *(_read_candidate(candidate) for candidate in shape.body["candidates"]),
            *(_read_turn(place["turnCompleteReason"]) for place in live),
            *_read_media(shape.body),
        ]
    )


def _read_prompt_feedback(feedback: Node) -> Signal | None:
    reason = feedback["blockReason"]
    word = _reason_word(reason)
    if word is None and not _blocking_ratings(feedback):
        return None
    # A number or a rating reports a block too, without its reason.
    judged = interpret(_GEMINI, "block_reason", word or "OTHER")
    judged, evidence = _refine_by_ratings(judged, feedback)
    words = feedback["blockReasonMessage"].text or ""
    evidence = {**evidence, "native_reason": word, "stage": "input"}
    place = reason or feedback["safetyRatings"]
    return judged.to_signal(place, detail=words, evidence=evidence, surface=Surface.INPUT)


def _read_candidate(candidate: Node) -> Signal | None:
    reason = candidate["finishReason"]
    field = "finish_reason" if reason.text else "finish_reason_number"
    word = _reason_word(reason)
    judged = None if word is None else interpret(_GEMINI, field, word)
    refused = judged is not None and judged.outcome is SignalOutcome.REFUSAL
    if not refused and _blocking_ratings(candidate):
        # A rating blocked the content, whatever the finish reason says.
        judged = interpret(_GEMINI, "finish_reason", "SAFETY")
    if judged is None:
        return None
    judged, evidence = _refine_by_ratings(judged, candidate)
    words = candidate["finishMessage"].text or ""
    evidence = {**evidence, "native_reason": word, "stage": "output"}
    place = reason or candidate["safetyRatings"]
    return judged.to_signal(place, detail=words, evidence=evidence, surface=Surface.OUTPUT)


def _reason_word(reason: Node) -> str | None:
    """Return the reason as text. It may be serialised as a number; zero means none."""
    number = reason.number
    return reason.text or (f"{number:.0f}" if number else None)


def _blocking_ratings(place: Node) -> list[Node]:
    return [rating for rating in place["safetyRatings"] if rating["blocked"].is_true]


def _refine_by_ratings(
    judged: Interpretation, place: Node
) -> tuple[Interpretation, dict[str, object]]:
    """Return the meaning, made more exact by the rating that blocked, if there is one."""
    names = [name for one in _blocking_ratings(place) if (name := one["category"].text)]
    evidence: dict[str, object] = {"categories": names} if names else {}
    if judged.outcome is not SignalOutcome.REFUSAL or judged.code not in _VAGUE_CODES:
        return judged, evidence
    for name in names:
        narrow = interpret(_GEMINI, "rating", name)
        if narrow.known and narrow.code not in _VAGUE_CODES:
            return judged._replace(code=narrow.code, refusal_class=narrow.refusal_class), evidence
    return judged, evidence


def _read_turn(reason: Node) -> Signal | None:
    if reason.text is None:
        return None
    side = "input" if "INPUT" in reason.text or "PROMPT" in reason.text else "output"
    judged = interpret(_GEMINI, "turn_complete_reason", reason.text)
    evidence = {"native_reason": reason.text, "stage": side}
    return judged.to_signal(reason, evidence=evidence, surface=side)


def _read_media(body: Node) -> Iterator[Signal]:
    """Yield signals for filtered images and videos; others of the request may have passed."""
    for place in (body, body["response"], body["response"]["generateVideoResponse"]):
        for name in ("generatedImages", "generatedVideos", "predictions"):
            for made in place[name]:
                reason = made["raiFilteredReason"]
                if reason.text:
                    judged = interpret(_GEMINI, "rai_reason", reason.text)
                    yield judged.to_signal(reason, detail=reason.text)
        reasons = place["raiMediaFilteredReasons"]
        words = [reason.text for reason in reasons if reason.text]
        count = place["raiMediaFilteredCount"].number or 0
        if words:
            evidence = {"count": count or len(words)}
            judged = interpret(_GEMINI, "rai_reason", words[0])
            yield judged.to_signal(reasons, detail=words[0], evidence=evidence)
        elif count > 0:
            judged = interpret(_GEMINI, "rai_count", str(count))
            yield judged.to_signal(place["raiMediaFilteredCount"], evidence={"count": count})


_MODEL_ARMOR = "model_armor"
_MATCH = "MATCH_FOUND"


class _ArmorFilter(NamedTuple):
    """A filter by name, its whole result, and the part that has the match state."""

    word: str
    whole: Node
    part: Node
    masks: bool


def read_model_armor(shape: ResponseShape) -> Signal | None:
    """Return the signal of a sanitised prompt or answer."""
    result = shape.body["sanitizationResult"]
    if not result.present:
        result = shape.body
    state = result["filterMatchState"]
    if state.text is None:
        # Without a match state, only a failure of the filters can be read.
        return max_signal(_read_failures(result["invocationResult"], "invocation_result"))
    judged = interpret(_MODEL_ARMOR, "match_state", state.text)
    filters = list(_find_filters(result["filterResults"]))
    matches = [_match_signal(one) for one in filters if one.part["matchState"].text == _MATCH]
    broken = [*_read_failures(result["invocationResult"], "invocation_result")]
    for one in filters:
        broken += _read_failures(one.part["executionState"], "execution_state")
    # If every match was masked, text was changed and nothing was refused.
    explained = judged.outcome is SignalOutcome.REFUSAL and matches
    return max_signal([*(matches if explained else [judged.to_signal(state)]), *broken])


def _find_filters(results: Node) -> Iterator[_ArmorFilter]:
    """Yield the result of each filter, from a map by name or a list."""
    for name, entry in (*results.fields(), *(("", entry) for entry in results)):
        for kind, whole in entry.fields():
            word = name or kind.removesuffix("FilterResult").removesuffix("_filter_result")
            for part in (whole, whole["inspectResult"]):
                yield _ArmorFilter(word, whole, part, masks=False)
            yield _ArmorFilter(word, whole, whole["deidentifyResult"], masks=True)


def _match_signal(one: _ArmorFilter) -> Signal:
    judged = interpret(_MODEL_ARMOR, "filter", one.word)
    results = one.whole["raiFilterTypeResults"].fields()
    kinds = [kind for kind, result in results if result["matchState"].text == _MATCH]
    if kinds:
        judged = interpret(_MODEL_ARMOR, "rai_type", kinds[0])
    score = one.part["confidenceLevel"].text
    evidence = {"filter": one.word, "categories": kinds, "score": score}
    outcome = SignalOutcome.DETECT_ONLY if one.masks else judged.outcome
    return judged.to_signal(one.part, outcome=outcome, evidence=evidence)


def _read_failures(state: Node, field: str) -> Iterator[Signal]:
    judged = interpret(_MODEL_ARMOR, field, state.text)
    if state.text and judged.outcome is SignalOutcome.NOT_JUDGED:
        yield judged.to_signal(state, evidence={"guard": _MODEL_ARMOR, "cause": state.text})
