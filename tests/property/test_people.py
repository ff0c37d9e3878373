"""Properties of people: whatever is changed in whatever order, and whoever presents what."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gates import NOON, Ticking, entropy_of, grant, opened, refund, stored
from support.people import AUTHOR, SERVICE_KEY, add_person
from support.property_runs import examples

from demur.codes.vocabulary import Verdict
from demur.errors import GrantError, InputError
from demur.gate.approvals import is_own_request
from demur.gate.people import signing_key_of
from demur.grants import KeyRing, SigningKey, sign_grant
from demur.grants.person_keys import ServiceKey
from demur.service.authentication import (
    KEY_ROLES,
    PERSON_ROLES,
    Authenticator,
    Principal,
    Role,
    person_principal,
)
from demur.service.problem import ProblemError
from demur.store.opening import open_store
from demur.store.people_tables import PersonChange, can_sign

ISSUERS = KeyRing([SERVICE_KEY.issuer.trusted_key()])
ROLES = st.sampled_from(sorted(PERSON_ROLES))
CHANGES = st.builds(
    PersonChange,
    role=st.none() | ROLES,
    groups=st.sampled_from([None, "", "night"]),
    password_hash=st.sampled_from([None, "one", "two"]),
    disabled=st.sampled_from([None, True, False]),
)


@settings(max_examples=examples(60))
@given(ROLES, st.lists(CHANGES, max_size=4))
def test_a_grant_counts_as_long_as_its_person_could_sign_all_along(
    role: str, changes: list[PersonChange]
) -> None:
    """INVARIANT: a retired person's key lifts nothing."""
    with opened(issuers=ISSUERS, entropy=entropy_of()) as gate:
        store = stored(gate)
        person = add_person(store, role=role)
        if not can_sign(person):
            with pytest.raises(InputError):
                signing_key_of(store, SERVICE_KEY, "mary", NOON)
            return
        key = signing_key_of(store, SERVICE_KEY, "mary", NOON)
        unsigned = grant({"action": "refund"})
        signed = sign_grant(
            key,
            grant_id="g1",
            kind="approval",
            granted_to="agent:billing",
            scope={"action": "refund"},
            not_before=unsigned.not_before,
            expires_at=unsigned.expires_at,
        )
        could_sign = [can_sign(store.change_person("mary", one, **AUTHOR)) for one in changes]

        verdict = gate.decide(refund(900), grants=[signed]).verdict
        assert verdict is (Verdict.ALLOW if all(could_sign) else Verdict.ESCALATE)


@settings(max_examples=examples(60))
@given(ROLES, st.lists(CHANGES, max_size=3), st.floats(0.001, 48), st.floats(0, 60))
def test_a_session_ends_no_later_than_what_it_was_opened_for(
    role: str, changes: list[PersonChange], session_hours: float, after: float
) -> None:
    """INVARIANT: a session never lets in longer than its person does."""
    clock = Ticking()
    with open_store(":memory:") as store:
        person = add_person(store, role=role, password_hash="one")
        door = Authenticator(store, allow_local=False, clock=clock)
        secret = door.open_session(
            person_principal(person),
            timedelta(hours=session_hours),
            generation=person.generation,
        )
        states = [person, *(store.change_person("mary", one, **AUTHOR) for one in changes)]
        clock.advance(hours=after)
        session = asyncio.run(door.find_session(secret))
        door.close()

    lasting = ("role", "password_hash", "disabled_at")
    same = all(getattr(one, name) == getattr(person, name) for one in states for name in lasting)
    assert (session is not None) == (same and after < session_hours)
    if session is not None:
        assert session.roles == PERSON_ROLES[role]
        assert session.groups == frozenset(states[-1].groups.split())


