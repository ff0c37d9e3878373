"""Replay: make a recorded decision again from its pack alone, and compare every field.

The recorded request goes through the recorded policy again with the recorded findings,
recollections and checks of grants; the record is then built anew by the gate's own engine and
recorder. Erased inputs, redacted facts that the policy compares, and decisions that demur made
itself (a lost store, an id used twice) cannot be replayed: replay says so and never guesses.

Engine versions: decisions of this engine and of engine 0.1.0 must come out the same; for the latter
a note says what this engine would decide. Those of other engines are compared just as strictly; a
difference names both engines, and the entries under "Meaning" in the changelog say whether it was
to be expected. A record with unknown fields is refused: replay it with the version that wrote it.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from demur.audit.diff import (
    FieldDifference,
    Unreplayable,
    record_differences,
    recorded_input,
    recorded_memory_settings,
    removed_paths,
    sealed_differences,
    usable_engine,
)
from demur.audit.pack import (
    EARLIER,
    MANIFEST,
    MEMORY,
    POLICY,
    RECORD,
    REGISTRY,
    SEALED,
    Pack,
    PackedExperience,
    PackError,
)
from demur.canonical import digest_of_bytes
from demur.codes.loading import parse_bundle
from demur.errors import DemurError, InputError
from demur.gate.engine import DecisionEngine, EngineInput, resolution_result
from demur.gate.inputs import Inputs, PreparedRequest, RequestAttempt
from demur.gate.record import Recorder
from demur.gate.redaction import RedactedRequest
from demur.memory.experience import Vector, cosine_score
from demur.memory.projection import HashedProjection
from demur.memory.recall import MemorySettings, Recall
from demur.model.record import DecisionRecord, Neighbour, Personal, Similarity
from demur.model.request import own_signals, read_request
from demur.policy.loader import parse_policy
from demur.policy.policy import Mode
from demur.store.events import APPROVAL_VOTE, ERASE, read_event
from demur.store.rows import ChainHead
from demur.version import ENGINE_VERSION


def rebuild_record(
    pack: Pack, personal: Personal, engine: DecisionEngine, engine_input: EngineInput
) -> DecisionRecord:
    """Return the record that the engine input gives now, sealed, without a place in a chain.

    Raises:
        PackError: A part of the pack cannot be used.
        Unreplayable: A needed part is not in the pack.
    """
    record, before = pack.record, _resolved_record(pack)
    try:
        if before is None:
            result = engine.evaluate(engine_input)
        else:
            decision = engine.resolve(before.decision, engine_input)
            result = resolution_result(decision, before.decision_id)
    except DemurError as error:
        where = SEALED if before is None else EARLIER
        raise PackError(f"cannot be judged: {error.problem}", where=where) from error
    if record.policy.mode not in set(Mode):
        raise PackError(f"there is no mode `{record.policy.mode}`", where=RECORD)
    profile = "" if record.redaction is None else record.redaction.profile
    registry = record.determinism.registry_digest
    prepared = _prepare(record, personal, engine_input.recall)
    # The scope is taken as recorded where it does not follow from the redacted request.
    if before is not None:
        prepared = replace(prepared, scope=before.decision.scope)
    elif removed_paths(record):
        prepared = replace(prepared, scope=personal.scope)
    return Recorder(engine, Mode(record.policy.mode), profile, registry).build_record(
        prepared,
        result,
        decision_id=record.decision_id,
        salt=personal.salt,
        recall=engine_input.recall,
        basis=record.basis,
    )


def _resolved_record(pack: Pack) -> DecisionRecord | None:
    """Return the decision that the pack's decision resolves, or None."""
    if pack.record.basis == "request":
        return None
    if pack.earlier is None:
        raise Unreplayable("the decision that was resolved is not in the pack", where=EARLIER)
    if pack.earlier.sealed is None:
        raise Unreplayable("the decision that was resolved was erased", where=EARLIER)
    return pack.earlier


