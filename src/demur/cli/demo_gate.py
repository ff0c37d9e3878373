"""The gate part of the tour: decide, store, explain, approve, learn, replay and verify."""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.resources import files
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from demur.audit.exporting import export_pack
from demur.audit.pack import PackError, read_pack, write_pack
from demur.audit.replay import replay_pack
from demur.classification.grants import sign_grant
from demur.classification.keys import KEY_BYTES, KeyRing, SigningKey
from demur.cli.terminal import Paint, class_colour, wrap_text
from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.gate.gate import Gate
from demur.memory.settings import MemorySettings
from demur.model.grant import Grant
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.store.opening import open_store
from demur.store.store import Store
from demur.store.verify import verify_chain

__all__ = ["tour_gate"]

_TEMPLATES = files("demur.cli") / "templates"


class _FixedSources:
    """A deterministic clock and source of entropy."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._ticks = count()
        self._draws = count()

    def clock(self) -> datetime:
        return self._start + timedelta(seconds=next(self._ticks))

    def entropy(self, size: int) -> bytes:
        return hashlib.shake_128(str(next(self._draws)).encode()).digest(size)


def tour_gate(registry: Registry, paint: Paint, start: datetime) -> Iterator[str]:
    """Yield the lines of the tour through the gate."""
    steady = _FixedSources(start)
    key = SigningKey.from_randomness(bytes(KEY_BYTES), key_id="demo", holder="user:mary")
    policy = parse_policy((_TEMPLATES / "policy.yaml").read_text("utf-8"), registry=registry)
    with (
        TemporaryDirectory(prefix="demur-demo-") as folder,
        open_store(Path(folder) / "demur.db", durability="normal") as store,
    ):
        gate = Gate(
            policy,
            store,
            registry=registry,
            memory=MemorySettings(),
            keys=KeyRing([key.trusted_key()]),
            clock=steady.clock,
            entropy=steady.entropy,
        )
        records = {}
        for sample in sorted((_TEMPLATES / "samples").iterdir(), key=lambda file: file.name):
            record = gate.decide(json.loads(sample.read_text("utf-8")))
            records[record.verdict] = record
            yield from _describe_decision(sample.name, record, paint)
        yield from _show_approval(gate, records[Verdict.ESCALATE], key, start, paint)
        yield from _show_learning(gate, records[Verdict.ALLOW], paint)
        yield from _show_proof(store, records[Verdict.DENY], paint)


def _describe_decision(name: str, record: DecisionRecord, paint: Paint) -> Iterator[str]:
    output = paint(record.decision_output, "bold", class_colour(record.refusal_class))
    codes = ", ".join(record.reason_codes) or "nothing refuses"
    yield f"  {name.ljust(26)} {record.verdict.ljust(8)} {output}  {codes}"
    yield wrap_text(record.explanation.summary, " " * 4)


def _show_approval(
    gate: Gate, asked: DecisionRecord, key: SigningKey, start: datetime, paint: Paint
) -> Iterator[str]:
    after = gate.resolve(asked.decision_id, grants=[_sign_demo_grant(asked, key, start)])
    arrow = f"{asked.decision_output} -> {paint(after.decision_output, 'bold')}"
    yield f"  user:mary approves {asked.decision_id}: {arrow}"


def _sign_demo_grant(asked: DecisionRecord, key: SigningKey, start: datetime) -> Grant:
    """Return a grant that covers exactly this request."""
    personal = asked.personal
    assert personal is not None
    assert personal.requester is not None
    return sign_grant(
        key,
        grant_id="g-demo",
        kind="approval",
        granted_to=personal.requester,
        scope={name: personal.scope[name] for name in ("action", "request", "tenant")},
        not_before=start,
        expires_at=start + timedelta(hours=1),
    )


def _show_learning(gate: Gate, allowed: DecisionRecord, paint: Paint) -> Iterator[str]:
    gate.learn(allowed.decision_id, "failure", severity=4, note="the parcel had arrived")
    again = gate.decide({**allowed["request"], "request_id": None})
    score = again["risk_signals"]["failure_similarity"]["score"]
    codes = paint(", ".join(again.reason_codes), "bold")
    yield f"  it turned out badly, and is learned: the same again is {again.verdict}"
    yield f"    {codes} (likeness {score:.2f})"


def _show_proof(store: Store, denied: DecisionRecord, paint: Paint) -> Iterator[str]:
    pack = write_pack(export_pack(store, denied))
    same = replay_pack(read_pack(pack)).same
    word = "the same decision" if same else "another decision"
    size = f"{len(pack) // 1024} kB"
    yield f"  export {denied.decision_id}, {size}; replayed offline: {paint(word, 'bold')}"
    forged = pack.replace(b'"verdict":"DENY"', b'"verdict":"DENi"', 1)
    try:
        read_pack(forged)
    except PackError as error:
        yield f"  one byte changed: {error.where}: {error.problem}"
    verification = verify_chain(store.backend)
    state = "holds" if verification.holds else "is broken"
    yield f"  the chain of {verification.records} records {paint(state, 'bold')}"
