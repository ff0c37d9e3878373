import msgspec
from gates import opened, refund

from demur.service.dashboard.rows import request_intent, request_subject, decision_row


def test_a_row_is_short_and_survives_what_was_erased_or_spoiled() -> None:
    with opened() as gate:
        request = refund()
        request["action"]["intent"] = "a" * 500
        record = gate.decide(request, tenant="acme")
    erased = msgspec.structs.replace(record, sealed=None)
    spoiled = msgspec.structs.replace(record, sealed=b"{")

    assert len(decision_row(record).intent) == 161
    assert decision_row(record, with_tenant=True).tenant == "acme"
    assert decision_row(record).tenant == ""
    assert decision_row(record).who == "agent:billing"
    for other in (erased, spoiled):
        assert request_intent(other) == request_subject(other) == ""
