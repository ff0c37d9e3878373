"""Read agent frameworks: LangChain, Pydantic AI, OpenAI Agents, Microsoft's frameworks, Strands."""

from typing import Any

from demur.codes.vocabulary import Surface
from demur.providers.node import ABSENT, Node
from demur.providers.shape import ResponseShape, fields_without, parse_json
from demur.providers.signals import Interpretation, Signal, SignalOutcome, interpret, max_signal
from demur.providers.upstream import (
    ListedException,
    drop_missing,
    find_envelope,
    find_own_refusal,
    find_reason_code,
    match_exception,
    read_block_reason,
    read_category,
    read_error_behind,
    read_filter_results,
    read_finish_reason,
    read_moderation,
)

_LANGCHAIN = "langchain"
_MESSAGES = ("AIMessage", "AIMessageChunk")
_VAGUE = frozenset({"FILTERED_UNSPECIFIED", "MODEL_DECLINED"})
_STAGES = {"input": Surface.INPUT, "output": Surface.OUTPUT, "tool": Surface.TOOL_RESULT}


def read_langchain(shape: ResponseShape) -> Signal | None:
    """Return the refusal in a message, exception or decision of LangChain, or None.

    LangChain makes refusal blocks from only some provider reasons, so the message metadata is
    read as well. Two of its exceptions contain the flagged content, even personal data. That
    is left out, and the evidence says so.
    """
    error = match_exception(_LANGCHAIN, shape)
    if error is not None:
        return _read_exception(error)
    own = shape.own
    if shape.has_type(*_MESSAGES) or own["response_metadata"]:
        return read_message(own)
    return _read_tool_message(own) or max_signal(map(_read_decision, (own, *own["decisions"])))


def read_message(said: Node) -> Signal | None:
    """Return the refusal in a message of a model, or None."""
    metadata = said["response_metadata"]
    feedback = metadata["prompt_feedback"]
    prompt = read_block_reason(_LANGCHAIN, feedback["block_reason"], feedback["safety_ratings"])
    ratings = metadata["safety_ratings"]
    reason = metadata["finish_reason"] or metadata["stop_reason"] or metadata["stopReason"]
    ended = read_category(_LANGCHAIN, metadata["stop_details"]["category"])
    ended = ended or read_finish_reason(_LANGCHAIN, reason, ratings)
    refusals = (block for block in said["content"] if block["type"].text == "refusal")
    blocked = max_signal(map(_read_block, refusals))
    exact = (_unless_vague(ended), _unless_vague(blocked))
    # OpenAI's words come last: they have no code.
    words = _read_words(_LANGCHAIN, "refusal_text", said["additional_kwargs"]["refusal"])
    return max_signal((prompt, *exact, ended, blocked, words))


def _unless_vague(signal: Signal | None) -> Signal | None:
    """Return the signal unless its code is vague."""
    return None if signal is None or signal.code in _VAGUE else signal


def _read_block(block: Node) -> Signal | None:
    extras = block["extras"]
    found = (
        read_block_reason(_LANGCHAIN, extras["block_reason"], extras["safety_ratings"])
        or read_category(_LANGCHAIN, extras["category"])
        or read_finish_reason(_LANGCHAIN, extras["finish_reason"], extras["safety_ratings"])
    )
    if found is not None and found.outcome is SignalOutcome.REFUSAL:
        return found
    line = find_own_refusal(_LANGCHAIN, block["refusal"], last=True)
    return line or interpret(_LANGCHAIN, "refusal_block", "refusal").to_signal(block)


def _read_words(via: str, field: str, words: Node) -> Signal | None:
    """Return the refusal in a text that always refuses, or None if there is no text."""
    if not words.text:
        return None
    line = find_own_refusal(via, words, last=True)
    return line or interpret(via, field, "*").to_signal(words)


def _read_exception(error: ListedException) -> Signal | None:
    own = error.shape.own
    if error.kind == "PIIDetectionError":
        kind, found = own["pii_type"], sum(1 for _ in own["matches"])
        said = drop_missing({"entity": kind.text, "count": found, "left_out": ["matches"]})
        return error.to_signal(kind, evidence=said, detail=str(kind.text))
    if error.kind == "OpenAIModerationError":
        return _read_moderation_error(error)
    # Another framework has an exception of the same name, with the text in `refusal`.
    if error.kind == "ModelRefusalError" and own["refusal"].text and not own["raw_message"]:
        return None
    behind = read_message(own["raw_message"])
    return behind if behind is not None and behind.must_report else error.to_signal()


