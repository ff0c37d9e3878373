import json
from pathlib import Path

import pytest
from support.command_line import demur
from support.gates import finding, gate_over, refund

from demur.gate.clock import system_clock
from demur.gate.monitor import Activation, GuardrailMonitor
from demur.store.opening import open_store


@pytest.fixture
def store(workspace: Path) -> Path:
    """Return a folder whose store has findings of two tenants, one of them the sample."""
    with gate_over(open_store(workspace / "demur.db"), clock=system_clock) as gate:
        gate.decide(refund(), findings=[finding("RCE_RISK")], tenant="acme")
        gate.decide(refund(), findings=[finding("SECRET_LEAK")], tenant="sample")
    return workspace


@pytest.mark.usefixtures("store")
def test_the_report_counts_what_guards_found_without_sample_decisions() -> None:
    shown = demur("guard", "report")

    assert shown.status == 0
    assert "By code: RCE_RISK 1\n" in shown.out
    assert "GUARD  RUNS  FOUND  STOPPED" in shown.out
    assert "SECRET_LEAK" not in shown.out
    assert "made-up decisions are left out" in shown.err
    assert "SECRET_LEAK 1" in demur("guard", "report", "--tenant", "sample").out


@pytest.mark.usefixtures("store")
def test_the_report_is_data_too() -> None:
    report = json.loads(demur("guard", "report", "--days", "1", "--json").out)

    assert report["by_code"] == {"RCE_RISK": 1}
    assert report["guards"][0]["guard"] == "input"


def test_a_file_of_a_monitor_is_reported(workspace: Path) -> None:
    path = workspace / "guards.jsonl"
    monitor = GuardrailMonitor(path)
    monitor.record(
        Activation(
            time=system_clock(), surface="input", guard="mine", code="RCE_RISK", action="block"
        )
    )
    shown = demur("guard", "report", "--activations", path)

    assert "input/mine" in shown.out


@pytest.mark.parametrize(
    "options",
    [["--days", "0"], ["--days", "400"], ["--activations", "none.jsonl"]],
)
def test_options_that_cannot_be_are_refused(workspace: Path, options: list[str]) -> None:
    assert demur("guard", "report", *options).status != 0
    assert workspace.exists()
