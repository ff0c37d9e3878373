"""Read OpenAI, Azure OpenAI, OpenRouter and servers with OpenAI's format."""

from collections.abc import Iterator
from typing import NamedTuple

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import (
    Interpretation,
    Signal,
    SignalOutcome,
    interpret,
    load_system,
    max_signal,
)

_AZURE_OPENAI = "azure_openai"


class _FilterResults(NamedTuple):
    """Filter results for input or output, and the field that says they blocked it."""

    results: Node
    side: str
    stopped: Node | None = None


def read_azure_openai(shape: ResponseShape) -> Signal | None:
    """Return the signal of the filter: first for the prompt, then for the answer.

    `filtered` or `blocked` decides; `detected` and severities are annotations. If a filter did
    not run, the answer passes with status 200 and looks like success.
    """
    # The prompt comes first, so that it wins among equal signals.
    places = _find_filter_results(shape.body)
    return max_signal(signal for place in places for signal in _read_filter_results(place))


def _find_filter_results(body: Node) -> Iterator[_FilterResults]:
    error = body["error"]
    inner = error["innererror"] if error["innererror"].present else error["inner_error"]
    for name in ("content_filter_result", "content_filter_results"):
        if inner[name].present:
            yield _FilterResults(inner[name], "input", inner["code"])
    if inner["code"].present and not inner["content_filter_result"].present:
        yield _FilterResults(inner, "input", inner["code"])
    for entry in (*body["content_filters"], *error["content_filters"]):
        side = "output" if entry["source_type"].text == "completion" else "input"
        stopped = entry["blocked"] if entry["blocked"].is_true else None
        yield _FilterResults(entry["content_filter_results"], side, stopped)
    for prompt in body["prompt_filter_results"]:
        yield _FilterResults(prompt["content_filter_results"], "input")
    for choice in body["choices"]:
        results = choice["content_filter_results"]
        filtered = choice["finish_reason"].text == "content_filter"
        yield _FilterResults(results, "output", choice["finish_reason"] if filtered else None)


def _read_filter_results(place: _FilterResults) -> Iterator[Signal]:
    failure = place.results["error"]
    if failure.present:
        judged = interpret(_AZURE_OPENAI, "filter_error", failure["code"].text)
        evidence = {"guard": _AZURE_OPENAI, "cause": failure["message"].text, "stage": place.side}
        yield judged.to_signal(failure, surface=place.side, evidence=evidence)
    categories = list(_read_categories(place))
    yield from categories
    decided = any(signal.outcome is SignalOutcome.REFUSAL for signal in categories)
    stopped = place.stopped
    if stopped is not None and (stopped.is_true or place.results.present) and not decided:
        # Blocks without any unsafe category do occur. They are blocks all the same.
        yield _unexplained_block(stopped, place.side)


def _read_categories(place: _FilterResults) -> Iterator[Signal]:
    for category, result in place.results.fields():
        acted = result["filtered"].is_true
        if not acted and not result["detected"].is_true:
            continue
        judged = interpret(_AZURE_OPENAI, "category", category)
        evidence = {
            "category": category,
            "severity": result["severity"].text,
            "stage": place.side,
            "citation": result["citation"]["URL"].text,
        }
        yield judged.to_signal(
            result,
            outcome=judged.outcome if acted else SignalOutcome.DETECT_ONLY,
            surface=place.side,
            evidence={key: value for key, value in evidence.items() if value is not None},
        )


def _unexplained_block(stopped: Node, side: str) -> Signal:
    field, word = ("blocked", "true") if stopped.is_true else ("inner_code", stopped.text)
    if word == "content_filter":
        word = "ResponsibleAIPolicyViolation"
    judged = interpret(_AZURE_OPENAI, field, word)
    return judged.to_signal(stopped, surface=side, evidence={"stage": side})


_OPENAI_COMPATIBLE = "openai_compatible"
_BLOCKED = 403
# The flagged input is the user's text, which must not be recorded.
_HIDDEN = {"flagged_input"}


