import logging

import pytest
from gates import opened, refund
from store_records import make_record

from demur.codes.vocabulary import Verdict
from demur.gate.sink import notify_sinks
from demur.model.record import DecisionRecord


def broken(_: DecisionRecord) -> None:
    message = "the sink is full"
    raise OSError(message)


def test_every_sink_is_told_also_after_one_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    told: list[DecisionRecord] = []
    record = make_record()
    with caplog.at_level(logging.ERROR, "demur"):
        notify_sinks([told.append, broken, told.append], record)

    assert told == [record, record]
    assert record.decision_id in caplog.text


def test_a_sink_that_fails_changes_no_decision() -> None:
    with opened(sinks=[broken]) as gate:
        assert gate.decide(refund()).verdict is Verdict.ALLOW


def test_sinks_hear_of_what_was_stored() -> None:
    told: list[DecisionRecord] = []
    with opened(sinks=[told.append]) as gate:
        made = [gate.decide(refund()), *gate.decide_many([refund(), refund(400)])]

    assert told == made
    assert all(record.chain is not None for record in told)
