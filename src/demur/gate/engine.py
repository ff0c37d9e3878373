"""The deterministic core: policy, memory, classification and authority, in this order.

Everything that could differ between two runs is part of the `EngineInput`: findings of guards,
recalled experiences, grants, and the time at which grants are checked. So deciding and replaying
are the same pure call. The results that no policy made (errors of demur, conflicts, resolutions)
are built here too.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from demur.classification import make_decision
from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.grants import KeyRing, resolve
from demur.memory.recall import MemorySettings, Recall, apply_memory
from demur.model.decision import Decision
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.model.record import Explanation
from demur.policy.evaluation import CompiledPolicy, Evaluation
from demur.policy.policy import Policy, describe_condition
from demur.version import ENGINE_VERSION

FIRST_ENGINE = "0.1.0"
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
    for signal in evaluation.missing_signals:
        yield f"Rule {signal.rule_id} could not be judged: {signal.path} is missing."
    if evaluation.defaulted:
        yield f"No other rule decides, so the default does: {policy.default.verdict}."
    if evaluation.shadowed_codes:
        codes = ", ".join(evaluation.shadowed_codes)
        yield f"Seen by guards, put in shadow by the policy: {codes}."
    if recall is not None and any("_MEMORY_SIMILAR_" in code for code in decision.reason_codes):
        yield (
            f"Similarity to labelled failures {recall.failure.score:.2f}, "
            f"to successes {recall.success.score:.2f}."
        )
    if decision.resolved_codes:
        yield f"Lifted or bound: {', '.join(decision.resolved_codes)}."
    if decision.verdict is Verdict.ABSTAIN:
        yield "What could not be judged is not executed."


_MAX_CACHED = 4096
_AMOUNT = "action.amount"


class EngineInput(msgspec.Struct, frozen=True):
    """Everything that a decision depends on besides policy, registry and keys."""

    request: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    signals: Mapping[str, Any] = {}
    recall: Recall | None = None
    grants: tuple[Grant, ...] = ()
    accepted: tuple[str, ...] = ()
    attempts_left: bool = True
    requester: str | None = None
    scope: Mapping[str, str] = {}
    now: datetime | None = None
    # The recorded checks of the grants, by grant id: for replays without keys.
    recorded_rejections: Mapping[str, str | None] | None = None


class EngineResult(msgspec.Struct, frozen=True):
    """The decision, the policy's own evaluation, the facts it compared, and the explanation."""

    decision: Decision
    evaluation: Evaluation
    facts: Mapping[str, Any]
    explanation: Explanation


