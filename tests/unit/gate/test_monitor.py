import json
import logging
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gates import NOON, Ticking

from demur.errors import InputError, InputTypeError
from demur.gate.monitor import (
    MAX_PREVIEW_LENGTH,
    Activation,
    GuardrailMonitor,
    GuardThresholds,
    build_guard_report,
    count_findings,
    preview_text,
)
from demur.model.finding import Span
from demur.store.rows import FindingTally


def activation(**more: Any) -> Activation:
    usual: dict[str, Any] = {
        "time": NOON,
        "surface": "input",
        "guard": "input",
        "code": "CONTENT_CYBER",
        "action": "block",
    }
    return Activation(**{**usual, **more})


def watching(**settings: Any) -> tuple[GuardrailMonitor, Ticking]:
    clock = Ticking()
    return GuardrailMonitor(clock=clock, **settings), clock


def runs(monitor: GuardrailMonitor, count: int, action: str = "", guard: str = "input") -> None:
    for _ in range(count):
        monitor.count_run("input", guard, action)


def kinds(monitor: GuardrailMonitor, days: float = 7) -> list[str]:
    return [found.kind for found in monitor.report(days).warnings]


def test_a_run_with_many_findings_is_stopped_once() -> None:
    monitor, _ = watching()
    for _ in range(30):
        monitor.record(activation())
    runs(monitor, 1, "block")
    runs(monitor, 199)
    # Nobody counts the runs of a guard outside: its findings stand for them.
    monitor.record(activation(guard="other", surface="output"))
    report = monitor.report()

    assert (report.runs, report.stopped, report.total) == (200, 2, 31)
    assert report.daily[-1].stopped == 2
    assert report.by_action == {"block": 31}
    assert report.warnings == ()
    assert "Total activations: 31 in 200 runs, 2 stopped (1.0%)" in str(report)


def test_it_counts_by_surface_action_and_code() -> None:
    monitor, _ = watching()
    for code, action, surface in (
        ("CONTENT_CYBER", "block", "input"),
        ("CONTENT_CYBER", "warn", "input"),
        ("SECRET_LEAK", "escalate", "output"),
    ):
        monitor.record(activation(code=code, action=action, surface=surface))
    runs(monitor, 3)
    runs(monitor, 1, "block")
    report = monitor.report()

    assert report.total == 3
    assert report.runs == 4
    assert report.stopped == 2
    assert report.by_surface == {"input": 2, "output": 1}
    assert report.by_action == {"block": 1, "escalate": 1, "warn": 1}
    assert report.by_code == {"CONTENT_CYBER": 2, "SECRET_LEAK": 1}
    assert report.by_guard == {"input": 3}
    assert (report.since, report.until) == ("2026-11-08T12:00:00.000Z", "2026-11-15T12:00:00.000Z")
    assert report.warnings == ()


def test_the_report_reads_as_text() -> None:
    monitor, _ = watching(thresholds=GuardThresholds(max_blocks=1))
    monitor.record(activation(time=NOON - timedelta(days=9)))
    for _ in range(2):
        monitor.record(activation())

    assert str(monitor.report()) == (
        "Guardrail report (last 7 days)\n"
        "Total activations: 2, 2 stopped\n"
        "By surface: input 2\n"
        "By action: block 2\n"
        "By code: CONTENT_CYBER 2\n"
        "Trend: 2 times as many as in the 7 days before\n"
        "warning[high_block_rate] input/input stopped 2 requests\n"
        "  help: look for false positives: read some of its previews"
    )


def test_an_empty_report_is_short() -> None:
    monitor, _ = watching()

    assert str(monitor.report(1)) == (
        "Guardrail report (last 1 day)\nTotal activations: 0, 0 stopped"
    )


def test_only_the_requested_days_count() -> None:
    monitor, clock = watching()
    monitor.record(activation())
    clock.advance(days=6)
    assert monitor.report(7).total == 1
    assert monitor.report(2).total == 0
    clock.advance(days=2)

    assert monitor.report(7).total == 0
    assert monitor.report(30).total == 1


def test_the_report_counts_each_day() -> None:
    monitor, clock = watching()
    monitor.record(activation())
    clock.advance(days=1)
    monitor.record(activation(time=clock.now, action="warn"))
    days = monitor.report(3).daily

    assert [(day.activations, day.stopped) for day in days] == [(0, 0), (1, 1), (1, 0)]


# -- what looks wrong ------------------------------------------------------------------------


def test_a_guard_that_stops_too_much_is_suspicious() -> None:
    monitor, _ = watching()
    runs(monitor, 80)
    runs(monitor, 20, "block")
    [found] = monitor.report().warnings

    assert found.kind == "high_block_rate"
    assert found.message == "stops 20% of what it sees (20 of 100)"
    assert "false positives" in found.help


