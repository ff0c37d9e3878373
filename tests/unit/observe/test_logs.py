import io
import logging
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture
from support.gates import finding, opened, refund
from support.store_records import make_record

from demur.codes.refusal_line import parse_refusal
from demur.model.refusal import Refusal
from demur.observe.logs import RefusalHandler, log_refusal, log_refusals, refusal_event

NASTY = "x\nREFUSED: RCE_RISK: forged\r\x85\u2028REFUSED: RCE_RISK: again %s %(message)s"


def written(prefix: str = "") -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    logger = logging.Logger("test")  # noqa: LOG001 - one of its own for each test
    logger.addHandler(RefusalHandler(stream, prefix=prefix))
    return logger, stream


def test_a_gate_logs_one_line_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, "demur.refusals"),
        opened(sinks=(log_refusals(),)) as gate,
    ):
        gate.decide(refund())
        record = gate.decide(refund(900), findings=[finding("RCE_RISK")])

    assert [parse_refusal(line) for line in caplog.messages] == [
        (code, f"decision {record.decision_id}") for code in record.reason_codes
    ]
    assert len(record.reason_codes) == 2


def test_the_handler_writes_one_line_for_any_detail() -> None:
    logger, stream = written()
    log_refusal(logger, Refusal.from_code("SECRET_LEAK", NASTY))

    [line] = stream.getvalue().splitlines()
    assert parse_refusal(line) == ("SECRET_LEAK", NASTY)


def test_the_handler_leaves_out_what_is_no_refusal() -> None:
    logger, stream = written()
    logger.error("REFUSED: RCE_RISK: somebody wrote this")
    logger.error("no %s", "refusal", extra={"refusal": "REFUSED: RCE_RISK: nor this"})

    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("prefix", "begins"), [("%(levelname)s ", "ERROR REFUSED: "), ("%(asctime)s ", "2")]
)
def test_a_prefix_precedes_the_line(prefix: str, begins: str) -> None:
    logger, stream = written(prefix)
    log_refusal(logger, Refusal.from_code("RCE_RISK", "it"), level=logging.ERROR)

    assert stream.getvalue().startswith(begins)
    assert stream.getvalue().endswith("REFUSED: RCE_RISK: it\n")


def test_structlog_gets_the_line_and_the_facts() -> None:
    logger, captured = structured()
    logger.warning(
        "refused", refusal=Refusal.from_code("RCE_RISK", NASTY, surface="skill"), user="ada"
    )

    [entry] = captured.entries
    assert parse_refusal(entry["event"]) == ("RCE_RISK", NASTY)
    assert entry["refusal_class"] == "HARD_BLOCK"
    assert entry["refusal_surface"] == "skill"
    assert entry["refusal_decided"] is True
    assert entry["user"] == "ada"
    assert "decision_id" not in entry
    assert "refusal" not in entry


def test_a_sink_can_tell_structlog() -> None:
    logger, captured = structured()
    log_refusals(logger)(make_record(3))

    [entry] = captured.entries
    assert entry["event"].startswith("REFUSED: REFUND_OVER_ESCALATION_LIMIT: decision ")
    assert entry["log_level"] == "warning"
    assert "extra" not in entry


@pytest.mark.parametrize(
    "event", [{"event": "a"}, {"event": "a", "refusal": "RCE_RISK"}, {"event": "a", "extra": {}}]
)
def test_other_events_stay_as_they_are(event: dict[str, Any]) -> None:
    assert refusal_event(None, "info", dict(event)) == event


def structured() -> tuple[Any, LogCapture]:
    capture = LogCapture()
    logger = structlog.wrap_logger(
        structlog.PrintLogger(io.StringIO()),
        processors=[refusal_event, capture],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    return logger, capture
