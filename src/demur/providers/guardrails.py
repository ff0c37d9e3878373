"""Read guardrail products: Open Policy Agent, NeMo Guardrails, Guardrails AI and LLM Guard."""

from collections.abc import Mapping
from typing import Any

from demur.codes.vocabulary import Surface
from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, interpret, max_signal
from demur.providers.upstream import (
    drop_missing,
    find_own_refusal,
    find_reason_code,
    match_exception,
)

_OPA = "opa"
_DENIALS = ("deny", "denied", "violation", "violations")
# Linters and tests also list `violations`.
_OF_POLICIES = _DENIALS[:3]
_WORDS = ("reason", "message", "msg")
# Other systems have decision ids too: a document with other fields is not from OPA.
_WITHOUT_RESULT = frozenset({"decision_id", "metrics", "provenance", "warning", "explanation"})


def read_opa(shape: ResponseShape) -> Signal | None:
    """Return the refusal in a decision, or None.

    A policy with no result for an input has not denied it: nothing was judged. Policies choose
    the names inside a result; this module knows the common ones.
    """
    own = shape.own
    named, result = own["decision_id"], own["result"]
    if own["jsonrpc"] or not (named or result):
        return _read_error(own)
    if named and not result and {name for name, _ in own.fields()} <= _WITHOUT_RESULT:
        return _with_decision_id(interpret(_OPA, "result", "undefined").to_signal(named), own)
    if named and result.raw is False:
        return _with_decision_id(interpret(_OPA, "result", "false").to_signal(result), own)
    # An evaluation on the command line has a list of rows in place of one value.
    values = [expression["value"] for row in result for expression in row["expressions"]]
    found = max_signal(_read_document(one, sure=bool(named)) for one in values or [result])
    return _with_decision_id(found, own) or _read_error(own)


def _read_document(result: Node, *, sure: bool) -> Signal | None:
    """Return the refusal in a result that is a document, or None.

    Unless it is `sure` that a policy answered, only names that policies use count.
    """
    listed = [one for name in _DENIALS for one in (*result[name], *_denial_keys(result[name]))]
    if listed and (sure or result["allow"].present or any(result[name] for name in _OF_POLICIES)):
        return max_signal((_read_supplied(one) or _plain_denial(one, one)) for one in listed)
    if listed:
        return max_signal(_read_supplied(one) for one in listed)
    refused = next((result[name] for name in _DENIALS if result[name].is_true), None)
    refused = refused or (result["allow"] if result["allow"].raw is False else None)
    return None if refused is None else _read_supplied(result) or _plain_denial(refused, result)


def _denial_keys(denials: Node) -> list[Node]:
    """Return the entries of a set of denials serialised as an object: the keys."""
    return [Node(name, f"{denials.path}.{name}") for name, one in denials.fields() if one.is_true]


def _read_supplied(place: Node) -> Signal | None:
    """Return the refusal that the policy supplied as an envelope, a line or a code."""
    more: dict[str, Any] = {"surface": Surface.POLICY}
    words = [place[name] for name in _WORDS]
    detail = next((said.text for said in words if said.text), "")
    line = find_own_refusal(_OPA, place, *words, **more)
    return line or find_reason_code(_OPA, place, detail=detail, **more)


def _plain_denial(refused: Node, place: Node) -> Signal:
    words = [place, *(place[name] for name in _WORDS)]
    detail = next((said.text for said in words if said.text), "")
    return interpret(_OPA, "result", "false").to_signal(refused, detail=detail)


def _read_error(own: Node) -> Signal | None:
    """Return the signal of a policy that could not be evaluated, or None."""
    for error in own["errors"]:
        judged = interpret(_OPA, "error", error["code"].text)
        if judged.known:
            return judged.to_signal(error["code"], detail=error["message"].text or "")
    return None


def _with_decision_id(signal: Signal | None, own: Node) -> Signal | None:
    """Return the signal with the decision's id, which identifies it in OPA's log."""
    decision_id = own["decision_id"].text
    if signal is None or decision_id is None:
        return signal
    return signal._replace(request_id=decision_id)


