"""Properties of grants: whatever is presented by whomever, and in whatever order."""

import base64
from collections import Counter
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gates import KEY, NOON, gate_over, grant, opened, refund, stored
from support.property_runs import examples

from demur.audit.pack import read_pack, write_pack
from demur.audit.report import export_pack
from demur.codes.vocabulary import Verdict
from demur.grants import KeyRing, SigningKey, make_decision, resolve, sign_grant
from demur.model.grant import Grant
from demur.store.grant_tables import Revocation

LARGE = refund(900)
TENANTS = ("default", "acme", "globex")
SUBJECTS = (None, frozenset({"agent:billing"}), frozenset({"agent:other"}), frozenset[str]())
SCOPES: tuple[dict[str, str], ...] = (
    {"action": "refund"},
    {"action": "refund", "tenant": "*"},
    {"action": "refund", "tenant": "acme"},
    {"action": "payout"},
)


class Wanted(NamedTuple):
    """A grant to sign."""

    grant_id: str
    scope: int
    uses: int | None
    granted_to: str
    is_trusted: bool

    def sign(self) -> Grant:
        """Return the grant, signed by a key that the gate trusts, or by another one."""
        signed = grant(
            SCOPES[self.scope],
            grant_id=self.grant_id,
            uses=self.uses,
            granted_to=self.granted_to,
            expires_at=NOON + timedelta(hours=1),
        )
        if self.is_trusted:
            return signed
        forger = SigningKey.from_randomness(bytes([1]) * 32, key_id="k1", holder="user:mary")
        return msgspec.structs.replace(signed, signature=forger.sign(signed.signed_bytes()))


WANTED = st.builds(
    Wanted,
    st.sampled_from(["g1", "g2", "g3"]),
    st.integers(0, len(SCOPES) - 1),
    st.sampled_from([None, 1, 2]),
    st.sampled_from(["agent:billing", "agent:billing", "agent:other"]),
    st.sampled_from([True, True, False]),
)
EVENTS = st.one_of(
    st.tuples(st.just("decide"), st.sampled_from(TENANTS), st.sampled_from(SUBJECTS)),
    st.tuples(st.just("resolve"), st.sampled_from(TENANTS), st.sampled_from(SUBJECTS)),
    st.tuples(st.just("revoke"), st.sampled_from(("", *TENANTS)), st.sampled_from(["g1", "g2"])),
)


@given(
    st.lists(WANTED, min_size=1, max_size=3, unique_by=lambda one: one.grant_id),
    st.lists(EVENTS, min_size=1, max_size=8),
    st.sampled_from([(), ("acme",)]),
)
@settings(max_examples=examples(60), deadline=None)
def test_a_grant_lifts_only_where_it_may(
    wanted: list[Wanted], events: list[tuple[Any, ...]], key_tenants: tuple[str, ...]
) -> None:
    """INVARIANT: a revoked grant lifts nothing, nor does any while revocations are unknown.

    INVARIANT: a grant lifts nothing for another tenant or for a caller not bound to its subject.
    INVARIANT: a grant is used at most as often as it says, whoever uses it at once.
    """
    keys = KeyRing([msgspec.structs.replace(KEY.trusted_key(), tenants=key_tenants)])
    grants = [one.sign() for one in wanted]
    revoked: set[tuple[str, str]] = set()
    used: Counter[str] = Counter()
    with opened(keys=keys) as gate:
        for kind, tenant, more in events:
            if kind == "revoke":
                stored(gate).revoke_grant(Revocation(tenant, more, "2026", "mary", ""))
                revoked.add((tenant, more))
                continue
            parts: dict[str, Any] = {"grants": grants, "tenant": tenant, "subjects": more}
            if kind == "decide":
                record = gate.decide(LARGE, **parts)
            else:
                first = gate.decide(LARGE, tenant=tenant)
                record = gate.resolve(first.decision_id, **parts)
            counting = {
                one.grant_id
                for one in wanted
                if _may_lift(one, tenant, more, revoked, key_tenants)
                and (one.uses is None or used[one.grant_id] < one.uses)
            }
            assert set(record.lifted_by) == counting
            assert (record.verdict is Verdict.ALLOW) is bool(counting)
            used.update(record.lifted_by if record.verdict is Verdict.ALLOW else ())
    assert all(one.uses is None or used[one.grant_id] <= one.uses for one in wanted)


def _may_lift(
    one: Wanted,
    tenant: str,
    subjects: frozenset[str] | None,
    revoked: set[tuple[str, str]],
    key_tenants: tuple[str, ...],
) -> bool:
    """Return whether a grant may lift a refund over the limit, by a second way of thinking."""
    tenants = {0: {"default"}, 1: set(TENANTS), 2: {"acme"}, 3: set[str]()}[one.scope]
    if key_tenants:
        tenants &= set(key_tenants)
    is_callers = subjects is None or "agent:billing" in subjects
    is_revoked = revoked & {(tenant, one.grant_id), ("", one.grant_id)}
    is_given = one.is_trusted and one.granted_to == "agent:billing"
    return is_given and tenant in tenants and is_callers and not is_revoked


