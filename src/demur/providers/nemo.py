"""Read NeMo Guardrails: rails that stopped, exception events, errors inside a stream.

The refusal phrase exists in many languages and is never matched. The log, the role
`exception` and the error frame report a refusal by structure. Without the log, a refusal
looks like an answer.
"""

from demur.codes.vocabulary import Surface
from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, load_system, strongest_signal
from demur.providers.upstream import find_own_refusal

__all__ = ["NAME", "read"]

NAME = "nemo"
_SURFACES = {
    "input": Surface.INPUT,
    "output": Surface.OUTPUT,
    "retrieval": Surface.RETRIEVAL,
    "tool_input": Surface.TOOL_CALL,
    "tool_output": Surface.TOOL_RESULT,
}


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal in a result, message or stream frame of NeMo Guardrails, or None."""
    own = shape.own
    return _read_rails(own) or _read_exceptions(own) or _read_error_frame(own) or _read_check(own)


def _read_rails(own: Node) -> Signal | None:
    log = own["log"] or own["guardrails"]["log"] or own["guardrails_data"]["log"]
    stopped = (rail for rail in log["activated_rails"] if rail["stop"].is_true)
    return strongest_signal(
        _rail_signal(rail) for rail in stopped if rail["type"].text in _SURFACES
    )


def _rail_signal(rail: Node) -> Signal:
    kind, name = rail["type"].text, rail["name"]
    judged = load_system(NAME).interpret("rail", _flow_name(name.text))
    native = {"type": kind, "name": name.text, "stop": True}
    evidence = {"guard": name.text}
    return judged.to_signal(name, native=native, surface=_SURFACES[str(kind)], evidence=evidence)


def _flow_name(name: str | None) -> str:
    """Return the name of a flow without its model argument: `check input $model=x`."""
    return (name or "").partition("$")[0].strip()


def _read_exceptions(own: Node) -> Signal | None:
    """Return the refusal in messages whose role is `exception`, or None."""
    messages = [own, *own, *own["response"], *own["messages"]]
    return strongest_signal(
        _exception_signal(one) for one in messages if one["role"].text == "exception"
    )


def _exception_signal(message: Node) -> Signal:
    content = message["content"]
    kind, words = content["type"], content["message"]
    line = find_own_refusal(NAME, words)
    judged = load_system(NAME).interpret("exception_event", kind.text)
    return line or judged.to_signal(kind or content, detail=words.text or "")


def _read_error_frame(own: Node) -> Signal | None:
    error = own["error"]
    kind, rails = error["type"], error["param"].text
    judged = load_system(NAME).interpret("stream_error", kind.text)
    if not judged.known:
        return None
    line = find_own_refusal(NAME, error["message"])
    surface = _SURFACES.get((rails or "").removesuffix("_rails"))
    # `param` is a kind of rail, or the rail that stopped.
    closer = load_system(NAME).interpret("rail", _flow_name(rails))
    judged = closer if closer.known else judged
    return line or judged.to_signal(kind, surface=surface, detail=error["message"].text or "")


def _read_check(own: Node) -> Signal | None:
    """Return the refusal in the answer of the server's check, or None."""
    if own["status"].text != "blocked" or not own["rails_status"]:
        return None
    blocked = (
        (n, one) for n, one in own["rails_status"].fields() if one["status"].text == "blocked"
    )
    field = load_system(NAME)["rail"]
    found = (
        field.interpret(_flow_name(n)).to_signal(one["status"], evidence={"guard": n})
        for n, one in blocked
    )
    return strongest_signal(found) or load_system(NAME).interpret("check", "blocked").to_signal(
        own["status"]
    )
