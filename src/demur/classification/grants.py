"""Sign and check grants. Offline: keys, time and revocations are arguments."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from demur.classification.classify import unique_names
from demur.classification.keys import KeyRing, SigningKey
from demur.codes.vocabulary import GrantKind
from demur.errors import GrantError, InputError, InputTypeError
from demur.model.grant import Grant

__all__ = ["GrantRejection", "sign_grant", "check_grant"]


class GrantRejection(StrEnum):
    """Why a grant does not count."""

    UNKNOWN_KEY = "unknown_key"
    WRONG_ALGORITHM = "wrong_algorithm"
    BAD_SIGNATURE = "bad_signature"
    WRONG_HOLDER = "wrong_holder"
    KIND_NOT_PERMITTED = "kind_not_permitted"
    GRANTED_TO_SELF = "granted_to_self"
    REVOKED = "revoked"
    NOT_YET_VALID = "not_yet_valid"
    EXPIRED = "expired"
    NOT_JUDGED = "not_judged"
    OTHER_REQUESTER = "other_requester"
    OUT_OF_SCOPE = "out_of_scope"
    LIFTS_NOTHING = "lifts_nothing"


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
) -> Grant:
    """Return a grant from the key's holder, signed.

    Raises:
        GrantError: The grant is malformed, or the key may not give this kind.
    """
    wanted = _parse_kind(kind)
    if not key.trusted_key().may_grant(wanted):
        raise GrantError(
            f"the key `{key.key_id}` may not grant `{wanted}`",
            help=f"it may grant {', '.join(key.kinds)}",
        )
    grant = Grant(
        grant_id=grant_id,
        kind=wanted,
        granted_by=key.holder,
        granted_to=granted_to,
        scope=dict(scope),
        not_before=not_before,
        expires_at=expires_at,
        key_id=key.key_id,
        algorithm=key.algorithm,
        codes=unique_names("codes", codes),
    )
    if grant.granted_by == grant.granted_to:
        raise GrantError("a key holder cannot grant to themselves", help="ask another key holder")
    return msgspec.structs.replace(grant, signature=key.sign(grant.signed_bytes()))


def _parse_kind(kind: str) -> GrantKind:
    try:
        return GrantKind(kind)
    except ValueError:
        known = ", ".join(GrantKind)
        raise GrantError(f"unknown kind of grant `{kind}`", help=f"one of {known}") from None


def check_grant(
    grant: Grant, keys: KeyRing, *, now: datetime, revoked: Collection[str] = ()
) -> GrantRejection | None:
    """Return why the grant is invalid at `now`, or None if it is valid.

    `resolve` checks whether it covers the requester and scope of a decision.
    """
    if not isinstance(now, datetime):
        raise InputTypeError.wrong_type("`now`", "a datetime", now)
    if now.tzinfo is None:
        raise InputError("`now` needs a time zone", help="like datetime.now(UTC)")
    key = keys.get(grant.key_id)
    if key is None:
        return GrantRejection.UNKNOWN_KEY
    if key.algorithm != grant.algorithm:
        return GrantRejection.WRONG_ALGORITHM
    try:
        genuine = key.verify_signature(grant.signed_bytes(), grant.signature)
    except InputError:
        # A grant without canonical bytes was never signed.
        genuine = False
    if not genuine:
        return GrantRejection.BAD_SIGNATURE
    # The signature is genuine: from here on, the content is the key holder's.
    checks = (
        (key.holder != grant.granted_by, GrantRejection.WRONG_HOLDER),
        (not key.may_grant(grant.kind), GrantRejection.KIND_NOT_PERMITTED),
        (grant.granted_by == grant.granted_to, GrantRejection.GRANTED_TO_SELF),
        (grant.grant_id in revoked, GrantRejection.REVOKED),
        (now < grant.not_before, GrantRejection.NOT_YET_VALID),
        (now >= grant.expires_at, GrantRejection.EXPIRED),
    )
    return next((why for failed, why in checks if failed), None)
