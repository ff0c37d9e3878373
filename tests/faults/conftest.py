"""What fault tests share, and the counts that they report at the end of a run."""

import time
from collections.abc import Callable, Collection
from typing import Any

import pytest

from demur.codes.vocabulary import Verdict
from demur.gate.gate import Gate
from demur.model.record import DecisionRecord

_COUNTS = "faults"
# No answer takes longer than that, however busy the machine is.
PATIENCE_S = 120
REQUEST = {"action": {"type": "refund", "amount": {"value": 20, "currency": "USD"}}}
Report = Callable[[Collection[str], Collection[str]], None]


def decide_allowed(gate: Gate) -> DecisionRecord:
    """Return the first decision that could be stored; others are refused for the store alone."""
    patience = time.monotonic() + PATIENCE_S
    while (record := gate.decide(REQUEST)).verdict is not Verdict.ALLOW:
        assert record.reason_codes == ("STORAGE_UNAVAILABLE",)
        assert time.monotonic() < patience
    return record


@pytest.fixture
def report_counts(record_property: Callable[[str, object], None]) -> Report:
    """Return a check that everything acknowledged is stored; it reports how much that was."""

    def report(acknowledged: Collection[str], stored: Collection[str]) -> None:
        missing = set(acknowledged) - set(stored)
        counts = {"acknowledged": acknowledged, "stored": stored, "missing": missing}
        record_property(_COUNTS, ", ".join(f"{name} {len(ids)}" for name, ids in counts.items()))
        assert missing == set()

    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print one line for each test that reported counts."""
    lines = [
        f"{report.nodeid.partition('::')[2]}: {value}"
        for state in ("passed", "failed")
        for report in terminalreporter.stats.get(state, ())
        for name, value in getattr(report, "user_properties", ())
        if name == _COUNTS
    ]
    if lines:
        terminalreporter.section("decisions under faults")
        for line in lines:
            terminalreporter.write_line(line)
