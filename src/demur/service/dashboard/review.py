"""The review queue: refusals without a label, and those labelled as wrong."""

from datetime import timedelta
from typing import Any

from demur.codes.vocabulary import Verdict
from demur.gate.clock import timestamp
from demur.model.record import DecisionRecord
from demur.service.call import Answer, Call
from demur.service.dashboard.frame import page
from demur.service.dashboard.labelling import VALUES
from demur.service.dashboard.overview import seen
from demur.service.dashboard.periods import PERIODS
from demur.service.dashboard.rows import intent_of, row_of
from demur.service.finding_pages import newest
from demur.service.routes.labels import REVIEW
from demur.store.backend import Filter

__all__ = ["QUEUES", "review"]

QUEUES = {
    "open": "To label",
    "escalations": "Escalations",
    "denials": "Denials",
    "false_refusal": "False refusals",
    "missed_harm": "Missed harm",
}
_VERDICTS = {
    "open": (Verdict.ESCALATE, Verdict.DENY, Verdict.ABSTAIN),
    "escalations": (Verdict.ESCALATE,),
    "denials": (Verdict.DENY,),
}
_LENGTH = 20
_BACK = timedelta(days=90)


def review(call: Call) -> Answer:
    """Return the page."""
    name = call.query.get("queue", "")
    queue = name if name in QUEUES else "open"
    found = _unreviewed(call, queue) if queue in _VERDICTS else _labelled(call, queue)
    return page(
        call,
        "review.html",
        title="Review",
        section="review",
        queues=list(QUEUES.items()),
        queue=queue,
        items=found,
        done=queue not in _VERDICTS,
        tally=_tally(call),
    )


def _unreviewed(call: Call, queue: str) -> list[dict[str, Any]]:
    service, tenant = call.service, call.tenant()
    now = service.clock()
    lately = {one.verdict for one in seen(call, PERIODS["30d"]).verdicts if one.count}
    found: list[DecisionRecord] = []
    for verdict in lately.intersection(_VERDICTS[queue]):
        wanted = Filter(tenant=tenant, verdict=verdict, unreviewed=True)
        found += newest(service.store, wanted, now, _LENGTH)
    newest_first = sorted(found, key=lambda one: one.decision_id, reverse=True)
    return [_item(call, record, None) for record in newest_first[:_LENGTH]]


def _labelled(call: Call, value: str) -> list[dict[str, Any]]:
    said = list(
        call.service.store.labelled(REVIEW, (value,), tenant=call.tenant(), since=_since(call))
    )
    # Of several labels of a decision, the latest is shown.
    latest = {label.decision_id: label for label in said}
    found = []
    for label in sorted(latest.values(), key=lambda one: one.created_at)[: -_LENGTH - 1 : -1]:
        record = call.service.store.get(label.decision_id, call.tenant())
        if record is not None:
            found.append(_item(call, record, label._asdict()))
    return found


def _item(call: Call, record: DecisionRecord, label: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "row": row_of(record, with_tenant=call.tenant() is None),
        "intent": intent_of(record),
        "summary": record.explanation.summary,
        "rules": [rule.rule_id for rule in record.matched_rules],
        "label": label,
    }


def _tally(call: Call) -> dict[str, int]:
    """Return how many decisions got each label lately; the latest of a decision counts."""
    said = call.service.store.labelled(REVIEW, VALUES, tenant=call.tenant(), since=_since(call))
    latest = {label.decision_id: label.value for label in said}
    return {value: sum(1 for one in latest.values() if one == value) for value in VALUES}


def _since(call: Call) -> str:
    return timestamp(call.service.clock() - _BACK)
