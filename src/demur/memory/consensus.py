"""Apply recalled experiences to a verdict.

Similarity to a failure tightens. Similarity to a success lifts an escalation, if the operator
turned that on, and only where a person's approval would have been enough.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from demur.codes.entry import Entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import GrantKind, RefusalClass, Verdict
from demur.memory.recall import Recall
from demur.memory.settings import MemorySettings

__all__ = ["ALLOW_CODE", "BLOCK_CODE", "ESCALATE_CODE", "MemoryAdjustment", "apply_memory"]

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
        UnknownCodeError: A code is not registered.
    """
    entries = [registry[code] for code in reason_codes]
    before = MemoryAdjustment(verdict, tuple(reason_codes))
    # INVARIANT: memory never relaxes a DENY or an ABSTAIN.
    if verdict in {Verdict.DENY, Verdict.ABSTAIN}:
        return before
    if recall.grave_score >= settings.block:
        return _tighten_verdict(before, Verdict.DENY, BLOCK_CODE)
    # INVARIANT: a failure match beats a success match.
    if recall.failure.score >= settings.escalate:
        return _tighten_verdict(before, Verdict.ESCALATE, ESCALATE_CODE)
    alike = settings.lift and recall.success.score >= settings.allow
    if alike and verdict is Verdict.ESCALATE and not obligations and _is_liftable(entries):
        return _lift_verdict(entries)
    return before


def _tighten_verdict(before: MemoryAdjustment, verdict: Verdict, reason: str) -> MemoryAdjustment:
    codes = tuple(dict.fromkeys((*before.reason_codes, reason)))
    changed = (verdict, codes) != before[:2]
    return MemoryAdjustment(verdict, codes, changed=changed)


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


def _lift_verdict(entries: Sequence[Entry]) -> MemoryAdjustment:
    kept = [entry.code for entry in entries if entry.refusal_class is None]
    resolved = tuple(entry.code for entry in entries if entry.refusal_class is not None)
    codes = tuple(dict.fromkeys((*kept, ALLOW_CODE)))
    return MemoryAdjustment(Verdict.ALLOW, codes, resolved, changed=True)