def _prepare(record: DecisionRecord, personal: Personal, recall: Recall | None) -> PreparedRequest:
    removed, signals = removed_paths(record), personal.risk_signals
    if recall is not None:
        signals = own_signals(signals)
    try:
        request = read_request(personal.request)
    except DemurError as error:
        if removed:
            problem = "redaction removed what every request needs"
            raise Unreplayable(problem, where=error.where or "request") from error
        raise PackError(f"not a request: {error.problem}", where=SEALED) from error
    try:
        now = datetime.fromisoformat(record.created_at).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise PackError(f"cannot read `{record.created_at}` as a time", where=RECORD) from error
    return PreparedRequest(
        request=request,
        tenant=record.tenant,
        inputs=Inputs(personal.findings, personal.grants, record.accepted, signals),
        redacted=RedactedRequest(personal.request, removed),
        attempt=RequestAttempt(record.root_id, record.attempt, record.attempts_left),
        now=now,
        # INVARIANT: a replay asks no model: it decides by the recorded scores.
        models=record.determinism.models or {},
        excerpt=personal.excerpt,
        is_replay=True,
    )


_DIGITS = 6


class RescoreResult(NamedTuple):
    """Scores that differ, and notes on what could not be scored."""

    differences: tuple[FieldDifference, ...]
    notes: tuple[str, ...]


def rescore_memory(
    request: Mapping[str, Any],
    recall: Recall,
    settings: MemorySettings,
    memory: tuple[PackedExperience, ...],
) -> RescoreResult:
    """Compare the recorded scores with those of the vectors in the pack.

    Raises:
        PackError: The vectors are damaged, or do not belong to the recorded neighbours.
    """
    neighbours = {one.memory_id: one for s in (recall.failure, recall.success) for one in s.top_k}
    known = {one.memory_id: one for one in memory}
    if len(known) != len(memory) or not known.keys() <= neighbours.keys():
        raise PackError("not the experiences that the record names", where=MEMORY)
    projection = HashedProjection()
    usable = [one for one in memory if one.projection == projection.name]
    found = (
        *_score_differences(projection.project(request), usable, neighbours),
        *_signal_differences(recall, settings, known),
    )
    notes = _rescore_notes(len(neighbours), len(known), len(usable))
    return RescoreResult(found, tuple(notes))


def _score_differences(
    query: Vector, usable: list[PackedExperience], neighbours: Mapping[str, Neighbour]
) -> Iterator[FieldDifference]:
    for one in usable:
        neighbour, place = neighbours[one.memory_id], f"risk_signals: {one.memory_id}"
        try:
            vector = Vector.from_bytes(one.vector)
        except InputError as error:
            raise PackError(f"{one.memory_id}: {error.problem}", where=MEMORY) from error
        score = cosine_score(query.dot(vector), query.norm, vector.norm)
        if score != neighbour.score:
            yield FieldDifference(f"{place} score", neighbour.score, score)
        if one.outcome != neighbour.label:
            yield FieldDifference(f"{place} label", neighbour.label, one.outcome)


def _signal_differences(
    recall: Recall, settings: MemorySettings, known: Mapping[str, PackedExperience]
) -> Iterator[FieldDifference]:
    """Yield the signals that do not follow from the neighbours."""
    failures = recall.failure.top_k
    failure, success = _best_score(recall.failure), _best_score(recall.success)
    pairs = [
        ("failure_similarity", recall.failure.score, failure),
        ("success_similarity", recall.success.score, success),
        ("uncertainty_score", recall.uncertainty_score, round(1 - max(failure, success), _DIGITS)),
    ]
    if all(one.memory_id in known for one in failures):
        least = settings.block_severity
        severe = (one.score for one in failures if known[one.memory_id].severity >= least)
        pairs.append(("grave_failure_score", recall.severe_score, max(severe, default=0.0)))
    for field, recorded, replayed in pairs:
        if recorded != replayed:
            yield FieldDifference(f"risk_signals: {field}", recorded, replayed)


def _best_score(similarity: Similarity) -> float:
    return max((one.score for one in similarity.top_k), default=0.0)


def _rescore_notes(neighbours: int, known: int, usable: int) -> Iterator[str]:
    if known < neighbours:
        count = neighbours - known
        yield f"{count} of {neighbours} experiences were forgotten: scores as recorded"
    if usable < known:
        yield f"{known - usable} vectors are of another projection: scores as recorded"
    if usable:
        yield f"{usable} of {neighbours} memory scores were computed again"


