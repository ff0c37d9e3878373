"""API keys over HTTP, for admins: list, create, revoke. A secret is shown once."""

from datetime import timedelta
from typing import Annotated

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.gate.clock import format_timestamp
from demur.service.authentication import Role, make_key
from demur.service.calls import ApiAnswer, ApiCall, ApiRoute, QueryParameter, json_answer
from demur.service.problem import ProblemError
from demur.store.rows import ApiKey

__all__ = ["KEY_ROUTES", "KeyView", "KeyWanted", "Keys", "MadeKey", "key_view"]

_KeyText = Annotated[str, msgspec.Meta(max_length=200, pattern="^[^\\x00]*$")]


class KeyWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to create. Without `tenant` it is for the caller's tenant; `""` is for all tenants."""

    roles: Annotated[tuple[Role, ...], msgspec.Meta(min_length=1, max_length=4)]
    tenant: _KeyText | None = None
    note: _KeyText = ""
    days: Annotated[float, msgspec.Meta(gt=0, le=36_500)] | None = None


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its token and digest."""

    key_id: str
    tenant: str
    roles: list[str]
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    note: str


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
    return KeyView(**{**shown, "roles": key.roles.split()})


async def list_keys(call: ApiCall) -> ApiAnswer:
    """List the keys of the caller's tenant, or of all tenants."""
    tenant = call.chosen_tenant()
    keys = await call.service.run_blocking(call.service.store.list_keys)
    return json_answer(Keys(keys=[key_view(key) for key in keys if tenant in {None, key.tenant}]))


async def create_key(call: ApiCall) -> ApiAnswer:
    """Create a key."""
    wanted = call.decode_body(KeyWanted)
    own = call.caller.tenant
    tenant = (own or "") if wanted.tenant is None else wanted.tenant
    if own is not None and tenant != own:
        raise ProblemError(403, ReasonCode.PERMISSION_DENIED, "this key belongs to another tenant")
    lifetime = None if wanted.days is None else timedelta(days=wanted.days)
    new = make_key(
        tenant, wanted.roles, note=wanted.note, lifetime=lifetime, clock=call.service.clock
    )
    await call.service.run_blocking(call.service.store.add_key, new.key)
    return json_answer(MadeKey(token=new.token, key=key_view(new.key)), 201)


async def revoke_key(call: ApiCall) -> ApiAnswer:
    """Revoke a key."""
    store, tenant, key_id = call.service.store, call.caller.tenant, call.path["key_id"]

    def revoke() -> KeyView:
        now = format_timestamp(call.service.clock())
        kept = store.list_keys()
        found = next((key for key in kept if key.key_id == key_id), None)
        if found is None or tenant not in {None, found.tenant}:
            raise ProblemError(404, ReasonCode.REQUEST_INVALID, "there is no such key")
        store.revoke_key(found.key_id, now)
        return key_view(found._replace(revoked_at=found.revoked_at or now))

    return json_answer(await call.service.run_blocking(revoke))


KEY_ROUTES = (
    ApiRoute(
        "GET",
        "/v1/keys",
        "list keys",
        "List keys",
        list_keys,
        Role.ADMIN,
        gives=Keys,
        query=(QueryParameter("tenant", "Only this tenant, for a key of all tenants."),),
    ),
    ApiRoute(
        "POST",
        "/v1/keys",
        "make key",
        "Create a key; its token is shown only once",
        create_key,
        Role.ADMIN,
        takes=KeyWanted,
        gives=MadeKey,
        success=201,
        example={"roles": ["decide"], "tenant": "acme", "note": "billing agent", "days": 90},
    ),
    ApiRoute(
        "DELETE",
        "/v1/keys/{key_id}",
        "revoke key",
        "Revoke a key",
        revoke_key,
        Role.ADMIN,
        gives=KeyView,
        statuses=(404,),
    ),
)
