"""Grants over HTTP, for admins: list those that came with decisions, and revoke."""

from typing import Annotated

import msgspec

from demur.gate.clock import format_timestamp
from demur.gate.grants import GrantView, list_grant_views
from demur.service.authentication import Role
from demur.service.calls import TENANT_PARAMETER, ApiCall, RouteTable, number_parameter
from demur.service.problem import invalid_call
from demur.store.grant_tables import ALL_TENANTS, Revocation

GRANT_ROUTES = RouteTable()
_DEFAULT_LIMIT, _MAX_LIMIT = 100, 1000
_MAX_ID_LENGTH = 256
_Note = Annotated[str, msgspec.Meta(max_length=200, pattern="^[^\\x00]*$")]


class Grants(msgspec.Struct, frozen=True, kw_only=True):
    """Grants without their signatures, newest first, and revoked ids that no decision named."""

    grants: list[GrantView]


class Revoke(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A note on why a grant is revoked."""

    note: _Note = ""


class Revoked(msgspec.Struct, frozen=True, kw_only=True):
    """A revocation; an empty tenant stands for all tenants. `is_new`: nobody revoked it before."""

    grant_id: str
    tenant: str
    revoked_at: str
    is_new: bool


@GRANT_ROUTES.add_sync(
    "GET /v1/grants",
    "list grants",
    Role.ADMIN,
    gives=Grants,
    query=(TENANT_PARAMETER, number_parameter("limit", "How many.", _MAX_LIMIT)),
)
def list_grants(call: ApiCall) -> Grants:
    """List the grants that came with decisions, and whether they still count."""
    limit = call.read_number("limit", _DEFAULT_LIMIT, maximum=_MAX_LIMIT)
    now = format_timestamp(call.service.clock())
    store, tenant = call.service.store, call.chosen_tenant()
    return Grants(grants=list_grant_views(store, now, tenant=tenant, limit=limit))


@GRANT_ROUTES.add_sync(
    "POST /v1/grants/{grant_id}/revoke",
    "revoke grant",
    Role.ADMIN,
    takes=Revoke,
    gives=Revoked,
    query=(TENANT_PARAMETER,),
    example={"note": "the order was cancelled"},
)
def revoke_grant(call: ApiCall) -> Revoked:
    """Revoke a grant for the tenant of the key; every gate over the store sees it at once."""
    body, grant_id = call.decode_body(Revoke), call.path["grant_id"]
    if not grant_id.isprintable() or len(grant_id) > _MAX_ID_LENGTH:
        problem = f"a grant id has at most {_MAX_ID_LENGTH} printable characters"
        raise invalid_call(422, problem, "grant_id")
    revocation = Revocation(
        tenant=call.chosen_tenant() or ALL_TENANTS,
        grant_id=grant_id,
        revoked_at=format_timestamp(call.service.clock()),
        revoked_by=f"key:{call.caller.name}",
        note=body.note,
    )
    is_new = call.service.store.revoke_grant(revocation)
    return Revoked(
        grant_id=grant_id,
        tenant=revocation.tenant,
        revoked_at=revocation.revoked_at,
        is_new=is_new,
    )
