"""A decision as a row of a table."""

import msgspec

from demur.audit.story import format_amount
from demur.errors import InputError
from demur.model.record import DecisionRecord

__all__ = ["DecisionRow", "request_intent", "request_subject", "decision_row"]

_MAX_INTENT_LENGTH = 160


class DecisionRow(msgspec.Struct, frozen=True, kw_only=True):
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


def decision_row(record: DecisionRecord, *, with_tenant: bool = False) -> DecisionRow:
    """Return the row of a record."""
    return DecisionRow(
        decision_id=record.decision_id,
        created_at=record.created_at,
        tenant=record.tenant if with_tenant else "",
        verdict=record.verdict,
        output=record.decision_output,
        refusal_class=record.refusal_class or "",
        codes=list(record.reason_codes),
        action=record.action_type,
        amount=format_amount(record),
        intent=_shorten_intent(request_intent(record)),
        who=request_subject(record),
        enforced=record.enforced,
    )


def request_intent(record: DecisionRecord) -> str:
    """Return the intent of the request, if it has one and was not erased."""
    try:
        personal = record.personal
    except InputError:
        return ""
    action = {} if personal is None else personal.request.get("action")
    intent = action.get("intent") if isinstance(action, dict) else None
    return intent if isinstance(intent, str) else ""


def request_subject(record: DecisionRecord) -> str:
    """Return the requester, if it is known and was not erased."""
    try:
        personal = record.personal
    except InputError:
        return ""
    return "" if personal is None else personal.requester or ""


def _shorten_intent(text: str) -> str:
    return (
        text
        if len(text) <= _MAX_INTENT_LENGTH
        else f"{text[:_MAX_INTENT_LENGTH]}\N{HORIZONTAL ELLIPSIS}"
    )
