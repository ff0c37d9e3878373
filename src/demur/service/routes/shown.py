"""Records as callers see them: all fields but the proofs of the sealed part."""

import re
from typing import Any

from demur.codes.reason_code import ReasonCode
from demur.model.record import DecisionRecord, Personal
from demur.service.call import Call
from demur.service.problem import ProblemError

__all__ = ["as_shown", "record_named"]

_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)
_OPEN = tuple(name for name in DecisionRecord.__struct_fields__ if name != "sealed")
_PROOF = frozenset({"salt", "fingerprint", "inputs_digest"})
_SEALED = tuple(name for name in Personal.__struct_fields__ if name not in _PROOF)


def as_shown(record: DecisionRecord) -> dict[str, Any]:
    """Return the fields of `record.items()` as JSON values.

    The sealed part is decoded once, not once per field.
    """
    personal = record.personal
    shown = {name: getattr(record, name) for name in _OPEN}
    for name in _SEALED:
        shown[name] = None if personal is None else getattr(personal, name)
    return shown


def record_named(call: Call) -> DecisionRecord:
    """Return the record that the path names. May wait for the store.

    Raises:
        ProblemError: There is none, or it is another tenant's; both look the same.
    """
    name = call.path["decision_id"]
    # A text that cannot be an id never reaches the database.
    found = _ID.fullmatch(name) and call.service.store.get(name, call.caller.tenant)
    if not found:
        raise ProblemError(404, ReasonCode.REQUEST_INVALID, "there is no such decision")
    return found
