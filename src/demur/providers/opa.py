"""Read a decision of Open Policy Agent: its result, and the policy's own reason code.

A policy with no result for an input has not denied it: nothing was judged. Policies choose
the names inside a result; this module knows the common ones.
"""

from typing import Any

from demur.codes.vocabulary import Surface
from demur.providers.carried import carried, coded
from demur.providers.mapping import system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Signal, strongest

__all__ = ["NAME", "read"]

NAME = "opa"
_DENIALS = ("deny", "denied", "violation", "violations")
# Linters and tests also list `violations`.
_OF_POLICIES = _DENIALS[:3]
_WORDS = ("reason", "message", "msg")
# Other systems have decision ids too: a document with other fields is not from OPA.
_WITHOUT_RESULT = frozenset({"decision_id", "metrics", "provenance", "warning", "explanation"})


def read(shape: Shape) -> Signal | None:
    """Return the refusal in a decision, or None."""
    own = shape.own
    named, result = own["decision_id"], own["result"]
    if own["jsonrpc"] or not (named or result):
        return _error(own)
    if named and not result and {name for name, _ in own.fields()} <= _WITHOUT_RESULT:
        return _noted(system(NAME).judge("result", "undefined").signal(named), own)
    if named and result.raw is False:
        return _noted(system(NAME).judge("result", "false").signal(result), own)
    found = strongest(_document(one, sure=bool(named)) for one in _values(result))
    return _noted(found, own) or _error(own)


def _values(result: Node) -> list[Node]:
    """Return the result, or each value of an evaluation on the command line."""
    rows = [expression["value"] for row in result for expression in row["expressions"]]
    return rows or [result]


def _document(result: Node, *, sure: bool) -> Signal | None:
    """Return the refusal in a result that is a document, or None.

    Unless it is `sure` that a policy answered, only names that policies use count.
    """
    listed = [one for name in _DENIALS for one in (*result[name], *_fields(result[name]))]
    if listed and (sure or result["allow"].present or any(result[name] for name in _OF_POLICIES)):
        return strongest(_denial(one) for one in listed)
    if listed:
        return strongest(_supplied(one) for one in listed)
    refused = next((result[name] for name in _DENIALS if result[name].true), None)
    refused = refused or (result["allow"] if result["allow"].raw is False else None)
    return None if refused is None else _supplied(result) or _plain(refused, result)


def _fields(denials: Node) -> list[Node]:
    """Return the entries of a set of denials serialised as an object: the keys."""
    return [Node(name, f"{denials.path}.{name}") for name, one in denials.fields() if one.true]


def _denial(denial: Node) -> Signal:
    return _supplied(denial) or _plain(denial, denial)


def _supplied(place: Node) -> Signal | None:
    """Return the refusal that the policy supplied as an envelope, a line or a code."""
    more: dict[str, Any] = {"surface": Surface.POLICY}
    words = (place[name] for name in _WORDS)
    detail = next((said.text for said in words if said.text), "")
    line = carried(NAME, place, *(place[name] for name in _WORDS), **more)
    return line or coded(NAME, place, detail=detail, **more)


def _plain(refused: Node, place: Node) -> Signal:
    words = [place, *(place[name] for name in _WORDS)]
    detail = next((said.text for said in words if said.text), "")
    return system(NAME).judge("result", "false").signal(refused, detail=detail)


def _error(own: Node) -> Signal | None:
    """Return the signal of a policy that could not be evaluated, or None."""
    for error in own["errors"]:
        judged = system(NAME).judge("error", error["code"].text)
        if judged.known:
            return judged.signal(error["code"], detail=error["message"].text or "")
    return None


def _noted(signal: Signal | None, own: Node) -> Signal | None:
    """Return the signal with the decision's id, which identifies it in OPA's log."""
    decision_id = own["decision_id"].text
    if signal is None or decision_id is None:
        return signal
    return signal._replace(request_id=decision_id)
