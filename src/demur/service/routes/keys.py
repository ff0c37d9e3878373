"""API keys over HTTP, for admins: list, create, revoke. A secret is shown once."""

from datetime import timedelta
from typing import Annotated

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.gate.clock import timestamp
from demur.service.access import Role, make_key
from demur.service.call import Answer, Call, answer
from demur.service.problem import ProblemError
from demur.service.route import Query, Route
from demur.store.rows import ApiKey

__all__ = ["ROUTES", "Key", "KeyWanted", "Keys", "MadeKey", "told"]

_NoNul = Annotated[str, msgspec.Meta(max_length=200, pattern="^[^\\x00]*$")]


class KeyWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to create. Without `tenant` it is for the caller's tenant; `""` is for all tenants."""

    roles: Annotated[tuple[Role, ...], msgspec.Meta(min_length=1, max_length=4)]
    tenant: _NoNul | None = None
    note: _NoNul = ""
    days: Annotated[float, msgspec.Meta(gt=0, le=36_500)] | None = None


class Key(msgspec.Struct, frozen=True, kw_only=True):
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

    keys: list[Key]


class MadeKey(msgspec.Struct, frozen=True, kw_only=True):
    """A new key. `token` is the secret that its holder sends; it is shown only once."""

    token: str
    key: Key


def told(key: ApiKey) -> Key:
    """Return a key without its digest."""
    shown = {name: getattr(key, name) for name in Key.__struct_fields__}
    return Key(**{**shown, "roles": key.roles.split()})


async def listed(call: Call) -> Answer:
    """List the keys of the caller's tenant, or of all tenants."""
    tenant = call.tenant()
    keys = await call.service.work(call.service.store.keys)
    return answer(Keys(keys=[told(key) for key in keys if tenant in {None, key.tenant}]))


async def made(call: Call) -> Answer:
    """Create a key."""
    wanted = call.read(KeyWanted)
    own = call.caller.tenant
    tenant = (own or "") if wanted.tenant is None else wanted.tenant
    if own is not None and tenant != own:
        raise ProblemError(403, ReasonCode.PERMISSION_DENIED, "this key belongs to another tenant")
    lifetime = None if wanted.days is None else timedelta(days=wanted.days)
    new = make_key(
        tenant, wanted.roles, note=wanted.note, lifetime=lifetime, clock=call.service.clock
    )
    await call.service.work(call.service.store.add_key, new.key)
    return answer(MadeKey(token=new.token, key=told(new.key)), 201)


async def revoked(call: Call) -> Answer:
    """Revoke a key."""
    store, tenant, key_id = call.service.store, call.caller.tenant, call.path["key_id"]

    def revoke() -> Key:
        now = timestamp(call.service.clock())
        kept = store.keys()
        found = next((key for key in kept if key.key_id == key_id), None)
        if found is None or tenant not in {None, found.tenant}:
            raise ProblemError(404, ReasonCode.REQUEST_INVALID, "there is no such key")
        store.revoke_key(found.key_id, now)
        return told(found._replace(revoked_at=found.revoked_at or now))

    return answer(await call.service.work(revoke))


ROUTES = (
    Route(
        "GET",
        "/v1/keys",
        "list keys",
        "List keys",
        listed,
        Role.ADMIN,
        gives=Keys,
        query=(Query("tenant", "Only this tenant, for a key of all tenants."),),
    ),
    Route(
        "POST",
        "/v1/keys",
        "make key",
        "Create a key; its token is shown only once",
        made,
        Role.ADMIN,
        takes=KeyWanted,
        gives=MadeKey,
        success=201,
        example={"roles": ["decide"], "tenant": "acme", "note": "billing agent", "days": 90},
    ),
    Route(
        "DELETE",
        "/v1/keys/{key_id}",
        "revoke key",
        "Revoke a key",
        revoked,
        Role.ADMIN,
        gives=Key,
        statuses=(404,),
    ),
)
