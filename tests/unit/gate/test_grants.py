"""Grants in a gate: revoked at once, used no more often than they say, bound to their caller."""

import asyncio
import json
import sqlite3
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gates import (
    KEY,
    NOON,
    Ticking,
    entropy_of,
    gate_over,
    grant,
    opened,
    refund,
    rows,
    stored,
)

from demur.audit.pack import write_line, write_pack
from demur.audit.replay import replay_pack
from demur.audit.report import export_pack
from demur.codes.vocabulary import Verdict
from demur.gate.gate import Gate
from demur.gate.grants import list_grant_views
from demur.grants import KeyRing, RevocationFile, SigningKey
from demur.model.grant import Grant
from demur.model.record import DecisionRecord
from demur.store.backend import UnavailableError
from demur.store.grant_tables import Revocation
from demur.store.opening import open_store

SCOPE = {"action": "refund"}
LARGE = refund(900)


def revocation(grant_id: str = "g1", tenant: str = "") -> Revocation:
    return Revocation(tenant, grant_id, "2026-11-15T12:00:00.000Z", "mary", "")


def reason(record: DecisionRecord) -> str | None:
    """Return why the only grant of a decision did not count."""
    return record.ignored_grants[0].why if record.ignored_grants else None


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "demur.db")
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def gate(url: str) -> Iterator[Gate]:
    with gate_over(open_store(url, deadline_s=None)) as opened_gate:
        yield opened_gate


# -- revocation ----------------------------------------------------------------------------


def test_a_running_gate_sees_a_revocation_at_its_next_decision(gate: Gate, url: str) -> None:
    assert gate.decide(LARGE, grants=[grant(SCOPE)]).verdict is Verdict.ALLOW
    with open_store(url, deadline_s=None) as other:
        assert other.revoke_grant(revocation())
        assert not other.revoke_grant(revocation())
    after = gate.decide(LARGE, grants=[grant(SCOPE)])

    assert (after.verdict, reason(after)) == (Verdict.ESCALATE, "revoked")
    with gate_over(open_store(url, deadline_s=None), entropy=entropy_of("restarted")) as restarted:
        assert reason(restarted.decide(LARGE, grants=[grant(SCOPE)])) == "revoked"


def test_a_revocation_reaches_grants_of_earlier_attempts(gate: Gate) -> None:
    first = gate.decide(LARGE, grants=[grant(SCOPE, codes=["SPEND_OVER_APPROVAL_LIMIT"])])
    resolved = gate.resolve(first.decision_id, grants=[grant(SCOPE, grant_id="g2")])
    assert resolved.verdict is Verdict.ALLOW
    again = {**LARGE, "continues": first.decision_id}
    assert gate.decide(again).lifted_by == ("g2",)
    stored(gate).revoke_grant(revocation("g2"))

    assert gate.decide(again).lifted_by == ()


def test_a_tenant_revokes_for_itself_alone() -> None:
    scope = {**SCOPE, "tenant": "*"}
    with opened() as gate:
        stored(gate).revoke_grant(revocation(tenant="acme"))
        mine = gate.decide(LARGE, grants=[grant(scope)], tenant="acme")
        theirs = gate.decide(LARGE, grants=[grant(scope)], tenant="globex")

    assert (reason(mine), theirs.verdict) == ("revoked", Verdict.ALLOW)


def test_a_gate_without_a_store_reads_the_revocation_file_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "revoked.json"
    file = RevocationFile(path)
    file.add(["g0"])
    with gate_over(None, revocations=RevocationFile(path)) as gate:
        assert gate.decide(LARGE, grants=[grant(SCOPE)]).verdict is Verdict.ALLOW
        file.add(["g1"])
        assert reason(gate.decide(LARGE, grants=[grant(SCOPE)])) == "revoked"
        path.write_text("[]")
        assert gate.decide(LARGE, grants=[grant(SCOPE)]).verdict is Verdict.ALLOW