def read_openrouter(shape: ResponseShape) -> Signal | None:
    """Return the signal of an error of the router."""
    error = shape.body["error"]
    metadata = error["metadata"]
    if not metadata.present:
        return None
    for word in (error["type"], metadata["error_type"], error["code"]):
        judged = interpret(_OPENAI_COMPATIBLE, "openrouter_error", word.text)
        if word.text and judged.outcome is SignalOutcome.REFUSAL:
            return _router_signal(judged.code, word, metadata)
    # The older format has only a 403 and reasons.
    if metadata["reasons"].present and _BLOCKED in {shape.status, error["code"].number}:
        return _router_signal("CONTENT_OTHER", error["code"], metadata)
    return None


def _router_signal(code: str | None, word: Node, metadata: Node) -> Signal:
    judged = interpret(_OPENAI_COMPATIBLE, "openrouter_error", "content_policy_violation")
    if code == "MODEL_DECLINED":
        judged = interpret(_OPENAI_COMPATIBLE, "openrouter_error", "refusal")
    reasons = [reason.text for reason in metadata["reasons"] if reason.text]
    narrow = [interpret(_OPENAI_COMPATIBLE, "openrouter_reason", reason) for reason in reasons]
    exact = next((one for one in narrow if one.known), None)
    if exact is not None:
        judged = judged._replace(code=exact.code, refusal_class=exact.refusal_class)
    kept = {name: part.raw for name, part in metadata.fields() if name not in _HIDDEN}
    evidence = {
        "categories": reasons,
        "provider": metadata["provider_name"].text,
        "model": metadata["model_slug"].text,
    }
    return judged.to_signal(word, native={"code": word.raw, "metadata": kept}, evidence=evidence)


_OPENAI = "openai"
_DIALECTS = ("groq_finish_reason", "together_finish_reason")


def read_openai_chat(shape: ResponseShape) -> Signal | None:
    """Return the signal of a chat completion, a chunk, or an exception around one.

    The refusal is read before the finish reason, and both before any content: a refused turn
    has no answer, even if its content parses.
    """
    body = shape.own["completion"] or shape.body
    if not body["choices"].present:
        return _read_parse_error(shape)
    signals = [*_read_choices(body), *_read_moderation(body["moderation"])]
    return max_signal(signals) or _read_parse_error(shape)


def _read_parse_error(shape: ResponseShape) -> Signal | None:
    if not shape.has_type("ContentFilterFinishReasonError"):
        return None
    judged = interpret(_OPENAI, "parse_exception", "ContentFilterFinishReasonError")
    return judged.to_signal(shape.own, path="", native=shape.message)


def _read_choices(body: Node) -> Iterator[Signal]:
    dialect = "groq_finish_reason" if body["x_groq"].present else None
    for choice in body["choices"]:
        for place in (choice["message"], choice["delta"]):
            if place["refusal"].text:
                yield _refusal_text_signal(place["refusal"])
            for part in place["content"]:
                if part["type"].text == "refusal":
                    yield _refusal_text_signal(part["refusal"] or part["type"])
        reason = choice["finish_reason"]
        if reason.text:
            yield _interpret_finish_reason(reason.text, dialect).to_signal(reason)


def _refusal_text_signal(words: Node) -> Signal:
    judged = interpret(_OPENAI, "refusal_text", words.text)
    return judged.to_signal(words, detail=words.text or "", evidence={"refusal_text": words.text})


def _interpret_finish_reason(reason: str, dialect: str | None) -> Interpretation:
    """Return the meaning of a finish reason, in the server's own dialect if it has one."""
    if dialect is not None:
        return interpret("openai_compatible", dialect, reason)
    judged = interpret(_OPENAI, "finish_reason", reason)
    if judged.known:
        return judged
    others = load_system("openai_compatible")
    spoken = (others.interpret(name, reason) for name in (*_OTHERS, "other_finish_reason"))
    return next((judged for judged in spoken if judged.known), judged)


_OTHERS = ("zhipu_finish_reason", *_DIALECTS, "vllm_finish_reason")


def _read_moderation(moderation: Node) -> Iterator[Signal]:
    """Yield the results of requested moderation: flagged is not blocked."""
    for side in ("input", "output"):
        place = moderation[side]
        if place["type"].text:
            judged = interpret(_OPENAI, "moderated", place["type"].text)
            evidence = {"stage": side, "cause": place["code"].text}
            yield judged.to_signal(place, surface=side, evidence=evidence)


