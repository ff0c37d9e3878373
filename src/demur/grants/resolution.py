"""Check grants, and lift what they and accepted constraints may lift.

Grants lift workflow blocks, accepted constraints lift soft blocks; nothing lifts a hard block, nor
a code that says nobody could judge.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

from demur.classification import make_decision, unique_names
from demur.codes.entry import Entry
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass, Verdict
from demur.errors import InputError, InputTypeError
from demur.grants.keys import KeyRing, TrustedKey
from demur.grants.person_keys import PERSON_PREFIX
from demur.model.decision import Decision, IgnoredGrant
from demur.model.grant import Grant
from demur.model.request import DEFAULT_TENANT


class GrantRejection(StrEnum):
    """Why a grant does not count."""

    UNKNOWN_KEY = "unknown_key"
    KEY_RETIRED = "key_retired"
    KEY_NOT_CERTIFIED = "key_not_certified"
    OWN_REQUEST = "own_request"
    WRONG_ALGORITHM = "wrong_algorithm"
    BAD_SIGNATURE = "bad_signature"
    WRONG_HOLDER = "wrong_holder"
    KIND_NOT_PERMITTED = "kind_not_permitted"
    TENANT_NOT_PERMITTED = "tenant_not_permitted"
    GRANTED_TO_SELF = "granted_to_self"
    REVOKED = "revoked"
    REVOCATIONS_UNKNOWN = "revocations_unknown"
    NOT_YET_VALID = "not_yet_valid"
    EXPIRED = "expired"
    OTHER_TENANT = "other_tenant"
    SUBJECT_NOT_BOUND = "subject_not_bound"
    NEEDS_STORE = "needs_store"
    USED_UP = "used_up"
    NOT_JUDGED = "not_judged"
    OTHER_REQUESTER = "other_requester"
    OUT_OF_SCOPE = "out_of_scope"
    LIFTS_NOTHING = "lifts_nothing"
    NEEDS_MORE_PEOPLE = "needs_more_people"


_NO_KEYS = KeyRing()


class PersonKeys(NamedTuple):
    """Keys of people that the service keeps, by id, and why others of them do not count."""

    keys: Mapping[str, TrustedKey] = {}
    rejections: Mapping[str, GrantRejection] = {}


_NO_PEOPLE = PersonKeys()


def check_grant(
    grant: Grant,
    keys: Mapping[str, TrustedKey],
    *,
    now: datetime,
    revoked: Collection[str] | None = (),
) -> GrantRejection | None:
    """Return why the grant is invalid at `now`, or None if it is valid.

    `revoked` are ids; None says that nobody knows them, so no grant is valid. `resolve` checks
    whether it covers the requester and scope of a decision.
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
        # INVARIANT: a revoked grant lifts nothing, nor does any while revocations are unknown.
        (revoked is None, GrantRejection.REVOCATIONS_UNKNOWN),
        (grant.grant_id in (revoked or ()), GrantRejection.REVOKED),
        (now < grant.not_before, GrantRejection.NOT_YET_VALID),
        (now >= grant.expires_at, GrantRejection.EXPIRED),
    )
    return next((why for failed, why in checks if failed), None)


