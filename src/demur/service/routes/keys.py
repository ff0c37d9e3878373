"""API keys over HTTP, for admins: list, create, revoke. A secret is shown once."""

from datetime import timedelta
from typing import Annotated, Literal

import msgspec

from demur.gate.clock import format_timestamp
from demur.service.authentication import Role, make_key
from demur.service.calls import TENANT_PARAMETER, ApiCall, RouteTable
from demur.service.problem import forbidden, invalid_call
from demur.store.rows import ApiKey

KEY_ROUTES = RouteTable()
# A key never carries `approve`: it is for machines.
_KeyRole = Literal["decide", "read", "label", "admin"]
_KeyText = Annotated[str, msgspec.Meta(max_length=200, pattern="^[^\\x00]*$")]


class KeyWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to create. Without `tenant` it is for the caller's tenant; `""` is for all tenants.

    `subjects` bind it: its holder is authenticated as these, so that grants to them count. `*` is
    any subject. It expires after `days`, by default after `key_days` of the settings.
    """

    roles: Annotated[tuple[_KeyRole, ...], msgspec.Meta(min_length=1, max_length=4)]
    tenant: _KeyText | None = None
    note: _KeyText = ""
    subjects: Annotated[tuple[_KeyText, ...], msgspec.Meta(max_length=100)] = ()
    days: Annotated[float, msgspec.Meta(gt=0, le=36_500)] | Literal["never"] | None = None


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its token and digest."""

    key_id: str
    tenant: str
    roles: list[str]
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    note: str
    subjects: list[str]


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """Keys, oldest first."""

    keys: list[KeyView]


class MadeKey(msgspec.Struct, frozen=True, kw_only=True):
    """A new key. `token` is the secret that its holder sends; it is shown only once."""

    token: str
    key: KeyView


def key_view(key: ApiKey) -> KeyView:
    """Return a key without its digest."""
    shown = {name: getattr(key, name) for name in KeyView.__struct_fields__}
    lists = {"roles": key.roles.split(), "subjects": key.subjects.splitlines()}
    return KeyView(**{**shown, **lists})


@KEY_ROUTES.add_sync("GET /v1/keys", "list keys", Role.ADMIN, gives=Keys, query=(TENANT_PARAMETER,))
def list_keys(call: ApiCall) -> Keys:
    """List keys."""
    tenant = call.chosen_tenant()
    keys = call.service.store.list_keys()
    return Keys(keys=[key_view(key) for key in keys if tenant in {None, key.tenant}])


@KEY_ROUTES.add_sync(
    "POST /v1/keys",
    "make key",
    Role.ADMIN,
    takes=KeyWanted,
    gives=MadeKey,
    success=201,
    example={"roles": ["decide"], "tenant": "acme", "note": "billing agent", "days": 90},
)
def create_key(call: ApiCall) -> MadeKey:
    """Create a key; its token is shown only once."""
    body, own = call.decode_body(KeyWanted), call.caller.tenant
    tenant = (own or "") if body.tenant is None else body.tenant
    if own is not None and tenant != own:
        raise forbidden("this key belongs to another tenant")
    days = call.service.settings.key_days if body.days is None else body.days
    lifetime = None if days == "never" else timedelta(days=days)
    new = make_key(
        tenant,
        body.roles,
        note=body.note,
        lifetime=lifetime,
        subjects=body.subjects,
        clock=call.service.clock,
    )
    call.service.store.add_key(new.key)
    return MadeKey(token=new.token, key=key_view(new.key))


@KEY_ROUTES.add_sync(
    "DELETE /v1/keys/{key_id}", "revoke key", Role.ADMIN, gives=KeyView, statuses=(404,)
)
def revoke_key(call: ApiCall) -> KeyView:
    """Revoke a key."""
    store, tenant, key_id = call.service.store, call.caller.tenant, call.path["key_id"]
    key = next((key for key in store.list_keys() if key.key_id == key_id), None)
    if key is None or tenant not in {None, key.tenant}:
        raise invalid_call(404, "there is no such key")
    now = format_timestamp(call.service.clock())
    store.revoke_key(key.key_id, now)
    return key_view(key._replace(revoked_at=key.revoked_at or now))
