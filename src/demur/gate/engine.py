"""The deterministic core: policy, memory, classification and authority, in this order.

Everything that could differ between two runs is part of the `EngineInput`: findings of guards,
recalled experiences, grants, and the time at which grants are checked. So deciding and replaying
are the same pure call. The results that no policy made (errors of demur, conflicts, resolutions)
are built here too.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from demur.classification import make_decision, missing_grants
from demur.codes.registry import Registry
from demur.codes.vocabulary import GrantKind, Surface, Verdict
from demur.grants.keys import KeyRing
from demur.grants.resolution import PersonKeys, resolve
from demur.memory.recall import MemorySettings, Recall, apply_memory
from demur.model.decision import Decision
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.model.record import DecisionRecord, Explanation, InvalidField
from demur.policy.conditions import SIGNAL_ROOT
from demur.policy.evaluation import CompiledPolicy, Evaluation, FoundCode, merge_missing
from demur.policy.policy import Policy, describe_condition
from demur.version import ENGINE_VERSION

FIRST_ENGINE = "0.1.0"
_ALLOWED = "Nothing stands in the way of this request."
# What decided if a finding is of none of the guards.
_NO_GUARDS: Mapping[str, str] = {
    Surface.RUNTIME: "because a check could not be made",
    Surface.MODEL: "by the model or its provider",
}


class DecisionCause(NamedTuple):
    """What a decision rests on; `str()` of it says what decided, and what was overruled."""

    decision: Decision | DecisionRecord
    refusing_rules: tuple[str, ...]
    allowing_rules: tuple[str, ...]
    found: tuple[FoundCode, ...]
    invalid_paths: tuple[str, ...]

    def __str__(self) -> str:
        allowing, lifted = _name_rules(self.allowing_rules), self.decision.resolved_codes
        if self.decision.verdict is Verdict.ALLOW:
            by = allowing or "the default of the policy"
            return f"because {', '.join(lifted)} was lifted or bound" if lifted else f"by {by}"
        # INVARIANT: no rule that allows is named as the reason of a refusal.
        overruled = f"; {allowing} would allow" if allowing else ""
        return f"{self.decision.leading_code} {self._refusing_part}{overruled}"

    @property
    def is_rule(self) -> bool:
        """Whether rules alone decided, and none of them was overruled."""
        if self.decision.verdict is Verdict.ALLOW:
            return bool(self.allowing_rules) and not self.decision.resolved_codes
        by_rules = f"by {_name_rules(self.refusing_rules)}"
        return not self.allowing_rules and self._refusing_part == by_rules

    @property
    def _refusing_part(self) -> str:
        code = self.decision.leading_code
        surfaces = dict.fromkeys(one.surface for one in self.found if one.code == code)
        if surfaces:
            other = next((_NO_GUARDS[name] for name in surfaces if name in _NO_GUARDS), None)
            return other or f"found by the {' and the '.join(surfaces)} guard"
        if code in self.decision.fallback_codes:
            return "by the default of the policy"
        if code == "EVIDENCE_INVALID" and self.invalid_paths:
            return f"because {', '.join(self.invalid_paths)} cannot be used"
        if code is not None and "_MEMORY_SIMILAR_" in code:
            return "by memory"
        parts = [f"by {_name_rules(self.refusing_rules)}"] if self.refusing_rules else []
        signals = [name for name in self.decision.missing if name.startswith(SIGNAL_ROOT)]
        if code == "CONTEXT_MISSING" and signals:
            parts.append(f"because {', '.join(signals)} is missing")
        return " and ".join(parts) or "by demur itself"


def _name_rules(rule_ids: Sequence[str]) -> str:
    return f"rule{'s' * (len(rule_ids) > 1)} {', '.join(rule_ids)}" if rule_ids else ""


def explain_decision(
    policy: Policy,
    evaluation: Evaluation,
    decision: Decision,
    recall: Recall | None,
    *,
    version: str = ENGINE_VERSION,
) -> Explanation:
    """Return the explanation of a decision that the policy made, as that engine words it."""
    is_default = decision.leading_code in decision.fallback_codes
    # The first engine did not say what decided. An ALLOW and a default need no such sentence.
    names_cause = not (version == FIRST_ENGINE or decision.verdict is Verdict.ALLOW or is_default)
    parts = (policy, evaluation, decision)
    sentences = [f"{_find_cause(*parts)}."] if names_cause else []
    sentences += _detail_sentences(*parts, recall, default_decides=not names_cause)
    return Explanation(summary=decision.reason or _ALLOWED, details=" ".join(sentences))


def _find_cause(policy: Policy, evaluation: Evaluation, decision: Decision) -> DecisionCause:
    matched = [rule for rule in policy.rules if rule.id in evaluation.matched_rules]
    refusing = [rule for rule in matched if rule.then.verdict is not Verdict.ALLOW]
    lead = decision.leading_code
    leading = [rule.id for rule in refusing if lead in rule.then.reason_codes]
    return DecisionCause(
        decision,
        tuple(leading or (rule.id for rule in refusing)),
        tuple(rule.id for rule in matched if rule.then.verdict is Verdict.ALLOW),
        evaluation.found,
        tuple(dict.fromkeys(fact.path for fact in evaluation.invalid)),
    )


def explain_runtime(decision: Decision, details: str) -> Explanation:
    """Return the explanation of a decision that no policy made."""
    return Explanation(summary=decision.reason or _ALLOWED, details=details)


def _detail_sentences(
    policy: Policy,
    evaluation: Evaluation,
    decision: Decision,
    recall: Recall | None,
    *,
    default_decides: bool,
) -> Iterator[str]:
    matched = set(evaluation.matched_rules)
    for rule in policy.rules:
        if rule.id in matched and not rule.shadow:
            why = describe_condition(rule.condition)
            yield f"Rule {rule.id} ({rule.stage}) says {rule.then.verdict}: {why}."
    yield from _invalid_sentences(evaluation.invalid)
    for signal in evaluation.missing_signals:
        yield f"Rule {signal.rule_id} could not be judged: {signal.path} is missing."
    if evaluation.defaulted and default_decides:
        yield f"No other rule decides, so the default does: {policy.default.verdict}."
    elif evaluation.defaulted:
        yield f"No other rule matched; the default is {policy.default.verdict}."
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


def _invalid_sentences(invalid: Sequence[InvalidField]) -> Iterator[str]:
    """Yield why each fact cannot be used, once; the first engine named rules, and no reason."""
    for fact in invalid:
        if not fact.why:
            yield f"Rule {fact.rule_id} could not be judged: {fact}."
    for fact in {fact.path: fact for fact in reversed(invalid) if fact.why}.values():
        rules = tuple(one.rule_id for one in invalid if one.path == fact.path)
        yield f"{fact}; {_name_rules(rules)} could not be judged."


_MAX_CACHED = 4096
_AMOUNT = "action.amount"
_KINDS = frozenset(map(str, GrantKind))
# What a decision keeps when it is made again.
_KEPT_FIELDS = (
    "constraints",
    "missing",
    "attempts_left",
    "requester",
    "scope",
    "accepted",
    "resolved_codes",
    "lifted_by",
    "ignored_grants",
    "obligations",
    "fallback_codes",
    "unusable",
    "approvals",
)


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
    # Ids of revoked grants beside those of the engine; None says that they are unknown.
    revoked: frozenset[str] | None = frozenset()
    # The subjects that the caller proved to be; None trusts the requester.
    subjects: frozenset[str] | None = None
    # Digests of grants without uses left; None says that nobody counts uses.
    used_up: frozenset[str] | None = None
    # The recorded checks of the grants, by grant id: for replays without keys.
    recorded_rejections: Mapping[str, str | None] | None = None
    person_keys: PersonKeys = PersonKeys()


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
        self._compiled = CompiledPolicy(policy, registry=registry, as_first_engine=self._is_first)
        self._keys = KeyRing() if keys is None else keys
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
            explanation = self._explain(evaluation, decision, recall)
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
        missing = () if verdict is Verdict.ALLOW else evaluation.missing
        if verdict is not Verdict.ALLOW and not self._is_first:
            missing = merge_missing(missing, evaluation.found) or missing_grants(
                verdict, codes, evaluation.constraints, registry=self.registry
            )
        decision = make_decision(
            verdict,
            codes,
            constraints=evaluation.constraints,
            missing=missing,
            attempts_left=attempts_left,
            resolved_codes=resolved,
            obligations=evaluation.obligations,
            fallback_codes=() if self._is_first else evaluation.fallback_codes,
            unusable={fact.field: str(fact) for fact in evaluation.invalid if fact.why},
            approvals=1 if verdict is Verdict.ALLOW else evaluation.approvals,
            registry=self.registry,
        )
        return decision, self._explain(evaluation, decision, recall)

    def _explain(
        self, evaluation: Evaluation, decision: Decision, recall: Recall | None
    ) -> Explanation:
        parts = (self.policy, evaluation, decision, recall)
        return explain_decision(*parts, version=self.version)

    def resolve(self, decision: Decision, engine_input: EngineInput) -> Decision:
        """Return a decision after grants and accepted constraints were applied to it.

        Earlier grants are checked again: they may have expired or been revoked since.
        """
        if decision.lifted_by and decision.verdict is not Verdict.ALLOW:
            codes = dict.fromkeys((*decision.reason_codes, *decision.resolved_codes))
            decision = self._remake_decision(
                decision, codes, resolved_codes=(), lifted_by=(), ignored_grants=()
            )
        revoked = engine_input.revoked
        resolved = resolve(
            decision,
            engine_input.grants,
            engine_input.accepted,
            keys=self._keys,
            person_keys=engine_input.person_keys,
            now=engine_input.now,
            revoked=None if revoked is None else self._revoked | revoked,
            subjects=engine_input.subjects,
            used_up=engine_input.used_up,
            recorded_rejections=engine_input.recorded_rejections,
            registry=self.registry,
        )
        return resolved if self._is_first else self._name_missing_grants(resolved)

    def _name_missing_grants(self, decision: Decision) -> Decision:
        """Return a resolved decision that names only the grants that are still missing."""
        codes, missing = decision.reason_codes, decision.missing
        if not missing:
            return decision
        asked = {kind for code in codes for kind in self.registry[code].grants}
        others = tuple(one for one in missing if not _KINDS.issuperset(one.split(" or ")))
        if others:
            missing = tuple(
                one for one in missing if one in others or not asked.isdisjoint(one.split(" or "))
            )
        else:
            limits = decision.constraints
            missing = missing_grants(decision.verdict, codes, limits, registry=self.registry)
        if missing == decision.missing:
            return decision
        return self._remake_decision(decision, codes, missing=missing)

    def _remake_decision(
        self, decision: Decision, codes: Iterable[str], **changes: Any
    ) -> Decision:
        kept = {name: getattr(decision, name) for name in _KEPT_FIELDS}
        return make_decision(decision.verdict, codes, **{**kept, **changes}, registry=self.registry)


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
    """Return the result for a request while the store cannot be read or written."""
    details = f"The store could not be used: {type(error).__name__}."
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