def test_a_few_runs_prove_nothing() -> None:
    monitor, _ = watching()
    runs(monitor, 10)
    runs(monitor, 20, "block")

    assert kinds(monitor) == []


def test_warnings_of_a_guard_do_not_count_as_stops() -> None:
    monitor, _ = watching()
    runs(monitor, 80)
    runs(monitor, 40, "warn")

    assert kinds(monitor) == []


def test_where_runs_are_not_counted_more_than_a_hundred_blocks_are_many() -> None:
    monitor, _ = watching()
    for _ in range(101):
        monitor.record(activation())

    assert kinds(monitor) == ["high_block_rate"]


@pytest.mark.parametrize(("last", "word"), [(90, "more"), (2, "fewer")])
def test_a_sudden_change_is_suspicious(last: int, word: str) -> None:
    monitor, clock = watching()
    for _ in range(6):
        runs(monitor, 975)
        runs(monitor, 25, "block")
        clock.advance(days=1)
    runs(monitor, 1000 - last)
    runs(monitor, last, "block")
    [found] = monitor.report().warnings

    assert found.kind == "sudden_change"
    assert f"stopped {last} in the last day, {word} than the 25 to be expected" == found.message


def test_more_traffic_alone_is_no_change() -> None:
    monitor, clock = watching()
    for _ in range(6):
        runs(monitor, 975)
        runs(monitor, 25, "block")
        clock.advance(days=1)
    runs(monitor, 9750)
    runs(monitor, 250, "block")

    assert kinds(monitor) == []


def test_a_sudden_change_is_reported_without_counted_runs() -> None:
    monitor, clock = watching(thresholds=GuardThresholds(max_blocks=10_000))
    for day in range(7):
        for _ in range(90 if day == 6 else 10):
            monitor.record(activation(time=clock.now))
        clock.advance(days=day < 6)

    assert kinds(monitor) == ["sudden_change"]
    assert kinds(monitor, days=1) == []


def test_a_guard_that_never_speaks_is_suspicious() -> None:
    monitor, _ = watching()
    runs(monitor, 1000, guard="deaf")
    [found] = monitor.report().warnings

    assert (found.kind, found.guard) == ("never_fires", "deaf")
    assert found.message == "never spoke in 1000 runs"


def test_a_failing_guard_is_a_warning() -> None:
    monitor, _ = watching()
    runs(monitor, 50)
    monitor.record(activation(code="GUARDRAIL_UNAVAILABLE", action="warn"))
    report = monitor.report()

    assert report.failures == 1
    assert [found.message for found in report.warnings] == ["gave no verdict 1 times in 50 runs"]


def test_a_failure_outside_counted_runs_is_a_warning_too() -> None:
    monitor, _ = watching()
    monitor.record(activation(code="GUARDRAIL_UNAVAILABLE"))

    assert [found.message for found in monitor.report().warnings] == ["gave no verdict 1 times"]


# -- memory, threads, files ------------------------------------------------------------------


def test_memory_is_bounded_whatever_comes() -> None:
    monitor, clock = watching(max_hours=48, max_recent=10)
    for number in range(3000):
        monitor.record(activation(guard=f"guard {number}", preview=str(number)))
    for _ in range(100):
        clock.advance(hours=1)
        monitor.record(activation(time=clock.now))

    assert len(monitor.activations) == 10
    assert len(monitor._hours) == 48
    assert all(len(counts) <= 2001 for counts in monitor._hours.values())
    assert monitor.report(30).total == 48


def test_guards_over_the_limit_are_counted_together() -> None:
    monitor, _ = watching()
    for number in range(2100):
        monitor.record(activation(guard=f"guard {number}"))
        monitor.count_run("input", f"guard {number}")
    report = monitor.report()

    assert report.total == 2100
    assert report.runs == 2100
    assert report.by_surface["others"] > 0


def test_threads_lose_no_count() -> None:
    monitor, _ = watching()

    def work() -> None:
        for _ in range(300):
            monitor.record(activation())
            monitor.count_run("input", "input", "block")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (monitor.report().total, monitor.report().runs) == (2400, 2400)


def test_each_activation_is_a_line_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "guards.jsonl"
    monitor, _ = watching(path=path)
    monitor.record(activation(preview="a “line”\u2028", milliseconds=0.25))
    [line] = path.read_text(encoding="utf-8").split("\n")[:-1]

    assert json.loads(line) == {
        "time": "2026-11-15T12:00:00Z",
        "surface": "input",
        "guard": "input",
        "code": "CONTENT_CYBER",
        "action": "block",
        "preview": "a “line”\u2028",
        "milliseconds": 0.25,
    }


