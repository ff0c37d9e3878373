"""Erase an identifier over HTTP, for admins: a preview first, then the erasure itself.

Both take the identifier in the body, so that it stands in no log of addresses. One call searches a
bounded part of the chain; `next` is where the following call begins.
"""

from typing import Annotated, Any

import msgspec

from demur.service.authentication import Role
from demur.service.calls import TENANT_PARAMETER, ApiCall, RouteTable
from demur.service.problem import invalid_call
from demur.store.erasure import MAX_IDENTIFIER_LENGTH, MIN_IDENTIFIER_LENGTH, ErasurePlan
from demur.store.events import MAX_REASON_LENGTH

ERASURE_ROUTES = RouteTable()
_MAX_SEARCHED = 20_000
_PERSON = "person:"
_EXAMPLE = {"identifier": "ann@example.org"}
# Why the places that keep an identifier keep it.
_REASONS = {
    "record": "the hash chain covers the open part of a record",
    "event": "an event of the chain is never changed",
    "label": "it says who judged",
    "revocation": "it says who revoked a grant, and why",
    "vote": "it says who approved or declined",
    "approval": "it says who decided a request",
    "person": "an account stays until it is deleted",
    "key": "a key keeps its note and its subjects",
}
_Identifier = Annotated[
    str,
    msgspec.Meta(
        min_length=MIN_IDENTIFIER_LENGTH,
        max_length=MAX_IDENTIFIER_LENGTH,
        pattern=r"^[^\x00]*$",
    ),
]
_Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REASON_LENGTH)]
_Place = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class ErasureSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The identifier to look for, from the place `first` of the chain on."""

    identifier: _Identifier
    first: _Place = 1


class ErasureOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The identifier to erase, and why. The reason stays in the chain, so it names nobody."""

    identifier: _Identifier
    reason: _Reason
    first: _Place = 1


class ErasurePreview(msgspec.Struct, frozen=True, kw_only=True):
    """What holds an identifier: what an erasure takes, and what keeps it.

    The sealed part of `records` goes, and so do `others`: grants, experiences and notes, which are
    searched once the end of the chain is reached. `open_parts` records keep the identifier.
    `kept` counts the places, like `record.request_id`, and `why` says why they stay. `next` is the
    `first` of the following call, null at the end.
    """

    tenant: str
    records: int
    others: dict[str, int]
    open_parts: int
    kept: dict[str, int]
    why: dict[str, str]
    next: int | None


class Erasure(ErasurePreview, frozen=True, kw_only=True):
    """What was erased; an event of the chain says by whom and why, if anything was."""

    by: str
    reason: str


@ERASURE_ROUTES.add_sync(
    "POST /v1/erasures/preview",
    "preview erasure",
    Role.ADMIN,
    takes=ErasureSearch,
    gives=ErasurePreview,
    query=(TENANT_PARAMETER,),
    example=_EXAMPLE,
)
def preview_erasure(call: ApiCall) -> ErasurePreview:
    """Say what erasing an identifier would take, and what would keep it."""
    body = call.decode_body(ErasureSearch)
    return ErasurePreview(**_plan_fields(_plan(call, body.identifier, body.first)))


@ERASURE_ROUTES.add_sync(
    "POST /v1/erasures",
    "erase identifier",
    Role.ADMIN,
    takes=ErasureOrder,
    gives=Erasure,
    query=(TENANT_PARAMETER,),
    example={**_EXAMPLE, "reason": "request 12"},
)
def erase_identifier(call: ApiCall) -> Erasure:
    """Erase an identifier from the records of a tenant."""
    body, name = call.decode_body(ErasureOrder), call.caller.name
    author = name if name.startswith(_PERSON) else f"key:{name}"
    plan = _plan(call, body.identifier, body.first)
    call.service.store.erase_planned(plan, by=author, reason=body.reason)
    return Erasure(**_plan_fields(plan), by=author, reason=body.reason)


def _plan(call: ApiCall, identifier: str, first: int) -> ErasurePlan:
    tenant = call.chosen_tenant()
    if tenant is None:
        raise invalid_call(422, "name the tenant whose records are searched", "tenant")
    return call.service.store.plan_erasure(tenant, identifier, first=first, limit=_MAX_SEARCHED)


def _plan_fields(plan: ErasurePlan) -> dict[str, Any]:
    return {
        "tenant": plan.tenant,
        "records": len(plan.decision_ids),
        "others": {kind: len(keys) for kind, keys in plan.others.items()},
        "open_parts": plan.open_parts,
        "kept": dict(plan.kept),
        "why": {place: _REASONS[place.partition(".")[0]] for place in plan.kept},
        "next": plan.next_seq,
    }
