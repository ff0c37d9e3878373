"""Grants in a gate: what is known of them when a request is decided, what is stored, what is shown.

Revocations and uses are read anew for each request that presents a grant; requests without one
cost nothing. If they cannot be read, no grant counts.
"""

import hmac
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from threading import Lock
from typing import NamedTuple
from unicodedata import normalize

import msgspec

from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import GrantError, InputError
from demur.gate.approvals import ApprovalSettings, open_approval, waits_for_approval
from demur.gate.clock import Entropy, IdSource, format_timestamp
from demur.gate.inputs import PreparedRequest
from demur.gate.people import read_person_keys
from demur.grants.keys import KEY_BYTES, KeyRing, SigningKey, TrustedKey
from demur.grants.resolution import PersonKeys
from demur.grants.revocations import RevocationFile
from demur.grants.signing import sign_approval
from demur.model.grant import Grant, RecordedGrant
from demur.model.record import DecisionRecord
from demur.store.backend import StorageError
from demur.store.grant_tables import ALL_TENANTS, NO_GRANTS, GrantRow, GrantUse, RecordGrants
from demur.store.linking import row_to_grant
from demur.store.rows import ResolvedApproval
from demur.store.store import Store

_log = logging.getLogger("demur")


class GrantStatus(NamedTuple):
    """What is known of the grants of a request.

    `revoked` are ids, None if they could not be read. `used_up` are digests of grants without uses
    left, None if nobody counts uses. `person_keys` are those of people who signed some of them.
    """

    revoked: frozenset[str] | None = frozenset()
    used_up: frozenset[str] | None = None
    person_keys: PersonKeys = PersonKeys()


_NOTHING = GrantStatus()
_UNKNOWN = GrantStatus(revoked=None)


def read_grant_status(
    store: Store | None,
    revocations: RevocationFile | None,
    prepared: PreparedRequest,
    issuers: KeyRing,
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
        person_keys = read_person_keys(store, issuers, prepared)
        return GrantStatus(revoked, _find_used_up(store, grants), person_keys)
    except (StorageError, GrantError) as error:
        _log.error("cannot read revocations, so no grant counts: %s", error)
        return _UNKNOWN


def _find_used_up(store: Store, grants: Iterable[Grant]) -> frozenset[str]:
    limits = {
        grant.compute_digest(): grant.max_uses for grant in grants if grant.max_uses is not None
    }
    used = store.count_uses(limits) if limits else {}
    return frozenset(digest for digest, limit in limits.items() if used.get(digest, 0) >= limit)


def grants_to_store(
    prepared: PreparedRequest,
    record: DecisionRecord,
    registry: Registry,
    settings: ApprovalSettings,
) -> RecordGrants:
    """Return the grants to store with a record, and the approval that it waits for."""
    requester = prepared.request.requester
    opens = open_approval(record, requester, registry, settings, prepared.now)
    grants = _given_grants(prepared, record)
    return grants if opens is None else grants._replace(opens=opens)


def resolution_grants(
    prepared: PreparedRequest, record: DecisionRecord, *, approved: bool
) -> RecordGrants:
    """Return the grants to store with a resolution, and the approval that it ends.

    `approved` people have closed the request. Their resolution runs nothing, so it takes no use:
    the call that goes on does.
    """
    grants = _given_grants(prepared, record)
    if not approved and record.verdict is not Verdict.ALLOW:
        return grants
    givers = {one.granted_by for one in prepared.grants if one.grant_id in record.lifted_by}
    resolves = ResolvedApproval(
        decision_id=record.continues or "",
        resolution_id=record.decision_id,
        closed_at=record.created_at,
        closed_by=", ".join(sorted(givers)),
    )
    return grants._replace(resolves=resolves, uses=() if approved else grants.uses)


def _given_grants(prepared: PreparedRequest, record: DecisionRecord) -> RecordGrants:
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


_APPROVER = "approver:"
_APPROVAL_TIME = timedelta(minutes=10)


class ApprovalKeys(KeyRing):
    """The trusted keys of a gate, and one of its own for each person who approves in its process.

    These keys follow from a secret that is drawn when somebody first approves, and never leaves.
    """

    def __init__(self, keys: Mapping[str, TrustedKey], entropy: Entropy) -> None:
        super().__init__(keys.values())
        self._entropy = entropy
        self._secret: bytes | None = None
        self._lock = Lock()

    def __getitem__(self, key_id: str) -> TrustedKey:
        if key_id.startswith(_APPROVER) and self._secret is not None:
            return self._person_key(key_id.removeprefix(_APPROVER), self._secret).trusted_key()
        return super().__getitem__(key_id)

    def sign(
        self,
        record: DecisionRecord,
        person: str,
        ids: IdSource,
        now: datetime,
        *,
        counted: bool,
        registry: Registry,
    ) -> tuple[Grant, ...]:
        """Return a person's grants for the request of one refused decision; none for their own.

        Raises:
            InputError: Nobody can approve the decision, or the person has no name.
        """
        named: object = person
        is_name = isinstance(named, str) and named == normalize("NFC", named.strip())
        if not is_name or not person or not person.isprintable():
            raise InputError("an approval names the person who gave it", where="approver")
        with self._lock:
            if self._secret is None:
                self._secret = self._entropy(KEY_BYTES)
            key = self._person_key(person, self._secret)
        if record.personal is not None and record.personal.requester == key.holder:
            return ()
        entries = [registry[code] for code in record.reason_codes]
        asked = [one for one in entries if waits_for_approval(one)]
        kinds = dict.fromkeys(entry.grants[0] for entry in asked)
        return tuple(
            sign_approval(
                record,
                key,
                grant_id=f"approval-{ids(now)}",
                kind=kind,
                codes=[entry.code for entry in asked if kind in entry.grants],
                not_before=now,
                expires_at=now + _APPROVAL_TIME,
                uses=1 if counted else None,
                registry=registry,
            )
            for kind in kinds
        )

    @staticmethod
    def _person_key(person: str, secret: bytes) -> SigningKey:
        # A user is no holder, so people may approve what they have their agents ask for.
        return SigningKey.from_randomness(
            hmac.digest(secret, person.encode(), "sha256"),
            key_id=f"{_APPROVER}{person}",
            holder=f"person:{person}",
        )


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
