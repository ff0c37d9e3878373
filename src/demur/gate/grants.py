"""Grants in a gate: what is known of them when a request is decided, what is stored, what is shown.

Revocations and uses are read anew for each request that presents a grant; requests without one
cost nothing. If they cannot be read, no grant counts.
"""

import logging
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from demur.codes.vocabulary import Verdict
from demur.errors import GrantError
from demur.gate.clock import format_timestamp
from demur.gate.inputs import PreparedRequest
from demur.grants.revocations import RevocationFile
from demur.model.grant import Grant, RecordedGrant
from demur.model.record import DecisionRecord
from demur.store.backend import StorageError
from demur.store.grant_tables import ALL_TENANTS, NO_GRANTS, GrantRow, GrantUse, RecordGrants
from demur.store.linking import row_to_grant
from demur.store.store import Store

_log = logging.getLogger("demur")


class GrantStatus(NamedTuple):
    """What is known of the grants of a request.

    `revoked` are ids, None if they could not be read. `used_up` are digests of grants without uses
    left, None if nobody counts uses.
    """

    revoked: frozenset[str] | None = frozenset()
    used_up: frozenset[str] | None = None


_NOTHING = GrantStatus()
_UNKNOWN = GrantStatus(revoked=None)


def read_grant_status(
    store: Store | None, revocations: RevocationFile | None, prepared: PreparedRequest
) -> GrantStatus:
    """Return what is known of the grants of a request now; nothing is read without grants."""
    grants = prepared.grants
    if not grants:
        return _NOTHING
    try:
        revoked = frozenset[str]() if revocations is None else revocations.read()
        if store is None:
            return GrantStatus(revoked)
        revoked |= store.find_revoked(prepared.tenant, {grant.grant_id for grant in grants})
        return GrantStatus(revoked, _find_used_up(store, grants))
    except (StorageError, GrantError) as error:
        _log.error("revocations cannot be read, so no grant counts: %s", error)
        return _UNKNOWN


def _find_used_up(store: Store, grants: Iterable[Grant]) -> frozenset[str]:
    limits = {
        grant.compute_digest(): grant.max_uses for grant in grants if grant.max_uses is not None
    }
    used = store.count_uses(limits) if limits else {}
    return frozenset(digest for digest, limit in limits.items() if used.get(digest, 0) >= limit)


def grants_to_store(prepared: PreparedRequest, record: DecisionRecord) -> RecordGrants:
    """Return the signed grants to store with a record, and the uses that it takes.

    Only a decision that allows takes uses: a grant that lifts one code of two changes nothing yet.
    """
    if not prepared.grants:
        return NO_GRANTS
    signed = {
        grant.compute_digest(): grant
        for grant in prepared.grants
        # One that is still a recorded grant has lost its signature.
        if not isinstance(grant, RecordedGrant)
    }
    rows = tuple(
        GrantRow(
            tenant=prepared.tenant,
            digest=digest,
            grant_id=grant.grant_id,
            granted_to=grant.granted_to,
            decision_id=record.decision_id,
            created_at=record.created_at,
            expires_at=format_timestamp(grant.expires_at),
            signed_grant=grant.to_json().decode(),
        )
        for digest, grant in signed.items()
    )
    uses = tuple(
        GrantUse(digest, grant.max_uses)
        for digest, grant in signed.items()
        if grant.max_uses is not None
        and grant.grant_id in record.lifted_by
        and record.verdict is Verdict.ALLOW
    )
    return RecordGrants(rows, uses)


class GrantView(msgspec.Struct, frozen=True, kw_only=True):
    """A grant without its signature, and whether it still counts.

    `state` is `good`, `expired`, `revoked` or `used up`. Of a revoked grant that never came with a
    decision, only the id is known.
    """

    grant_id: str
    tenant: str
    state: str
    grant: RecordedGrant | None = None
    decision_id: str | None = None
    used: int = 0
    revoked_at: str | None = None


def list_grant_views(
    store: Store,
    now: str,
    *,
    tenant: str | None = None,
    grant_id: str | None = None,
    limit: int | None = None,
) -> list[GrantView]:
    """Return the grants that came with decisions, newest first, then other revoked ids."""
    revoked = {(one.tenant, one.grant_id): one for one in store.list_revocations(tenant)}
    rows = store.list_grants(tenant, grant_id, limit)
    used = store.count_uses({row.digest for row in rows}) if rows else {}
    views = []
    for row in rows:
        grant = row_to_grant(row)
        found = revoked.get((row.tenant, row.grant_id)) or revoked.get((ALL_TENANTS, row.grant_id))
        count = used.get(row.digest, 0)
        is_used_up = grant.max_uses is not None and count >= grant.max_uses
        state = "used up" if is_used_up else "expired" if row.expires_at <= now else "good"
        views.append(
            GrantView(
                grant_id=row.grant_id,
                tenant=row.tenant,
                state=state if found is None else "revoked",
                grant=RecordedGrant.from_grant(grant),
                decision_id=row.decision_id,
                used=count,
                revoked_at=None if found is None else found.revoked_at,
            )
        )
    known = {view.grant_id for view in views}
    others = (
        GrantView(
            grant_id=one.grant_id, tenant=one.tenant, state="revoked", revoked_at=one.revoked_at
        )
        for one in revoked.values()
        if one.grant_id not in known
        and grant_id in {None, one.grant_id}
        and tenant in {None, one.tenant}
    )
    return [*views, *others]
