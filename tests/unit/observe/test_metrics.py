import os
import subprocess
import sys
from math import inf
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from support.gates import NOON, finding, opened, refund
from support.store_records import make_record

from demur.codes.registry import Registry
from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.gate.monitor import Activation, GuardrailMonitor
from demur.observe.metrics import Metrics, find_bucket_quantile
from demur.version import ENGINE_VERSION, __version__

CORE = Registry.load()


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    for family in text_string_to_metric_families(metrics.render_metrics().decode()):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return float(sample.value)
    return None


def activation(**more: Any) -> Activation:
    given: dict[str, Any] = {
        "surface": "input",
        "guard": "g",
        "code": "RCE_RISK",
        "action": "block",
        **more,
    }
    return Activation(time=NOON, **given)


def test_series_that_alerts_look_at_are_there_before_anything_happens() -> None:
    metrics = Metrics(CORE)

    assert value(metrics, "demur_reasons_total", code="RCE_RISK") == 0
    assert value(metrics, "demur_reasons_total", code="_other") == 0
    assert value(metrics, "demur_storage_unavailable_total") == 0
    assert value(metrics, "demur_decision_classes_total", **{"class": "HARD_BLOCK"}) == 0
    assert value(metrics, "demur_decisions_total", verdict="DENY", output="NEED_CONTEXT") == 0


def test_a_gate_counts_its_decisions_through_the_sink() -> None:
    metrics = Metrics(CORE)
    with opened(sinks=(metrics.count_decision,)) as gate:
        gate.decide(refund())
        gate.decide(refund(), findings=[finding("RCE_RISK")])

    refused = {"code": "RCE_RISK", "class": "HARD_BLOCK", "surface": "input", "verdict": "DENY"}
    assert value(metrics, "demur_decisions_total", verdict="ALLOW", output="ALLOW_EXECUTE") == 1
    assert value(metrics, "demur_refusals_total", **refused) == 1
    assert value(metrics, "demur_reasons_total", code="RCE_RISK") == 1
    assert value(metrics, "demur_decision_classes_total", **{"class": "none"}) == 1
    assert value(metrics, "demur_decision_classes_total", **{"class": "HARD_BLOCK"}) == 1


def test_decisions_that_could_not_be_stored_have_a_counter_of_their_own() -> None:
    metrics = Metrics(CORE)
    metrics.count_decision(
        make_record(
            verdict=Verdict.ABSTAIN,
            decision_output=DecisionOutput.REFUSE_WITH_PATH,
            refusal_class=RefusalClass.WORKFLOW_BLOCK,
            reason_codes=("STORAGE_UNAVAILABLE",),
            basis="runtime",
        )
    )

    assert value(metrics, "demur_storage_unavailable_total") == 1


def test_guard_runs_are_counted_and_the_monitor_is_notified() -> None:
    monitor = GuardrailMonitor(clock=lambda: NOON)
    metrics = Metrics(CORE, monitor=monitor)
    metrics.record(activation())
    metrics.count_run("input", "g", "block")
    metrics.count_run("input", "g")
    metrics.record_duration("input", "g", 0.002)

    found = {"surface": "input", "code": "RCE_RISK", "action": "block"}
    assert value(metrics, "demur_guard_activations_total", **found) == 1
    assert value(metrics, "demur_guard_runs_total", surface="input", action="none") == 1
    assert value(metrics, "demur_guard_seconds_count", surface="input") == 1
    assert monitor.report(1).total == 1
    assert monitor.report(1).runs == 2


def test_a_monitor_that_takes_times_gets_them() -> None:
    outer = Metrics(CORE)
    Metrics(CORE, monitor=outer).record_duration("output", "g", 0.1)

    assert value(outer, "demur_guard_seconds_sum", surface="output") == 0.1


def test_metrics_alone_are_a_monitor() -> None:
    metrics = Metrics(CORE)
    metrics.record(activation(surface="moon", code="X", action="sing"))
    metrics.count_run("moon", "g")

    other = {"surface": "_other", "code": "_other", "action": "_other"}
    assert value(metrics, "demur_guard_activations_total", **other) == 1
    assert value(metrics, "demur_guard_runs_total", surface="_other", action="none") == 1