def resolve(
    decision: Decision,
    grants: Iterable[Grant] = (),
    accepted: Iterable[str] = (),
    *,
    keys: Mapping[str, TrustedKey] | None = None,
    person_keys: PersonKeys = _NO_PEOPLE,
    now: datetime | None = None,
    revoked: Collection[str] | None = (),
    subjects: Collection[str] | None = None,
    used_up: Collection[str] | None = None,
    recorded_rejections: Mapping[str, str | None] | None = None,
    registry: Registry | None = None,
) -> Decision:
    """Return the decision after applying `grants` and `accepted` constraints.

    The verdict becomes ALLOW when every refusing code was lifted; otherwise it stays. An
    ABSTAIN always stays: the check must be made first. The record lists ignored grants with
    the reason. Soft codes whose constraints were accepted stay in force as the reason for those
    constraints. A code of a decision that needs several `approvals` is lifted by grants of that
    many different people; until then each of them waits, and the reason says for how many.

    `person_keys` are those of people that the service keeps, as they are now. `revoked` are
    ids of grants; None says that they are unknown. `subjects` are those that the
    caller proved to be; None trusts the decision's requester. `used_up` are the digests of grants
    without uses left; None says that nobody counts uses, so a grant with `uses` does not count.

    `recorded_rejections` replaces the check of grants in a replay without keys: by grant id, why
    it did not count, or None if it did. Grants that it does not name do not count.

    Raises:
        InputError: There are grants but `now` is missing.
    """
    if not isinstance(decision, Decision):
        raise InputTypeError.wrong_type("a decision", "a Decision", decision)
    known = default_registry() if registry is None else registry
    entries = [known[code] for code in decision.reason_codes]
    withdrawn = None if revoked is None else frozenset(unique_names("revoked", revoked))
    believed: list[Grant] = []
    # What still waited for more people is counted anew.
    waited = GrantRejection.NEEDS_MORE_PEOPLE
    presented = _check_grants(grants)
    again = {grant.grant_id for grant in presented}
    ignored = [
        one for one in decision.ignored_grants if one.why != waited or one.grant_id not in again
    ]
    for grant in sorted(presented, key=attrgetter("grant_id", "signature")):
        if recorded_rejections is not None:
            why = recorded_rejections.get(grant.grant_id, GrantRejection.UNKNOWN_KEY)
        elif now is None:
            raise InputError("grants expire: pass the time as `now`")
        else:
            ring = _NO_KEYS if keys is None else keys
            # A file of keys may hold one with such an id, but cannot say whether it was retired.
            if grant.key_id.startswith(PERSON_PREFIX):
                ring = person_keys.keys
            why = person_keys.rejections.get(grant.key_id)
            why = why or check_grant(grant, ring, now=now, revoked=withdrawn)
            why = why or _binding_problem(grant, decision, ring, subjects)
            why = why or _use_problem(grant, used_up)
        why = why or _reach_problem(grant, decision, entries)
        if why is None:
            believed.append(grant)
        else:
            ignored.append(IgnoredGrant(grant_id=grant.grant_id, why=why))
    lifted = [one.code for one in entries if _people_needed(believed, one, decision.approvals) == 0]
    awaited = {g.grant_id: _people_awaited(g, believed, entries, decision) for g in believed}
    ignored += [
        IgnoredGrant(grant_id=grant_id, why=waited, still_needed=number)
        for grant_id, number in awaited.items()
        if number
    ]
    believed = [grant for grant in believed if not awaited[grant.grant_id]]
    counted = {grant.grant_id for grant in believed}
    agreed = unique_names("accepted", (*decision.accepted, *unique_names("accepted", accepted)))
    bound: tuple[str, ...] = ()
    # INVARIANT: ABSTAIN never executes: a check that failed is repeated, not lifted.
    is_judged = decision.verdict is not Verdict.ABSTAIN
    if is_judged and decision.constraints and set(decision.constraints) <= set(agreed):
        # The accepted constraints bind all soft codes, or none.
        bound = tuple(e.code for e in entries if e.refusal_class is RefusalClass.SOFT_BLOCK)
    still = [entry for entry in entries if entry.code not in lifted]
    # INVARIANT: no grant or acceptance changes a HARD_BLOCK.
    blocking = [e for e in still if e.refusal_class is not None and e.code not in bound]
    waiting = any(e.refusal_class is RefusalClass.WORKFLOW_BLOCK for e in blocking)
    return make_decision(
        decision.verdict if blocking else Verdict.ALLOW,
        [entry.code for entry in still],
        constraints=decision.constraints,
        missing=decision.missing if waiting else (),
        attempts_left=decision.attempts_left,
        requester=decision.requester,
        scope=decision.scope,
        accepted=agreed,
        resolved_codes=(*decision.resolved_codes, *lifted, *bound),
        lifted_by=(*decision.lifted_by, *(grant.grant_id for grant in believed)),
        ignored_grants=dict.fromkeys(one for one in ignored if one.grant_id not in counted),
        obligations=decision.obligations,
        fallback_codes=decision.fallback_codes,
        unusable=decision.unusable,
        approvals=decision.approvals,
        registry=known,
    )


def _people_needed(grants: Iterable[Grant], entry: Entry, approvals: int) -> int:
    """Return how many more people must grant what lifts a code."""
    # INVARIANT: a code is lifted only by grants of as many different people as it needs.
    people = {grant.granted_by for grant in grants if _lifts_code(grant, entry)}
    return max(0, max(1, approvals) - len(people))


def _people_awaited(
    grant: Grant, grants: Collection[Grant], entries: Iterable[Entry], decision: Decision
) -> int:
    """Return how many more people a grant waits for; none if it lifts a code already."""
    own = (entry for entry in entries if _lifts_code(grant, entry))
    return min(_people_needed(grants, entry, decision.approvals) for entry in own)


def _check_grants(grants: Iterable[Grant]) -> list[Grant]:
    try:
        listed = list(grants)
    except TypeError:
        raise InputTypeError.wrong_type("grants", "a list of Grants", grants) from None
    for grant in listed:
        if not isinstance(grant, Grant):
            raise InputTypeError.wrong_type("grants", "a list of Grants", grant)
    return listed


def _binding_problem(
    grant: Grant,
    decision: Decision,
    keys: Mapping[str, TrustedKey],
    subjects: Collection[str] | None,
) -> GrantRejection | None:
    """Return why a genuine grant is bound to another tenant or caller, or None if it is not."""
    tenant = decision.scope.get("tenant")
    # INVARIANT: a grant lifts nothing for another tenant or for a caller not bound to its subject.
    if tenant is not None:
        if not keys[grant.key_id].may_grant_in(tenant):
            return GrantRejection.TENANT_NOT_PERMITTED
        if "tenant" not in grant.scope and tenant != DEFAULT_TENANT:
            return GrantRejection.OTHER_TENANT
    if subjects is not None and decision.requester not in subjects:
        return GrantRejection.SUBJECT_NOT_BOUND
    return None


def _use_problem(grant: Grant, used_up: Collection[str] | None) -> GrantRejection | None:
    if grant.max_uses is None:
        return None
    if used_up is None:
        return GrantRejection.NEEDS_STORE
    return GrantRejection.USED_UP if grant.compute_digest() in used_up else None


def _reach_problem(
    grant: Grant, decision: Decision, entries: Sequence[Entry]
) -> GrantRejection | None:
    """Return why a genuine grant does not apply to this decision, or None if it does."""
    if decision.verdict is Verdict.ABSTAIN:
        return GrantRejection.NOT_JUDGED
    if grant.granted_to != decision.requester:
        return GrantRejection.OTHER_REQUESTER
    if not grant.covers_scope(decision.scope):
        return GrantRejection.OUT_OF_SCOPE
    if not any(_lifts_code(grant, entry) for entry in entries):
        return GrantRejection.LIFTS_NOTHING
    return None


def _lifts_code(grant: Grant, entry: Entry) -> bool:
    # Registries ensure that only a decided workflow code names grants.
    return grant.kind in entry.grants and (not grant.codes or entry.code in grant.codes)
