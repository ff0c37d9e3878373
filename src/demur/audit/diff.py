"""Diff: what a candidate policy would have decided about past decisions.

Each decision is evaluated alone, without a store: the candidate judges the recorded request with
the recorded findings, recollections and checks of grants. So effects of memory, grants and
repeated request ids are no changes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from demur.audit.recorded import recorded_memory, recorded_question
from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import DemurError, InputError
from demur.gate.engine import Engine, Question
from demur.memory.recall import Recall
from demur.memory.settings import MemorySettings
from demur.model.decision import Decision
from demur.model.record import DecisionRecord, Similarity
from demur.policy.policy import Policy

__all__ = ["MOST_KEPT", "Change", "Comparison", "Failure", "compare"]

MOST_KEPT = 1000
_MOST_REMEMBERED = 4096

# Further fields that a caller acts on. Their order has no meaning.
_ALSO = (
    "decision_output",
    "refusal_class",
    "constraints",
    "missing",
    "obligations",
    "resolved_codes",
)


class Change(NamedTuple):
    """A decision that the candidate would change; `also` lists further changed fields."""

    decision_id: str
    action_type: str
    before: Verdict
    after: Verdict
    codes_gone: tuple[str, ...]
    codes_new: tuple[str, ...]
    also: tuple[str, ...] = ()


class Failure(NamedTuple):
    """A decision that could not be compared, and why."""

    decision_id: str
    problem: str


class Comparison(NamedTuple):
    """The result of a candidate policy on past decisions.

    `verdicts` counts pairs of old and new verdict, unchanged ones too. `codes` counts codes that
    would appear (`+CODE`) or disappear (`-CODE`), `also` the other changed fields. All changes
    and failures are counted, and only the first are kept. `skipped` decisions were not made by
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
    changes: tuple[Change, ...]
    failures: tuple[Failure, ...]

    @property
    def sound(self) -> bool:
        """Whether it is meaningful: something was compared, and nothing failed."""
        # INVARIANT: nothing compared is never a success.
        return self.compared > 0 and not self.failed


def compare(
    policy: Policy,
    records: Iterable[DecisionRecord | InputError],
    *,
    registry: Registry,
    keep: int = MOST_KEPT,
) -> Comparison:
    """Return what a policy would have decided on each record, in bounded memory.

    An `InputError` in place of a record, from an unreadable line, counts as a failure.
    """
    tally = _Tally(policy, registry, keep)
    for record in records:
        tally.add(record)
    return tally.comparison()


class _Tally:
    def __init__(self, policy: Policy, registry: Registry, keep: int) -> None:
        self._policy = policy
        self._registry = registry
        self._keep = keep
        # One engine for each recorded memory setting.
        self._judges: dict[MemorySettings | None, _Judge] = {}
        self._compared = self._changed = self._failed = self._skipped = self._erased = 0
        self._verdicts: Counter[tuple[Verdict, Verdict]] = Counter()
        self._codes: Counter[str] = Counter()
        self._also: Counter[str] = Counter()
        self._changes: list[Change] = []
        self._failures: list[Failure] = []

    def add(self, record: DecisionRecord | InputError) -> None:
        if isinstance(record, InputError):
            self._fail(record.where or "?", record.problem)
        elif record.basis != "request":
            self._skipped += 1
        elif record.sealed is None:
            self._erased += 1
        else:
            self._compare(record)

    def _compare(self, record: DecisionRecord) -> None:
        try:
            decision = self._decided(record)
        except DemurError as error:
            problem = f"{error.where}: {error.problem}" if error.where else error.problem
            self._fail(record.decision_id, problem)
            return
        self._compared += 1
        self._verdicts[record.verdict, decision.verdict] += 1
        for change in _change(record, decision):
            self._count(change)

    def _decided(self, record: DecisionRecord) -> Decision:
        if not record.seal_holds:
            raise InputError("not what was decided on: its digest differs", where="sealed")
        # Use the recorded memory settings; only the policy is new.
        memory = recorded_memory(record)
        judge = self._judges.get(memory)
        if judge is None:
            engine = Engine(self._policy, registry=self._registry, memory=memory)
            judge = self._judges[memory] = _Judge(engine)
        return judge.decide(recorded_question(record, judge.engine))

    def _count(self, change: Change) -> None:
        self._changed += 1
        self._codes.update(f"+{code}" for code in change.codes_new)
        self._codes.update(f"-{code}" for code in change.codes_gone)
        self._also.update(change.also)
        if len(self._changes) < self._keep:
            self._changes.append(change)

    def _fail(self, decision_id: str, problem: str) -> None:
        self._failed += 1
        if len(self._failures) < self._keep:
            self._failures.append(Failure(decision_id, problem))

    def comparison(self) -> Comparison:
        return Comparison(
            compared=self._compared,
            changed=self._changed,
            failed=self._failed,
            skipped=self._skipped,
            erased=self._erased,
            verdicts=self._verdicts,
            codes=self._codes,
            also=self._also,
            changes=tuple(self._changes),
            failures=tuple(self._failures),
        )


class _Judge:
    """Decides like its engine, and caches decisions that involve memory."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._known: dict[object, Decision] = {}

    def decide(self, question: Question) -> Decision:
        recall, memory = question.recall, self.engine.memory
        if recall is None or memory is None or question.grants or question.accepted:
            return self.engine.judge(question).decision
        # INVARIANT: a score affects a decision only by the side of its threshold that it is on.
        sides = _sides(recall, memory)
        evaluation = self.engine.judge(replace(question, recall=None)).evaluation
        key = (evaluation, sides, question.attempts_left)
        decision = self._known.get(key)
        if decision is None:
            decision = self.engine.judge(replace(question, recall=sides)).decision
            if len(self._known) < _MOST_REMEMBERED:
                self._known[key] = decision
        return decision


def _sides(recall: Recall, memory: MemorySettings) -> Recall:
    """Return an equivalent recall whose scores are only 0 or 1, so that it can be cached."""
    return Recall(
        failure=Similarity(score=float(recall.failure.score >= memory.escalate)),
        success=Similarity(score=float(recall.success.score >= memory.allow)),
        grave_score=float(recall.grave_score >= memory.block),
        uncertainty_score=0.0,
        digest="",
    )


def _change(record: DecisionRecord, decision: Decision) -> Iterator[Change]:
    before, after = set(record.reason_codes), set(decision.reason_codes)
    also = tuple(
        field for field in _ALSO if _differ(getattr(record, field), getattr(decision, field))
    )
    if decision.verdict is not record.verdict or before != after or also:
        yield Change(
            decision_id=record.decision_id,
            action_type=record.action_type,
            before=record.verdict,
            after=decision.verdict,
            codes_gone=tuple(code for code in record.reason_codes if code not in after),
            codes_new=tuple(code for code in decision.reason_codes if code not in before),
            also=also,
        )


def _differ(one: object, other: object) -> bool:
    if one == other:
        return False
    return not (isinstance(one, tuple) and isinstance(other, tuple) and set(one) == set(other))
