import msgspec
from gates import opened, refund

from demur.service.dashboard.rows import intent_of, requester_of, row_of


def test_a_row_is_short_and_survives_what_was_erased_or_spoiled() -> None:
    with opened() as gate:
        request = refund()
        request["action"]["intent"] = "a" * 500
        record = gate.decide(request, tenant="acme")
    erased = msgspec.structs.replace(record, sealed=None)
    spoiled = msgspec.structs.replace(record, sealed=b"{")

    assert len(row_of(record).intent) == 161
    assert row_of(record, with_tenant=True).tenant == "acme"
    assert row_of(record).tenant == ""
    assert row_of(record).who == "agent:billing"
    for other in (erased, spoiled):
        assert intent_of(other) == requester_of(other) == ""
