"""Sign a grant, or an approval of one refused decision."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from demur.classification import unique_names
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import GrantKind, Verdict
from demur.errors import GrantError, InputError
from demur.grants.keys import SigningKey
from demur.model.grant import Grant
from demur.model.record import DecisionRecord
from demur.model.request import DEFAULT_TENANT


def sign_grant(
    key: SigningKey,
    *,
    grant_id: str,
    kind: GrantKind | str,
    granted_to: str,
    scope: Mapping[str, str],
    not_before: datetime,
    expires_at: datetime,
    codes: Iterable[str] = (),
    uses: int | None = None,
) -> Grant:
    """Return a grant from the key's holder, signed.

    `uses` limits how many decisions it may turn into ALLOW. Without `tenant` in its scope it holds
    for the tenant `default` only.

    Raises:
        GrantError: The grant is malformed, or the key may not give this kind.
    """
    try:
        checked = GrantKind(kind)
    except ValueError:
        known = ", ".join(GrantKind)
        raise GrantError(f"unknown kind of grant `{kind}`", help=f"one of {known}") from None
    if not key.trusted_key().may_grant(checked):
        problem = f"the key `{key.key_id}` may not grant `{checked}`"
        raise GrantError(problem, help=f"it may grant {', '.join(key.kinds)}")
    tenant = scope.get("tenant", DEFAULT_TENANT)
    if not key.trusted_key().may_grant_in(tenant):
        problem = f"the key `{key.key_id}` may not grant for the tenant `{tenant}`"
        raise GrantError(problem, help=f"name one in the scope: {', '.join(key.tenants)}")
    grant = Grant(
        grant_id=grant_id,
        kind=checked,
        granted_by=key.holder,
        granted_to=granted_to,
        scope=dict(scope),
        not_before=not_before,
        expires_at=expires_at,
        key_id=key.key_id,
        algorithm=key.algorithm,
        codes=unique_names("codes", codes),
        uses=msgspec.UNSET if uses is None else uses,
    )
    if grant.granted_by == grant.granted_to:
        raise GrantError("a key holder cannot grant to themselves", help="ask another key holder")
    return msgspec.structs.replace(grant, signature=key.sign(grant.signed_bytes()))


# An approval covers the request that was refused; for the scope, also others of the same action.
_REQUEST_SCOPE = ("action", "tenant", "request")
_ACTION_SCOPE = ("action", "tenant")


def sign_approval(
    record: DecisionRecord,
    key: SigningKey,
    *,
    grant_id: str,
    kind: GrantKind | str,
    not_before: datetime,
    expires_at: datetime,
    codes: Iterable[str] | None = None,
    uses: int | None = None,
    covers_scope: bool = False,
    registry: Registry | None = None,
) -> Grant:
    """Return a signed grant that lifts `codes` of one refused decision, or all that it can.

    It covers this request, or with `covers_scope` the same action of the requester in the tenant.

    Raises:
        InputError: Nobody can approve the decision, or a grant of this kind lifts none of its
            codes.
        GrantError: The key may not give this kind.
    """
    personal = record.personal
    if personal is None:
        raise InputError(f"decision `{record.decision_id}` was erased, so it cannot be approved")
    if record.verdict is Verdict.ALLOW:
        raise InputError(f"decision `{record.decision_id}` is ALLOW, so it needs no approval")
    if record.verdict is Verdict.ABSTAIN:
        problem = "demur could not judge this request, so nobody can approve it"
        raise InputError(problem, help=record.what_can_be_done_now)
    if personal.requester is None:
        raise InputError(
            "the request names no subject to grant anything to",
            help="add `subject` to the request: {type: agent, id: billing}",
        )
    liftable = _find_liftable_codes(record, kind, registry or default_registry())
    return sign_grant(
        key,
        grant_id=grant_id,
        kind=kind,
        granted_to=personal.requester,
        scope={
            name: personal.scope[name]
            for name in (_ACTION_SCOPE if covers_scope else _REQUEST_SCOPE)
        },
        not_before=not_before,
        expires_at=expires_at,
        codes=liftable if codes is None else [code for code in codes if code in liftable],
        uses=uses,
    )


def _find_liftable_codes(record: DecisionRecord, kind: str, registry: Registry) -> list[str]:
    """Return the codes of a decision that a grant of this kind lifts; raise if it lifts none."""
    entries = [registry[code] for code in record.reason_codes]
    codes = [entry.code for entry in entries if kind in entry.grants]
    if codes:
        return codes
    kinds = sorted({str(other) for entry in entries for other in entry.grants})
    names = ", ".join(record.reason_codes)
    raise InputError(
        f"a grant of {kind} does not lift {names} ({record.refusal_class})",
        help=f"a grant of {' or '.join(kinds)} lifts it" if kinds else "no grant lifts it",
    )
