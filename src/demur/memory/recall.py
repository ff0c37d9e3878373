"""Recall similar experiences for a request, and apply them to its verdict.

Similarity to a failure tightens. Similarity to a success lifts an escalation, if the operator
turned that on, and only where a person's approval would have been enough.

The default thresholds come from these scores of the default projection against one refund request
(a support agent, a reason in a sentence, 180 USD, eight facts as evidence):

    1.00  the same again: other order, ticket, ids
    0.96  amount and facts a little off
    0.94  one fact of eight far off
    0.93  the reason paraphrased with most of its words; fifty times the amount
    0.89  the reason paraphrased and amount and facts a little off
    0.88  another reason
    0.85  the reason paraphrased with few of its words
    0.83  three facts far off
    0.82  no facts at all
    0.79  the reason in entirely other words
    0.76  the reason paraphrased and three facts far off
    0.73  another action with the same words and facts
    0.49  another action in its own words
    0.03  something else altogether

So 0.95 blocks the same request with other ids and small changes, while one fact far off leaves it
to a person. 0.85 escalates similar requests, but no other action and no other customer. 0.98 lifts
only the same request, because a wrong lift costs more than a question.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Self

import msgspec

from demur.codes.entry import Entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import GrantKind, RefusalClass, Verdict
from demur.errors import InputError, InputTypeError
from demur.memory.experience import Vector
from demur.memory.index import MemoryIndex
from demur.model.record import Similarity

_MAX_NEIGHBOURS = 100


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds on similarity, from above 0 to 1.

    `block`, `escalate`: similarity to a failure that denies or asks a person. `allow`: similarity
    to a success that lifts an escalation, if `lift` is on. `block_severity`: milder failures only
    escalate. `top_k`: the number of neighbours of each outcome that are recorded.
    """

    block: float = 0.95
    escalate: float = 0.85
    allow: float = 0.98
    lift: bool = False
    block_severity: int = 3
    top_k: int = 5

    def __post_init__(self) -> None:
        for name in ("block", "escalate", "allow"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InputTypeError.wrong_type(f"memory: `{name}`", "a number", value)
            if not 0 < value <= 1:
                problem = f"`{name}` is {value}, but similarity is above 0 and at most 1"
                raise InputError(problem, where="memory")
        if self.escalate > self.block:
            problem = f"`escalate` is {self.escalate}, above `block`, which is {self.block}"
            raise InputError(problem, where="memory", help="lower `escalate` to at most `block`")
        if not isinstance(self.lift, bool):
            raise InputTypeError.wrong_type("memory: `lift`", "true or false", self.lift)
        _check_count("block_severity", self.block_severity, 5)
        _check_count("top_k", self.top_k, _MAX_NEIGHBOURS)

    def as_json(self) -> dict[str, Any]:
        """Return the settings as plain JSON, for the record."""
        return msgspec.structs.asdict(self)


def _check_count(name: str, value: object, maximum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputTypeError.wrong_type(f"memory: `{name}`", "a whole number", value)
    if not 1 <= value <= maximum:
        raise InputError(f"`{name}` is {value}, not from 1 to {maximum}", where="memory")


class Recall(msgspec.Struct, frozen=True, kw_only=True):
    """The experiences that are similar to a request.

    `severe_score` is the similarity to failures that are severe enough to block.
    `uncertainty_score` is 1 if nothing similar was ever labelled, 0 for an identical request.
    `exact` is false if something nearer may have been missed among very many.
    """

    failure: Similarity
    success: Similarity
    severe_score: float
    uncertainty_score: float
    digest: str
    exact: bool = True

    def risk_signals(self) -> dict[str, Any]:
        """Return the signals as plain JSON, as a record keeps them."""
        return {
            "failure_similarity": msgspec.to_builtins(self.failure),
            "grave_failure_score": self.severe_score,
            "memory_exact": self.exact,
            "success_similarity": msgspec.to_builtins(self.success),
            "uncertainty_score": self.uncertainty_score,
        }

    @classmethod
    def from_signals(cls, signals: Mapping[str, Any], digest: str) -> Self:
        """Return the recall that a record keeps.

        Raises:
            InputError: A signal is missing or cannot be used.
        """
        try:
            return cls(
                failure=msgspec.convert(signals["failure_similarity"], Similarity),
                success=msgspec.convert(signals["success_similarity"], Similarity),
                severe_score=msgspec.convert(signals["grave_failure_score"], float),
                uncertainty_score=msgspec.convert(signals["uncertainty_score"], float),
                digest=digest,
                exact=msgspec.convert(signals["memory_exact"], bool),
            )
        except (KeyError, msgspec.ValidationError) as error:
            problem = f"what memory recalled cannot be read: {error}"
            raise InputError(problem, where="risk_signals") from error


def recall_similar(index: MemoryIndex, vector: Vector, settings: MemorySettings) -> Recall:
    """Return the experiences in `index` that are similar to `vector`."""
    hits = index.search(vector, settings.top_k, min_severity=settings.block_severity)
    best = max(hits.failure.score, hits.success.score)
    return Recall(
        failure=hits.failure,
        success=hits.success,
        severe_score=hits.severe,
        uncertainty_score=round(1 - best, 6),
        digest=index.digest,
        exact=hits.exact,
    )


BLOCK_CODE = "FAILURE_MEMORY_SIMILAR_BLOCK"
ESCALATE_CODE = "FAILURE_MEMORY_SIMILAR_ESCALATE"
ALLOW_CODE = "SUCCESS_MEMORY_SIMILAR_ALLOW"


class MemoryAdjustment(NamedTuple):
    """The verdict and codes after memory; `changed` says whether they differ from before."""

    verdict: Verdict
    reason_codes: tuple[str, ...]
    resolved_codes: tuple[str, ...] = ()
    changed: bool = False


def apply_memory(
    verdict: Verdict,
    reason_codes: Sequence[str],
    recall: Recall,
    settings: MemorySettings,
    registry: Registry,
    *,
    obligations: Collection[str] = (),
) -> MemoryAdjustment:
    """Return verdict and codes after applying recalled experiences.

    `obligations` are those of rules; those of codes come from the registry.

    Raises:
        UnknownCodeError: A code is in no registry.
    """
    entries = [registry[code] for code in reason_codes]
    before = MemoryAdjustment(verdict, tuple(reason_codes))
    # INVARIANT: memory never relaxes a DENY or an ABSTAIN.
    if verdict in {Verdict.DENY, Verdict.ABSTAIN}:
        return before
    if recall.severe_score >= settings.block:
        return _tighten(before, Verdict.DENY, BLOCK_CODE)
    # INVARIANT: a failure match beats a success match.
    if recall.failure.score >= settings.escalate:
        return _tighten(before, Verdict.ESCALATE, ESCALATE_CODE)
    alike = settings.lift and recall.success.score >= settings.allow
    if alike and verdict is Verdict.ESCALATE and not obligations and _is_liftable(entries):
        kept = [entry.code for entry in entries if entry.refusal_class is None]
        resolved = tuple(entry.code for entry in entries if entry.refusal_class is not None)
        codes = tuple(dict.fromkeys((*kept, ALLOW_CODE)))
        return MemoryAdjustment(Verdict.ALLOW, codes, resolved, changed=True)
    return before


def _tighten(before: MemoryAdjustment, verdict: Verdict, reason: str) -> MemoryAdjustment:
    codes = tuple(dict.fromkeys((*before.reason_codes, reason)))
    return MemoryAdjustment(verdict, codes, changed=(verdict, codes) != before[:2])


def _is_liftable(entries: Sequence[Entry]) -> bool:
    """Return whether a person's approval alone would lift everything that refuses."""
    # INVARIANT: memory never lifts a HARD_BLOCK.
    refusing = [entry for entry in entries if entry.refusal_class is not None]
    return (
        bool(refusing)
        and all(entry.refusal_class is RefusalClass.WORKFLOW_BLOCK for entry in refusing)
        and all(GrantKind.APPROVAL in entry.grants and entry.decided for entry in refusing)
        and not any(entry.obligations for entry in entries)
    )