_NEMO = "nemo"
_SURFACES = {
    "input": Surface.INPUT,
    "output": Surface.OUTPUT,
    "retrieval": Surface.RETRIEVAL,
    "tool_input": Surface.TOOL_CALL,
    "tool_output": Surface.TOOL_RESULT,
}


def read_nemo(shape: ResponseShape) -> Signal | None:
    """Return the refusal in a result, message or stream frame of NeMo Guardrails, or None.

    The refusal phrase exists in many languages and is never matched. The log, the role
    `exception` and the error frame report a refusal by structure. Without the log, a refusal
    looks like an answer.
    """
    own = shape.own
    messages = (own, *own, *own["response"], *own["messages"])
    exceptions = (one for one in messages if one["role"].text == "exception")
    found = _read_rails(own) or max_signal(map(_exception_signal, exceptions))
    return found or _read_error_frame(own) or _read_check(own)


def _read_rails(own: Node) -> Signal | None:
    log = own["log"] or own["guardrails"]["log"] or own["guardrails_data"]["log"]
    stopped = (rail for rail in log["activated_rails"] if rail["stop"].is_true)
    return max_signal(_rail_signal(rail) for rail in stopped if rail["type"].text in _SURFACES)


def _rail_signal(rail: Node) -> Signal:
    kind, name = rail["type"].text, rail["name"]
    judged = interpret(_NEMO, "rail", _flow_name(name.text))
    native = {"type": kind, "name": name.text, "stop": True}
    evidence = {"guard": name.text}
    return judged.to_signal(name, native=native, surface=_SURFACES[str(kind)], evidence=evidence)


def _flow_name(name: str | None) -> str:
    """Return the name of a flow without its model argument: `check input $model=x`."""
    return (name or "").partition("$")[0].strip()


def _exception_signal(message: Node) -> Signal:
    content = message["content"]
    kind, words = content["type"], content["message"]
    line = find_own_refusal(_NEMO, words)
    judged = interpret(_NEMO, "exception_event", kind.text)
    return line or judged.to_signal(kind or content, detail=words.text or "")


def _read_error_frame(own: Node) -> Signal | None:
    error = own["error"]
    kind, rails = error["type"], error["param"].text
    judged = interpret(_NEMO, "stream_error", kind.text)
    if not judged.known:
        return None
    line = find_own_refusal(_NEMO, error["message"])
    surface = _SURFACES.get((rails or "").removesuffix("_rails"))
    # `param` is a kind of rail, or the rail that stopped.
    closer = interpret(_NEMO, "rail", _flow_name(rails))
    judged = closer if closer.known else judged
    return line or judged.to_signal(kind, surface=surface, detail=error["message"].text or "")


def _read_check(own: Node) -> Signal | None:
    """Return the refusal in the answer of the server's check, or None."""
    if own["status"].text != "blocked" or not own["rails_status"]:
        return None
    found = []
    for name, rail in own["rails_status"].fields():
        if rail["status"].text == "blocked":
            judged = interpret(_NEMO, "rail", _flow_name(name))
            found.append(judged.to_signal(rail["status"], evidence={"guard": name}))
    return max_signal(found) or interpret(_NEMO, "check", "blocked").to_signal(own["status"])


_GUARDRAILS_AI = "guardrails_ai"
# Fields that the class always serialises, null or not.
_FAIL_FIELDS = frozenset({"fix_value", "error_spans", "validated_chunk"})
_QUOTING = frozenset({"PII_DETECTED", "SECRET_LEAK"})


def read_guardrails_ai(shape: ResponseShape) -> Signal | None:
    """Return the refusal in an outcome, a validator's result or the exception, or None.

    The name of the validator decides. Its message may quote the finding, so for personal data
    and secrets the message is left out, and the evidence says so.
    """
    error = match_exception(_GUARDRAILS_AI, shape)
    if error is not None:
        # Pydantic has an exception of the same name; this one has no fields.
        if shape.package != "guardrails":
            return None
        return error.to_signal(detail="validation failed", evidence={"left_out": ["message"]})
    own = shape.own
    if own["validationPassed"].raw is False:
        return _read_outcome(own)
    return _read_result(own) if _is_fail_result(shape) else None


