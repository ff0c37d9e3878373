"""Resolve a decision: grants lift workflow blocks, accepted constraints lift soft blocks.

Nothing lifts a hard block, nor a code that says that the check could not be made.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from demur.classification.classify import unique_names
from demur.classification.conclude import make_decision
from demur.classification.grants import GrantRejection, check_grant
from demur.classification.keys import KeyRing
from demur.codes.default import default_registry
from demur.codes.entry import Entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass, Verdict
from demur.errors import InputError, InputTypeError
from demur.model.decision import Decision, IgnoredGrant
from demur.model.grant import Grant

__all__ = ["resolve"]


def resolve(
    decision: Decision,
    grants: Iterable[Grant] = (),
    accepted: Iterable[str] = (),
    *,
    keys: KeyRing | None = None,
    now: datetime | None = None,
    revoked: Collection[str] = (),
    recorded_rejections: Mapping[str, str | None] | None = None,
    registry: Registry | None = None,
) -> Decision:
    """Return the decision after applying `grants` and `accepted` constraints.

    The verdict becomes ALLOW when every refusing code was lifted; otherwise it stays. An
    ABSTAIN always stays: the check must be made first. Ignored grants are recorded with the
    reason. Soft codes whose constraints were accepted stay in force as the reason for those
    constraints.

    `recorded_rejections` replaces the check of grants in a replay without keys: by grant id, why
    it did not count, or None if it did. Grants that it does not name do not count.

    Raises:
        InputError: There are grants but `now` is missing.
    """
    if not isinstance(decision, Decision):
        raise InputTypeError.wrong_type("a decision", "a Decision", decision)
    known = default_registry() if registry is None else registry
    entries = [known[code] for code in decision.reason_codes]
    withdrawn = frozenset(unique_names("revoked", revoked))
    sorted_out = _SortedGrants([], [])
    for grant in sorted(_check_grants(grants), key=_grant_order):
        if recorded_rejections is None:
            why: str | None = _trust_problem(grant, keys, now, withdrawn)
        else:
            why = recorded_rejections.get(grant.grant_id, GrantRejection.UNKNOWN_KEY)
        sorted_out.add(grant, why or _reach_problem(grant, decision, entries))
    believed = sorted_out.believed
    lifted = [entry.code for entry in entries if any(_lifts_code(g, entry) for g in believed)]
    agreed = unique_names("accepted", (*decision.accepted, *unique_names("accepted", accepted)))
    bound = _bound_codes(decision, entries, agreed)
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
        ignored_grants=_still_ignored((*decision.ignored_grants, *sorted_out.ignored), believed),
        obligations=decision.obligations,
        registry=known,
    )


def _still_ignored(
    ignored: Iterable[IgnoredGrant], believed: Iterable[Grant]
) -> tuple[IgnoredGrant, ...]:
    """Return the ignored grants, without those that count now."""
    counted = {grant.grant_id for grant in believed}
    return tuple(dict.fromkeys(one for one in ignored if one.grant_id not in counted))


class _SortedGrants(NamedTuple):
    believed: list[Grant]
    ignored: list[IgnoredGrant]

    def add(self, grant: Grant, why: str | None) -> None:
        if why is None:
            self.believed.append(grant)
        else:
            self.ignored.append(IgnoredGrant(grant_id=grant.grant_id, why=why))


def _check_grants(grants: Iterable[Grant]) -> list[Grant]:
    try:
        listed = list(grants)
    except TypeError:
        raise InputTypeError.wrong_type("grants", "a list of Grants", grants) from None
    for grant in listed:
        if not isinstance(grant, Grant):
            raise InputTypeError.wrong_type("grants", "a list of Grants", grant)
    return listed


def _grant_order(grant: Grant) -> tuple[str, str]:
    return (grant.grant_id, grant.signature)


def _trust_problem(
    grant: Grant, keys: KeyRing | None, now: datetime | None, revoked: Collection[str]
) -> GrantRejection | None:
    if now is None:
        raise InputError("grants expire: pass the time as `now`")
    return check_grant(grant, keys or KeyRing(), now=now, revoked=revoked)


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


def _bound_codes(
    decision: Decision, entries: Sequence[Entry], agreed: Sequence[str]
) -> tuple[str, ...]:
    """Return the soft codes that the accepted constraints bind: all of them, or none."""
    # INVARIANT: ABSTAIN never executes: a check that failed is repeated, not lifted.
    if decision.verdict is Verdict.ABSTAIN:
        return ()
    if not decision.constraints or not set(decision.constraints) <= set(agreed):
        return ()
    return tuple(e.code for e in entries if e.refusal_class is RefusalClass.SOFT_BLOCK)
