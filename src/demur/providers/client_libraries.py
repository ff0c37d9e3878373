"""Read client libraries: LiteLLM, Instructor, Inspect and the Vercel AI SDK."""

from demur.providers.node import Node
from demur.providers.shape import ResponseShape, fields_without
from demur.providers.signals import Signal, SignalOutcome, interpret, max_signal
from demur.providers.upstream import (
    ListedException,
    drop_missing,
    find_own_refusal,
    match_exception,
    read_block_reason,
    read_category,
    read_error_behind,
    read_filter_results,
    read_finish_reason,
)

_LITELLM = "litellm"


def read_litellm(shape: ResponseShape) -> Signal | None:
    """Return the refusal in an answer or exception of LiteLLM, or None.

    LiteLLM turns nineteen native reasons into `content_filter` and unknown ones into `stop`, so
    the native reason decides if the answer still has it. `blocked_content = False` on a
    guardrail's exception means that the guardrail failed, not that it refused.
    """
    error = match_exception(_LITELLM, shape)
    if error is not None:
        return _read_exception(error)
    choices = [*shape.body["choices"]]
    signals = [_read_choice(choice, shape.body) for choice in choices]
    found = max_signal(signals)
    if found is None:
        return None
    kept = [
        choice.raw if said is None else fields_without(choice, "finish_reason")
        for choice, said in zip(choices, signals, strict=True)
    ]
    # Other readers would misread the finish reasons that LiteLLM made of native ones.
    return found._replace(rest=shape.with_body({**fields_without(shape.body), "choices": kept}))


def _read_exception(error: ListedException) -> Signal | None:
    own = error.shape.own
    if error.kind == "GuardrailRaisedException":
        return _read_guardrail(error)
    if error.kind == "BlockedPiiEntityError":
        entity = own["entity_type"]
        said = {"guard": own["guardrail_name"].text, "entity": entity.text}
        return error.to_signal(entity, evidence=drop_missing(said))
    said = drop_missing({"provider": own["llm_provider"].text})
    return _read_filter_behind(own, error.shape.body) or error.to_signal(evidence=said)


def _read_guardrail(error: ListedException) -> Signal:
    own = error.shape.own
    evidence = drop_missing({"guard": own["guardrail_name"].text})
    # The class prefixes the message of the guardrail.
    said = own.derive(error.shape.message.partition(", Message: ")[2], "message")
    if line := find_own_refusal(_LITELLM, said, evidence=evidence):
        return line
    blocked = own["blocked_content"]
    # Versions without the field raise this exception only for blocks.
    if blocked.raw is not False:
        return error.to_signal(evidence=evidence)
    judged = interpret(_LITELLM, "blocked_content", "false")
    return judged.to_signal(blocked, detail=error.shape.message, evidence=evidence, is_final=True)


def _read_filter_behind(own: Node, body: Node) -> Signal | None:
    """Return the Azure filter result on the exception or its cause, or None."""
    for place in (own["provider_specific_fields"], body["error"]):
        for name in ("content_filter_result", "content_filter_results"):
            results = place["innererror"][name] or place[name]
            if found := read_filter_results(_LITELLM, results):
                return found
    return read_error_behind(_LITELLM, own)


def _read_choice(choice: Node, answer: Node) -> Signal | None:
    native = choice["provider_specific_fields"]["native_finish_reason"]
    reason, ratings = choice["finish_reason"], _first_ratings(answer)
    # Without the native reason, only the ratings explain why Gemini filtered an answer.
    if not native and not (ratings and reason.text == "content_filter"):
        return None
    return read_finish_reason(_LITELLM, native or reason, ratings)


def _first_ratings(answer: Node) -> Node:
    """Return the ratings of the first candidate; each candidate has its own list."""
    kept = answer["vertex_ai_safety_results"]
    first = next(iter(kept), kept)
    return first if isinstance(first.raw, list) else kept


_INSTRUCTOR = "instructor"
_ASSERTION_PREFIX = "Unable to generate a response due to"
_WORDS_CONFIDENCE = 0.9