def _read_moderation_error(error: ListedException) -> Signal:
    own = error.shape.own
    stage = own["stage"].text
    more: dict[str, Any] = {"surface": _STAGES.get(stage or "")}
    more["detail"] = f"flagged by moderation: {stage}"
    evidence = drop_missing({"stage": stage, "left_out": ["content"]})
    found = read_moderation(_LANGCHAIN, own["result"], evidence=evidence, **more)
    return found or error.to_signal(evidence=evidence, **more)


def _read_tool_message(own: Node) -> Signal | None:
    """Return the refusal that replaces a tool's result, or None."""
    if own["tool_call_id"].text is None or own["status"].text != "error":
        return None
    return find_envelope(_LANGCHAIN, own["artifact"], own["content"])


def _read_decision(answer: Node) -> Signal | None:
    kind = answer["type"]
    if kind.text != "reject" or {name for name, _ in answer.fields()} - {"type", "message"}:
        return None
    words = answer["message"]
    line = find_own_refusal(_LANGCHAIN, words, last=True)
    judged = interpret(_LANGCHAIN, "decision", "reject")
    return line or judged.to_signal(kind, detail=words.text or "")


_PYDANTIC_AI = "pydantic_ai"


def read_pydantic_ai(shape: ResponseShape) -> Signal | None:
    """Return the refusal in a response, run, exception or tool result, or None.

    Its `finish_reason` has five values, and some reasons of Gemini become `error` or nothing.
    The provider's own reason in `provider_details` decides.
    """
    own = shape.own
    error = match_exception(_PYDANTIC_AI, shape)
    if error is None:
        said = next((one for one in (own, own["response"]) if _is_response(one)), ABSENT)
        found = _read_response(said)
        if found is None:
            return _read_denied_tool(own)
        return found._replace(rest=shape.with_body(fields_without(said, "finish_reason")))
    if error.kind == "ApprovalRequired":
        return find_own_refusal(_PYDANTIC_AI, own["metadata"]) or error.to_signal()
    body = own.derive(parse_json(own["body"].raw), "body")
    answers = (one for one in (body, *reversed([*body])) if _is_response(one))
    behind = _read_response(next(answers, ABSENT))
    if behind is not None and behind.must_report:
        return behind
    return read_error_behind(_PYDANTIC_AI, own) or error.to_signal()


def _is_response(one: Node) -> bool:
    """Return whether this is a response, by its kind or by its provider details."""
    known = one["kind"].text == "response" or one["provider_details"].present
    return known and one["parts"].present


def _read_response(said: Node) -> Signal | None:
    details = said["provider_details"]
    ratings = details["safety_ratings"]
    found = max_signal(
        [
            read_block_reason(_PYDANTIC_AI, details["block_reason"], ratings),
            read_category(_PYDANTIC_AI, details["refusal_category"]),
            read_finish_reason(_PYDANTIC_AI, details["finish_reason"], ratings),
            _read_words(_PYDANTIC_AI, "refusal", details["refusal"]),
        ]
    )
    if found is not None:
        # The provider's reason is exact, even if nothing was refused.
        return found
    judged = interpret(_PYDANTIC_AI, "finish_reason", said["finish_reason"].text)
    return judged.to_signal(said["finish_reason"]) if judged.known else None


def _read_denied_tool(own: Node) -> Signal | None:
    """Return the refusal of a tool call by its approver, or None."""
    if own["kind"].text == "tool-denied":
        words = own["message"]
        judged = interpret(_PYDANTIC_AI, "tool_denied", "tool-denied")
        line = find_own_refusal(_PYDANTIC_AI, words, last=True)
        return line or judged.to_signal(own["kind"], detail=words.text or "")
    if own["part_kind"].text == "tool-return" and own["outcome"].text == "denied":
        judged = interpret(_PYDANTIC_AI, "tool_denied", "denied")
        line = find_own_refusal(_PYDANTIC_AI, own["content"], surface=Surface.TOOL_CALL)
        return line or judged.to_signal(own["outcome"], evidence={"tool": own["tool_name"].text})
    return None