class DecisionEngine:
    """Evaluates requests by one policy. Pure, and safe to share between threads.

    `version` is that of the engine whose decisions are made again: a replay of a record of the
    first engine decides as that engine did.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        registry: Registry,
        memory: MemorySettings | None = None,
        keys: KeyRing | None = None,
        revoked: Collection[str] = (),
        version: str = ENGINE_VERSION,
    ) -> None:
        self.policy = policy
        self.registry = registry
        self.memory = memory
        self.version = version
        self._is_first = version == FIRST_ENGINE
        self._compiled = CompiledPolicy(policy, registry=registry)
        self._keys = keys or KeyRing()
        self._revoked = frozenset(revoked)
        # A policy makes few different decisions, so caching them saves building the words again.
        self._build_decision_cached = lru_cache(_MAX_CACHED)(self._build_decision)

    def evaluate(self, engine_input: EngineInput) -> EngineResult:
        """Return the result. The same input always gives the same result."""
        request, findings, recall = engine_input.request, engine_input.findings, engine_input.recall
        signals = engine_input.signals
        evaluation, facts = self._compiled.evaluate_with_facts(request, findings, signals)
        # Scores hardly ever repeat, so results with a recall are not cached.
        build = self._build_decision_cached if recall is None else self._build_decision
        decision, explanation = build(evaluation, recall, engine_input.attempts_left)
        if engine_input.grants or engine_input.accepted:
            decision = msgspec.structs.replace(
                decision, requester=engine_input.requester, scope=engine_input.scope
            )
            decision = self.resolve(decision, engine_input)
            explanation = explain_decision(self.policy, evaluation, decision, recall)
        return EngineResult(decision, evaluation, facts, explanation)

    def filter_compared(self, request: Mapping[str, Any], paths: Iterable[str]) -> tuple[str, ...]:
        """Return those of the paths that overlap with a path that the policy compares."""
        compared = self._compiled.compared_paths(request)
        return tuple(path for path in paths if any(paths_overlap(path, one) for one in compared))

    def _build_decision(
        self,
        evaluation: Evaluation,
        recall: Recall | None,
        attempts_left: bool,  # noqa: FBT001 - the key of a cache
    ) -> tuple[Decision, Explanation]:
        verdict, codes = evaluation.verdict, evaluation.reason_codes
        resolved: tuple[str, ...] = ()
        if recall is not None and self.memory is not None:
            parts = (verdict, codes, recall, self.memory, self.registry)
            after = apply_memory(*parts, obligations=evaluation.obligations)
            verdict, codes, resolved = after.verdict, after.reason_codes, after.resolved_codes
        decision = make_decision(
            verdict,
            codes,
            constraints=evaluation.constraints,
            missing=() if verdict is Verdict.ALLOW else evaluation.missing,
            attempts_left=attempts_left,
            resolved_codes=resolved,
            obligations=evaluation.obligations,
            fallback_codes=() if self._is_first else evaluation.fallback_codes,
            registry=self.registry,
        )
        return decision, explain_decision(self.policy, evaluation, decision, recall)

    def resolve(self, decision: Decision, engine_input: EngineInput) -> Decision:
        """Return a decision after grants and accepted constraints were applied to it.

        Earlier grants are checked again: they may have expired or been revoked since.
        """
        if decision.lifted_by and decision.verdict is not Verdict.ALLOW:
            decision = make_decision(
                decision.verdict,
                dict.fromkeys((*decision.reason_codes, *decision.resolved_codes)),
                constraints=decision.constraints,
                missing=decision.missing,
                attempts_left=decision.attempts_left,
                requester=decision.requester,
                scope=decision.scope,
                accepted=decision.accepted,
                obligations=decision.obligations,
                fallback_codes=decision.fallback_codes,
                registry=self.registry,
            )
        return resolve(
            decision,
            engine_input.grants,
            engine_input.accepted,
            keys=self._keys,
            now=engine_input.now,
            revoked=self._revoked,
            recorded_rejections=engine_input.recorded_rejections,
            registry=self.registry,
        )


def paths_overlap(path: str, other: str) -> bool:
    """Return whether one of two paths lies within the other."""
    path, other = (_AMOUNT if part == "amount_usd" else part for part in (path, other))
    return f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.")


def internal_error_result(registry: Registry, error: Exception) -> EngineResult:
    """Return the result for a request that an internal error kept from being evaluated."""
    # The message of an error may quote what must not be stored, so only its type is kept.
    details = f"An error kept it from being judged: {type(error).__name__}."
    return _abstain_result("INTERNAL_ERROR", registry, details)


def storage_unavailable_result(registry: Registry, error: Exception) -> EngineResult:
    """Return the result for a decision that could not be stored."""
    details = f"It could not be stored: {type(error).__name__}."
    return _abstain_result("STORAGE_UNAVAILABLE", registry, details)


def conflict_result(registry: Registry, first_id: str) -> EngineResult:
    """Return the result for a request whose id belongs to another request."""
    decision = make_decision(Verdict.DENY, ["IDEMPOTENCY_CONFLICT"], registry=registry)
    details = f"The request id belongs to decision {first_id}, made on other inputs."
    return _runtime_result(decision, details)


def resolution_result(decision: Decision, before_id: str) -> EngineResult:
    """Return the result of resolving an earlier decision."""
    lifted = ", ".join(decision.lifted_by) or "nothing"
    details = f"Decision {before_id} was resolved; grants that count: {lifted}."
    return _runtime_result(decision, details)


def _abstain_result(code: str, registry: Registry, details: str) -> EngineResult:
    # INVARIANT: an error refuses: it is an ABSTAIN with a runtime code.
    return _runtime_result(make_decision(Verdict.ABSTAIN, [code], registry=registry), details)


def _runtime_result(decision: Decision, details: str) -> EngineResult:
    evaluation = Evaluation(decision.verdict, decision.reason_codes, ())
    return EngineResult(decision, evaluation, {}, explain_runtime(decision, details))