# Fields that a caller acts on.
_ACTED_ON = frozenset(
    ("verdict", "decision_output", "reason_codes", "constraints", "missing", "next_step")
)


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
    record, engine = pack.record, build_engine(pack, usable_engine(pack.record))
    erasures = [row for row in pack.events if row.kind == ERASE]
    for row in erasures if record.sealed is None else ():
        problem = f"what came in was erased on {row.created_at[:10]} by {row.by}: {row.reason}"
        raise Unreplayable(problem, where="sealed")
    try:
        engine_input = recorded_input(record, engine)
    except InputError as error:
        raise PackError(error.problem, where=SEALED) from error
    personal = record.personal
    assert personal is not None
    replayed = rebuild_record(pack, personal, engine, engine_input)
    found = [
        *record_differences(record, replayed),
        *_compare_sealed_parts(record, personal, replayed),
        *_place_differences(pack, personal),
    ]
    notes = [*_engine_notes(pack, personal, engine_input), *_replay_notes(pack)]
    if engine_input.recall is not None and engine.memory is not None:
        scores = rescore_memory(personal.request, engine_input.recall, engine.memory, pack.memory)
        found.extend(scores.differences)
        notes.extend(scores.notes)
    return ReplayResult(record, replayed, tuple(found), tuple(notes))


def build_engine(pack: Pack, version: str = ENGINE_VERSION) -> DecisionEngine:
    """Return the engine of that version with the policy and registry of the pack.

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
    return DecisionEngine(policy, registry=registry, memory=memory, version=version)


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
    return (f"no head covers place {link.seq} of this chain: verify the store with `demur audit`",)


def _compare_sealed_parts(
    record: DecisionRecord, personal: Personal, replayed: DecisionRecord
) -> Iterator[FieldDifference]:
    replayed_personal = replayed.personal
    assert replayed_personal is not None
    fields = ["requester", "scope", "facts"]
    # Signals of memory replaced any inputs of the same name.
    if record.basis == "request" and record.determinism.memory_digest is None:
        fields.append("inputs_digest")
        # The record of a continued request does not say which grants were its own.
        if not removed_paths(record) and record.continues is None:
            fields.append("fingerprint")
    yield from sealed_differences(personal, replayed_personal, fields)


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
            continued_request = {**first.request, "request_id": None, "continues": first_id}
            pairs.append(("sealed.request", personal.request, continued_request))
    for field, recorded, replayed in pairs:
        if recorded != replayed:
            yield FieldDifference(field, *map(msgspec.to_builtins, (recorded, replayed)))


def _engine_notes(pack: Pack, personal: Personal, engine_input: EngineInput) -> Iterator[str]:
    """Yield which engine decided, if it was another one, and what this engine would decide."""
    version = pack.record.determinism.engine_version
    if version == ENGINE_VERSION:
        return
    if usable_engine(pack.record) != version:
        yield f"decided by engine {version}, replayed by engine {ENGINE_VERSION}"
        return
    yield f"decided by engine {version}, and replayed as that engine decides"
    current = rebuild_record(pack, personal, build_engine(pack), engine_input)
    changed = [one.field for one in record_differences(pack.record, current)]
    if _ACTED_ON.isdisjoint(changed):
        yield f"engine {ENGINE_VERSION} would decide the same"
        return
    words = [f"{current.verdict}, {current.decision_output}"]
    words += [f"missing {', '.join(current.missing)}"] if current.missing else []
    words += [f"led by {current.leading_code}"] if current.leading_code else []
    words += [f"advice {current.next_step}"] if current.next_step else []
    yield f"engine {ENGINE_VERSION} would decide {', '.join(words)}"


def _replay_notes(pack: Pack) -> Iterator[str]:
    if pack.record.chain is None:
        yield "the pack does not say where the record stands in its chain"
    if pack.signed_by is not None:
        yield f"signed by {pack.signed_by}"
    elif pack.signature is not None:
        yield f"signed with the key {pack.signature.key_id}; without `--keys` that is not checked"
    if pack.grants:
        yield f"the signatures of {len(pack.grants)} grants are in the pack"
    for row in pack.events:
        if row.kind == APPROVAL_VOTE:
            vote = read_event(row).what.get("vote")
            yield f"{row.by} said {vote} on {row.created_at[:10]}: {row.reason}"
    if pack.earlier is not None:
        yield "the decision that was resolved is taken as recorded: replay its own pack"
