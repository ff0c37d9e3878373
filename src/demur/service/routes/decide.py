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
from demur.service.calls import ApiAnswer, ApiCall, ApiRoute, json_answer
from demur.service.problem import ProblemError, invalid_request
from demur.service.record_search import record_view, require_record

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


_Name = Annotated[str, msgspec.Meta(max_length=200)]


class Respond(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The refusal to put into words: a decision by id, or a code with its detail. Not both."""

    decision_id: _Name | None = None
    code: _Name | None = None
    detail: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    audience: Audience = Audience.END_USER
    locale: _Name | None = None
    persona: _Name | None = None
    slots: dict[str, str] = {}


class Worded(msgspec.Struct, frozen=True, kw_only=True):
    """The words, and the view that the audience may see."""

    text: str
    audience: Audience
    locale: str
    view: dict[str, Any]


async def word_refusal(call: ApiCall) -> ApiAnswer:
    """Put a refusal into words for an audience."""
    asked = call.decode_body(Respond)
    if (asked.decision_id is None) == (asked.code is None):
        raise invalid_request(422, "name either `decision_id` or `code`")
    return json_answer(await call.service.run_blocking(_compose_words, call, asked))


def _compose_words(call: ApiCall, body: Respond) -> Worded:
    registry = call.service.gate.registry
    settings: dict[str, Any] = {
        "locale": body.locale or "en",
        "persona": body.persona,
        "slots": body.slots,
        "registry": registry,
    }
    source = _find_source(call, body)
    words = compose(source, audience=body.audience, **settings)
    return Worded(
        text=words.text,
        audience=body.audience,
        locale=words.locale,
        view=view(source, body.audience, **settings),
    )


def _find_source(call: ApiCall, body: Respond) -> DecisionRecord | Refusal:
    if body.decision_id is not None:
        # Words for an operator show the whole record.
        if body.audience is Audience.OPERATOR and not call.caller.has_role(Role.READ):
            raise ProblemError(
                403, ReasonCode.PERMISSION_DENIED, f"this key has no role `{Role.READ}`"
            )
        return require_record(call._replace(path={"decision_id": body.decision_id}))
    assert body.code is not None
    return Refusal.from_code(body.code, body.detail, registry=call.service.gate.registry)


RESPOND_ROUTES = (
    ApiRoute(
        "POST",
        "/v1/respond",
        "respond",
        "Put a refusal into words for an audience",
        word_refusal,
        Role.DECIDE,
        takes=Respond,
        gives=Worded,
        statuses=(404,),
        example={"code": "DESTRUCTIVE_ACTION", "audience": "end_user", "locale": "en"},
    ),
)