@pytest.mark.parametrize("content", [None, "", "{}", "[1]", '["g0"', "[" * 100_000])
def test_no_grant_counts_while_the_revocation_file_cannot_be_read(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "revoked.json"
    if content is not None:
        path.write_text(content)
    with gate_over(None, revocations=RevocationFile(path)) as gate:
        record = gate.decide(LARGE, grants=[grant(SCOPE)])
        assert (record.verdict, reason(record)) == (Verdict.ESCALATE, "revocations_unknown")
        assert gate.decide(refund()).verdict is Verdict.ALLOW


def test_no_grant_counts_while_the_table_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened() as gate:
        monkeypatch.setattr(stored(gate), "find_revoked", _fail)
        record = gate.decide(LARGE, grants=[grant(SCOPE)])

        assert (record.verdict, reason(record)) == (Verdict.ESCALATE, "revocations_unknown")
        assert rows(gate) == [record]


def _fail(*_: object) -> Any:
    raise UnavailableError("the table is gone")


def test_a_request_without_grants_reads_no_revocations(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(revocations=RevocationFile("/nowhere/revoked.json")) as gate:
        monkeypatch.setattr(stored(gate), "find_revoked", _fail)
        monkeypatch.setattr(stored(gate), "count_uses", _fail)

        assert gate.decide(refund()).verdict is Verdict.ALLOW


def test_of_many_who_revoke_at_once_nobody_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "revoked.json"
    threads = [
        threading.Thread(target=RevocationFile(path).add, args=([f"g{number}"],))
        for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert RevocationFile(path).read() == {f"g{number}" for number in range(20)}
    assert [one.name for one in tmp_path.iterdir()] == ["revoked.json"]


# -- uses ----------------------------------------------------------------------------------


def test_a_grant_with_uses_is_used_up(gate: Gate) -> None:
    given_grant = grant(SCOPE, uses=2)
    found = [gate.decide(LARGE, grants=[given_grant]) for _ in range(4)]

    assert [record.verdict for record in found] == ["ALLOW", "ALLOW", "ESCALATE", "ESCALATE"]
    assert [reason(record) for record in found] == [None, None, "used_up", "used_up"]
    assert [view.state for view in list_grant_views(stored(gate), "2026")] == ["used up"]


def test_a_repeated_request_takes_no_second_use(gate: Gate) -> None:
    asked = {**LARGE, "request_id": "r1"}
    first = gate.decide(asked, grants=[grant(SCOPE, uses=1)])
    again = gate.decide(asked, grants=[grant(SCOPE, uses=1)])

    assert first.verdict is Verdict.ALLOW
    assert again.decision_id == first.decision_id
    digest = grant(SCOPE, uses=1).compute_digest()
    assert stored(gate).count_uses([digest]) == {digest: 1}


def test_a_decision_that_still_refuses_takes_no_use(gate: Gate) -> None:
    blocked = refund(900, evidence={"ticket_id": "T-1", "chargeback_risk": 0.95})
    assert gate.decide(blocked, grants=[grant(SCOPE, uses=1)]).verdict is Verdict.DENY

    assert gate.decide(LARGE, grants=[grant(SCOPE, uses=1)]).verdict is Verdict.ALLOW


def test_a_resolution_takes_a_use(gate: Gate) -> None:
    first = gate.decide(LARGE)
    resolved = gate.resolve(first.decision_id, grants=[grant(SCOPE, uses=1)])
    other = gate.decide(LARGE)
    again = gate.resolve(other.decision_id, grants=[grant(SCOPE, uses=1)])

    assert (resolved.verdict, again.verdict) == (Verdict.ALLOW, Verdict.ESCALATE)
    assert reason(again) == "used_up"


def test_decisions_of_one_batch_share_the_uses_of_an_inherited_grant(gate: Gate) -> None:
    # It still refuses, so it takes no use, and its attempts inherit the grant.
    blocked = refund(900, evidence={"ticket_id": "T-1", "chargeback_risk": 0.95})
    first = gate.decide(blocked, grants=[grant(SCOPE, uses=1)])
    attempts = gate.decide_many([{**LARGE, "continues": first.decision_id}] * 2)

    assert [record.verdict for record in attempts] == ["ALLOW", "ESCALATE"]
    assert reason(attempts[1]) == "used_up"
    digest = grant(SCOPE, uses=1).compute_digest()
    assert stored(gate).count_uses([digest]) == {digest: 1}


def test_a_gate_that_cannot_count_ignores_a_grant_with_uses() -> None:
    with gate_over(None) as gate:
        record = gate.decide(LARGE, grants=[grant(SCOPE, uses=1)])

    assert (record.verdict, reason(record)) == (Verdict.ESCALATE, "needs_store")


@pytest.mark.parametrize("uses", [1, 3])
def test_of_many_at_once_exactly_as_many_pass_as_the_grant_has_uses(url: str, uses: int) -> None:
    given_grant = grant({**SCOPE, "tenant": "*"}, uses=uses)
    verdicts: list[Verdict] = []
    gates = [
        gate_over(open_store(url, deadline_s=None), entropy=entropy_of(f"gate {n}"))
        for n in range(4)
    ]

    def decide(number: int) -> None:
        gate = gates[number % len(gates)]
        tenant = f"t{number % 3}"
        record = gate.decide(LARGE, grants=[given_grant], tenant=tenant)
        verdicts.append(record.verdict)

    threads = [threading.Thread(target=decide, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for gate in gates:
        gate.close()

    assert sorted(verdicts) == sorted(["ALLOW"] * uses + ["ESCALATE"] * (16 - uses))


def test_awaited_decisions_share_the_uses_of_a_grant(gate: Gate) -> None:
    async def decide_all() -> list[DecisionRecord]:
        asked = [gate.adecide(LARGE, grants=[grant(SCOPE, uses=2)]) for _ in range(6)]
        return await asyncio.gather(*asked)

    verdicts = [record.verdict for record in asyncio.run(decide_all())]

    assert sorted(verdicts) == ["ALLOW"] * 2 + ["ESCALATE"] * 4


def test_a_use_that_is_rolled_back_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened() as gate:
        backend = stored(gate).backend
        with monkeypatch.context() as broken:
            kind = type(backend.transaction())
            broken.setattr(kind, "save_grants", _fail)
            failed = gate.decide(LARGE, grants=[grant(SCOPE, uses=1)])
        assert failed.reason_codes == ("STORAGE_UNAVAILABLE",)

        assert gate.decide(LARGE, grants=[grant(SCOPE, uses=1)]).verdict is Verdict.ALLOW


# -- bindings ------------------------------------------------------------------------------


def test_a_grant_without_a_tenant_is_for_the_default_tenant() -> None:
    with opened() as gate:
        assert gate.decide(LARGE, grants=[grant(SCOPE)]).verdict is Verdict.ALLOW
        other = gate.decide(LARGE, grants=[grant(SCOPE)], tenant="acme")
        named = grant({**SCOPE, "tenant": "acme"})
        assert gate.decide(LARGE, grants=[named], tenant="acme").verdict is Verdict.ALLOW
        assert reason(gate.decide(LARGE, grants=[named], tenant="globex")) == "out_of_scope"

    assert (other.verdict, reason(other)) == (Verdict.ESCALATE, "other_tenant")


def test_a_trusted_key_may_be_bound_to_tenants() -> None:
    bound = msgspec.structs.replace(KEY.trusted_key(), tenants=("acme",))
    scope = {**SCOPE, "tenant": "*"}
    with opened(keys=KeyRing([bound])) as gate:
        mine = gate.decide(LARGE, grants=[grant(scope)], tenant="acme")
        theirs = gate.decide(LARGE, grants=[grant(scope)], tenant="globex")

    assert (mine.verdict, reason(theirs)) == (Verdict.ALLOW, "tenant_not_permitted")


@pytest.mark.parametrize(
    ("subjects", "why"),
    [
        (None, None),
        (["agent:billing"], None),
        (["agent:other", "agent:billing"], None),
        ([], "subject_not_bound"),
        (["agent:other"], "subject_not_bound"),
    ],
)
def test_a_grant_counts_for_a_caller_who_is_its_subject(
    subjects: list[str] | None, why: str | None
) -> None:
    with opened() as gate:
        record = gate.decide(LARGE, grants=[grant(SCOPE)], subjects=subjects)
        refused = gate.decide(LARGE)
        resolved = gate.resolve(refused.decision_id, grants=[grant(SCOPE)], subjects=subjects)

    assert reason(record) == reason(resolved) == why


def test_a_caller_who_is_not_the_subject_inherits_no_grant() -> None:
    with opened() as gate:
        first = gate.decide(LARGE)
        gate.resolve(first.decision_id, grants=[grant(SCOPE)])
        again = {**LARGE, "continues": first.decision_id}

        assert gate.decide(again, subjects=[]).verdict is Verdict.ESCALATE
        assert gate.decide(again, subjects=["agent:billing"]).verdict is Verdict.ALLOW


def test_a_caller_who_is_not_the_subject_is_not_given_its_answer_again() -> None:
    asked = {**LARGE, "request_id": "r1"}
    with opened() as gate:
        assert gate.decide(asked, grants=[grant(SCOPE)]).verdict is Verdict.ALLOW
        stolen = gate.decide(asked, grants=[grant(SCOPE)], subjects=[])
        forged = msgspec.structs.replace(grant(SCOPE), signature="")
        replayed = gate.decide(asked, grants=[forged])

    assert stolen.reason_codes == replayed.reason_codes == ("IDEMPOTENCY_CONFLICT",)


# -- signatures ----------------------------------------------------------------------------

OTHER = SigningKey.from_randomness(bytes([7]) * 32, key_id="k2", holder="user:paul")
SIGNERS = {"known": KEY, "unknown": OTHER}


def signed(signer: str = "known", **more: Any) -> Grant:
    made = grant(SCOPE, **more)
    if signer == "known":
        return made
    unsigned = msgspec.structs.replace(made, key_id="k2", granted_by="user:paul", signature="")
    return msgspec.structs.replace(unsigned, signature=OTHER.sign(unsigned.signed_bytes()))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(SIGNERS)),
            st.text("abcdef", min_size=1, max_size=4),
            st.sampled_from([1, 2, None]),
            st.sampled_from(["agent:billing", "agent:b"]),
            st.integers(1, 48),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_no_record_holds_a_signature(drawn: list[tuple[str, str, int | None, str, int]]) -> None:
    """INVARIANT: no record holds a signature."""
    grants = [
        signed(
            signer,
            grant_id=grant_id,
            uses=uses,
            granted_to=subject,
            expires_at=NOON + timedelta(hours=hours),
        )
        for signer, grant_id, uses, subject, hours in drawn
    ]
    with opened() as gate:
        record = gate.decide(LARGE, grants=grants)
        first = gate.decide(LARGE)
        resolved = gate.resolve(first.decision_id, grants=grants)
        pack = export_pack(stored(gate), record)
        shown = [
            *(write_line(one) for one in rows(gate)),
            write_pack(pack),
            repr(resolved).encode(),
            json.dumps(dict(record.items())).encode(),
            msgspec.json.encode(list_grant_views(stored(gate), "2026")),
        ]
        proved = write_pack(pack, KEY)

    for one in grants:
        assert not any(one.signature.encode() in raw for raw in shown)
        assert one.signature.encode() in proved
        assert one.compute_digest().encode() in write_line(record)


def test_a_decision_with_a_grant_replays_without_its_signature() -> None:
    with opened() as gate:
        records = [
            gate.decide(LARGE, grants=[grant(SCOPE, uses=1)]),
            gate.decide(LARGE, grants=[grant(SCOPE, uses=1)]),
            gate.decide(LARGE, grants=[grant(SCOPE)], subjects=[]),
            gate.decide(LARGE, grants=[grant(SCOPE)], tenant="acme"),
        ]
        first = gate.decide(LARGE)
        records.append(gate.resolve(first.decision_id, grants=[grant(SCOPE)]))
        replays = [replay_pack(export_pack(stored(gate), record)) for record in records]

    assert [replay.differences for replay in replays] == [()] * len(records)


def test_a_recorded_grant_is_no_grant() -> None:
    with opened() as gate:
        record = gate.decide(LARGE, grants=[grant(SCOPE)])
        [recorded] = msgspec.to_builtins(record["grants"])
        assert recorded["signature"] == ""
        bare = {name: value for name, value in recorded.items() if name != "digest"}
        used = gate.decide(LARGE, grants=[msgspec.convert(bare, Grant)])
        assert reason(used) == "bad_signature"
        # Continuing it finds no signature either: the digest is another one.
        again = gate.decide({**LARGE, "continues": used.decision_id})

    assert again.verdict is Verdict.ESCALATE
    with pytest.raises(msgspec.ValidationError, match="unknown field `digest`"):
        msgspec.convert(recorded, Grant)


def test_erasing_a_subject_erases_its_grants() -> None:
    with opened() as gate:
        gate.decide(LARGE, grants=[grant(SCOPE, uses=1)])
        store = stored(gate)
        assert len(store.list_grants()) == 1
        store.erase_subject("default", "agent:billing", by="dpo", reason="asked for it")

        assert store.list_grants() == []
        # What was used stays used.
        assert reason(gate.decide(LARGE, grants=[grant(SCOPE, uses=1)])) == "used_up"


def test_retiring_records_retires_expired_grants() -> None:
    clock = Ticking()
    with opened(clock=clock) as gate:
        gate.decide(LARGE, grants=[grant(SCOPE)])
        store = stored(gate)
        clock.advance(days=30)
        gate.decide(refund())
        store.retire_records("default", "2026-12-01T00:00:00.000Z", by="ops", reason="old")

        assert store.list_grants() == []


def test_a_grant_that_was_changed_in_the_store_lifts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "demur.db"
    with gate_over(open_store(path)) as gate:
        first = gate.decide(LARGE)
        gate.resolve(first.decision_id, grants=[grant(SCOPE)])
        again = {**LARGE, "continues": first.decision_id}
        verdicts = []
        for change in ("replace(signed_grant, 'g1', 'g9')", "'{}'"):
            with sqlite3.connect(path) as other:
                other.execute(f"UPDATE grants SET signed_grant = {change}")  # noqa: S608
            other.close()
            verdicts.append(gate.decide(again).verdict)

    assert verdicts == [Verdict.ESCALATE, Verdict.ABSTAIN]


def test_the_states_of_grants_are_listed() -> None:
    with opened() as gate:
        for name in ("g1", "g2", "g3"):
            gate.decide(
                LARGE, grants=[grant(SCOPE, grant_id=name, uses=1 if name == "g2" else None)]
            )
        store = stored(gate)
        store.revoke_grant(revocation("g3"))
        store.revoke_grant(revocation("g4", tenant="acme"))
        states = {view.grant_id: view.state for view in list_grant_views(store, "2026-11-15T12")}
        later = {view.grant_id: view.state for view in list_grant_views(store, "2027")}
        theirs = {view.grant_id for view in list_grant_views(store, "2026", tenant="globex")}
        acme = {view.grant_id for view in list_grant_views(store, "2026", tenant="acme")}

    assert states == {"g1": "good", "g2": "used up", "g3": "revoked", "g4": "revoked"}
    assert later["g1"] == "expired"
    assert theirs == set()
    assert acme == {"g4"}
