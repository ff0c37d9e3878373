"""The engine input of a past decision, taken from its record alone.

Findings, recalled experiences and checks of grants are taken as recorded, because they cannot
be repeated. What redaction removed is never guessed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from demur.classification.grants import GrantRejection
from demur.errors import DemurError, InputError
from demur.gate.engine import DecisionEngine, EngineInput
from demur.gate.redaction import REMOVED
from demur.memory.recall import Recall
from demur.memory.settings import MemorySettings
from demur.model.record import DecisionRecord, Personal

__all__ = [
    "Unreplayable",
    "holds_removed",
    "recorded_memory_settings",
    "recorded_input",
    "removed_paths",
]

# Reasons that follow from the decision itself, so they are checked again.
_OUT_OF_REACH = frozenset(
    {
        GrantRejection.NOT_JUDGED,
        GrantRejection.OTHER_REQUESTER,
        GrantRejection.OUT_OF_SCOPE,
        GrantRejection.LIFTS_NOTHING,
    }
)


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
    return EngineInput(
        request=personal.request,
        findings=personal.findings,
        recall=_recorded_recall(record, personal),
        grants=personal.grants,
        accepted=record.accepted,
        attempts_left=record.attempts_left,
        requester=personal.requester,
        scope=personal.scope,
        judged_grants=_recorded_rejections(record, personal) if personal.grants else {},
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


def removed_paths(record: DecisionRecord) -> tuple[str, ...]:
    """Return the paths that redaction removed from the request."""
    return () if record.redaction is None else record.redaction.removed


def _recorded_recall(record: DecisionRecord, personal: Personal) -> Recall | None:
    digest = record.determinism.memory_digest
    return None if digest is None else Recall.from_signals(personal.risk_signals, digest)


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
