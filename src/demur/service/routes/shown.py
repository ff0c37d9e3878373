"""Records as callers see them: all fields but the proofs of the sealed part."""

import re
from typing import Any

from demur.codes.reason_code import ReasonCode
from demur.model.record import DecisionRecord, Personal
from demur.service.call import ApiCall
from demur.service.problem import ProblemError

__all__ = ["record_view", "require_record"]

_ID_PATTERN = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)
_OPEN_FIELDS = tuple(name for name in DecisionRecord.__struct_fields__ if name != "sealed")
_PROOF_FIELDS = frozenset({"salt", "fingerprint", "inputs_digest"})
_SEALED_FIELDS = tuple(name for name in Personal.__struct_fields__ if name not in _PROOF_FIELDS)


def record_view(record: DecisionRecord) -> dict[str, Any]:
    """Return the fields of `record.items()` as JSON values.

    The sealed part is decoded once, not once per field.
    """
    personal = record.personal
    shown = {name: getattr(record, name) for name in _OPEN_FIELDS}
    for name in _SEALED_FIELDS:
        shown[name] = None if personal is None else getattr(personal, name)
    return shown


def require_record(call: ApiCall) -> DecisionRecord:
    """Return the record that the path names. May wait for the store.

    Raises:
        ProblemError: There is none, or it is another tenant's; both look the same.
    """
    name = call.path["decision_id"]
    # A text that cannot be an id never reaches the database.
    found = _ID_PATTERN.fullmatch(name) and call.service.store.get(name, call.caller.tenant)
    if not found:
        raise ProblemError(404, ReasonCode.REQUEST_INVALID, "there is no such decision")
    return found