def read_openai_errors(shape: ResponseShape) -> Signal | None:
    """Return the signal of an error body or error object."""
    error = shape.body["error"]
    if not error.present and shape.has_type("SessionTurnError", "ResponseError"):
        error = shape.body
    if error["metadata"].present or error["details"].present:
        # An error of a router or another provider, which has its own reader.
        return None
    return read_error(error, listed=shape.failed)


def read_error(error: Node, *, listed: bool = False) -> Signal | None:
    """Return the signal of an `error` object, refined by the kind of stopped action.

    Errors of other servers look the same: if only `listed` codes count, later readers get
    the rest.
    """
    kind = error["misalignment"]["error_type"]
    for word in (error["code"], error["type"]):
        judged = interpret(_OPENAI, "error_code", word.text)
        if judged.outcome is not SignalOutcome.REFUSAL or (listed and not judged.known):
            continue
        evidence = {"native_reason": word.text, "message": error["message"].text}
        if error["misalignment"].present:
            return _misalignment_signal(error["misalignment"], kind, evidence)
        return judged.to_signal(word, evidence=evidence)
    return None


def _misalignment_signal(details: Node, kind: Node, evidence: dict[str, str | None]) -> Signal:
    judged = interpret(_OPENAI, "misalignment", kind.text)
    if not judged.known:
        judged = interpret(_OPENAI, "misalignment", "other")
    said = {"kind": kind.text, "review_target": details["review_target"].text}
    said["steer"] = details["steer"]["message"].text
    words = details["detailed_explanation"].text
    return judged.to_signal(details, detail=words or "", evidence={**evidence, **said})


def read_openai_responses(shape: ResponseShape) -> Signal | None:
    """Return the signal of a response, message, spoken answer, decision or moderation."""
    body = shape.body
    # Events of streams and of Realtime carry the response inside.
    inner = body["response"] if body["response"]["object"].text else body
    return max_signal(_read_signals(body, inner))


def _read_signals(body: Node, inner: Node) -> Iterator[Signal | None]:
    for place in (body, inner) if inner is not body else (body,):
        yield from _read_refusal_parts(place)
        for field, details in (
            ("incomplete_reason", place["incomplete_details"]),
            ("realtime_reason", place["status_details"]),
        ):
            reason = details["reason"]
            if reason.text:
                yield interpret(_OPENAI, field, reason.text).to_signal(reason)
    yield read_error(inner["error"]) if inner["object"].text else None
    yield from _read_image_errors(inner["output"])
    yield from _read_declined_answers(body["answers"])
    for result in body["results"]:
        for category, flagged in result["categories"].fields():
            if flagged.is_true:
                judged = interpret(_OPENAI, "moderation_category", category)
                yield judged.to_signal(flagged, evidence={"category": category})


def _read_refusal_parts(place: Node) -> Iterator[Signal]:
    parts = [part for item in place["output"] for part in item["content"]]
    for part in (*parts, *place["content"], place):
        if part["type"].text in {"refusal", "response.refusal.done"}:
            # The type alone refuses; the text may be empty.
            place, said = part["refusal"] or part["type"], part["refusal"].text or ""
            judged = interpret(_OPENAI, "response_refusal", "refusal")
            yield judged.to_signal(place, detail=said, evidence={"refusal_text": said})


def _read_image_errors(output: Node) -> Iterator[Signal]:
    for item in output:
        code = item["error"]["code"]
        judged = interpret(_OPENAI, "image_error", code.text)
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


def _read_declined_answers(answers: Node) -> Iterator[Signal]:
    """Yield one signal for all declined questions; the others were answered."""
    kinds = [(answer["name"].text, answer["type"]) for answer in answers]
    for _, kind in kinds:
        judged = interpret(_OPENAI, "decision_answer", kind.text)
        if judged.outcome is SignalOutcome.REFUSAL:
            declined = [name for name, other in kinds if other.text == kind.text]
            evidence = {"declined": declined, "answered": len(kinds) - len(declined)}
            yield judged.to_signal(kind, evidence=evidence)
            return


def read_openai_compatible(shape: ResponseShape) -> Signal | None:
    """Return the signal of an error code of a known server."""
    for place in (shape.body["error"], shape.body):
        code = place["code"]
        judged = interpret(_OPENAI_COMPATIBLE, "inspection_error", code.text)
        if code.text and judged.known:
            return judged.to_signal(code, evidence={"native_reason": code.text})
    return None
