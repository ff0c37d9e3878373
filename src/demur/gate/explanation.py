"""The explanation of a decision: one sentence, and its reasons.

It is for people who look into the decision later. It holds nothing personal: rules are described
in the policy's words, and compared values stay in the sealed part of the record.
"""

from collections.abc import Iterator

from demur.codes.vocabulary import Verdict
from demur.memory.recall import Recall
from demur.model.decision import Decision
from demur.model.record import Explanation
from demur.policy.evaluation import Evaluation
from demur.policy.policy import Policy
from demur.policy.words import describe_condition

__all__ = ["explain_decision", "explain_runtime"]

_ALLOWED = "Nothing stands in the way of this request."


def explain_decision(
    policy: Policy, evaluation: Evaluation, decision: Decision, recall: Recall | None
) -> Explanation:
    """Return the explanation of a decision that the policy made."""
    details = " ".join(_detail_sentences(policy, evaluation, decision, recall))
    return Explanation(summary=decision.reason or _ALLOWED, details=details)


def explain_runtime(decision: Decision, details: str) -> Explanation:
    """Return the explanation of a decision that no policy made."""
    return Explanation(summary=decision.reason or _ALLOWED, details=details)


def _detail_sentences(
    policy: Policy, evaluation: Evaluation, decision: Decision, recall: Recall | None
) -> Iterator[str]:
    matched = set(evaluation.matched_rules)
    for rule in policy.rules:
        if rule.id in matched and not rule.shadow:
            why = describe_condition(rule.condition)
            yield f"Rule {rule.id} ({rule.stage}) says {rule.then.verdict}: {why}."
    for fact in evaluation.invalid:
        yield f"Rule {fact.rule_id} could not be judged: {fact.path} cannot be used."
    if evaluation.defaulted:
        yield f"No other rule decides, so the default does: {policy.default.verdict}."
    if evaluation.shadowed_codes:
        codes = ", ".join(evaluation.shadowed_codes)
        yield f"Seen by guards, put in shadow by the policy: {codes}."
    if recall is not None and _memory_spoke(decision):
        yield (
            f"Similarity to labelled failures {recall.failure.score:.2f}, "
            f"to successes {recall.success.score:.2f}."
        )
    if decision.resolved_codes:
        yield f"Lifted or bound: {', '.join(decision.resolved_codes)}."
    if decision.verdict is Verdict.ABSTAIN:
        yield "What could not be judged is not executed."


def _memory_spoke(decision: Decision) -> bool:
    return any("_MEMORY_SIMILAR_" in code for code in decision.reason_codes)
