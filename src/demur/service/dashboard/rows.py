"""A decision as a row of a table."""

import msgspec

from demur.audit.story import amount_text
from demur.errors import InputError
from demur.model.record import DecisionRecord

__all__ = ["Row", "intent_of", "requester_of", "row_of"]

_LONGEST = 160


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A decision as a table row. `tenant` is empty where all rows have the same."""

    decision_id: str
    created_at: str
    tenant: str
    verdict: str
    output: str
    refusal_class: str
    codes: list[str]
    action: str
    amount: str
    intent: str
    who: str
    enforced: bool


def row_of(record: DecisionRecord, *, with_tenant: bool = False) -> Row:
    """Return the row of a record."""
    return Row(
        decision_id=record.decision_id,
        created_at=record.created_at,
        tenant=record.tenant if with_tenant else "",
        verdict=record.verdict,
        output=record.decision_output,
        refusal_class=record.refusal_class or "",
        codes=list(record.reason_codes),
        action=record.action_type,
        amount=amount_text(record),
        intent=_short(intent_of(record)),
        who=requester_of(record),
        enforced=record.enforced,
    )


def intent_of(record: DecisionRecord) -> str:
    """Return the intent of the request, if it has one and was not erased."""
    try:
        personal = record.personal
    except InputError:
        return ""
    action = {} if personal is None else personal.request.get("action")
    intent = action.get("intent") if isinstance(action, dict) else None
    return intent if isinstance(intent, str) else ""


def requester_of(record: DecisionRecord) -> str:
    """Return the requester, if it is known and was not erased."""
    try:
        personal = record.personal
    except InputError:
        return ""
    return "" if personal is None else personal.requester or ""


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\N{HORIZONTAL ELLIPSIS}"
