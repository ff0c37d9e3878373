"""The report on one decision: everything that the store knows about it."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from demur.codes.bundle import parse_bundle
from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import DemurError
from demur.memory.recall import SIGNALS
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.policy.policy import Policy
from demur.policy.words import describe_condition
from demur.store.rows import Label
from demur.store.store import Store

__all__ = [
    "GrantSummary",
    "RuleSummary",
    "SimilarCase",
    "DecisionReport",
    "format_amount",
    "report_decision",
    "summarize_grants",
]


class RuleSummary(NamedTuple):
    """A matched rule, in words if its policy is known. A shadow rule did not count."""

    rule_id: str
    stage: str
    verdict: Verdict | None
    words: str | None
    shadow: bool


class SimilarCase(NamedTuple):
    """An experience that the request resembles."""

    outcome: str
    score: float
    memory_id: str
    summary: str


class GrantSummary(NamedTuple):
    """A grant of the request; `why` says why it was ignored, None if it counted."""

    grant_id: str
    kind: str
    granted_by: str
    why: str | None


class DecisionReport(NamedTuple):
    """A decision with its rules and codes in words, similar cases, family and labels."""

    record: DecisionRecord
    codes: Mapping[str, str]
    rules: tuple[RuleSummary, ...]
    similar: tuple[SimilarCase, ...]
    signals: Mapping[str, Any]
    family: tuple[DecisionRecord, ...]
    labels: tuple[Label, ...]


def report_decision(store: Store, record: DecisionRecord) -> DecisionReport:
    """Return the report on a decision, by the policy and registry of its own time."""
    registry = _load_registry(store, record)
    policy = None if registry is None else _load_policy(store, record, registry)
    family = store.list_family(record.tenant, record.root_id or record.decision_id)
    codes = dict.fromkeys((*record.reason_codes, *record.resolved_codes, *record.shadowed_codes))
    known = {} if registry is None else {code: registry.get(code) for code in codes}
    personal = record.personal
    signals = {} if personal is None else personal.risk_signals
    return DecisionReport(
        record=record,
        codes={code: entry.summary for code, entry in known.items() if entry is not None},
        rules=tuple(_summarize_rules(record, policy)),
        similar=tuple(_similar_cases(signals)),
        signals={name: value for name, value in signals.items() if name not in SIGNALS},
        family=tuple(family),
        labels=tuple(label for one in family for label in store.list_labels(one.decision_id)),
    )


def _load_registry(store: Store, record: DecisionRecord) -> Registry | None:
    snapshot = store.get_snapshot(record.determinism.registry_digest)
    try:
        return None if snapshot is None else parse_bundle(snapshot.text)
    except DemurError:
        return None


def _load_policy(store: Store, record: DecisionRecord, registry: Registry) -> Policy | None:
    snapshot = store.get_snapshot(record.determinism.policy_digest)
    try:
        return None if snapshot is None else parse_policy(snapshot.text, registry=registry)
    except DemurError:
        return None


def _summarize_rules(record: DecisionRecord, policy: Policy | None) -> Iterator[RuleSummary]:
    known = {} if policy is None else {rule.id: rule for rule in policy.rules}
    stages = {rule.rule_id: rule.stage for rule in record.matched_rules}
    for rule_id in (*stages, *record.shadow_rules):
        rule, shadow = known.get(rule_id), rule_id not in stages
        if rule is None:
            yield RuleSummary(rule_id, stages.get(rule_id, ""), None, None, shadow)
        else:
            words = describe_condition(rule.condition)
            yield RuleSummary(rule_id, rule.stage, rule.then.verdict, words, shadow)


def _similar_cases(signals: Mapping[str, Any]) -> Iterator[SimilarCase]:
    for outcome in ("failure", "success"):
        for near in signals.get(f"{outcome}_similarity", {}).get("top_k", ()):
            yield SimilarCase(outcome, near["score"], near["memory_id"], near["summary"])


def summarize_grants(record: DecisionRecord) -> Iterator[GrantSummary]:
    """Yield the grants of a decision."""
    personal = record.personal
    if personal is None:
        return
    ignored = {grant.grant_id: grant.why for grant in record.ignored_grants}
    for grant in personal.grants:
        # A grant that was ignored at first may count now.
        why = None if grant.grant_id in record.lifted_by else ignored.get(grant.grant_id)
        yield GrantSummary(grant.grant_id, grant.kind, grant.granted_by, why)


def format_amount(record: DecisionRecord) -> str:
    """Return the requested amount as text; empty if there is none."""
    amount = record.amount
    if amount is None:
        return ""
    value = "?" if amount.value is None else amount.value
    return f"{value} {amount.currency or ''}".rstrip()
