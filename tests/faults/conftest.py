"""The counts that fault tests report: they are printed at the end of a run."""

from collections.abc import Callable, Collection
from typing import Any

import pytest

_COUNTS = "faults"
Report = Callable[[Collection[str], Collection[str]], None]


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
