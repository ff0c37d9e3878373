"""Labels of decisions over HTTP: reviews for evals, outcomes for memory."""

from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec

from demur.gate.clock import format_timestamp
from demur.service.authentication import Role
from demur.service.calls import ApiAnswer, ApiCall, ApiRoute, json_answer
from demur.service.record_search import require_record
from demur.store.rows import Label

__all__ = ["LABEL_ROUTES", "REVIEW", "Labelled", "OutcomeReport", "Review"]

REVIEW = "review"
# Databases do not store NUL in a text.
_NO_NUL_PATTERN = "^[^\\x00]*$"
_Note = Annotated[str, msgspec.Meta(max_length=2000, pattern=_NO_NUL_PATTERN)]
_ReviewerName = Annotated[str, msgspec.Meta(max_length=200, pattern=_NO_NUL_PATTERN)]


class Review(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A review of a decision. `by` names the reviewer; the label names the key as well."""

    value: Literal["good", "false_refusal", "missed_harm"]
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


async def add_review(call: ApiCall) -> ApiAnswer:
    """Label a decision as good, a false refusal, or missed harm."""
    given = call.decode_body(Review)

    def label() -> Labelled:
        record = require_record(call)
        now = format_timestamp(call.service.clock())
        by = _reviewer_name(call, given.by)
        call.service.store.add_label(
            Label(record.decision_id, record.tenant, now, REVIEW, given.value, given.note, by)
        )
        return _labels_of(call, record.decision_id)

    return json_answer(await call.service.run_blocking(label), 201)


async def learn_outcome(call: ApiCall) -> ApiAnswer:
    """Record the outcome of a decision."""
    given = call.decode_body(OutcomeReport)

    def remember() -> Labelled:
        record = require_record(call)
        ends = None if given.days is None else call.service.clock() + timedelta(days=given.days)
        call.service.gate.learn(
            record.decision_id,
            given.outcome,
            severity=given.severity,
            note=given.note,
            reviewer=_reviewer_name(call, given.by),
            expires_at=ends,
            tenant=record.tenant,
        )
        return _labels_of(call, record.decision_id)

    return json_answer(await call.service.run_blocking(remember), 201)


async def list_labels(call: ApiCall) -> ApiAnswer:
    """Return the labels of a decision."""

    def read() -> Labelled:
        return _labels_of(call, require_record(call).decision_id)

    return json_answer(await call.service.run_blocking(read))


def _reviewer_name(call: ApiCall, claimed_name: str) -> str:
    """Return the reviewer with the key, because the name is only a claim."""
    key = call.caller.name
    return f"{claimed_name} (key {key})" if claimed_name else key


def _labels_of(call: ApiCall, decision_id: str) -> Labelled:
    said = call.service.store.list_labels(decision_id)
    return Labelled(decision_id=decision_id, labels=[label._asdict() for label in said])


_DECISION_PATH = "/v1/decisions/{decision_id}"
LABEL_ROUTES = (
    ApiRoute(
        "GET",
        f"{_DECISION_PATH}/labels",
        "list labels",
        "Return the labels of a decision",
        list_labels,
        Role.READ,
        gives=Labelled,
        statuses=(404,),
    ),
    ApiRoute(
        "POST",
        f"{_DECISION_PATH}/labels",
        "add label",
        "Label a decision as good, a false refusal, or missed harm",
        add_review,
        Role.LABEL,
        takes=Review,
        gives=Labelled,
        statuses=(404,),
        success=201,
        example={"value": "false_refusal", "note": "the ticket was there"},
    ),
    ApiRoute(
        "POST",
        f"{_DECISION_PATH}/outcome",
        "learn outcome",
        "Record the outcome of a decision",
        learn_outcome,
        Role.LABEL,
        takes=OutcomeReport,
        gives=Labelled,
        statuses=(404,),
        success=201,
        example={"outcome": "failure", "severity": 4, "note": "charged back"},
    ),
)
