"""Convert a decision record to a row and back.

Columns repeat fields of the record. Only `record_columns` says how, so that an audit can compare
every stored column with its record.
"""

from typing import NamedTuple

import msgspec

from demur.model.record import ChainLink, DecisionRecord
from demur.store.backend import StorageError
from demur.store.rows import RecordRow, UnlinkedRow

__all__ = ["RecordColumns", "record_columns", "row_to_record", "record_to_row"]


class _SealedRequester(msgspec.Struct, frozen=True, kw_only=True):
    """The one field of the sealed part that has a column; reading it alone is cheap."""

    requester: str | None = None


_decode_record = msgspec.json.Decoder(DecisionRecord).decode
_decode_requester = msgspec.json.Decoder(_SealedRequester).decode


class RecordColumns(NamedTuple):
    """The columns beside the record itself, for queries, in the order of a row."""

    decision_id: str
    created_at: str
    tenant: str
    request_id: str | None
    root_id: str | None
    subject: str | None
    verdict: str
    decision_output: str
    refusal_class: str | None
    action_type: str
    amount_value: float | None
    amount_currency: str | None
    reason_codes: tuple[str, ...]
    policy_digest: str
    registry_digest: str


def record_columns(record: DecisionRecord) -> RecordColumns:
    """Return the columns of a record; an erased record has no subject."""
    amount, refusal_class = record.amount, record.refusal_class
    return RecordColumns(
        record.decision_id,
        record.created_at,
        record.tenant,
        record.request_id,
        record.root_id,
        None if record.sealed is None else _decode_requester(record.sealed).requester,
        record.verdict.value,
        record.decision_output.value,
        None if refusal_class is None else refusal_class.value,
        record.action_type,
        None if amount is None or amount.value is None else float(amount.value),
        None if amount is None else amount.currency,
        record.reason_codes,
        record.determinism.policy_digest,
        record.determinism.registry_digest,
    )


def record_to_row(record: DecisionRecord) -> UnlinkedRow:
    """Return the row of a record that has no place in the chain yet."""
    return UnlinkedRow(*record_columns(record), record.open_bytes(), record.sealed)


def row_to_record(row: RecordRow) -> DecisionRecord:
    """Return the record in a row, with its sealed part and its place in the chain.

    Raises:
        StorageError: The row holds no decision record.
    """
    try:
        record = _decode_record(row.record)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StorageError(f"not a decision record: {error}", where=row.decision_id) from error
    link = ChainLink(seq=row.seq, previous=row.previous, hash=row.hash)
    return msgspec.structs.replace(record, sealed=row.sealed, chain=link)