def read_instructor(shape: ResponseShape) -> Signal | None:
    """Return the refusal in an exception of Instructor, or None.

    The assertion has no type and no fields, so its message is matched, and the signal carries
    a confidence.
    """
    if shape.has_type("AssertionError") and shape.message.startswith(_ASSERTION_PREFIX):
        judged = interpret(_INSTRUCTOR, "assertion", _ASSERTION_PREFIX)
        message = Node(shape.message, "message")
        return judged.to_signal(message, detail=shape.message, confidence=_WORDS_CONFIDENCE)
    listed = match_exception(_INSTRUCTOR, shape)
    return _read_last_answer(shape.own["last_completion"]) if listed else None


def _read_last_answer(answer: Node) -> Signal | None:
    """Return the refusal in the answer that could not be parsed, or None."""
    for choice in answer["choices"]:
        words = choice["message"]["refusal"]
        if words.text:
            return interpret(_INSTRUCTOR, "refusal", "*").to_signal(words)
        return read_finish_reason(_INSTRUCTOR, choice["finish_reason"])
    category = read_category(_INSTRUCTOR, answer["stop_details"]["category"])
    return category or read_finish_reason(_INSTRUCTOR, answer["stop_reason"])


_INSPECT_AI = "inspect_ai"
_GEMINI = "HARM_CATEGORY_"


def read_inspect_ai(shape: ResponseShape) -> Signal | None:
    """Return the refusal in a model's output, or None.

    Inspect turns an unknown stop reason into `unknown`, which may hide a refusal. The output
    has no other trace of it, so none is reported.
    """
    choices = (choice for choice in shape.own["choices"] if choice["stop_reason"])
    return max_signal(map(_read_output, choices))


def _read_output(choice: Node) -> Signal | None:
    reason = choice["stop_reason"]
    judged = interpret(_INSPECT_AI, "stop_reason", reason.text)
    if judged.code is None:
        return None
    details = choice["stop_details"]
    named = [details["category"], *(one["category"] for one in details["categories"])]
    return max_signal(map(_read_category, filter(None, named))) or judged.to_signal(reason)


def _read_category(node: Node) -> Signal | None:
    """Return the meaning of a category; Inspect passes on those of any provider."""
    gemini = (node.text or "").startswith(_GEMINI)
    place = ("gemini", "rating") if gemini else ("azure_openai", "category")
    judged = interpret(*place, node.text)
    if gemini or judged.known:
        return judged.to_signal(node, evidence={"via": _INSPECT_AI})
    return read_category(_INSPECT_AI, node)


_VERCEL_AI = "vercel_ai"


def read_vercel_ai(shape: ResponseShape) -> Signal | None:
    """Return the refusal in a result or in the last part of a stream, or None.

    Older versions drop the category of an Anthropic refusal.
    """
    own = shape.own
    reason = own["finishReason"]
    unified = reason["unified"] or reason
    judged = interpret(_VERCEL_AI, "finish_reason", unified.text)
    # Only this SDK writes the reason with a hyphen.
    if unified.text is None or "-" not in unified.text or judged.code is None:
        return None
    return _read_provider_reason(own, reason) or judged.to_signal(unified)


def _read_provider_reason(own: Node, reason: Node) -> Signal | None:
    """Return the signal of the provider's own reason, or None if it was dropped."""
    metadata = own["providerMetadata"]
    google = metadata["google"] or metadata["vertex"]
    feedback = google["promptFeedback"]
    anthropic = metadata["anthropic"]
    ratings = google["safetyRatings"]
    found = (
        read_block_reason(_VERCEL_AI, feedback["blockReason"], feedback["safetyRatings"])
        or read_category(_VERCEL_AI, anthropic["stopDetails"]["category"])
        or read_finish_reason(_VERCEL_AI, own["rawFinishReason"] or reason["raw"], ratings)
    )
    return found if found is not None and found.outcome is SignalOutcome.REFUSAL else None