@given(WANTED)
@settings(max_examples=examples(30), deadline=None)
def test_no_grant_lifts_while_nobody_knows_what_was_revoked(one: Wanted) -> None:
    decision = make_decision(
        "ESCALATE",
        ["REFUND_OVER_ESCALATION_LIMIT"],
        requester="agent:billing",
        scope={"action": "refund", "tenant": "default"},
    )
    ring = KeyRing([KEY.trusted_key()])
    after = resolve(decision, [one.sign()], keys=ring, now=NOON, revoked=None, used_up=())

    assert after.verdict is Verdict.ESCALATE


@given(
    st.lists(st.sampled_from(["user:a", "user:b", "user:c"]), max_size=5),
    st.integers(1, 5),
    st.sampled_from([["APPROVAL_REQUIRED"], ["APPROVAL_REQUIRED", "TOOL_NOT_ALLOWED"]]),
)
@settings(max_examples=examples(100), deadline=None)
def test_only_as_many_different_people_as_needed_lift_a_code(
    holders: list[str], approvals: int, codes: list[str]
) -> None:
    """INVARIANT: a code is lifted only by grants of as many different people as it needs."""
    keys = [
        msgspec.structs.replace(KEY, key_id=f"k{number}", holder=holder)
        for number, holder in enumerate(holders)
    ]
    grants = [
        sign_grant(
            key,
            grant_id=key.key_id,
            kind="approval",
            granted_to="agent:billing",
            scope={"action": "refund"},
            not_before=NOON - timedelta(hours=1),
            expires_at=NOON + timedelta(hours=1),
        )
        for key in keys
    ]
    scope = {"action": "refund", "tenant": "default"}
    decision = make_decision(
        "ESCALATE", codes, requester="agent:billing", scope=scope, approvals=approvals
    )
    ring = KeyRing(key.trusted_key() for key in keys)
    after = resolve(decision, grants, keys=ring, now=NOON)

    people = len(set(holders))
    is_lifted = people >= approvals
    assert ("APPROVAL_REQUIRED" in after.resolved_codes) is is_lifted
    assert set(after.lifted_by) == ({one.grant_id for one in grants} if is_lifted else set())
    waiting = {(one.why, one.still_needed) for one in after.ignored_grants}
    expected = {("needs_more_people", approvals - people)} if grants and not is_lifted else set()
    assert waiting == expected
    # Again with all of them: what waited is counted anew, and nothing changes.
    assert resolve(after, grants, keys=ring, now=NOON).resolved_codes == after.resolved_codes


@given(st.binary(min_size=1, max_size=96), st.integers(0, 200), st.characters(codec="ascii"))
def test_a_signature_and_a_key_have_exactly_one_spelling(
    message: bytes, place: int, letter: str
) -> None:
    """INVARIANT: a signature and a key have exactly one spelling."""
    signature = KEY.sign(message)
    at = place % (len(signature) + 1)
    for other in (
        signature[:at] + letter + signature[at:],
        signature[:at] + letter + signature[at + 1 :],
        signature[:at] + signature[at + 1 :],
        base64.b64encode(base64.urlsafe_b64decode(signature)).decode(),
    ):
        holds = KEY.trusted_key().verify_signature(message, other)
        assert holds is (other == signature)


@given(st.lists(WANTED, min_size=1, max_size=3, unique_by=lambda one: one.grant_id))
@settings(max_examples=examples(20), deadline=None)
def test_only_a_signed_pack_holds_signatures(wanted: list[Wanted]) -> None:
    """INVARIANT: a pack that nobody signed holds no signature of a grant."""
    grants = [one.sign() for one in wanted]
    with opened() as gate:
        pack = export_pack(stored(gate), gate.decide(LARGE, grants=grants))
    plain, signed = write_pack(pack), write_pack(pack, KEY)

    assert not any(one.signature.encode() in plain for one in grants)
    assert read_pack(plain).grants == ()
    assert {one.signature for one in read_pack(signed).grants} == {one.signature for one in grants}


@given(WANTED, st.sampled_from(TENANTS), st.sampled_from(SUBJECTS))
@settings(max_examples=examples(20), deadline=None)
def test_a_gate_without_a_store_honours_no_grant_with_uses(
    one: Wanted, tenant: str, subjects: frozenset[str] | None
) -> None:
    with gate_over(None) as gate:
        record = gate.decide(LARGE, grants=[one.sign()], tenant=tenant, subjects=subjects)

    is_lifted = one.uses is None and _may_lift(one, tenant, subjects, set(), ())
    assert (record.verdict is Verdict.ALLOW) is is_lifted