def test_blocks_of_code_are_timed_also_if_they_fail() -> None:
    metrics = Metrics(CORE)
    with pytest.raises(ZeroDivisionError), metrics.time_decision():
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), metrics.time_guards("rate"):
        raise ZeroDivisionError

    assert value(metrics, "demur_decision_seconds_count") == 1
    assert value(metrics, "demur_guard_seconds_count", surface="rate") == 1


def test_metrics_can_be_registered_with_those_of_the_program() -> None:
    collector = CollectorRegistry()
    Metrics(CORE, collector).count_decision(make_record())

    assert collector.get_sample_value(
        "demur_reasons_total", {"code": "REFUND_OVER_ESCALATION_LIMIT"}
    )
    assert Metrics().content_type.startswith("text/plain; version=0.0.4")


CHILD = """
import sys
from demur.observe.metrics import Metrics
metrics = Metrics()
metrics.count_run("input", "g", "warn")
if sys.argv[1] == "last":
    sys.stdout.write(metrics.render_metrics().decode())
"""


def test_processes_that_share_a_directory_are_served_together(tmp_path: Path) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for turn in ("first", "last"):
        ran = subprocess.run(
            [sys.executable, "-c", CHILD, turn],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )

    assert 'demur_guard_runs_total{action="warn",surface="input"} 2.0' in ran.stdout


def test_a_shared_directory_is_what_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = Metrics(CORE)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))

    assert metrics.render_metrics() == b""


def test_the_build_is_named() -> None:
    metrics = Metrics(CORE)
    python = ".".join(map(str, sys.version_info[:3]))
    labels = {"version": __version__, "engine": ENGINE_VERSION, "python": python}

    assert value(metrics, "demur_build_info", **labels) == 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="process metrics read /proc")
def test_the_process_is_measured_unless_the_registry_belongs_to_the_program() -> None:
    measured = value(Metrics(CORE), "process_resident_memory_bytes")

    assert measured is not None
    assert measured > 1_000_000
    assert value(Metrics(CORE, CollectorRegistry()), "process_resident_memory_bytes") is None


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="process metrics read /proc")
def test_each_process_that_shares_a_directory_is_measured(tmp_path: Path) -> None:
    made = """
from demur.observe.metrics import Metrics
import sys
metrics = Metrics()
metrics.count_call("/v1/decide", "POST", 200, 0.01)
print(flush=True)
sys.stdin.readline()
print(metrics.render_metrics().decode())
"""
    variables = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        subprocess.Popen([sys.executable, "-c", made], env=variables, **pipes) as first,  # type: ignore[call-overload]
        subprocess.Popen([sys.executable, "-c", made], env=variables, **pipes) as second,  # type: ignore[call-overload]
    ):
        for process in (first, second):
            process.stdout.readline()
        shown, _ = first.communicate("\n")
        pids = (first.pid, second.pid)
        second.communicate("\n")

    assert 'demur_http_requests_total{method="POST",route="/v1/decide",status="200"} 2.0' in shown
    assert shown.count("\ndemur_build_info{") == 1
    for pid in pids:
        assert f'process_cpu_seconds_total{{pid="{pid}"}}' in shown


@pytest.mark.parametrize(
    ("buckets", "share", "expected"),
    [
        ({}, 0.5, None),
        ({1.0: 0, inf: 0}, 0.5, None),
        ({1.0: 10, inf: 10}, 0.5, 0.5),
        ({1.0: 0, 2.0: 10, inf: 10}, 0.95, 1.95),
        ({1.0: 5, inf: 10}, 0.95, 1.0),
    ],
)
def test_a_quantile_lies_inside_its_bucket(
    buckets: dict[float, float], share: float, expected: float | None
) -> None:
    assert find_bucket_quantile(buckets, share) == expected
