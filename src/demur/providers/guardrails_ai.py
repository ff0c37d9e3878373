"""Read Guardrails AI: validation outcomes, validator results and the exception.

The name of the validator decides. Its message may quote the finding, so for personal data
and secrets the message is left out, and the evidence says so.
"""

from collections.abc import Mapping
from typing import Any

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Interpretation, Signal, load_system, strongest_signal
from demur.providers.upstream import drop_missing, match_exception

__all__ = ["NAME", "read"]

NAME = "guardrails_ai"
# Fields that the class always serialises, null or not.
_FAIL_FIELDS = frozenset({"fix_value", "error_spans", "validated_chunk"})
_QUOTING = frozenset({"PII_DETECTED", "SECRET_LEAK"})


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal in an outcome, a validator's result or the exception, or None."""
    error = match_exception(NAME, shape)
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
    found = strongest_signal(_read_summary(summary) for summary in failed)
    if found is not None:
        return found
    passed = own["validationPassed"]
    # No validator failed, so the guard itself did.
    kind = "error" if own["error"].text else "false"
    return (
        load_system(NAME)
        .interpret("validation_passed", kind)
        .to_signal(passed, detail=own["error"].text or "")
    )


def _read_summary(summary: Node) -> Signal:
    name = summary["validatorName"]
    judged = load_system(NAME).interpret("validator", _class_name(name.text))
    status = {"validator_name": name.text, "validator_status": summary["validatorStatus"].text}
    return judged.to_signal(
        name, **_safe_parts(judged, status, summary["failureReason"], name.text)
    )


def _read_result(own: Node) -> Signal:
    """Return the refusal of one validator. The result does not name it."""
    judged = load_system(NAME).interpret("result", "fail")
    said = {"outcome": "fail", "fixed": own["fix_value"].present}
    evidence = {"fixed": own["fix_value"].present, "left_out": ["error_message", "error_spans"]}
    return judged.to_signal(
        own["outcome"], native=said, evidence=evidence, detail="a validator failed"
    )


def _safe_parts(
    judged: Interpretation, status: dict[str, Any], words: Node, name: str | None
) -> dict[str, Any]:
    evidence = {"validator": name}
    if judged.code in _QUOTING:
        left = {**evidence, "left_out": ["failure_reason", "error_spans"]}
        return {"native": drop_missing(status), "evidence": left, "detail": str(name)}
    native = drop_missing({**status, "failure_reason": words.text})
    return {"native": native, "evidence": evidence, "detail": words.text or str(name)}


def _class_name(name: str | None) -> str:
    """Return the class name; the hub writes it as `guardrails/detect_pii`."""
    return (name or "").rpartition("/")[2].replace("_", "")
