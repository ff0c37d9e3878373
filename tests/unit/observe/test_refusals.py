from store_records import make_record

from demur.codes.registry import Registry
from demur.observe.labels import MetricLabels
from demur.observe.refusals import iter_refusals

LABELS = MetricLabels(Registry.load())


def test_each_registered_reason_is_a_refusal_that_names_its_decision() -> None:
    record = make_record(7, reason_codes=("RCE_RISK", "acme.com/LATE", "CHARGEBACK_RISK_BLOCK"))

    first, second = iter_refusals(record, LABELS)

    assert first.line == f"REFUSED: RCE_RISK: decision {record.decision_id}"
    assert (second.code, second.surface) == ("CHARGEBACK_RISK_BLOCK", "policy")
    assert second.decision_id == record.decision_id


def test_nothing_personal_is_in_them() -> None:
    record = make_record(sealed={"requester": "user:ada", "request": {"note": "hush"}})

    assert "ada" not in repr(list(iter_refusals(record, LABELS)))
    assert "hush" not in repr(list(iter_refusals(record, LABELS)))
