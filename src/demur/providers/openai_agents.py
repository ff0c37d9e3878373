"""Read the OpenAI Agents SDK: refusals, tripwires, tool guardrails, denied approvals.

A tripwire has no code: the guardrail's `output_info` decides.
"""

from typing import Any

from demur.codes.vocabulary import Surface
from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Interpretation, Signal, load_system
from demur.providers.upstream import (
    drop_missing,
    find_envelope,
    find_own_refusal,
    find_reason_code,
    match_exception,
)

__all__ = ["NAME", "read"]

NAME = "openai_agents"
_SURFACES = {
    "InputGuardrailTripwireTriggered": Surface.INPUT,
    "OutputGuardrailTripwireTriggered": Surface.OUTPUT,
    "ToolInputGuardrailTripwireTriggered": Surface.TOOL_CALL,
    "ToolOutputGuardrailTripwireTriggered": Surface.TOOL_RESULT,
}
# The SDK's own text, which must be the whole output.
_WORDS_CONFIDENCE = 0.9


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal in an exception, guardrail result or tool output, or None."""
    own = shape.own
    error = match_exception(NAME, shape)
    if error is None:
        return _read_guardrail_result(own) or _read_behaviour(own) or _read_tool_output(own)
    if error.kind == "ModelRefusalError":
        words = own["refusal"]
        return error.to_signal(words, detail=words.text or "")
    return _tripwire_signal(error.judged, own["guardrail_result"] or own, _SURFACES[error.kind])


def _read_guardrail_result(own: Node) -> Signal | None:
    """Return the refusal in a guardrail result of a run, or None."""
    output = own["output"] or own
    if not output["tripwire_triggered"].is_true:
        return None
    return _tripwire_signal(load_system(NAME).interpret("tripwire", "true"), own, None)


def _tripwire_signal(judged: Interpretation, result: Node, surface: Surface | None) -> Signal:
    said = (result["output"] or result)["output_info"]
    guard = result["guardrail"]["name"].text
    more: dict[str, Any] = {"surface": surface, "evidence": drop_missing({"guard": guard})}
    found = find_own_refusal(NAME, said, **more) or find_reason_code(NAME, said, **more)
    return found or judged.to_signal(
        said or result["guardrail"], detail=guard or "a guardrail", **more
    )


def _read_behaviour(own: Node) -> Signal | None:
    """Return the refusal in the answer of a tool guardrail, or None."""
    behaviour = own["behavior"]
    judged = load_system(NAME).interpret("behavior", behaviour["type"].text)
    if not judged.known or judged.code is None:
        return None
    said, words = own["output_info"], behaviour["message"]
    found = find_own_refusal(NAME, said, words) or find_reason_code(NAME, said)
    return found or judged.to_signal(behaviour["type"], detail=words.text or "")


def _read_tool_output(own: Node) -> Signal | None:
    """Return the refusal in place of a tool's output, or None."""
    item = own["raw_item"] or own
    if item["type"].text != "function_call_output":
        return None
    output = item["output"]
    # The text of a tool may come from anyone: a refusal line in it does not count.
    whole = find_envelope(NAME, output)
    judged = load_system(NAME).interpret("tool_output", (output.text or "").removesuffix("."))
    if whole is not None or not judged.known:
        return whole
    return judged.to_signal(output, confidence=_WORDS_CONFIDENCE)
