"""Read a decision of Open Policy Agent: its result, and the policy's own reason code.

A policy with no result for an input has not denied it: nothing was judged. Policies choose
the names inside a result; this module knows the common ones.
"""

from typing import Any

from demur.codes.vocabulary import Surface
from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, load_system, strongest_signal
from demur.providers.upstream import find_own_refusal, find_reason_code

__all__ = ["NAME", "read"]

NAME = "opa"
_DENIALS = ("deny", "denied", "violation", "violations")
# Linters and tests also list `violations`.
_OF_POLICIES = _DENIALS[:3]
_WORDS = ("reason", "message", "msg")
# Other systems have decision ids too: a document with other fields is not from OPA.
_WITHOUT_RESULT = frozenset({"decision_id", "metrics", "provenance", "warning", "explanation"})


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal in a decision, or None."""
    own = shape.own
    named, result = own["decision_id"], own["result"]
    if own["jsonrpc"] or not (named or result):
        return _read_error(own)
    if named and not result and {name for name, _ in own.fields()} <= _WITHOUT_RESULT:
        return _with_decision_id(
            load_system(NAME).interpret("result", "undefined").to_signal(named), own
        )
    if named and result.raw is False:
        return _with_decision_id(
            load_system(NAME).interpret("result", "false").to_signal(result), own
        )
    found = strongest_signal(
        _read_document(one, sure=bool(named)) for one in _result_values(result)
    )
    return _with_decision_id(found, own) or _read_error(own)


def _result_values(result: Node) -> list[Node]:
    """Return the result, or each value of an evaluation on the command line."""
    rows = [expression["value"] for row in result for expression in row["expressions"]]
    return rows or [result]


def _read_document(result: Node, *, sure: bool) -> Signal | None:
    """Return the refusal in a result that is a document, or None.

    Unless it is `sure` that a policy answered, only names that policies use count.
    """
    listed = [one for name in _DENIALS for one in (*result[name], *_denial_keys(result[name]))]
    if listed and (sure or result["allow"].present or any(result[name] for name in _OF_POLICIES)):
        return strongest_signal(_denial_signal(one) for one in listed)
    if listed:
        return strongest_signal(_read_supplied(one) for one in listed)
    refused = next((result[name] for name in _DENIALS if result[name].is_true), None)
    refused = refused or (result["allow"] if result["allow"].raw is False else None)
    return None if refused is None else _read_supplied(result) or _plain_denial(refused, result)


def _denial_keys(denials: Node) -> list[Node]:
    """Return the entries of a set of denials serialised as an object: the keys."""
    return [Node(name, f"{denials.path}.{name}") for name, one in denials.fields() if one.is_true]


def _denial_signal(denial: Node) -> Signal:
    return _read_supplied(denial) or _plain_denial(denial, denial)


def _read_supplied(place: Node) -> Signal | None:
    """Return the refusal that the policy supplied as an envelope, a line or a code."""
    more: dict[str, Any] = {"surface": Surface.POLICY}
    words = (place[name] for name in _WORDS)
    detail = next((said.text for said in words if said.text), "")
    line = find_own_refusal(NAME, place, *(place[name] for name in _WORDS), **more)
    return line or find_reason_code(NAME, place, detail=detail, **more)


def _plain_denial(refused: Node, place: Node) -> Signal:
    words = [place, *(place[name] for name in _WORDS)]
    detail = next((said.text for said in words if said.text), "")
    return load_system(NAME).interpret("result", "false").to_signal(refused, detail=detail)


def _read_error(own: Node) -> Signal | None:
    """Return the signal of a policy that could not be evaluated, or None."""
    for error in own["errors"]:
        judged = load_system(NAME).interpret("error", error["code"].text)
        if judged.known:
            return judged.to_signal(error["code"], detail=error["message"].text or "")
    return None


def _with_decision_id(signal: Signal | None, own: Node) -> Signal | None:
    """Return the signal with the decision's id, which identifies it in OPA's log."""
    decision_id = own["decision_id"].text
    if signal is None or decision_id is None:
        return signal
    return signal._replace(request_id=decision_id)
