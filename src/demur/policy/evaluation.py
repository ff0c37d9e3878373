"""Compile a policy and evaluate requests: the strictest of rules, findings and invalid facts.

The compiler builds one function per kind of action when it is first needed. Rules for other
actions cost nothing. A large bucket is indexed by the field that most of its rules compare.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from demur.codes.entry import Entry
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Obligation, RefusalClass, Verdict, strictest_verdict
from demur.model.finding import Action, Finding
from demur.model.record import InvalidField
from demur.model.refusal import list_named
from demur.policy.codegen import RuleFunction, write_rule_function
from demur.policy.conditions import iter_comparisons, signal_paths
from demur.policy.facts import (
    INVALID,
    MISSING,
    UNUSABLE,
    FirstEngineRates,
    build_facts,
    compile_comparison,
    fetch_fact,
    fetch_operand,
)
from demur.policy.missing import RequestGaps, depends_on_facts
from demur.policy.policy import All, Compare, Condition, Operator, Policy, PolicyRule, RuleOutcome
from demur.policy.signals import MissingSignal, SignalGaps

_MISSING_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)


class FoundCode(NamedTuple):
    """A code that a guard found and that counts, the guard's surface, and what it says is missing.

    Evidence may quote foreign texts, so only single words count as names.
    """

    code: str
    surface: str
    missing: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()

    @classmethod
    def from_finding(cls, finding: Finding) -> "FoundCode":
        """Return the code, surface, missing names and constraint of a finding."""
        named = list_named(finding.evidence, "missing")
        missing = tuple(name for name in named if _MISSING_NAME.fullmatch(name))
        constraints = change_constraints(finding)
        return cls(str(finding.code), str(finding.surface), missing, constraints)


# The member of evidence that says how an enforcer took the found text out.
CHANGE_EVIDENCE = "on_finding"
_CHANGES = frozenset({"redact", "mask"})


def change_constraints(finding: Finding) -> tuple[str, ...]:
    """Return the constraint of a finding whose text was taken out, like `redact:SECRET_LEAK`."""
    change = finding.evidence.get(CHANGE_EVIDENCE)
    is_change = isinstance(change, str) and change in _CHANGES
    return (f"{change}:{finding.code}",) if is_change else ()


def merge_missing(missing: Iterable[str], found: Iterable[FoundCode]) -> tuple[str, ...]:
    """Return what rules and findings say is missing, each name once."""
    return _merge_unique([tuple(missing), *(one.missing for one in found)])


class Evaluation(NamedTuple):
    """The verdict of a policy and everything that led to it."""

    verdict: Verdict
    reason_codes: tuple[str, ...]
    matched_rules: tuple[str, ...]
    shadow_rules: tuple[str, ...] = ()
    shadowed_codes: tuple[str, ...] = ()
    invalid: tuple[InvalidField, ...] = ()
    constraints: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    missing_signals: tuple[MissingSignal, ...] = ()
    defaulted: bool = False
    # Codes that came only from the default.
    fallback_codes: tuple[str, ...] = ()
    found: tuple[FoundCode, ...] = ()
    # How many different people must grant what lifts it.
    approvals: int = 1


def verdict_floor(entry: Entry, action: Action = Action.BLOCK) -> Verdict:
    """Return the least strict verdict that a finding of this code allows."""
    if not entry.decided:
        return Verdict.ABSTAIN
    if entry.refusal_class is None:
        return Verdict.ALLOW
    hard = entry.refusal_class is RefusalClass.HARD_BLOCK
    return Verdict.DENY if hard and action is Action.BLOCK else Verdict.ESCALATE


def is_mere_warning(entry: Entry, action: Action) -> bool:
    """Return whether a finding only warns: its code is decided and has no obligations."""
    return action is Action.WARN and entry.decided and not entry.obligations


def finding_blocks(code: str, action: Action, registry: Registry) -> bool:
    """Return whether a finding of that code and action blocks without a gate."""
    entry = registry[code]
    return entry.refusal_class is not None and not is_mere_warning(entry, action)


def combine_outcomes(
    policy: Policy,
    matched: Sequence[PolicyRule],
    invalid: Sequence[InvalidField],
    findings: Iterable[Finding],
    registry: Registry,
    *,
    missing_signals: Sequence[MissingSignal] = (),
) -> Evaluation:
    """Return the evaluation of rules, invalid facts, missing signals and findings together."""
    counted = [rule for rule in matched if not rule.shadow]
    # INVARIANT: adding a finding never relaxes a decision.
    defaulted = all(rule.reads_findings for rule in counted)
    outcomes = [rule.then for rule in counted]
    if invalid:
        paths = tuple(dict.fromkeys(fact.field for fact in invalid))
        outcomes.append(RuleOutcome(Verdict.ABSTAIN, ("EVIDENCE_INVALID",), missing=paths))
    if missing_signals:
        paths = tuple(dict.fromkeys(signal.path for signal in missing_signals))
        outcomes.append(RuleOutcome(Verdict.ABSTAIN, ("CONTEXT_MISSING",), missing=paths))
    if defaulted:
        outcomes.append(policy.default)
    shadows = {shadow.code for shadow in policy.shadows}
    shadowed: dict[str, None] = {}
    found: dict[FoundCode, None] = {}
    for finding in findings:
        entry = registry[finding.code]
        if is_mere_warning(entry, finding.action):
            continue
        if finding.code in shadows:
            shadowed[finding.code] = None
        else:
            counted_code = FoundCode.from_finding(finding)
            found[counted_code] = None
            floor = verdict_floor(entry, finding.action)
            outcomes.append(RuleOutcome(floor, (finding.code,), counted_code.constraints))
    # INVARIANT: taking a text out lifts only what was found in it.
    changed = tuple(name for one in found for name in one.constraints)
    if changed and any(_blocks_softly(one, registry) for one in outcomes):
        outcomes = [
            one._replace(constraints=tuple(name for name in one.constraints if name not in changed))
            for one in outcomes
        ]
    return Evaluation(
        verdict=strictest_verdict(outcome.verdict for outcome in outcomes),
        reason_codes=_merge_unique(outcome.reason_codes for outcome in outcomes),
        matched_rules=tuple(rule.id for rule in counted),
        shadow_rules=tuple(rule.id for rule in matched if rule.shadow),
        shadowed_codes=tuple(shadowed),
        invalid=tuple(invalid),
        constraints=_merge_unique(outcome.constraints for outcome in outcomes),
        missing=_merge_unique(outcome.missing for outcome in outcomes),
        obligations=tuple(
            one for one in Obligation if any(one in outcome.obligations for outcome in outcomes)
        ),
        missing_signals=tuple(missing_signals),
        defaulted=defaulted,
        fallback_codes=_fallback_codes(policy.default, outcomes) if defaulted else (),
        found=tuple(found),
        # INVARIANT: a further rule or finding never needs fewer people.
        approvals=max(outcome.approvals for outcome in outcomes),
    )


def _blocks_softly(outcome: RuleOutcome, registry: Registry) -> bool:
    """Return whether an outcome has a soft code, which other constraints would lift as well."""
    classes = {registry[code].refusal_class for code in outcome.reason_codes}
    return not outcome.constraints and RefusalClass.SOFT_BLOCK in classes


def _fallback_codes(default: RuleOutcome, outcomes: Sequence[RuleOutcome]) -> tuple[str, ...]:
    """Return the codes of the default that no other outcome has."""
    others = {code for one in outcomes if one is not default for code in one.reason_codes}
    return tuple(code for code in default.reason_codes if code not in others)


def _merge_unique(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for group in groups for item in group))


_ACTION_PATH = "action.type"
_MIN_INDEXED_RULES = 64
_MAX_CACHED_EVALUATIONS = 4096


class CompiledPolicy:
    """A compiled policy. Safe to share between threads; it builds each function once.

    `as_first_engine`: a rule asks for all fields that its condition requires to be missing, and
    the text `1.000` is an amount of 1, as in engine 0.1.0.
    """

    def __init__(
        self, policy: Policy, *, registry: Registry | None = None, as_first_engine: bool = False
    ) -> None:
        if as_first_engine:
            policy = policy._replace(rates=FirstEngineRates(policy.rates))
        self.policy = policy
        self.registry = default_registry() if registry is None else registry
        self._lock = Lock()
        self._buckets: dict[str | None, _RuleBucket] = {}
        self._cached: dict[tuple[Any, ...], Evaluation] = {}
        self._by_action = _rules_by_action(policy.rules)
        self._reads_findings = any(rule.reads_findings for rule in policy.rules)
        reads_signals = any(signal_paths(rule.condition) for rule in policy.rules)
        self._signal_gaps = SignalGaps(policy) if reads_signals else None
        self._as_first_engine = as_first_engine
        # Rules that may ask for less than they list.
        asking = (i for i, rule in enumerate(policy.rules) if depends_on_facts(rule))
        self._asking = frozenset[int]() if as_first_engine else frozenset(asking)

    def evaluate(
        self,
        request: Mapping[str, Any],
        findings: Sequence[Finding] = (),
        signals: Mapping[str, Any] | None = None,
    ) -> Evaluation:
        """Return the policy's evaluation of a request, its findings and its signals."""
        return self._evaluate_rules(self._add_signals(request, signals), findings)[0]

    def evaluate_with_facts(
        self,
        request: Mapping[str, Any],
        findings: Sequence[Finding] = (),
        signals: Mapping[str, Any] | None = None,
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Return the evaluation, and the facts that the policy compared."""
        request = self._add_signals(request, signals)
        evaluation, paths, values = self._evaluate_rules(request, findings)
        facts = {
            path: value
            for path, value in zip(paths, values, strict=True)
            if value is not MISSING and value is not UNUSABLE and not path.startswith("findings.")
        }
        if len(self.policy.rules) >= _MIN_INDEXED_RULES:
            # The indexed field was compared too, even if no rule matches its value.
            for path in self._find_bucket(fetch_fact(request, _ACTION_PATH)).index_paths:
                value = fetch_fact(request, path)
                if value is not MISSING and value is not UNUSABLE:
                    facts[path] = value
        return evaluation, facts

    def compared_paths(self, request: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the paths that the policy compares for a request, present or missing."""
        bucket = self._find_bucket(fetch_fact(request, _ACTION_PATH))
        return tuple({**dict.fromkeys(bucket.rule_function(request).paths), **bucket.index_paths})

    def _add_signals(
        self, request: Mapping[str, Any], signals: Mapping[str, Any] | None
    ) -> Mapping[str, Any]:
        """Return the request with its signals; a `signals` key of the caller is never read."""
        return request if self._signal_gaps is None else {**request, "signals": signals or {}}

    def _evaluate_rules(
        self, request: Mapping[str, Any], findings: Sequence[Finding]
    ) -> tuple[Evaluation, tuple[str, ...], tuple[Any, ...]]:
        # A `findings` key in the caller's request is never read.
        seen = build_facts({}, findings)["findings"] if self._reads_findings else None
        action = request.get("action")
        plain = action.get("type") if action.__class__ is dict else None
        bucket = self._buckets.get(plain) if plain.__class__ is str else None
        if bucket is None:
            kind = plain if plain.__class__ is str else fetch_fact(request, _ACTION_PATH)
            bucket = self._find_bucket(kind)
        judge = bucket.single_function or bucket.rule_function(request)
        matched, invalid, values = judge.call(request, seen)
        gaps: tuple[MissingSignal, ...] = ()
        if self._signal_gaps is not None:
            rules = [self.policy.rules[index] for index in matched]
            gaps = self._signal_gaps.find({**request, "findings": seen}, rules)
        asked = self._find_asked(request, matched, seen)
        key = None if invalid or findings or gaps else (*matched, *asked.values())
        result = None if key is None else self._cached.get(key)
        if result is None:
            facts = {**request, "findings": seen}
            chosen = [self._ask_for(index, asked) for index in matched]
            unusable = self._find_invalid(invalid, facts)
            parts = (self.policy, chosen, unusable, findings, self.registry)
            result = combine_outcomes(*parts, missing_signals=gaps)
            if key is not None and len(self._cached) < _MAX_CACHED_EVALUATIONS:
                self._cached[key] = result
        return result, judge.paths, values

    def _find_bucket(self, action: Any) -> "_RuleBucket":
        # If the action is missing or not a text, every rule is evaluated.
        key = action if type(action) is str else None
        if key is not None and key not in self._by_action:
            key = ""
        if bucket := self._buckets.get(key):
            return bucket
        with self._lock:
            if key not in self._buckets:
                indexes = range(len(self.policy.rules)) if key is None else self._by_action[key]
                self._buckets[key] = _RuleBucket(self.policy, indexes, key)
            return self._buckets[key]

    def _find_asked(
        self,
        request: Mapping[str, Any],
        matched: Sequence[int],
        finding_facts: Mapping[str, Any] | None,
    ) -> dict[int, tuple[str, ...]]:
        """Return what matched rules ask for, where that depends on the request."""
        if self._asking.isdisjoint(matched):
            return {}
        reader = RequestGaps({**request, "findings": finding_facts}, self.policy.rates)
        rules = {index: self.policy.rules[index] for index in matched if index in self._asking}
        return {index: reader.missing_fields(rule) for index, rule in rules.items()}

    def _ask_for(self, index: int, asked: Mapping[int, tuple[str, ...]]) -> PolicyRule:
        """Return a rule that asks only for what the request lacks."""
        rule = self.policy.rules[index]
        if index not in asked:
            return rule
        return rule._replace(then=rule.then._replace(missing=asked[index]))

    def _find_invalid(self, indexes: Sequence[int], facts: Mapping[str, Any]) -> list[InvalidField]:
        rules = [self.policy.rules[index] for index in indexes]
        rules = [rule for rule in rules if not rule.shadow]
        if self._as_first_engine:
            return [
                InvalidField(rule_id=rule.id, path=path)
                for rule in rules
                for path in _invalid_paths(rule.condition, facts, self.policy)
            ]
        reader = RequestGaps(facts, self.policy.rates)
        return [fact for rule in rules for fact in reader.invalid_facts(rule)]


def _invalid_paths(condition: Condition, facts: Mapping[str, Any], policy: Policy) -> list[str]:
    found = (
        compare.path
        for compare in iter_comparisons(condition)
        if compile_comparison(compare)(fetch_operand(facts, compare.path, policy.rates)) == INVALID
    )
    return list(dict.fromkeys(found))


def _required_comparisons(condition: Condition) -> tuple[Compare, ...]:
    """Return the comparisons that must all hold for the condition to hold."""
    match condition:
        case Compare():
            return (condition,)
        case All(parts):
            return tuple(compare for part in parts for compare in _required_comparisons(part))
        case _:
            return ()


def _rules_by_action(rules: Sequence[PolicyRule]) -> dict[str, list[int]]:
    """Return the rules that can apply to each action; the key "" is any other action."""
    wanted = [_wanted_actions(rule) for rule in rules]
    general = [index for index, names in enumerate(wanted) if names is None]
    own: dict[str, list[int]] = {"": []}
    for index, names in enumerate(wanted):
        for action in names or ():
            own.setdefault(action, []).append(index)
    return {action: sorted([*general, *indexes]) for action, indexes in own.items()}


def _wanted_actions(rule: PolicyRule) -> frozenset[str] | None:
    """Return the actions that a rule is limited to, or None if it is not."""
    for compare in _required_comparisons(rule.condition):
        if compare.path == _ACTION_PATH and compare.operator is Operator.EQ:
            return frozenset([compare.operand]) if isinstance(compare.operand, str) else None
        if compare.path == _ACTION_PATH and compare.operator is Operator.IN:
            texts = all(isinstance(action, str) for action in compare.operand)
            return frozenset(compare.operand) if texts else None
    return None


class _RuleBucket:
    """The rules that can apply to one kind of action, indexed by one more field if large."""

    def __init__(self, policy: Policy, indexes: Sequence[int], action: str | None) -> None:
        self._policy = policy
        self._action = action
        self._indexes = list(indexes)
        self._lock = Lock()
        # By the text of the indexed field; None holds all rules.
        self._functions: dict[str | None, RuleFunction] = {}
        # The only function of a bucket without an index, once it is built.
        self.single_function: RuleFunction | None = None
        self._path = None if action is None else _index_path(policy, self._indexes)
        self._wanted = {i: _wanted_text(policy.rules[i], self._path) for i in self._indexes}
        self._values = {value for value in self._wanted.values() if value is not None}

    @property
    def index_paths(self) -> dict[str, None]:
        """The indexed field, if there is one."""
        return {} if self._path is None else {self._path: None}

    def rule_function(self, request: Mapping[str, Any]) -> RuleFunction:
        part = None
        if self._path is not None:
            value = fetch_fact(request, self._path)
            # A value of another type is unusable or missing: every rule must be evaluated.
            if type(value) is str:
                part = value if value in self._values else ""
        return self._functions.get(part) or self._build_function(part)

    def _build_function(self, part: str | None) -> RuleFunction:
        with self._lock:
            if part not in self._functions:
                every = self._indexes
                chosen = [i for i in every if part is None or self._wanted[i] in {None, part}]
                conditions = {i: self._policy.rules[i].condition for i in chosen}
                # The bucket of all other actions does not know the action.
                if action := self._action:
                    conditions = {i: _assume_action(c, action) for i, c in conditions.items()}
                self._functions[part] = write_rule_function(conditions, self._policy.rates)
            if self._path is None:
                self.single_function = self._functions[part]
            return self._functions[part]


def _assume_action(condition: Condition, action: str) -> Condition:
    """Return the condition without the parts that a known action makes true."""
    match condition:
        case Compare(path, Operator.EQ, operand) if path == _ACTION_PATH and operand == action:
            return All(())
        case Compare(path, Operator.IN, operands) if path == _ACTION_PATH and action in operands:
            return All(())
        case All(parts):
            left = (_assume_action(part, action) for part in parts)
            return All(tuple(part for part in left if part != All(())))
        case _:
            return condition


def _index_path(policy: Policy, indexes: Sequence[int]) -> str | None:
    """Return the field that most rules of a large bucket compare with a text, or None."""
    if len(indexes) < _MIN_INDEXED_RULES:
        return None
    counts = Counter(
        path
        for i in indexes
        for path in {c.path for c in _text_comparisons(policy.rules[i])} - {_ACTION_PATH}
    )
    path, uses = max(counts.items(), key=lambda item: (item[1], item[0]), default=("", 0))
    return path if uses * 2 >= len(indexes) else None


def _text_comparisons(rule: PolicyRule) -> list[Compare]:
    return [
        compare
        for compare in _required_comparisons(rule.condition)
        if compare.operator is Operator.EQ
        and isinstance(compare.operand, str)
        and compare.operand
        and not compare.path.startswith("findings.")
    ]


def _wanted_text(rule: PolicyRule, path: str | None) -> str | None:
    return next((c.operand for c in _text_comparisons(rule) if c.path == path), None)