def _is_fail_result(shape: ResponseShape) -> bool:
    """Return whether this is a validator's result: test results look similar."""
    own = shape.own
    if own["outcome"].text != "fail" or not own["error_message"]:
        return False
    kept = set(own.raw) if isinstance(own.raw, Mapping) else {name for name, _ in own.fields()}
    return shape.has_type("FailResult") or not kept.isdisjoint(_FAIL_FIELDS)


def _read_outcome(own: Node) -> Signal | None:
    failed = [one for one in own["validationSummaries"] if one["validatorStatus"].text != "pass"]
    found = max_signal(_read_summary(summary) for summary in failed)
    if found is not None:
        return found
    passed = own["validationPassed"]
    # No validator failed, so the guard itself did.
    kind = "error" if own["error"].text else "false"
    judged = interpret(_GUARDRAILS_AI, "validation_passed", kind)
    return judged.to_signal(passed, detail=own["error"].text or "")


def _read_summary(summary: Node) -> Signal:
    name = summary["validatorName"]
    kind = (name.text or "").rpartition("/")[2].replace("_", "")
    judged = interpret(_GUARDRAILS_AI, "validator", kind)
    status = {"validator_name": name.text, "validator_status": summary["validatorStatus"].text}
    words = summary["failureReason"].text
    evidence: dict[str, Any] = {"validator": name.text}
    if judged.code in _QUOTING:
        words = None
        evidence["left_out"] = ["failure_reason", "error_spans"]
    native = drop_missing({**status, "failure_reason": words})
    return judged.to_signal(name, native=native, evidence=evidence, detail=words or str(name.text))


def _read_result(own: Node) -> Signal:
    """Return the refusal of one validator. The result does not name it."""
    judged = interpret(_GUARDRAILS_AI, "result", "fail")
    said = {"outcome": "fail", "fixed": own["fix_value"].present}
    evidence = {"fixed": own["fix_value"].present, "left_out": ["error_message", "error_spans"]}
    more: dict[str, Any] = {"native": said, "evidence": evidence, "detail": "a validator failed"}
    return judged.to_signal(own["outcome"], **more)


_LLM_GUARD = "llm_guard"


def read_llm_guard(shape: ResponseShape) -> Signal | None:
    """Return the refusal in the result of a scan, or None.

    LLM Guard keys verdicts by class. Of two scanners of one class only the last verdict
    remains, so a refusal of the first may be lost.
    """
    error = match_exception(_LLM_GUARD, shape)
    if error is not None:
        return error.to_signal()
    return _read_scan(shape.own) or _read_server_answer(shape.own)


def _read_scan(own: Node) -> Signal | None:
    parts = [*own]
    if not isinstance(own.raw, tuple | list) or len(parts) != 3 or parts[0].text is None:
        return None
    _, verdicts, scores = parts
    judged = dict(verdicts.fields())
    if not judged or any(not isinstance(verdict.raw, bool) for verdict in judged.values()):
        return None
    failed = ((name, verdict) for name, verdict in judged.items() if verdict.raw is False)
    return max_signal(_scanner_signal(name, verdict, scores[name]) for name, verdict in failed)


def _read_server_answer(own: Node) -> Signal | None:
    """Return the refusal in the server's answer, which has scores only, or None."""
    if own["is_valid"].raw is not False or not own["scanners"]:
        return None
    scored = ((name, score) for name, score in own["scanners"].fields() if (score.number or 0) > 0)
    found = max_signal(_scanner_signal(name, score, score) for name, score in scored)
    return found or interpret(_LLM_GUARD, "is_valid", "false").to_signal(own["is_valid"])


def _scanner_signal(name: str, verdict: Node, score: Node) -> Signal:
    judged = interpret(_LLM_GUARD, "scanner", name)
    evidence = {"scanner": name, "score": score.number}
    return judged.to_signal(verdict, native={name: verdict.raw}, evidence=evidence)
