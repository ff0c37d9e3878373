"""Histories of runs: kept apart, bounded, and completed by what came of calls."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.fake_secrets import github_token

from demur.enforce.history import (
    CallHistories,
    EncodedHistories,
    FileHistories,
    LocalCallHistories,
    TenantHistories,
    add_call,
    drop_old_calls,
    finish_call,
    finish_last_call,
    last_open_call,
    make_run_key,
    start_new_round,
)
from demur.guards.tool_loop import CallHistory, RecordedCall


def call(name: str = "lookup", **arguments: object) -> RecordedCall:
    return RecordedCall(name=name, arguments=arguments)


def added(histories: CallHistories, run: str, one: RecordedCall) -> CallHistory:
    return histories.update(run, lambda history: history.add(one))


def test_no_tenant_makes_another_forget_its_runs() -> None:
    histories = TenantHistories(lambda _: EncodedHistories(2_000))
    acme = make_run_key("http", "acme", None, "r")
    added(histories, acme, call())
    for number in range(50):
        added(histories, make_run_key("http", "other", "x\x1facme", f"r{number}"), call(q="x" * 99))

    assert len(added(histories, acme, call()).calls) == 2
    assert len(added(histories, make_run_key("http", "other", None, "r0"), call()).calls) == 1


def test_runs_are_kept_apart() -> None:
    histories = LocalCallHistories()
    added(histories, "a", call())

    assert len(added(histories, "a", call()).calls) == 2
    assert len(added(histories, "b", call()).calls) == 1


def test_the_run_longest_untouched_is_dropped() -> None:
    histories = LocalCallHistories(max_runs=2)
    for run in ("a", "b", "a", "c"):
        added(histories, run, call())

    assert len(added(histories, "a", call()).calls) == 3
    assert len(added(histories, "b", call()).calls) == 1


def test_no_change_comes_between() -> None:
    histories = LocalCallHistories()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: added(histories, "a", call()), range(200)))

    history = histories.update("a", lambda kept: kept)
    assert len(history.calls) + history.earlier.calls == 200


def test_a_result_belongs_to_the_last_open_call_like_it() -> None:
    history = CallHistory(calls=(call(x=1), call(x=2), call(x=1)))

    third = last_open_call(history, "lookup", {"x": 1})
    assert third is history.calls[2]
    done = finish_call(history, third, "there", failed=False)
    assert [one.result for one in done.calls] == [None, None, "there"]
    first = last_open_call(done, "lookup", {"x": 1})
    assert first is not None
    twice = finish_call(done, first, "again", failed=True)
    assert [one.result for one in twice.calls] == ["again", None, "there"]
    assert twice.calls[0].failed
    assert last_open_call(twice, "lookup", {"x": 1}) is None
    assert last_open_call(twice, "lookup") == call(x=2)
    assert last_open_call(history, "other") is None


def test_old_calls_are_counted_and_form_no_loop() -> None:
    calls = tuple(RecordedCall(name="lookup", at_s=at) for at in (0.0, 500.0, 900.0))
    history = drop_old_calls(CallHistory(calls=calls), 1000.0)

    assert [one.at_s for one in history.calls] == [500.0, 900.0]
    assert history.earlier.calls == 1
    assert start_new_round(history) == CallHistory(
        earlier=history.earlier.with_call(calls[1]).with_call(calls[2])
    )
    # Times to come are of a clock that was set back, or of another machine.
    assert drop_old_calls(CallHistory(calls=calls), 400.0).calls == calls[:1]


def broken(_: CallHistory) -> CallHistory:
    raise ZeroDivisionError


def test_a_change_that_fails_loses_nothing() -> None:
    histories = LocalCallHistories()
    added(histories, "a", call())
    with pytest.raises(ZeroDivisionError):
        histories.update("a", broken)

    assert len(added(histories, "a", call()).calls) == 2


def test_no_credential_is_written_to_the_file_of_a_run(tmp_path: Path) -> None:
    token, histories = github_token(), FileHistories(tmp_path)
    arguments = {"command": f"curl -H 'X: {token}' example.org", "password": "hunter22"}
    made = RecordedCall(name="Bash", arguments=arguments, at_s=1.0)
    for _ in range(2):
        histories.update("r", lambda history: add_call(history, made, granted=False))
        finish_last_call(histories, "r", "Bash", arguments, f"the answer names {token}")

    [path] = tmp_path.glob("*.json")
    text = path.read_text(encoding="utf-8")
    assert token not in text
    assert "hunter22" not in text
    history = histories.update("r", lambda history: history)
    assert [one.result is not None for one in history.calls] == [True, True]
    assert len({one.exact_arguments for one in history.calls}) == 1