_OPENAI_AGENTS = "openai_agents"
_SURFACES = {
    "InputGuardrailTripwireTriggered": Surface.INPUT,
    "OutputGuardrailTripwireTriggered": Surface.OUTPUT,
    "ToolInputGuardrailTripwireTriggered": Surface.TOOL_CALL,
    "ToolOutputGuardrailTripwireTriggered": Surface.TOOL_RESULT,
}
# The SDK's own text, which must be the whole output.
_WORDS_CONFIDENCE = 0.9


def read_openai_agents(shape: ResponseShape) -> Signal | None:
    """Return the refusal in an exception, guardrail result or tool output, or None.

    A tripwire has no code: the guardrail's `output_info` decides.
    """
    own = shape.own
    error = match_exception(_OPENAI_AGENTS, shape)
    if error is None:
        if (own["output"] or own)["tripwire_triggered"].is_true:
            return _tripwire_signal(interpret(_OPENAI_AGENTS, "tripwire", "true"), own, None)
        return _read_behaviour(own) or _read_tool_output(own)
    if error.kind == "ModelRefusalError":
        words = own["refusal"]
        return error.to_signal(words, detail=words.text or "")
    return _tripwire_signal(error.judged, own["guardrail_result"] or own, _SURFACES[error.kind])


def _tripwire_signal(judged: Interpretation, result: Node, surface: Surface | None) -> Signal:
    said = (result["output"] or result)["output_info"]
    guard = result["guardrail"]["name"].text
    more: dict[str, Any] = {"surface": surface, "evidence": drop_missing({"guard": guard})}
    found = find_own_refusal(_OPENAI_AGENTS, said, **more)
    found = found or find_reason_code(_OPENAI_AGENTS, said, **more)
    place, detail = said or result["guardrail"], guard or "a guardrail"
    return found or judged.to_signal(place, detail=detail, **more)


def _read_behaviour(own: Node) -> Signal | None:
    """Return the refusal in the answer of a tool guardrail, or None."""
    behaviour = own["behavior"]
    judged = interpret(_OPENAI_AGENTS, "behavior", behaviour["type"].text)
    if not judged.known or judged.code is None:
        return None
    said, words = own["output_info"], behaviour["message"]
    found = find_own_refusal(_OPENAI_AGENTS, said, words) or find_reason_code(_OPENAI_AGENTS, said)
    return found or judged.to_signal(behaviour["type"], detail=words.text or "")


def _read_tool_output(own: Node) -> Signal | None:
    """Return the refusal in place of a tool's output, or None."""
    item = own["raw_item"] or own
    if item["type"].text != "function_call_output":
        return None
    output = item["output"]
    # The text of a tool may come from anyone: a refusal line in it does not count.
    whole = find_envelope(_OPENAI_AGENTS, output)
    judged = interpret(_OPENAI_AGENTS, "tool_output", (output.text or "").removesuffix("."))
    if whole is not None or not judged.known:
        return whole
    return judged.to_signal(output, confidence=_WORDS_CONFIDENCE)


_MICROSOFT_AGENTS = "microsoft_agents"


def read_microsoft_agents(shape: ResponseShape) -> Signal | None:
    """Return the refusal in one of their content filter exceptions, or None.

    Some of their exceptions have the results of Azure's filter. The others have only the error
    of the client as their cause.
    """
    error = match_exception(_MICROSOFT_AGENTS, shape)
    if error is None:
        return None
    own = shape.own
    found = read_filter_results(_MICROSOFT_AGENTS, own["content_filter_result"])
    found = found or read_error_behind(_MICROSOFT_AGENTS, own)
    return found or error.to_signal(own["content_filter_code"] or None)


_STRANDS = "strands"


def read_strands(shape: ResponseShape) -> Signal | None:
    """Return the refusal in an agent's result, or None.

    Its Gemini model reports most reasons, and a blocked prompt, as `end_turn`. It keeps nothing
    of the provider's answer, so such a refusal cannot be read.
    """
    own = shape.own
    if not shape.has_type("AgentResult") and not (own["metrics"] and own["message"]):
        return None
    reason = own["stop_reason"]
    judged = interpret(_STRANDS, "stop_reason", reason.text)
    return None if judged.code is None else judged.to_signal(reason)
