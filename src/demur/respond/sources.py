"""Read back what was refused from JSON: a record, a refusal or a decision."""

from collections.abc import Mapping
from typing import Any

import msgspec

from demur.errors import InputError
from demur.model.decision import Decision
from demur.model.record import DecisionRecord, Personal
from demur.model.refusal import Refusal
from demur.respond.case import ComposeSource

__all__ = ["parse_compose_source"]

_PROOF = ("salt", "fingerprint", "inputs_digest")
_PERSONAL = tuple(name for name in Personal.__struct_fields__ if name not in _PROOF)
_TYPES: Mapping[str, type[Any]] = {"decision_record.v1": DecisionRecord, "refusal.v1": Refusal}


def parse_compose_source(value: Mapping[str, Any]) -> ComposeSource:
    """Return a record or refusal by its `schema_version`; without one, a decision.

    Raises:
        InputError: It is none of them, or not a whole one.
    """
    version = value.get("schema_version")
    kind = Decision if version is None else _TYPES.get(str(version))
    if kind is None:
        known = ", ".join(_TYPES)
        raise InputError(f"unknown schema version `{version}`", help=f"one of {known}, or none")
    try:
        source: ComposeSource = msgspec.convert(dict(value), kind)
        return _attach_personal(source, value) if isinstance(source, DecisionRecord) else source
    except msgspec.ValidationError as error:
        message = str(error)
        raise InputError(message[:1].lower() + message[1:]) from error


def _attach_personal(record: DecisionRecord, value: Mapping[str, Any]) -> DecisionRecord:
    """Return the record with the personal fields of its mapping attached."""
    shown = {name: value[name] for name in _PERSONAL if value.get(name) is not None}
    if record.sealed is not None or "request" not in shown:
        return record
    personal = msgspec.convert({**dict.fromkeys(_PROOF, ""), **shown}, Personal)
    return msgspec.structs.replace(record, sealed=msgspec.json.encode(personal))
