"""Export a decision as a pack, with everything it depends on.

Policy and registry are loaded by the digests that the record names, never from today's files:
only the policy that decided can prove a decision.
"""

from collections.abc import Iterator

from demur.audit.pack import Pack, PackedExperience
from demur.errors import InputError
from demur.memory.recall import Recall
from demur.model.record import DecisionRecord
from demur.store.store import Store

__all__ = ["export_pack"]


def export_pack(store: Store, record: DecisionRecord) -> Pack:
    """Return the pack of a stored decision.

    Raises:
        InputError: The store lacks the policy, the registry or the earlier decision.
        StorageError: The store cannot be read.
    """
    determinism = record.determinism
    return Pack(
        record=record,
        policy=_snapshot_text(store, "policy", determinism.policy_digest),
        registry=_snapshot_text(store, "registry", determinism.registry_digest),
        memory=tuple(_packed_experiences(store, record)),
        earlier=_earlier_record(store, record),
    )


def _snapshot_text(store: Store, kind: str, digest: str) -> str:
    snapshot = store.get_snapshot(digest)
    if snapshot is None or snapshot.kind != kind:
        raise InputError(
            f"the store does not hold the {kind} that decided",
            where=digest,
            help=f"today's {kind} is never used instead",
        )
    return snapshot.text


def _packed_experiences(store: Store, record: DecisionRecord) -> Iterator[PackedExperience]:
    """Yield the experiences that the record names and the store still has."""
    personal, digest = record.personal, record.determinism.memory_digest
    if personal is None or digest is None:
        return
    recall = Recall.from_signals(personal.risk_signals, digest)
    named = {one.memory_id for s in (recall.failure, recall.success) for one in s.top_k}
    # As of that time: experiences that expired since are still evidence while they are kept.
    for one in store.list_experiences(record.tenant, record.created_at):
        if one.memory_id in named:
            yield PackedExperience(
                memory_id=one.memory_id,
                outcome=one.outcome,
                severity=one.severity,
                projection=one.projection,
                vector=one.vector,
            )


def _earlier_record(store: Store, record: DecisionRecord) -> DecisionRecord | None:
    if record.basis != "resolution" or record.continues is None:
        return None
    earlier = store.get(record.continues, record.tenant)
    if earlier is None:
        problem = "the store does not hold the decision that was resolved"
        raise InputError(problem, where=record.continues)
    return earlier
