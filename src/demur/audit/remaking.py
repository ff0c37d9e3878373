"""Rebuild the record of a pack: evaluate the decision again and record it again.

It uses the gate's own engine and recorder, so every field that a gate writes is compared, also
fields that are added to records later.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec.structs import replace

from demur.audit.pack import EARLIER, RECORD, SEALED, Pack, PackError
from demur.audit.recorded import Unreplayable, removed_paths
from demur.errors import DemurError
from demur.gate.asking import PreparedRequest, CheckedInputs, RequestAttempt
from demur.gate.engine import DecisionEngine, EngineResult, EngineInput
from demur.gate.recording import Recorder
from demur.gate.redaction import RedactedRequest
from demur.gate.runtime import resolution_result
from demur.memory.recall import SIGNALS
from demur.model.record import DecisionRecord, Personal
from demur.model.request import Request, read_request
from demur.policy.policy import Mode

__all__ = ["rebuild_record"]


def rebuild_record(
    pack: Pack, personal: Personal, engine: DecisionEngine, engine_input: EngineInput
) -> DecisionRecord:
    """Return the record that the engine input gives now, sealed, without a place in a chain.

    Raises:
        PackError: A part of the pack cannot be used.
        Unreplayable: A needed part is not in the pack.
    """
    record = pack.record
    before = _resolved_record(pack)
    judgement = _evaluate_again(before, engine, engine_input)
    redaction = record.redaction
    profile = "" if redaction is None else redaction.profile
    recorder = Recorder(engine, _parse_mode(record), profile, record.determinism.registry_digest)
    return recorder.build_record(
        replace(
            _rebuild_request(record, personal, engine_input),
            scope=_given_scope(record, personal, before),
        ),
        judgement,
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


def _evaluate_again(
    before: DecisionRecord | None, engine: DecisionEngine, engine_input: EngineInput
) -> EngineResult:
    try:
        if before is None:
            return engine.evaluate(engine_input)
        decision = engine.resolve(before.decision, engine_input)
    except DemurError as error:
        where = SEALED if before is None else EARLIER
        raise PackError(f"cannot be judged: {error.problem}", where=where) from error
    return resolution_result(decision, before.decision_id)


def _rebuild_request(
    record: DecisionRecord, personal: Personal, engine_input: EngineInput
) -> PreparedRequest:
    removed = removed_paths(record)
    signals = personal.risk_signals
    if engine_input.recall is not None:
        signals = {key: value for key, value in signals.items() if key not in SIGNALS}
    return PreparedRequest(
        request=_read_request(personal, removed),
        tenant=record.tenant,
        beside=CheckedInputs(personal.findings, personal.grants, record.accepted, signals),
        redacted=RedactedRequest(personal.request, removed),
        continued=RequestAttempt(record.root_id, record.attempt, record.attempts_left),
        now=_parse_time(record.created_at),
    )


def _given_scope(
    record: DecisionRecord, personal: Personal, before: DecisionRecord | None
) -> Mapping[str, str] | None:
    """Return the recorded scope if it cannot be derived from the request, or None."""
    if before is not None:
        return before.decision.scope
    # The scope was computed before redaction.
    return personal.scope if removed_paths(record) else None


def _read_request(personal: Personal, removed: tuple[str, ...]) -> Request:
    try:
        return read_request(personal.request)
    except DemurError as error:
        if removed:
            problem = "redaction removed what every request needs"
            raise Unreplayable(problem, where=error.where or "request") from error
        raise PackError(f"not a request: {error.problem}", where=SEALED) from error


def _parse_mode(record: DecisionRecord) -> Mode:
    try:
        return Mode(record.policy.mode)
    except ValueError as error:
        raise PackError(f"there is no mode `{record.policy.mode}`", where=RECORD) from error


def _parse_time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise PackError(f"`{text}` is no time", where=RECORD) from error
