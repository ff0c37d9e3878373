"""Decide over HTTP, and put refusals into words.

A refusal is an answer like any other: 200, with its record. A decision that could not be stored
was not made, so it is an error.
"""

from contextlib import nullcontext
from typing import Annotated, Any

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.respond.case import Audience
from demur.respond.graceful import compose, view
from demur.service.authentication import Role
from demur.service.calls import (
    MAX_INLINE_REQUEST_BYTES,
    ApiAnswer,
    ApiCall,
    RouteTable,
    json_answer,
)
from demur.service.problem import ProblemError, forbidden, invalid_call
from demur.service.record_search import record_view, require_record

DECIDE_ROUTES = RouteTable()
_Findings = Annotated[tuple[Finding, ...], msgspec.Meta(max_length=1000)]
_Grants = Annotated[tuple[Grant, ...], msgspec.Meta(max_length=100)]
_Accepted = Annotated[tuple[str, ...], msgspec.Meta(max_length=100)]
_Name = Annotated[str, msgspec.Meta(max_length=200)]


class Decide(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to decide, with findings, grants, accepted constraints and signals."""

    request: dict[str, Any]
    findings: _Findings = ()
    grants: _Grants = ()
    accepted: _Accepted = ()
    signals: dict[str, Any] | None = None


@DECIDE_ROUTES.add(
    "POST /v1/decide",
    "decide",
    Role.DECIDE,
    takes=Decide,
    gives=DecisionRecord,
    statuses=(409,),
    example={
        "request": {
            "subject": {"type": "agent", "id": "billing"},
            "action": {"type": "refund", "amount": {"value": 20, "currency": "USD"}},
            "evidence": {"ticket_id": "T-1"},
            "request_id": "refund-T-1",
        }
    },
)
async def decide_request(call: ApiCall) -> ApiAnswer:
    """Decide a request by policy, and store the decision."""
    metrics = call.service.metrics
    with nullcontext() if metrics is None else metrics.time_decision():
        if len(call.body) > MAX_INLINE_REQUEST_BYTES:
            return await call.run_heavy(_decide_on_thread, call)
        body = call.decode_body(Decide)
        record = await call.service.gate.adecide(body.request, **_decide_arguments(call, body))
    return json_answer(_record_view(record))


def _decide_on_thread(call: ApiCall) -> ApiAnswer:
    body = call.decode_body(Decide)
    record = call.service.gate.decide(body.request, **_decide_arguments(call, body))
    return json_answer(_record_view(record))


def _decide_arguments(call: ApiCall, body: Decide) -> dict[str, Any]:
    call.caller.require_subjects(body.request.get("subject"))
    return {
        "findings": body.findings,
        "grants": body.grants,
        "accepted": body.accepted,
        "signals": body.signals,
        "tenant": call.caller.tenant,
        "subjects": call.caller.subjects,
    }


class Resolve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Grants and accepted constraints for an earlier decision."""

    grants: _Grants = ()
    accepted: _Accepted = ()


@DECIDE_ROUTES.add_sync(
    "POST /v1/decisions/{decision_id}/resolve",
    "resolve",
    Role.DECIDE,
    takes=Resolve,
    gives=DecisionRecord,
    statuses=(404, 409),
    example={"accepted": ["dry_run"]},
)
def resolve_decision(call: ApiCall) -> dict[str, Any]:
    """Resolve a decision with grants and accepted constraints."""
    body = call.decode_body(Resolve)
    before = require_record(call)
    record = call.service.gate.resolve(
        before.decision_id,
        grants=body.grants,
        accepted=body.accepted,
        tenant=before.tenant,
        subjects=call.caller.subjects,
    )
    return _record_view(record)


def _record_view(record: DecisionRecord) -> dict[str, Any]:
    require_made(record)
    return record_view(record)


def require_made(record: DecisionRecord) -> None:
    """Refuse a record of a decision that was not made.

    Raises:
        ProblemError: It could not be stored, or its request id was used for another request.
    """
    if record.basis == "runtime":
        evidence = {"decision_id": record.decision_id}
        if ReasonCode.IDEMPOTENCY_CONFLICT in record.reason_codes:
            problem = "this request id was used for another request"
            raise ProblemError(409, ReasonCode.IDEMPOTENCY_CONFLICT, problem, evidence=evidence)
        if ReasonCode.STORAGE_UNAVAILABLE in record.reason_codes:
            raise ProblemError(
                503,
                ReasonCode.STORAGE_UNAVAILABLE,
                "the store failed, so there is no decision",
                headers={"retry-after": "1"},
                evidence=evidence,
            )


class Respond(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The refusal to put into words: a decision by id, or a code with its detail. Not both."""

    decision_id: _Name | None = None
    code: _Name | None = None
    detail: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    audience: Audience = Audience.END_USER
    locale: _Name | None = None
    persona: _Name | None = None
    slots: dict[str, str] = {}
    variation: int | _Name | None = None


class Worded(msgspec.Struct, frozen=True, kw_only=True):
    """The words, and the view that the audience may see."""

    text: str
    audience: Audience
    locale: str
    template: str
    variation: int
    view: dict[str, Any]


@DECIDE_ROUTES.add_sync(
    "POST /v1/respond",
    "respond",
    Role.DECIDE,
    takes=Respond,
    gives=Worded,
    statuses=(404,),
    example={"code": "DESTRUCTIVE_ACTION", "audience": "end_user", "locale": "en"},
)
def word_refusal(call: ApiCall) -> Worded:
    """Put a refusal into words for an audience."""
    body, registry = call.decode_body(Respond), call.service.gate.registry
    if (body.decision_id is None) == (body.code is None):
        raise invalid_call(422, "name either `decision_id` or `code`")
    source: DecisionRecord | Refusal
    if body.code is not None:
        source = Refusal.from_code(body.code, body.detail, registry=registry)
    else:
        # Words for an operator show the whole record.
        if body.audience is Audience.OPERATOR and not call.caller.has_role(Role.READ):
            raise forbidden(f"this key has no role `{Role.READ}`")
        source = require_record(call._replace(path={"decision_id": body.decision_id or ""}))
    settings: dict[str, Any] = {
        "locale": body.locale or "en",
        "persona": body.persona,
        "slots": body.slots,
        "variation": body.variation,
        "registry": registry,
    }
    words = compose(source, audience=body.audience, **settings)
    return Worded(
        text=words.text,
        audience=body.audience,
        locale=words.locale,
        template=words.template,
        variation=words.variation,
        view=view(source, body.audience, **settings),
    )
