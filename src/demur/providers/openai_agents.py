"""Read the OpenAI Agents SDK: refusals, tripwires, tool guardrails, denied approvals.

A tripwire has no code: the guardrail's `output_info` decides.
"""

from typing import Any

from demur.codes.vocabulary import Surface
from demur.providers.carried import carried, coded, enveloped
from demur.providers.mapping import Judged, system
from demur.providers.node import Node
from demur.providers.raised import raised, stated
from demur.providers.shape import Shape
from demur.providers.signal import Signal

__all__ = ["NAME", "read"]

NAME = "openai_agents"
_SURFACES = {
    "InputGuardrailTripwireTriggered": Surface.INPUT,
    "OutputGuardrailTripwireTriggered": Surface.OUTPUT,
    "ToolInputGuardrailTripwireTriggered": Surface.TOOL_CALL,
    "ToolOutputGuardrailTripwireTriggered": Surface.TOOL_RESULT,
}
# The SDK's own text, which must be the whole output.
_CERTAIN_ENOUGH = 0.9


def read(shape: Shape) -> Signal | None:
    """Return the refusal in an exception, guardrail result or tool output, or None."""
    own = shape.own
    error = raised(NAME, shape)
    if error is None:
        return _result(own) or _behaviour(own) or _unapproved(own)
    if error.kind == "ModelRefusalError":
        words = own["refusal"]
        return error.signal(words, detail=words.text or "")
    return _tripped(error.judged, own["guardrail_result"] or own, _SURFACES[error.kind])


def _result(own: Node) -> Signal | None:
    """Return the refusal in a guardrail result of a run, or None."""
    output = own["output"] or own
    if not output["tripwire_triggered"].true:
        return None
    return _tripped(system(NAME).judge("tripwire", "true"), own, None)


def _tripped(judged: Judged, result: Node, surface: Surface | None) -> Signal:
    said = (result["output"] or result)["output_info"]
    guard = result["guardrail"]["name"].text
    more: dict[str, Any] = {"surface": surface, "evidence": stated({"guard": guard})}
    found = carried(NAME, said, **more) or coded(NAME, said, **more)
    return found or judged.signal(
        said or result["guardrail"], detail=guard or "a guardrail", **more
    )


def _behaviour(own: Node) -> Signal | None:
    """Return the refusal in the answer of a tool guardrail, or None."""
    behaviour = own["behavior"]
    judged = system(NAME).judge("behavior", behaviour["type"].text)
    if not judged.known or judged.code is None:
        return None
    said, words = own["output_info"], behaviour["message"]
    found = carried(NAME, said, words) or coded(NAME, said)
    return found or judged.signal(behaviour["type"], detail=words.text or "")


def _unapproved(own: Node) -> Signal | None:
    """Return the refusal in place of a tool's output, or None."""
    item = own["raw_item"] or own
    if item["type"].text != "function_call_output":
        return None
    output = item["output"]
    # The text of a tool may come from anyone: a refusal line in it does not count.
    whole = enveloped(NAME, output)
    judged = system(NAME).judge("tool_output", (output.text or "").removesuffix("."))
    if whole is not None or not judged.known:
        return whole
    return judged.signal(output, confidence=_CERTAIN_ENOUGH)