@given(
    st.sets(st.sampled_from(KEY_ROLES)),
    st.none() | st.just("acme"),
    st.none() | st.just("mary"),
    ROLES,
)
def test_a_caller_approves_only_as_a_person(
    roles: set[Role], tenant: str | None, person: str | None, role: str
) -> None:
    """INVARIANT: no key approves, only a person does."""
    key = Principal("k", tenant, frozenset(roles) | {Role.APPROVE})
    logged_in = Principal("person:mary", tenant, PERSON_ROLES[role], person=person)

    assert not key.has_role(Role.APPROVE)
    approves = person is not None and role in {"approver", "admin"}
    assert logged_in.has_role(Role.APPROVE) is approves


OWN = {("user", "mary"), ("person", "mary")}
SUBJECTS: st.SearchStrategy[dict[str, str]] = st.builds(
    dict,
    type=st.sampled_from(["user", "person", "agent", "User"]),
    id=st.sampled_from(["mary", "Mary", "ann", "billing", "mary "]),
)


@settings(max_examples=examples(40))
@given(st.none() | SUBJECTS, ROLES)
def test_whoever_asks_as_a_person_asks_in_their_own_name(
    subject: dict[str, str] | None, role: str
) -> None:
    """INVARIANT: a person asks for nobody else, so nobody approves what they asked for."""
    with opened(issuers=ISSUERS, entropy=entropy_of()) as gate:
        caller = person_principal(add_person(stored(gate), role=role))
        if subject is not None and (subject["type"], subject["id"]) not in OWN:
            with pytest.raises(ProblemError, match="bound to other subjects"):
                caller.require_subjects(subject)
            return
        caller.require_subjects(subject)
        record = gate.decide(refund(900, subject=subject), subjects=caller.subjects)
        assert record.personal is not None
        assert record.personal.requester is None or is_own_request("mary", record)


NAMES = ["mary", "Mary", "user:mary", "ann", "marya"]


@settings(max_examples=examples(40))
@given(
    st.sampled_from(["subject", "context", "evidence"]),
    st.sampled_from(["user_id", "on_behalf_of", "requested_by"]),
    st.sampled_from(NAMES) | st.lists(st.sampled_from(NAMES), max_size=2),
)
def test_a_grant_of_a_person_counts_for_the_requests_of_others(
    part: str, field: str, names: str | list[str]
) -> None:
    """INVARIANT: a grant of a person lifts nothing of their own requests."""
    with opened(issuers=ISSUERS, entropy=entropy_of()) as gate:
        add_person(stored(gate))
        unsigned = grant({"action": "refund", "tenant": "default"})
        signed = sign_grant(
            signing_key_of(stored(gate), SERVICE_KEY, "mary", NOON),
            grant_id="g1",
            kind="approval",
            granted_to=unsigned.granted_to,
            scope=unsigned.scope,
            not_before=unsigned.not_before,
            expires_at=unsigned.expires_at,
        )
        asked = refund(900)
        asked[part] = {**asked.get(part, {}), field: names}
        record = gate.decide(asked, grants=[signed])

        assert record.lifted_by == (() if is_own_request("mary", record) else ("g1",))


@given(
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=32, max_size=32),
    st.sampled_from(["person:mary:1", "person:ann:1"]),
    st.sampled_from(["default", "acme", ""]),
    st.booleans(),
)
def test_a_sealed_secret_opens_for_one_key_alone(
    secret: bytes, other_secret: bytes, key_id: str, tenant: str, same_service: bool
) -> None:
    """INVARIANT: a sealed secret opens only as the key of the person it was made for."""
    service = ServiceKey(other_secret)
    own = SigningKey.from_randomness(
        secret,
        key_id="person:mary:1",
        holder="person:mary",
        algorithm="ed25519",
        tenants=["default"],
    )
    presented = SigningKey.from_randomness(
        secret,
        key_id=key_id,
        holder=key_id.rpartition(":")[0],
        algorithm="ed25519",
        tenants=[tenant] if tenant else [],
    )
    sealed = service.seal(own, bytes(12))
    opener = service if same_service else SERVICE_KEY
    try:
        opened_key = opener.unseal(presented.trusted_key(), sealed)
    except GrantError:
        opened_key = None

    is_same = presented == own and opener.issuer == service.issuer
    assert (opened_key == own) is is_same
    assert is_same or opened_key is None
