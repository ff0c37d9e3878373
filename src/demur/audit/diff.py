"""Diff: what a candidate policy would have decided about past decisions.

Each decision is evaluated alone, without a store: the candidate judges the recorded request with
the recorded findings, recollections and checks of grants. So effects of memory and grants are no
changes. The recorded input of a decision and differences between two records are found here too.
What redaction removed is never guessed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import DemurError, InputError
from demur.gate.engine import FIRST_ENGINE, DecisionEngine, EngineInput
from demur.gate.redaction import REMOVED
from demur.grants.resolution import GrantRejection
from demur.memory.recall import MemorySettings, Recall
from demur.model.decision import Decision
from demur.model.record import DecisionRecord, Personal, Similarity
from demur.model.request import own_signals
from demur.policy.policy import Policy
from demur.version import ENGINE_VERSION

# Reasons that follow from the decision itself, so they are checked again.
_OUT_OF_REACH = {
    GrantRejection.NOT_JUDGED,
    GrantRejection.OTHER_REQUESTER,
    GrantRejection.OUT_OF_SCOPE,
    GrantRejection.LIFTS_NOTHING,
    GrantRejection.NEEDS_MORE_PEOPLE,
}


class Unreplayable(DemurError):  # noqa: N818 - describes the decision
    """A decision that cannot be replayed; `where` is the missing part."""


def recorded_input(record: DecisionRecord, engine: DecisionEngine) -> EngineInput:
    """Return the engine input of a recorded decision.

    Raises:
        Unreplayable: It was erased, no policy made it, or redaction removed a fact of the policy.
        InputError: What is recorded cannot be used.
    """
    if record.basis == "runtime":
        raise Unreplayable("demur itself made this decision, not a policy", where="basis")
    personal = record.personal
    if personal is None:
        raise Unreplayable("what came in was erased", where="sealed")
    if record.basis == "request":
        _check_removed(record, personal, engine)
    digest = record.determinism.memory_digest
    return EngineInput(
        request=personal.request,
        findings=personal.findings,
        signals=own_signals(personal.risk_signals),
        recall=None if digest is None else Recall.from_signals(personal.risk_signals, digest),
        grants=personal.grants,
        accepted=record.accepted,
        attempts_left=record.attempts_left,
        requester=personal.requester,
        scope=personal.scope,
        recorded_rejections=_recorded_rejections(record, personal) if personal.grants else {},
    )


def recorded_memory_settings(record: DecisionRecord) -> MemorySettings | None:
    """Return the recorded memory settings; None if memory was not used.

    Raises:
        InputError: The recorded settings are invalid.
    """
    settings = record.determinism.memory_settings
    if settings is None and record.determinism.memory_digest is None:
        return None
    try:
        return msgspec.convert(settings, MemorySettings)
    except (msgspec.ValidationError, DemurError) as error:
        problem = f"no settings of a memory: {error}"
        raise InputError(problem, where="determinism.memory_settings") from error


def usable_engine(record: DecisionRecord) -> str:
    """Return the version of the engine that decides as recorded, or of this one if none does."""
    version = record.determinism.engine_version
    return version if version == FIRST_ENGINE else ENGINE_VERSION


def removed_paths(record: DecisionRecord) -> tuple[str, ...]:
    """Return the paths that redaction removed from the request."""
    return () if record.redaction is None else record.redaction.removed


def _check_removed(record: DecisionRecord, personal: Personal, engine: DecisionEngine) -> None:
    """Raise if the policy reads a part that redaction removed or replaced."""
    removed = removed_paths(record)
    if not removed:
        return
    blotted = tuple(_redacted_places(personal.request, ""))
    if "" in blotted:
        raise Unreplayable("redaction removed names in the request", where="request")
    read = engine.filter_compared(personal.request, (*removed, *blotted))
    if read:
        problem = "redaction removed what the policy compares: nothing is guessed"
        raise Unreplayable(problem, where=", ".join(dict.fromkeys(read)))


def _redacted_places(value: Any, path: str) -> Iterator[str]:
    """Yield the paths of replaced texts; for a replaced key, the path of its parent."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if REMOVED in key:
                yield path
            yield from _redacted_places(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _redacted_places(item, path)
    elif holds_removed(value):
        yield path


def holds_removed(value: object) -> bool:
    """Return whether a text contains the mark of redaction."""
    return isinstance(value, str) and REMOVED in value


def _recorded_rejections(record: DecisionRecord, personal: Personal) -> Mapping[str, str | None]:
    """Return why each grant was rejected when it was used; None if it counted."""
    grants = {grant.grant_id: grant for grant in personal.grants}
    if any(grants[grant.grant_id] != grant for grant in personal.grants):
        # The recorded reason does not say which of the two it belongs to.
        raise Unreplayable("two grants have one id", where="grants")
    judged: dict[str, str | None] = dict.fromkeys(grants)
    # In a resolution, reasons of the earlier decision come first and are overwritten.
    for ignored in record.ignored_grants:
        if ignored.grant_id in judged:
            judged[ignored.grant_id] = None if ignored.why in _OUT_OF_REACH else ignored.why
    return judged


MAX_KEPT = 1000
_MAX_CACHED = 4096

# Further fields that a caller acts on. Their order has no meaning.
_ALSO = (
    "decision_output",
    "refusal_class",
    "constraints",
    "missing",
    "obligations",
    "resolved_codes",
    "approvals",
)


class DecisionChange(NamedTuple):
    """A decision that the candidate would change; `also` lists further changed fields."""

    decision_id: str
    action_type: str
    before: Verdict
    after: Verdict
    codes_gone: tuple[str, ...]
    codes_new: tuple[str, ...]
    also: tuple[str, ...] = ()


class ComparisonFailure(NamedTuple):
    """A decision that could not be compared, and why."""

    decision_id: str
    problem: str


class PolicyComparison(NamedTuple):
    """The result of a candidate policy on past decisions.

    `verdicts` counts pairs of old and new verdict, unchanged ones too. `codes` counts codes that
    would appear (`+CODE`) or disappear (`-CODE`), `also` the other changed fields. It counts
    all changes and failures, and keeps only the first. `skipped` decisions were not made by
    a policy; `erased` ones have no inputs left.
    """

    compared: int
    changed: int
    failed: int
    skipped: int
    erased: int
    verdicts: Counter[tuple[Verdict, Verdict]]
    codes: Counter[str]
    also: Counter[str]
    changes: tuple[DecisionChange, ...]
    failures: tuple[ComparisonFailure, ...]

    @property
    def sound(self) -> bool:
        """Whether it is meaningful: something was compared, and nothing failed."""
        # INVARIANT: nothing compared is never a success.
        return self.compared > 0 and not self.failed


def compare_policy(
    policy: Policy,
    records: Iterable[DecisionRecord | InputError],
    *,
    registry: Registry,
    keep: int = MAX_KEPT,
) -> PolicyComparison:
    """Return what a policy would have decided on each record, in bounded memory.

    An `InputError` in place of a record, from an unreadable line, counts as a failure.
    """
    tally = _ComparisonTally(policy, registry, keep)
    for record in records:
        tally.add_record(record)
    return tally.build_comparison()


class _ComparisonTally:
    def __init__(self, policy: Policy, registry: Registry, keep: int) -> None:
        self._policy, self._registry, self._keep = policy, registry, keep
        # One engine for each recorded memory setting and engine version.
        self._judges: dict[tuple[MemorySettings | None, str], _CachingEngine] = {}
        self._numbers = dict.fromkeys(("compared", "changed", "failed", "skipped", "erased"), 0)
        self._verdicts: Counter[tuple[Verdict, Verdict]] = Counter()
        self._codes: Counter[str] = Counter()
        self._also: Counter[str] = Counter()
        self._changes: list[DecisionChange] = []
        self._failures: list[ComparisonFailure] = []

    def add_record(self, record: DecisionRecord | InputError) -> None:
        if isinstance(record, InputError):
            self._count_failure(record.where or "?", record.problem)
        elif record.basis != "request":
            self._numbers["skipped"] += 1
        elif record.sealed is None:
            self._numbers["erased"] += 1
        else:
            self._compare_record(record)

    def _compare_record(self, record: DecisionRecord) -> None:
        try:
            decision = self._decide_again(record)
        except DemurError as error:
            problem = f"{error.where}: {error.problem}" if error.where else error.problem
            self._count_failure(record.decision_id, problem)
            return
        self._numbers["compared"] += 1
        self._verdicts[record.verdict, decision.verdict] += 1
        for change in _decision_changes(record, decision):
            self._numbers["changed"] += 1
            self._codes.update(f"+{code}" for code in change.codes_new)
            self._codes.update(f"-{code}" for code in change.codes_gone)
            self._also.update(change.also)
            if len(self._changes) < self._keep:
                self._changes.append(change)

    def _decide_again(self, record: DecisionRecord) -> Decision:
        if not record.seal_holds:
            raise InputError("not what was decided on: its digest differs", where="sealed")
        # Use the recorded memory settings and engine; only the policy is new.
        memory, version = recorded_memory_settings(record), usable_engine(record)
        judge = self._judges.get((memory, version))
        if judge is None:
            engine = DecisionEngine(
                self._policy, registry=self._registry, memory=memory, version=version
            )
            judge = self._judges[memory, version] = _CachingEngine(engine)
        return judge.decide(recorded_input(record, judge.engine))

    def _count_failure(self, decision_id: str, problem: str) -> None:
        self._numbers["failed"] += 1
        if len(self._failures) < self._keep:
            self._failures.append(ComparisonFailure(decision_id, problem))

    def build_comparison(self) -> PolicyComparison:
        return PolicyComparison(
            **self._numbers,
            verdicts=self._verdicts,
            codes=self._codes,
            also=self._also,
            changes=tuple(self._changes),
            failures=tuple(self._failures),
        )


class _CachingEngine:
    """Decides like its engine, and caches decisions that involve memory."""

    def __init__(self, engine: DecisionEngine) -> None:
        self.engine = engine
        self._known: dict[object, Decision] = {}

    def decide(self, engine_input: EngineInput) -> Decision:
        recall, memory = engine_input.recall, self.engine.memory
        if recall is None or memory is None or engine_input.grants or engine_input.accepted:
            return self.engine.evaluate(engine_input).decision
        # INVARIANT: a score affects a decision only by the side of its threshold that it is on.
        # So a recall whose scores are only 0 or 1 is equivalent, and can be cached.
        sides = Recall(
            failure=Similarity(score=float(recall.failure.score >= memory.escalate)),
            success=Similarity(score=float(recall.success.score >= memory.allow)),
            severe_score=float(recall.severe_score >= memory.block),
            uncertainty_score=0.0,
            digest="",
        )
        evaluation = self.engine.evaluate(replace(engine_input, recall=None)).evaluation
        key = (evaluation, sides, engine_input.attempts_left)
        decision = self._known.get(key)
        if decision is None:
            decision = self.engine.evaluate(replace(engine_input, recall=sides)).decision
            if len(self._known) < _MAX_CACHED:
                self._known[key] = decision
        return decision


def _decision_changes(record: DecisionRecord, decision: Decision) -> Iterator[DecisionChange]:
    before, after = set(record.reason_codes), set(decision.reason_codes)
    pairs = ((field, getattr(record, field), getattr(decision, field)) for field in _ALSO)
    also = tuple(field for field, one, other in pairs if _values_differ(one, other))
    if decision.verdict is not record.verdict or before != after or also:
        yield DecisionChange(
            decision_id=record.decision_id,
            action_type=record.action_type,
            before=record.verdict,
            after=decision.verdict,
            codes_gone=tuple(code for code in record.reason_codes if code not in after),
            codes_new=tuple(code for code in decision.reason_codes if code not in before),
            also=also,
        )


def _values_differ(one: object, other: object) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return set(one) != set(other)
    return one != other


# The prefix of fields of the sealed half, whose values may be personal.
SEALED_FIELD = "sealed."

# The halves have their own digests, and the engine version may differ.
_NOT_COMPARED = frozenset({"sealed", "sealed_digest", "chain", "determinism.engine_version"})
_COMPARED = tuple(f for f in DecisionRecord.__struct_fields__ if f not in _NOT_COMPARED)
_WRITTEN_NAMES = {"recorded_lead": "leading_code"}


class FieldDifference(NamedTuple):
    """A field that differs. Both values are plain JSON."""

    field: str
    recorded: Any
    replayed: Any


def record_differences(
    recorded: DecisionRecord, replayed: DecisionRecord
) -> Iterator[FieldDifference]:
    """Yield the fields in which two records of one decision differ, nested ones included."""
    for field in _COMPARED:
        name = _WRITTEN_NAMES.get(field, field)
        yield from _field_differences(name, getattr(recorded, field), getattr(replayed, field))


def sealed_differences(
    recorded: Personal, replayed: Personal, fields: Iterable[str]
) -> Iterator[FieldDifference]:
    """Yield which of the fields differ between two sealed halves."""
    for field in fields:
        values = (getattr(half, field) for half in (recorded, replayed))
        yield from _field_differences(f"{SEALED_FIELD}{field}", *values)


def _field_differences(field: str, recorded: Any, replayed: Any) -> Iterator[FieldDifference]:
    # A redacted text cannot be rebuilt, and the policy did not compare it.
    if recorded == replayed or field in _NOT_COMPARED or holds_removed(replayed):
        return
    if isinstance(recorded, msgspec.Struct) and type(recorded) is type(replayed):
        for name in recorded.__struct_fields__:
            here = f"{field}.{name}"
            yield from _field_differences(here, getattr(recorded, name), getattr(replayed, name))
        return
    plain = (msgspec.json.decode(msgspec.json.encode(value)) for value in (recorded, replayed))
    yield FieldDifference(field, *plain)