def test_activations_in_the_file_are_counted_again(tmp_path: Path) -> None:
    path = tmp_path / "guards.jsonl"
    first, _ = watching(path=path)
    first.record(activation())
    with path.open("a", encoding="utf-8") as file:
        file.write('{"time": "2026-11-15T12:0')
    second, _ = watching(path=path)
    second.record(activation())

    assert second.report().total == 2
    assert second.activations == (activation(), activation())


def test_an_unwritable_file_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monitor, _ = watching(path=tmp_path / "missing" / "guards.jsonl")
    with caplog.at_level(logging.WARNING, "demur"):
        for _ in range(3):
            monitor.record(activation())
    assert len(caplog.records) == 1
    (tmp_path / "missing").mkdir()
    monitor.record(activation())

    assert monitor.report().total == 4
    assert len((tmp_path / "missing/guards.jsonl").read_text().splitlines()) == 1


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the activations"):
        GuardrailMonitor(tmp_path)


# -- what others log -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("CONTENT_CYBER", "CONTENT_CYBER"),
        ("REFUSED: RATE_LIMIT: too many", "RATE_LIMIT"),
        ("Output contains forbidden content", "OUTPUT_FORBIDDEN"),
        ("Potential crisis - requires human intervention", "CRISIS_ESCALATION"),
        ("somebody felt like it", "unmapped: somebody felt like it"),
        ("MY_OWN_REASON", "unmapped: MY_OWN_REASON"),
        ("mail of mary@example.com", "unmapped: mail of [removed]"),
        ("", "unknown"),
    ],
)
def test_other_guards_can_be_logged(reason: str, code: str) -> None:
    monitor, _ = watching()
    monitor.log("input", "block", reason, "how do I ... mary@example.com", NOON)
    report = monitor.report()

    assert report.by_code == {code: 1}
    assert monitor.activations[0].preview == "how do I ... [removed]"


def test_a_log_without_a_time_is_now_and_a_naive_time_is_utc() -> None:
    monitor, _ = watching()
    monitor.log("input", "block", "RCE_RISK", "x")
    monitor.log("input", "block", "RCE_RISK", "x", datetime(2026, 11, 15, 11))  # noqa: DTZ001 - that is the point

    assert monitor.report().total == 2


@pytest.mark.parametrize(
    "text", ["2026-11-15T11:00:00", "2026-11-15T11:00:00Z", "2026-11-15T12:00:00+01:00"]
)
def test_a_time_may_be_text(text: str) -> None:
    monitor, _ = watching()
    monitor.log("input", "block", "RCE_RISK", "x", timestamp=text)

    assert monitor.activations[0].time == datetime(2026, 11, 15, 11, tzinfo=UTC)
    assert monitor.report().total == 1


def test_a_time_that_is_none_is_an_error_with_help() -> None:
    monitor, _ = watching()
    with pytest.raises(InputError, match="cannot read `yesterday` as a time") as caught:
        monitor.log("input", "block", "RCE_RISK", "x", timestamp="yesterday")

    assert (caught.value.where, caught.value.help) == (
        "timestamp",
        "like `2027-01-31T12:00:00Z`, or a datetime",
    )
    assert monitor.activations == ()


@pytest.mark.parametrize(
    "wrong", [{"timestamp": 5}, {"reason": None}, {"action": 1}, {"user_input": b"x"}]
)
def test_a_log_of_the_wrong_type_is_an_error(wrong: dict[str, Any]) -> None:
    usual = {"guardrail_type": "input", "action": "block", "reason": "RCE_RISK", "user_input": "x"}
    monitor, _ = watching()
    with pytest.raises(InputTypeError):
        monitor.log(**{**usual, **wrong})


def test_an_unmapped_reason_is_counted_again_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "guards.jsonl"
    watching(path=path)[0].log("input", "block", "somebody felt like it", "x", NOON)

    again, _ = watching(path=path)

    assert again.report().by_code == {"unmapped: somebody felt like it": 1}
    assert again.activations[0].note == "somebody felt like it"


@pytest.mark.parametrize("days", [0, -1, float("nan"), 1e9])
def test_there_is_no_report_on_such_days(days: float) -> None:
    with pytest.raises(InputError, match="days"):
        watching()[0].report(days)


TOKEN = "ghp_" + "x7Kq2mZp9Rw4Tn8Vb3Ys6Hd1Jf5Lc0GaEoUi"


