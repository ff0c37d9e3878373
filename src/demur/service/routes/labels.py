"""Labels of decisions over HTTP: reviews for evals, outcomes for memory."""

from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec

from demur.gate.clock import format_timestamp
from demur.service.authentication import Role
from demur.service.calls import ApiCall, RouteTable
from demur.service.record_search import require_record
from demur.store.rows import REVIEW, Label

LABEL_ROUTES = RouteTable()
_DECISION = "/v1/decisions/{decision_id}"
# Databases do not store NUL in a text.
_NO_NUL_PATTERN = "^[^\\x00]*$"
_Note = Annotated[str, msgspec.Meta(max_length=2000, pattern=_NO_NUL_PATTERN)]
_ReviewerName = Annotated[str, msgspec.Meta(max_length=200, pattern=_NO_NUL_PATTERN)]


class Review(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A review of a decision. `by` names the reviewer; the label names the key as well.

    `withdrawn` takes back the reviews before it: the decision counts as not reviewed.
    """

    value: Literal["good", "false_refusal", "missed_harm", "withdrawn"]
    note: _Note = ""
    by: _ReviewerName = ""


class OutcomeReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcome of a decision, which memory applies to later ones."""

    outcome: Literal["success", "failure"]
    severity: Annotated[int, msgspec.Meta(ge=1, le=5)] = 3
    note: _Note = ""
    by: _ReviewerName = ""
    days: Annotated[float, msgspec.Meta(gt=0, le=36_500)] | None = None


class Labelled(msgspec.Struct, frozen=True, kw_only=True):
    """All labels of a decision, oldest first."""

    decision_id: str
    labels: list[dict[str, Any]]


class LearnedOutcome(Labelled, frozen=True, kw_only=True):
    """All labels of a decision, and in words what the new one does to later requests."""

    effect: str


@LABEL_ROUTES.add_sync(
    f"GET {_DECISION}/labels", "list labels", Role.READ, gives=Labelled, statuses=(404,)
)
def list_labels(call: ApiCall) -> Labelled:
    """Return the labels of a decision."""
    return _labels_of(call, require_record(call).decision_id)


@LABEL_ROUTES.add_sync(
    f"POST {_DECISION}/labels",
    "add label",
    Role.LABEL,
    takes=Review,
    gives=Labelled,
    statuses=(404,),
    success=201,
    example={"value": "false_refusal", "note": "the ticket was there"},
)
def add_review(call: ApiCall) -> Labelled:
    """Label a decision as good, a false refusal, or missed harm, or withdraw its labels."""
    body, record = call.decode_body(Review), require_record(call)
    now = format_timestamp(call.service.clock())
    reviewer = _reviewer_name(call, body.by)
    call.service.store.add_label(
        Label(record.decision_id, record.tenant, now, REVIEW, body.value, body.note, reviewer)
    )
    return _labels_of(call, record.decision_id)


@LABEL_ROUTES.add_sync(
    f"POST {_DECISION}/outcome",
    "learn outcome",
    Role.LABEL,
    takes=OutcomeReport,
    gives=LearnedOutcome,
    statuses=(404,),
    success=201,
    example={"outcome": "failure", "severity": 4, "note": "charged back"},
)
def learn_outcome(call: ApiCall) -> LearnedOutcome:
    """Record the outcome of a decision."""
    body, record = call.decode_body(OutcomeReport), require_record(call)
    ends = None if body.days is None else call.service.clock() + timedelta(days=body.days)
    experience = call.service.gate.learn(
        record.decision_id,
        body.outcome,
        severity=body.severity,
        note=body.note,
        reviewer=_reviewer_name(call, body.by),
        expires_at=ends,
        tenant=record.tenant,
    )
    learned = _labels_of(call, record.decision_id)
    effect = call.service.gate.describe_effect(experience)
    return LearnedOutcome(decision_id=learned.decision_id, labels=learned.labels, effect=effect)


def _reviewer_name(call: ApiCall, claimed_name: str) -> str:
    """Return the reviewer with the key, because the name is only a claim."""
    key = call.caller.name
    return f"{claimed_name} (key {key})" if claimed_name else key


def _labels_of(call: ApiCall, decision_id: str) -> Labelled:
    labels = call.service.store.list_labels(decision_id)
    return Labelled(decision_id=decision_id, labels=[label._asdict() for label in labels])
