"""Read NeMo Guardrails: rails that stopped, exception events, errors inside a stream.

The refusal phrase exists in many languages and is never matched. The log, the role
`exception` and the error frame report a refusal by structure. Without the log, a refusal
looks like an answer.
"""

from demur.codes.vocabulary import Surface
from demur.providers.carried import carried
from demur.providers.mapping import system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Signal, strongest

__all__ = ["NAME", "read"]

NAME = "nemo"
_SURFACES = {
    "input": Surface.INPUT,
    "output": Surface.OUTPUT,
    "retrieval": Surface.RETRIEVAL,
    "tool_input": Surface.TOOL_CALL,
    "tool_output": Surface.TOOL_RESULT,
}


def read(shape: Shape) -> Signal | None:
    """Return the refusal in a result, message or stream frame of NeMo Guardrails, or None."""
    own = shape.own
    return _rails(own) or _exceptions(own) or _frame(own) or _check(own)


def _rails(own: Node) -> Signal | None:
    log = own["log"] or own["guardrails"]["log"] or own["guardrails_data"]["log"]
    stopped = (rail for rail in log["activated_rails"] if rail["stop"].true)
    return strongest(_rail(rail) for rail in stopped if rail["type"].text in _SURFACES)


def _rail(rail: Node) -> Signal:
    kind, name = rail["type"].text, rail["name"]
    judged = system(NAME).judge("rail", _flow(name.text))
    native = {"type": kind, "name": name.text, "stop": True}
    evidence = {"guard": name.text}
    return judged.signal(name, native=native, surface=_SURFACES[str(kind)], evidence=evidence)


def _flow(name: str | None) -> str:
    """Return the name of a flow without its model argument: `check input $model=x`."""
    return (name or "").partition("$")[0].strip()


def _exceptions(own: Node) -> Signal | None:
    """Return the refusal in messages whose role is `exception`, or None."""
    messages = [own, *own, *own["response"], *own["messages"]]
    return strongest(_exception(one) for one in messages if one["role"].text == "exception")


def _exception(message: Node) -> Signal:
    content = message["content"]
    kind, words = content["type"], content["message"]
    line = carried(NAME, words)
    judged = system(NAME).judge("exception_event", kind.text)
    return line or judged.signal(kind or content, detail=words.text or "")


def _frame(own: Node) -> Signal | None:
    error = own["error"]
    kind, rails = error["type"], error["param"].text
    judged = system(NAME).judge("stream_error", kind.text)
    if not judged.known:
        return None
    line = carried(NAME, error["message"])
    surface = _SURFACES.get((rails or "").removesuffix("_rails"))
    # `param` is a kind of rail, or the rail that stopped.
    closer = system(NAME).judge("rail", _flow(rails))
    judged = closer if closer.known else judged
    return line or judged.signal(kind, surface=surface, detail=error["message"].text or "")


def _check(own: Node) -> Signal | None:
    """Return the refusal in the answer of the server's check, or None."""
    if own["status"].text != "blocked" or not own["rails_status"]:
        return None
    blocked = (
        (n, one) for n, one in own["rails_status"].fields() if one["status"].text == "blocked"
    )
    field = system(NAME)["rail"]
    found = (
        field.judge(_flow(n)).signal(one["status"], evidence={"guard": n}) for n, one in blocked
    )
    return strongest(found) or system(NAME).judge("check", "blocked").signal(own["status"])
