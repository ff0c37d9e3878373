"""One decision gathered from the store: as a report, as a ticket, or as a pack.

Policy and registry are loaded by the digests that the record names, never from today's files. A
ticket holds nothing personal: requester, facts, evidence and notes stay in the store.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from demur.audit.pack import Pack, PackedExperience, concerns_record
from demur.canonical import digest_of_bytes
from demur.codes.loading import parse_bundle
from demur.codes.markup import markdown_code, markdown_prose
from demur.codes.vocabulary import Verdict
from demur.errors import DemurError, InputError
from demur.gate.engine import DecisionCause
from demur.memory.recall import Recall
from demur.model.grant import Grant
from demur.model.record import DecisionRecord, Personal
from demur.model.request import own_signals
from demur.policy.evaluation import FoundCode
from demur.policy.loader import digest_policy, parse_policy
from demur.policy.policy import Policy, Stage, describe_condition
from demur.store.backend import StorageError
from demur.store.events import EventRow, read_event
from demur.store.rows import Label
from demur.store.store import Store

_Parsed = TypeVar("_Parsed")


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
    changed: tuple[str, ...] = ()


def report_decision(store: Store, record: DecisionRecord) -> DecisionReport:
    """Return the report on a decision, by the policy and registry of its own time.

    `changed` says which parts in the store are not those that decided; they are left out.
    """
    determinism = record.determinism
    changed = [] if record.seal_holds else ["what came in is not what was decided on"]
    registry = _load(store, "registry", determinism.registry_digest, parse_bundle, changed)
    policy = None
    if registry is not None:
        read_policy = partial(parse_policy, registry=registry)
        policy = _load(store, "policy", determinism.policy_digest, read_policy, changed)
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
        signals=own_signals(signals),
        family=tuple(family),
        labels=tuple(label for one in family for label in store.list_labels(one.decision_id)),
        changed=tuple(changed),
    )


def read_snapshot(store: Store, kind: str, digest: str) -> str | None:
    """Return the policy or registry with that digest; None if the store does not hold it.

    Raises:
        StorageError: The store holds another text under this digest.
    """
    snapshot = store.get_snapshot(digest)
    if snapshot is None or snapshot.kind != kind:
        return None
    try:
        text = snapshot.text
        actual = digest_policy(text) if kind == "policy" else digest_of_bytes(text.encode())
    except (DemurError, UnicodeError):
        actual = ""
    # INVARIANT: a text that is not the one that decided is never shown as if it were.
    if actual != digest:
        problem = f"the {kind} in the store is not the one that decided"
        help_text = "it was changed in the database; restore it from a backup"
        raise StorageError(problem, where=digest, help=help_text)
    return text


def _load(
    store: Store, kind: str, digest: str, parse: Callable[[str], _Parsed], changed: list[str]
) -> _Parsed | None:
    """Return a snapshot parsed; None if it is gone, was changed or cannot be read."""
    try:
        text = read_snapshot(store, kind, digest)
    except StorageError as error:
        if error.where != digest:
            raise
        changed.append(error.problem)
        return None
    try:
        return None if text is None else parse(text)
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


def find_cause(record: DecisionRecord) -> DecisionCause:
    """Return what a recorded decision rests on; `str()` of it is for people.

    The stage of a rule says whether it allows. Once the inputs were erased, nobody knows which
    codes a guard found.
    """
    rules = {rule.rule_id: rule.stage for rule in record.matched_rules}
    personal = record.personal
    findings = () if personal is None else personal.findings
    return DecisionCause(
        record,
        tuple(rule_id for rule_id, stage in rules.items() if stage != Stage.ALLOW_PATHS),
        tuple(rule_id for rule_id, stage in rules.items() if stage == Stage.ALLOW_PATHS),
        tuple(map(FoundCode.from_finding, findings)),
        tuple(dict.fromkeys(fact.path for fact in record.invalid)),
    )


def describe_rules(record: DecisionRecord) -> str:
    """Return the rules that matched; of a refusal, what a rule that allows would have done."""
    note = ": would allow" * (record.verdict is not Verdict.ALLOW)
    stages = {rule.rule_id: rule.stage for rule in record.matched_rules}
    notes: dict[str, str] = {Stage.ALLOW_PATHS: note}
    return ", ".join(f"{name} ({stage}{notes.get(stage, '')})" for name, stage in stages.items())


def describe_invalid(record: DecisionRecord) -> tuple[str, ...]:
    """Return why each field cannot be used, once for each field."""
    return tuple({fact.path: str(fact) for fact in reversed(record.invalid)}.values())[::-1]


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


def read_personal(record: DecisionRecord) -> Personal | None:
    """Return the sealed part of a record; None if it was erased or cannot be read."""
    try:
        return record.personal
    except InputError:
        return None


def request_intent(record: DecisionRecord) -> str:
    """Return the intent of the request, if it has one and can be read."""
    personal = read_personal(record)
    action = {} if personal is None else personal.request.get("action")
    intent = action.get("intent") if isinstance(action, dict) else None
    return intent if isinstance(intent, str) else ""


def request_subject(record: DecisionRecord) -> str:
    """Return the requester, if it is known and can be read."""
    personal = read_personal(record)
    return "" if personal is None else personal.requester or ""


def format_amount(record: DecisionRecord) -> str:
    """Return the requested amount as text; empty if there is none."""
    if (amount := record.amount) is None:
        return ""
    value = "?" if amount.value is None else amount.value
    return f"{value} {amount.currency or ''}".rstrip()


MAX_TICKET_LENGTH = 4000
_MAX_ROWS = 10
_MAX_LINE_LENGTH = 300


def render_ticket(report: DecisionReport) -> str:
    """Return the summary; it cuts a text that is too long, with a note."""
    text = "\n".join(_ticket_lines(report))
    note = f"\n\n… cut; `demur explain {report.record.decision_id}` tells all of it"
    return text if len(text) <= MAX_TICKET_LENGTH else text[: MAX_TICKET_LENGTH - len(note)] + note


def _ticket_lines(report: DecisionReport) -> Iterator[str]:
    record = report.record
    action = ", ".join(filter(None, (record.action_type, format_amount(record))))
    outcome = record.outcome.label.capitalize()
    yield f"### {outcome}: {markdown_code(action[:_MAX_LINE_LENGTH])}"
    yield ""
    yield _clip_text(record.explanation.summary)
    yield ""
    words = (record.verdict, record.decision_output, record.refusal_class or "nothing refuses")
    yield f"- **Verdict** {', '.join(words)}"
    yield f"- **Decided** {_clip_text(str(find_cause(record)))}"
    yield from _reason_lines(report)
    yield from _next_lines(record)
    policy = record.policy
    judged = f"{policy.policy_id} {policy.policy_version}"
    yield f"- **Policy** {markdown_code(judged)} ({policy.mode})"
    if len(report.family) > 1:
        yield f"- **Attempt** {record.attempt} of {max(r.attempt for r in report.family)} so far"
    outcomes = [label.value for label in report.labels if label.kind == "outcome"]
    if outcomes:
        yield f"- **Turned out** {', '.join(map(markdown_code, outcomes[:_MAX_ROWS]))}"
    place = f"{markdown_code(record.decision_id)}, tenant {markdown_code(record.tenant)}"
    yield f"- **Decision** {place}"
    yield f"- **Time** {record.created_at}"
    for part in report.changed:
        yield f"- **Changed** {part}: run `demur audit verify`"
    if not record.enforced:
        yield "- **Advisory**: recorded; it did not bind"


def _reason_lines(report: DecisionReport) -> Iterator[str]:
    record = report.record
    for reason in record.reason_codes[:_MAX_ROWS]:
        meaning = _clip_text(report.codes.get(reason, "not known here"))
        yield f"- **Reason** {markdown_code(reason)}: {meaning}"
    lifted = [reason for reason in record.resolved_codes if reason not in record.reason_codes]
    if lifted:
        yield f"- **Lifted** {', '.join(map(markdown_code, lifted[:_MAX_ROWS]))}"
    for rule in [rule for rule in report.rules if not rule.shadow][:_MAX_ROWS]:
        words = f": {_clip_text(rule.words)}" if rule.words else ""
        if rule.verdict is Verdict.ALLOW and record.verdict is not Verdict.ALLOW:
            words = f"{words} (would allow)"
        yield f"- **Rule** {markdown_code(rule.rule_id)} ({rule.stage}){words}"
    for words in describe_invalid(record)[:_MAX_ROWS]:
        yield f"- **Invalid** {_clip_text(words)}"


def _next_lines(record: DecisionRecord) -> Iterator[str]:
    for title, text in (
        ("Now", record.what_can_be_done_now),
        ("Then", record.how_to_proceed),
        ("Next step", record.next_step),
        ("Must", ", ".join(record.obligations)),
    ):
        if text:
            yield f"- **{title}** {_clip_text(text)}"


def _clip_text(text: str) -> str:
    return markdown_prose(text if len(text) <= _MAX_LINE_LENGTH else f"{text[:_MAX_LINE_LENGTH]}…")


def export_pack(store: Store, record: DecisionRecord) -> Pack:
    """Return the pack of a stored decision.

    Raises:
        InputError: The store lacks the policy, the registry or the earlier decision.
        StorageError: The store is unreadable, or somebody changed it.
    """
    determinism = record.determinism
    return Pack(
        record=record,
        policy=_snapshot_text(store, "policy", determinism.policy_digest),
        registry=_snapshot_text(store, "registry", determinism.registry_digest),
        memory=tuple(_packed_experiences(store, record)),
        earlier=_earlier_record(store, record),
        grants=_signed_grants(store, record),
        events=_own_events(store, record),
    )


def _own_events(store: Store, record: DecisionRecord) -> tuple[EventRow, ...]:
    """Return the events that erased the record, and the course of its approval."""
    ids = [one for one in (record.root_id, record.continues, record.decision_id) if one]
    if record.sealed is not None and not store.find_approvals(ids):
        return ()
    found = (record, *(store.get(one) for one in ids[:-1]))
    places = [one.chain.seq for one in found if one is not None and one.chain is not None]
    rows = store.backend.read_events(record.tenant, min(places, default=1))
    return tuple(row for row in rows if concerns_record(read_event(row), row.seq, record))


def _signed_grants(store: Store, record: DecisionRecord) -> tuple[Grant, ...]:
    """Return the grants of a decision with their signatures, as far as the store has them."""
    recorded = () if record.personal is None else record.personal.grants
    digests = [grant.digest for grant in recorded if grant.digest is not msgspec.UNSET]
    found = store.find_grants(record.tenant, digests) if digests else {}
    return tuple(found[digest] for digest in dict.fromkeys(digests) if digest in found)


def _snapshot_text(store: Store, kind: str, digest: str) -> str:
    text = read_snapshot(store, kind, digest)
    if text is None:
        problem = f"the store does not hold the {kind} that decided"
        raise InputError(problem, where=digest, help=f"today's {kind} is never used instead")
    return text


def _packed_experiences(store: Store, record: DecisionRecord) -> Iterator[PackedExperience]:
    """Yield the experiences that the record names and the store still has."""
    personal, digest = record.personal, record.determinism.memory_digest
    if personal is None or digest is None:
        return
    recall = Recall.from_signals(personal.risk_signals, digest)
    named = {one.memory_id for s in (recall.failure, recall.success) for one in s.top_k}
    # As of that time: experiences that expired since are still evidence while they are kept.
    for one in store.list_experiences(record.tenant, record.created_at):
        if one.memory_id in named:
            fields = one._asdict()
            yield PackedExperience(**{f: fields[f] for f in PackedExperience.__struct_fields__})


def _earlier_record(store: Store, record: DecisionRecord) -> DecisionRecord | None:
    if record.basis != "resolution" or record.continues is None:
        return None
    earlier = store.get(record.continues, record.tenant)
    if earlier is None:
        problem = "the store does not hold the decision that was resolved"
        raise InputError(problem, where=record.continues)
    return earlier
