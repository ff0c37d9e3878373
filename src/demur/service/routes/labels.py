"""Labels of decisions over HTTP: reviews for evals, outcomes for memory."""

from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec

from demur.gate.clock import timestamp
from demur.service.access import Role
from demur.service.call import Answer, Call, answer
from demur.service.route import Route
from demur.service.routes.shown import record_named
from demur.store.rows import Label

__all__ = ["REVIEW", "ROUTES", "Labelled", "Outcome", "Review"]

REVIEW = "review"
# Databases do not store NUL in a text.
_NO_ZERO = "^[^\\x00]*$"
_Note = Annotated[str, msgspec.Meta(max_length=2000, pattern=_NO_ZERO)]
_By = Annotated[str, msgspec.Meta(max_length=200, pattern=_NO_ZERO)]


class Review(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A review of a decision. `by` names the reviewer; the label names the key as well."""

    value: Literal["good", "false_refusal", "missed_harm"]
    note: _Note = ""
    by: _By = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcome of a decision, which memory applies to later ones."""

    outcome: Literal["success", "failure"]
    severity: Annotated[int, msgspec.Meta(ge=1, le=5)] = 3
    note: _Note = ""
    by: _By = ""
    days: Annotated[float, msgspec.Meta(gt=0, le=36_500)] | None = None


class Labelled(msgspec.Struct, frozen=True, kw_only=True):
    """All labels of a decision, oldest first."""

    decision_id: str
    labels: list[dict[str, Any]]


async def review(call: Call) -> Answer:
    """Label a decision as good, a false refusal, or missed harm."""
    given = call.read(Review)

    def label() -> Labelled:
        record = record_named(call)
        now = timestamp(call.service.clock())
        by = _who(call, given.by)
        call.service.store.add_label(
            Label(record.decision_id, record.tenant, now, REVIEW, given.value, given.note, by)
        )
        return _labelled(call, record.decision_id)

    return answer(await call.service.work(label), 201)


async def learn(call: Call) -> Answer:
    """Record the outcome of a decision."""
    given = call.read(Outcome)

    def remember() -> Labelled:
        record = record_named(call)
        ends = None if given.days is None else call.service.clock() + timedelta(days=given.days)
        call.service.gate.learn(
            record.decision_id,
            given.outcome,
            severity=given.severity,
            note=given.note,
            by=_who(call, given.by),
            expires_at=ends,
            tenant=record.tenant,
        )
        return _labelled(call, record.decision_id)

    return answer(await call.service.work(remember), 201)


async def labels(call: Call) -> Answer:
    """Return the labels of a decision."""

    def read() -> Labelled:
        return _labelled(call, record_named(call).decision_id)

    return answer(await call.service.work(read))


def _who(call: Call, named: str) -> str:
    """Return the reviewer with the key, because the name is only a claim."""
    key = call.caller.name
    return f"{named} (key {key})" if named else key


def _labelled(call: Call, decision_id: str) -> Labelled:
    said = call.service.store.labels(decision_id)
    return Labelled(decision_id=decision_id, labels=[label._asdict() for label in said])


_ONE = "/v1/decisions/{decision_id}"
ROUTES = (
    Route(
        "GET",
        f"{_ONE}/labels",
        "list labels",
        "Return the labels of a decision",
        labels,
        Role.READ,
        gives=Labelled,
        statuses=(404,),
    ),
    Route(
        "POST",
        f"{_ONE}/labels",
        "add label",
        "Label a decision as good, a false refusal, or missed harm",
        review,
        Role.LABEL,
        takes=Review,
        gives=Labelled,
        statuses=(404,),
        success=201,
        example={"value": "false_refusal", "note": "the ticket was there"},
    ),
    Route(
        "POST",
        f"{_ONE}/outcome",
        "learn outcome",
        "Record the outcome of a decision",
        learn,
        Role.LABEL,
        takes=Outcome,
        gives=Labelled,
        statuses=(404,),
        success=201,
        example={"outcome": "failure", "severity": 4, "note": "charged back"},
    ),
)
