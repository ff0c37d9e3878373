"""Engine results that no policy made: errors of demur itself, conflicts and resolutions."""

from demur.classification.conclude import conclude
from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.gate.engine import Judgement
from demur.gate.explanation import explain_runtime
from demur.model.decision import Decision
from demur.policy.evaluation import Evaluation

__all__ = ["conflict", "internal_error", "resolution", "storage_unavailable"]


def internal_error(registry: Registry, error: Exception) -> Judgement:
    """Return the result for a request that an internal error kept from being evaluated."""
    return _unjudged(
        "INTERNAL_ERROR", registry, f"An error kept it from being judged: {_name(error)}."
    )


def storage_unavailable(registry: Registry, error: Exception) -> Judgement:
    """Return the result for a decision that could not be stored."""
    return _unjudged("STORAGE_UNAVAILABLE", registry, f"It could not be stored: {_name(error)}.")


def conflict(registry: Registry, first_id: str) -> Judgement:
    """Return the result for a request whose id belongs to another request."""
    decision = conclude(Verdict.DENY, ["IDEMPOTENCY_CONFLICT"], registry=registry)
    return _judgement(
        decision, f"The request id belongs to decision {first_id}, made on other inputs."
    )


def resolution(decision: Decision, before_id: str) -> Judgement:
    """Return the result of resolving an earlier decision."""
    lifted = ", ".join(decision.lifted_by) or "nothing"
    return _judgement(decision, f"Decision {before_id} was resolved; grants that count: {lifted}.")


def _unjudged(code: str, registry: Registry, details: str) -> Judgement:
    # INVARIANT: an error refuses: it is an ABSTAIN with a runtime code.
    return _judgement(conclude(Verdict.ABSTAIN, [code], registry=registry), details)


def _judgement(decision: Decision, details: str) -> Judgement:
    evaluation = Evaluation(decision.verdict, decision.reason_codes, ())
    return Judgement(decision, evaluation, {}, explain_runtime(decision, details))


def _name(error: Exception) -> str:
    """Return the type of an error: its message may quote what must not be stored."""
    return type(error).__name__
