"""A refusal as a CloudEvents 1.0 event, in the JSON format.

Two types, because they are two facts: something was refused, or nothing could be judged.
Code and class stand beside the data as well, since brokers filter by attributes alone.
"""

from datetime import datetime
from typing import Any

from demur.emit.envelope import from_envelope, nested_value, to_envelope
from demur.emit.moments import to_utc
from demur.errors import InputError
from demur.model.refusal import Refusal

__all__ = ["DECIDED_TYPE", "DATA_SCHEMA", "UNDECIDED_TYPE", "from_cloudevents", "to_cloudevents"]

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
    if nested_value(data, "specversion") != "1.0" or nested_value(data, "type") not in (
        DECIDED_TYPE,
        UNDECIDED_TYPE,
    ):
        return None
    return from_envelope(nested_value(data, "data"))
