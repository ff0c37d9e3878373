"""A refusal as an event: CloudEvents 1.0, and an OCSF Detection Finding for a SIEM.

"Refused" and "could not judge" are different facts: two CloudEvents types, and different OCSF
dispositions. CloudEvents repeats code and class beside the data, because brokers filter by
attributes alone. A refusal that was not judged is an OCSF error, and says nothing about
whether the action ran.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from demur.codes.entry import Entry
from demur.codes.loading import registry_or_core
from demur.codes.registry import Registry
from demur.codes.vocabulary import GrantKind, RefusalClass, Severity
from demur.emit.envelope import from_envelope, nested_value, to_envelope
from demur.errors import InputError
from demur.model.refusal import Refusal
from demur.version import __version__

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_utc(moment: datetime) -> datetime:
    """Return the same moment in UTC.

    Raises:
        InputError: It has no time zone, or is out of range.
    """
    if moment.tzinfo is None:
        raise InputError("the time needs a time zone", help="like 2027-01-31T12:00:00Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise InputError("the time is out of range") from error


def to_milliseconds(moment: datetime) -> int:
    """Return the whole milliseconds since 1970.

    Raises:
        InputError: It has no time zone, or is out of range.
    """
    return (to_utc(moment) - _EPOCH) // timedelta(milliseconds=1)


DECIDED_TYPE = "demur.refusal.decided.v1"
UNDECIDED_TYPE = "demur.refusal.undecided.v1"
DATA_SCHEMA = "urn:demur:schema:refusal.v1"


def to_cloudevents(
    refusal: Refusal, *, event_id: str, time: datetime, source: str, subject: str | None = None
) -> dict[str, Any]:
    """Return the event. `source` is the URI of the enforcer, `subject` the refused action.

    `source` and `event_id` together must be unique.

    Raises:
        InputError: The code allows, id or source is empty, or the time has no zone.
    """
    envelope = to_envelope(refusal)
    for name, value in (("an id", event_id), ("a source", source)):
        if not value:
            raise InputError(f"an event needs {name}")
    # INVARIANT: an event keeps the whole refusal.
    return {
        "specversion": "1.0",
        "id": event_id,
        "source": source,
        "type": DECIDED_TYPE if refusal.decided else UNDECIDED_TYPE,
        **({"subject": subject} if subject else {}),
        "time": to_utc(time).isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "dataschema": DATA_SCHEMA,
        "refusalcode": refusal.code,
        "refusalclass": str(refusal.refusal_class),
        "data": envelope,
    }


def from_cloudevents(data: object) -> Refusal | None:
    """Return the refusal in an event, or None."""
    known = nested_value(data, "type") in (DECIDED_TYPE, UNDECIDED_TYPE)
    if not known or nested_value(data, "specversion") != "1.0":
        return None
    return from_envelope(nested_value(data, "data"))


OCSF_VERSION = "1.5.0"

_DETECTION_FINDING = 2004
_FINDINGS = 2
_CREATE = 1


class _OcsfValue(NamedTuple):
    """A value of the schema: its number and its caption."""

    number: int
    caption: str


_UNKNOWN, _DENIED = _OcsfValue(0, "Unknown"), _OcsfValue(2, "Denied")
_BLOCKED, _REJECTED = _OcsfValue(2, "Blocked"), _OcsfValue(25, "Rejected")
_UNAUTHORIZED, _ERROR = _OcsfValue(26, "Unauthorized"), _OcsfValue(27, "Error")
_CAPTIONS = ("Informational", "Low", "Medium", "High", "Critical")
_SEVERITY = {
    severity: _OcsfValue(number, caption)
    for number, (severity, caption) in enumerate(zip(Severity, _CAPTIONS, strict=True), 1)
}
_AUTHORITY = {GrantKind.APPROVAL, GrantKind.AUTHORIZATION}


def to_ocsf(
    refusal: Refusal, *, event_id: str, time: datetime, registry: Registry | None = None
) -> dict[str, Any]:
    """Return the finding. `unmapped`, which OCSF reserves for other data, holds the envelope.

    Raises:
        InputError: The code allows, the id is empty, or the time has no zone.
    """
    envelope = to_envelope(refusal)
    if not event_id:
        raise InputError("an event needs an id")
    entry = (registry_or_core() if registry is None else registry).get(refusal.code)
    # INVARIANT: a finding keeps the whole refusal.
    return {
        "category_uid": _FINDINGS,
        "class_uid": _DETECTION_FINDING,
        "activity_id": _CREATE,
        "type_uid": _DETECTION_FINDING * 100 + _CREATE,
        "time": to_milliseconds(time),
        **_id_and_caption("severity", _SEVERITY[refusal.severity]),
        **_id_and_caption("action", _DENIED if refusal.decided else _UNKNOWN),
        **_id_and_caption("disposition", _ocsf_disposition(refusal, entry)),
        "message": refusal.line,
        "finding_info": _finding_info(refusal, entry, event_id),
        "metadata": _ocsf_metadata(refusal, event_id),
        "unmapped": {"refusal": envelope},
    }


def from_ocsf(data: object) -> Refusal | None:
    """Return the refusal in a finding, or None."""
    if nested_value(data, "class_uid") != _DETECTION_FINDING:
        return None
    return from_envelope(nested_value(data, "unmapped", "refusal"))


def _id_and_caption(field: str, word: _OcsfValue) -> dict[str, Any]:
    return {f"{field}_id": word.number, field: word.caption}


def _ocsf_disposition(refusal: Refusal, entry: Entry | None) -> _OcsfValue:
    # INVARIANT: what was not judged is an error, never a block.
    if not refusal.decided:
        return _ERROR
    if refusal.refusal_class is RefusalClass.HARD_BLOCK:
        return _BLOCKED
    waits = entry is not None and not _AUTHORITY.isdisjoint(entry.grants)
    return _UNAUTHORIZED if waits else _REJECTED


def _finding_info(refusal: Refusal, entry: Entry | None, event_id: str) -> dict[str, Any]:
    name = refusal.source.name if refusal.source else "demur"
    return {
        "uid": event_id,
        "title": entry.title if entry else refusal.code,
        **({"desc": entry.summary, "types": [entry.family]} if entry else {}),
        "analytic": {"type_id": 1, "type": "Rule", "uid": refusal.code, "name": name},
    }


def _ocsf_metadata(refusal: Refusal, event_id: str) -> dict[str, Any]:
    metadata = {
        "version": OCSF_VERSION,
        "uid": event_id,
        "event_code": refusal.code,
        "profiles": ["security_control"],
        "product": {"name": "demur", "vendor_name": "demur", "version": __version__},
    }
    if refusal.decision_id is not None:
        metadata["correlation_uid"] = refusal.decision_id
    return metadata
