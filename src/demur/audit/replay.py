"""Replay: make a recorded decision again from its pack alone, and compare every field.

The recorded request goes through the recorded policy again with the recorded findings,
recollections and checks of grants; then the whole record is built anew. Erased inputs, redacted
facts that the policy compares, and decisions that demur made itself (a lost store, an id used
twice) cannot be replayed: replay says so and never guesses.

Engine versions: decisions of this version must come out the same. Those of other versions are
compared just as strictly; a difference names both versions, and the entries under "Meaning" in
the changelog say whether it was to be expected. A record with unknown fields is refused: replay
it with the version that wrote it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from demur.audit.difference import FieldDifference, record_differences, sealed_differences
from demur.audit.pack import MANIFEST, POLICY, RECORD, REGISTRY, SEALED, Pack, PackError
from demur.audit.recorded import (
    Unreplayable,
    recorded_memory_settings,
    recorded_input,
    removed_paths,
)
from demur.audit.remaking import rebuild_record
from demur.audit.rescoring import rescore_memory
from demur.canonical import digest_of_bytes
from demur.codes.bundle import parse_bundle
from demur.errors import DemurError, InputError
from demur.gate.engine import DecisionEngine
from demur.model.record import DecisionRecord, Personal
from demur.policy.loader import parse_policy
from demur.store.rows import ChainHead
from demur.version import __version__

__all__ = ["ReplayResult", "Unreplayable", "check_heads", "build_engine", "replay_pack"]


class ReplayResult(NamedTuple):
    """The result of a replay. `notes` are for the reader, such as another engine version."""

    record: DecisionRecord
    replayed: DecisionRecord
    differences: tuple[FieldDifference, ...]
    notes: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the decision is the same."""
        return not self.differences


def replay_pack(pack: Pack) -> ReplayResult:
    """Make the decision in a pack again, and return the comparison.

    Raises:
        PackError: The parts of the pack do not belong together.
        Unreplayable: A needed part is not in the pack.
    """
    record = pack.record
    engine = build_engine(pack)
    try:
        question = recorded_input(record, engine)
    except InputError as error:
        raise PackError(error.problem, where=SEALED) from error
    personal = record.personal
    assert personal is not None
    replayed = rebuild_record(pack, personal, engine, question)
    found = [
        *record_differences(record, replayed),
        *_sealed_differences(record, personal, replayed),
        *_place_differences(pack, personal),
    ]
    notes = list(_replay_notes(pack))
    if question.recall is not None and engine.memory is not None:
        scores = rescore_memory(personal.request, question.recall, engine.memory, pack.memory)
        found.extend(scores.differences)
        notes.extend(scores.notes)
    return ReplayResult(record, replayed, tuple(found), tuple(notes))


def build_engine(pack: Pack) -> DecisionEngine:
    """Return the engine with the policy and registry of the pack.

    Raises:
        PackError: The record names another policy or registry.
    """
    determinism = pack.record.determinism
    if digest_of_bytes(pack.registry.encode()) != determinism.registry_digest:
        raise PackError("not the registry that the record names", where=REGISTRY)
    try:
        registry = parse_bundle(pack.registry, REGISTRY)
        policy = parse_policy(pack.policy, POLICY, registry=registry)
        memory = recorded_memory_settings(pack.record)
    except InputError as error:
        raise PackError(error.problem, where=RECORD) from error
    except DemurError as error:
        raise PackError(f"cannot be used: {error.problem}", where=error.where) from error
    if policy.digest != determinism.policy_digest:
        raise PackError("not the policy that the record names", where=POLICY)
    return DecisionEngine(policy, registry=registry, memory=memory)


def check_heads(record: DecisionRecord, heads: Iterable[ChainHead]) -> tuple[str, ...]:
    """Check the record's place in its chain against exported heads, and return notes.

    A head is the hash of one place: it proves the record at that place and the link of the
    one that follows.

    Raises:
        PackError: A head belongs to another record, or the pack names no place.
    """
    link = record.chain
    if link is None:
        raise PackError("the pack does not say where in its chain the record is", where=MANIFEST)
    own = {head.seq: head.hash for head in heads if head.tenant == record.tenant}
    if own.get(link.seq, link.hash) != link.hash:
        raise PackError(f"the head of place {link.seq} is of another record", where=RECORD)
    if own.get(link.seq - 1, link.previous) != link.previous:
        raise PackError(f"the head of place {link.seq - 1} is of another chain", where=MANIFEST)
    if link.seq in own:
        return (f"a head confirms the record at place {link.seq} of its chain",)
    if link.seq - 1 in own:
        return (f"a head confirms the chain up to the record before, place {link.seq - 1}",)
    return (f"no head speaks about place {link.seq} of this chain: `demur audit` needs the store",)


def _sealed_differences(
    record: DecisionRecord, personal: Personal, replayed: DecisionRecord
) -> Iterator[FieldDifference]:
    again = replayed.personal
    assert again is not None
    fields = ["requester", "scope", "facts"]
    # Signals of memory replaced any inputs of the same name.
    if record.basis == "request" and record.determinism.memory_digest is None:
        fields.append("inputs_digest")
        # The record of a continued request does not say which grants were its own.
        if not removed_paths(record) and record.continues is None:
            fields.append("fingerprint")
    yield from sealed_differences(personal, again, fields)


def _place_differences(pack: Pack, personal: Personal) -> Iterator[FieldDifference]:
    """Yield differences between the record's tenant or family and its sealed part."""
    record, before = pack.record, pack.earlier
    # A request may name its tenant; then it is never decided for another one.
    claimed = (personal.request.get("tenant") or {}).get("id", record.tenant)
    pairs: list[tuple[str, Any, Any]] = [("tenant", record.tenant, claimed)]
    if before is not None and before.personal is not None:
        first, first_id = before.personal, before.decision_id
        pairs += [
            ("continues", record.continues, first_id),
            ("tenant", record.tenant, before.tenant),
            ("root_id", record.root_id, before.root_id or first_id),
            ("sealed.findings", personal.findings, first.findings),
        ]
        if not removed_paths(record):
            asked_again = {**first.request, "request_id": None, "continues": first_id}
            pairs.append(("sealed.request", personal.request, asked_again))
    for field, recorded, replayed in pairs:
        if recorded != replayed:
            yield FieldDifference(
                field, msgspec.to_builtins(recorded), msgspec.to_builtins(replayed)
            )


def _replay_notes(pack: Pack) -> Iterator[str]:
    version = pack.record.determinism.engine_version
    if version != __version__:
        yield f"decided by engine {version}, replayed by {__version__}"
    if pack.record.chain is None:
        yield "the pack does not say where the record stands in its chain"
    if pack.signed_by is not None:
        yield f"signed by {pack.signed_by}"
    elif pack.signature is not None:
        yield f"signed with the key {pack.signature.key_id}; without `--keys` that is not checked"
    if pack.earlier is not None:
        yield "the decision that was resolved is taken as recorded: replay its own pack"