def test_a_short_text_is_shown_whole() -> None:
    assert preview_text("How do I sort a list?") == "How do I sort a list?"
    assert preview_text("") == ""
    assert preview_text(None) == ""


def test_a_long_text_is_shown_where_it_matters() -> None:
    text = "a" * 500 + " the very place " + "b" * 500
    shown = preview_text(text, Span(start=501, end=516))

    assert "the very place" in shown
    assert len(shown) <= MAX_PREVIEW_LENGTH
    assert shown.endswith("…")


@pytest.mark.parametrize(
    "secret",
    [
        TOKEN,
        "4111 1111 1111 1111",
        "mary.miller@example.com",
        "+44 20 7946 0958",
        "AKIA" + "Z7Q2M4XW9RT6YB3N",
    ],
)
@pytest.mark.parametrize("words", ["my key is {} ok?", "{}", "x" * 70 + " {} and so on"])
def test_nothing_that_looks_secret_is_shown(secret: str, words: str) -> None:
    shown = preview_text(words.format(secret))

    assert not [start for start in range(len(secret) - 7) if secret[start : start + 8] in shown]


def test_a_preview_hides_spans_with_secrets() -> None:
    text = "the word is swordfish, tell nobody"

    assert preview_text(text, hide=[Span(start=12, end=21)]) == "the word is [removed], tell nobody"
    assert preview_text("x" * 100 + text, hide=[Span(start=112, end=121)]).startswith("xxx")


@given(st.text(max_size=300), st.integers(0, 300))
def test_it_is_one_short_line_that_can_be_written(text: str, start: int) -> None:
    shown = preview_text(text, Span(start=start, end=start))

    assert len(shown) <= MAX_PREVIEW_LENGTH
    assert shown.isprintable()
    shown.encode()


def test_a_lone_surrogate_is_not_shown() -> None:
    assert preview_text("a\ud800b\nc") == "a b c"


def test_the_file_of_activations_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        GuardrailMonitor(tmp_path / "activations.jsonl").log("input", "block", "no", "a text")
    finally:
        os.umask(before)

    assert (tmp_path / "activations.jsonl").stat().st_mode & 0o777 == 0o600


def test_the_report_says_of_each_guard_what_it_saw_and_cost() -> None:
    monitor, _ = watching()
    runs(monitor, 19)
    runs(monitor, 1, "block")
    runs(monitor, 1, guard="slow")
    monitor.record(activation())
    monitor.record(activation(guard="slow", code="GUARDRAIL_UNAVAILABLE"))
    for _ in range(19):
        monitor.record_duration("input", "input", 0.001)
    monitor.record_duration("input", "input", 0.2)
    first, slow = monitor.report().guards

    assert (first.guard, first.runs, first.findings, first.stopped) == ("input", 20, 1, 1)
    assert first.codes == {"CONTENT_CYBER": 1}
    assert first.p50_ms == pytest.approx(1.0, rel=0.1)
    assert first.p95_ms == pytest.approx(1.0, rel=0.1)
    assert (slow.guard, slow.failures, slow.p50_ms, slow.p95_ms) == ("slow", 1, None, None)


@given(st.lists(st.floats(min_value=1e-6, max_value=100.0), min_size=1, max_size=50))
def test_a_time_is_within_a_tenth_of_one_that_was_measured(seconds: list[float]) -> None:
    monitor, _ = watching()
    for one in seconds:
        monitor.record_duration("input", "input", one)
    runs(monitor, len(seconds))
    [summary] = monitor.report().guards
    middle = sorted(seconds)[(len(seconds) - 1) // 2] * 1000

    assert summary.p50_ms == pytest.approx(middle, rel=0.1)


def test_what_shadow_guards_say_is_counted_apart_and_stops_nothing() -> None:
    monitor, _ = watching()
    for _ in range(3):
        monitor.record(activation(guard="trial", shadow=True))
    [trial] = monitor.report().guards

    assert (trial.findings, trial.shadow, trial.stopped) == (0, 3, 0)
    assert trial.shadow_codes == {"CONTENT_CYBER": 3}
    assert monitor.report().stopped == 0


def test_findings_that_a_store_counted_make_a_report() -> None:
    tallies = [
        FindingTally("2027-01-01T11", "input", "CONTENT_CYBER", "block", 7),
        FindingTally("2026-12-31T11", "output", "SECRET_LEAK", "warn", 2),
    ]
    now = datetime(2027, 1, 1, 12, tzinfo=UTC)
    hours = count_findings(tallies)
    report = build_guard_report(hours, now=now, days=1, thresholds=GuardThresholds())

    assert [(one.guard, one.findings, one.stopped) for one in report.guards] == [("input", 7, 7)]
    assert report.trend == 3.5
