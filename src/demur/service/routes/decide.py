"""Deciding over HTTP. A refusal is an answer like any other: 200, with its record.

What could not be stored was not decided: that is an error, so that nobody takes it for one.
"""

from contextlib import nullcontext
from typing import Annotated, Any

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.model.record import DecisionRecord
from demur.service.access import Role
from demur.service.call import ApiAnswer, ApiCall, json_answer
from demur.service.problem import ProblemError
from demur.service.route import ApiRoute
from demur.service.routes.shown import record_view, require_record

__all__ = ["DECIDE_ROUTES", "Decide", "Resolve"]

_Findings = Annotated[tuple[Finding, ...], msgspec.Meta(max_length=1000)]
_Grants = Annotated[tuple[Grant, ...], msgspec.Meta(max_length=100)]
_Accepted = Annotated[tuple[str, ...], msgspec.Meta(max_length=100)]


class Decide(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to decide, with findings, grants, accepted constraints and signals."""

    request: dict[str, Any]
    findings: _Findings = ()
    grants: _Grants = ()
    accepted: _Accepted = ()
    signals: dict[str, Any] | None = None


class Resolve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Grants and accepted constraints for an earlier decision."""

    grants: _Grants = ()
    accepted: _Accepted = ()


async def decide_request(call: ApiCall) -> ApiAnswer:
    """Decide one request, for the caller's tenant."""
    asked = call.decode_body(Decide)
    metrics = call.service.metrics
    with nullcontext() if metrics is None else metrics.time_decision():
        record = await call.service.gate.adecide(
            asked.request,
            findings=asked.findings,
            grants=asked.grants,
            accepted=asked.accepted,
            signals=asked.signals,
            tenant=call.caller.tenant,
        )
    return _decision_answer(record)


async def resolve_decision(call: ApiCall) -> ApiAnswer:
    """Resolve an earlier decision with grants and accepted constraints."""
    asked = call.decode_body(Resolve)

    def resolved() -> DecisionRecord:
        before = require_record(call)
        return call.service.gate.resolve(
            before.decision_id, grants=asked.grants, accepted=asked.accepted, tenant=before.tenant
        )

    return _decision_answer(await call.service.run_blocking(resolved))


def _decision_answer(record: DecisionRecord) -> ApiAnswer:
    if record.basis == "runtime":
        if ReasonCode.IDEMPOTENCY_CONFLICT in record.reason_codes:
            raise ProblemError(
                409,
                ReasonCode.IDEMPOTENCY_CONFLICT,
                "this request id was used for another request",
                evidence={"decision_id": record.decision_id},
            )
        if ReasonCode.STORAGE_UNAVAILABLE in record.reason_codes:
            raise ProblemError(
                503,
                ReasonCode.STORAGE_UNAVAILABLE,
                "the decision could not be stored, so none was made",
                headers={"retry-after": "1"},
                evidence={"decision_id": record.decision_id},
            )
    return json_answer(record_view(record))


_REFUND_EXAMPLE = {
    "request": {
        "subject": {"type": "agent", "id": "billing"},
        "action": {"type": "refund", "amount": {"value": 20, "currency": "USD"}},
        "evidence": {"ticket_id": "T-1"},
        "request_id": "refund-T-1",
    }
}
DECIDE_ROUTES = (
    ApiRoute(
        "POST",
        "/v1/decide",
        "decide",
        "Decide a request by policy, and store the decision",
        decide_request,
        Role.DECIDE,
        takes=Decide,
        gives=DecisionRecord,
        statuses=(409,),
        example=_REFUND_EXAMPLE,
    ),
    ApiRoute(
        "POST",
        "/v1/decisions/{decision_id}/resolve",
        "resolve",
        "Resolve a decision with grants and accepted constraints",
        resolve_decision,
        Role.DECIDE,
        takes=Resolve,
        gives=DecisionRecord,
        statuses=(404, 409),
        example={"accepted": ["dry_run"]},
    ),
)
