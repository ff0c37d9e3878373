"""What a record answers: the question as it was put, taken from the record alone.

What guards saw, what memory recalled and which grants were genuine is taken as recorded,
because none of it can be found out again. What redaction took out is never guessed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from demur.classification.grants import Rejection
from demur.errors import DemurError, InputError
from demur.gate.engine import Engine, Question
from demur.gate.redaction import REMOVED
from demur.memory.recall import Recall
from demur.memory.settings import MemorySettings
from demur.model.record import DecisionRecord, Personal

__all__ = [
    "Unreplayable",
    "holds_removed",
    "recorded_memory",
    "recorded_question",
    "removed_paths",
]

# Why a genuine grant did not reach a decision: known from the decision, so it is judged anew.
_OUT_OF_REACH = frozenset(
    {
        Rejection.NOT_JUDGED,
        Rejection.OTHER_REQUESTER,
        Rejection.OUT_OF_SCOPE,
        Rejection.LIFTS_NOTHING,
    }
)


class Unreplayable(DemurError):  # noqa: N818 - reads as what it says of a decision
    """A decision that cannot be made again; `where` is what is not there (any more)."""


def recorded_question(record: DecisionRecord, engine: Engine) -> Question:
    """Return the question that a record answers.

    Raises:
        Unreplayable: It was erased, no policy answered it, or redaction removed what policy reads.
        InputError: What is recorded cannot be used.
    """
    if record.basis == "runtime":
        raise Unreplayable("demur itself made this decision, not a policy", where="basis")
    personal = record.personal
    if personal is None:
        raise Unreplayable("what came in was erased", where="sealed")
    if record.basis == "request":
        _check_removed(record, personal, engine)
    return Question(
        request=personal.request,
        findings=personal.findings,
        recall=_recall(record, personal),
        grants=personal.grants,
        accepted=record.accepted,
        attempts_left=record.attempts_left,
        requester=personal.requester,
        scope=personal.scope,
        judged_grants=_judged(record, personal) if personal.grants else {},
    )


def recorded_memory(record: DecisionRecord) -> MemorySettings | None:
    """Return by which settings memory spoke; None where it did not.

    Raises:
        InputError: What is recorded are no settings.
    """
    settings = record.determinism.memory_settings
    if settings is None and record.determinism.memory_digest is None:
        return None
    try:
        return msgspec.convert(settings, MemorySettings)
    except (msgspec.ValidationError, DemurError) as error:
        problem = f"no settings of a memory: {error}"
        raise InputError(problem, where="determinism.memory_settings") from error


def removed_paths(record: DecisionRecord) -> tuple[str, ...]:
    """Return what redaction took out of the request, by path."""
    return () if record.redaction is None else record.redaction.removed


def _recall(record: DecisionRecord, personal: Personal) -> Recall | None:
    digest = record.determinism.memory_digest
    return None if digest is None else Recall.of_signals(personal.risk_signals, digest)


def _check_removed(record: DecisionRecord, personal: Personal, engine: Engine) -> None:
    """Refuse to guess what redaction took out, or blotted out elsewhere, if policy reads it."""
    removed = removed_paths(record)
    if not removed:
        return
    blotted = tuple(_blotted(personal.request, ""))
    if "" in blotted:
        raise Unreplayable("redaction blotted out parts of the request", where="request")
    read = engine.reads(personal.request, (*removed, *blotted))
    if read:
        problem = "redaction removed what the policy compares: nothing is guessed"
        raise Unreplayable(problem, where=", ".join(dict.fromkeys(read)))


def _blotted(value: Any, path: str) -> Iterator[str]:
    """Yield where a removed text was blotted out; of a name, where the named part stands."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if REMOVED in key:
                yield path
            yield from _blotted(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _blotted(item, path)
    elif holds_removed(value):
        yield path


def holds_removed(value: object) -> bool:
    """Return whether a text shows that something was taken out of it."""
    return isinstance(value, str) and REMOVED in value


def _judged(record: DecisionRecord, personal: Personal) -> Mapping[str, str | None]:
    """Return what was found out about each grant when it was used: why not to believe it."""
    grants = {grant.grant_id: grant for grant in personal.grants}
    if any(grants[grant.grant_id] != grant for grant in personal.grants):
        # What is recorded about an id does not say of which of them.
        raise Unreplayable("two grants have one id", where="grants")
    judged: dict[str, str | None] = dict.fromkeys(grants)
    # In a resolution, what was found out before stands before what was found out in it.
    for ignored in record.ignored_grants:
        if ignored.grant_id in judged:
            judged[ignored.grant_id] = None if ignored.why in _OUT_OF_REACH else ignored.why
    return judged
