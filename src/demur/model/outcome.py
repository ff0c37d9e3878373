"""The table from verdict and refusal class to the decision output."""

from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.errors import InconsistentError

__all__ = ["decision_output_for"]


def decision_output_for(
    verdict: Verdict,
    refusal_class: RefusalClass | None,
    *,
    constraints: bool = False,
    missing: bool = False,
    attempts_left: bool = True,
) -> DecisionOutput:
    """Return the output for a verdict and the strictest unresolved class.

    `constraints` and `missing` say whether any can be named.

    Raises:
        InconsistentError: The combination has no meaning.
    """
    # INVARIANT: the output is ALLOW_* if and only if the verdict is ALLOW.
    if verdict is Verdict.ALLOW:
        return _allowed_output(refusal_class, constraints=constraints)
    if refusal_class is None:
        raise InconsistentError(
            f"{verdict} needs at least one reason code that refuses",
            help="name the reason; a block nobody can explain is not a decision",
        )
    can_ask = {
        RefusalClass.HARD_BLOCK: False,
        RefusalClass.WORKFLOW_BLOCK: missing,
        RefusalClass.SOFT_BLOCK: constraints,
    }[refusal_class]
    if can_ask and attempts_left:
        return DecisionOutput.NEED_CONTEXT
    return DecisionOutput.REFUSE_WITH_PATH


def _allowed_output(refusal_class: RefusalClass | None, *, constraints: bool) -> DecisionOutput:
    if refusal_class is None:
        return DecisionOutput.ALLOW_EXECUTE
    if refusal_class is not RefusalClass.SOFT_BLOCK:
        raise InconsistentError(f"ALLOW cannot stand beside an unresolved {refusal_class}")
    if not constraints:
        raise InconsistentError(
            "ALLOW with a SOFT_BLOCK needs the constraints that make it safe",
            help="name the constraints, or leave the soft code out",
        )
    return DecisionOutput.ALLOW_CONSTRAINED
