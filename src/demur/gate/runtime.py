"""Engine results that no policy made: errors of demur itself, conflicts and resolutions."""

from demur.classification.conclude import make_decision
from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.gate.engine import EngineResult
from demur.gate.explanation import explain_runtime
from demur.model.decision import Decision
from demur.policy.evaluation import Evaluation

__all__ = [
    "conflict_result",
    "internal_error_result",
    "resolution_result",
    "storage_unavailable_result",
]


def internal_error_result(registry: Registry, error: Exception) -> EngineResult:
    """Return the result for a request that an internal error kept from being evaluated."""
    return _abstain_result(
        "INTERNAL_ERROR", registry, f"An error kept it from being judged: {_error_name(error)}."
    )


def storage_unavailable_result(registry: Registry, error: Exception) -> EngineResult:
    """Return the result for a decision that could not be stored."""
    return _abstain_result(
        "STORAGE_UNAVAILABLE", registry, f"It could not be stored: {_error_name(error)}."
    )


def conflict_result(registry: Registry, first_id: str) -> EngineResult:
    """Return the result for a request whose id belongs to another request."""
    decision = make_decision(Verdict.DENY, ["IDEMPOTENCY_CONFLICT"], registry=registry)
    return _runtime_result(
        decision, f"The request id belongs to decision {first_id}, made on other inputs."
    )


def resolution_result(decision: Decision, before_id: str) -> EngineResult:
    """Return the result of resolving an earlier decision."""
    lifted = ", ".join(decision.lifted_by) or "nothing"
    return _runtime_result(
        decision, f"Decision {before_id} was resolved; grants that count: {lifted}."
    )


def _abstain_result(code: str, registry: Registry, details: str) -> EngineResult:
    # INVARIANT: an error refuses: it is an ABSTAIN with a runtime code.
    return _runtime_result(make_decision(Verdict.ABSTAIN, [code], registry=registry), details)


def _runtime_result(decision: Decision, details: str) -> EngineResult:
    evaluation = Evaluation(decision.verdict, decision.reason_codes, ())
    return EngineResult(decision, evaluation, {}, explain_runtime(decision, details))


def _error_name(error: Exception) -> str:
    """Return the type of an error: its message may quote what must not be stored."""
    return type(error).__name__
