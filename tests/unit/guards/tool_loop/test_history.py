from types import MappingProxyType
from typing import Any

import pytest

from demur.errors import InputError
from demur.guards.tool_loop.history import RecordedCall, CallHistory, CallTotals


def call(**fields: Any) -> RecordedCall:
    return RecordedCall(**{"name": "t", **fields})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"q": "A  b"}, {"q": "a b"}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ("text ", "TEXT"),
        ({"q": "we\u200bather"}, {"q": "weather"}),
        ({"q": " weather "}, {"q": "weather"}),
        ({"q": "\uff57eather"}, {"q": "weather"}),
        ('{"a": 1, "b": [2, 3]}', '{"b":[2,3],"a":1}'),
        ('{"a": 1}', {"a": 1}),
        ({"body": '{"x": 1, "y": 2}'}, {"body": '{"y":2, "x":1}'}),
        ({"\u200bq": (1, 2)}, {"q": [1, 2]}),
    ],
)
def test_spelling_and_the_order_of_keys_make_no_other_arguments(one: Any, other: Any) -> None:
    assert call(arguments=one).exact_arguments == call(arguments=other).exact_arguments


def test_ids_and_numbers_make_alike_arguments() -> None:
    one = call(
        arguments={"id": "1f0c8c5e-9b1d-4f6a-8d1e-0a1b2c3d4e5f", "page": 1, "at": "10:00:01"}
    )
    other = call(
        arguments={"id": "2a0c8c5e-9b1d-4f6a-8d1e-0a1b2c3d4e5e", "page": 27, "at": "10:00:09"}
    )

    assert one.exact_arguments != other.exact_arguments
    assert one.argument_similarity(other) == 1


def test_other_words_make_other_arguments() -> None:
    assert (
        call(arguments={"q": "cats"}).argument_similarity(call(arguments={"q": "boats and trains"}))
        < 0.6
    )


def test_times_and_request_ids_make_no_other_outcome() -> None:
    one = call(result={"at": "2026-01-02T10:00:01Z", "state": "new"})
    other = call(result={"at": "2026-01-02T10:07:45Z", "state": "new"})

    assert one.outcome == other.outcome


def test_a_number_that_moves_is_another_outcome() -> None:
    assert call(result="10 %").outcome != call(result="20 %").outcome


def test_a_call_that_has_not_run_has_no_outcome() -> None:
    assert call().outcome is None
    assert not call().is_failure
    assert call().failure_message is None


@pytest.mark.parametrize(
    "result",
    [
        "Error: no such file",
        "Traceback (most recent call last): ...",
        "FileNotFoundError: x",
        "404 page missing",
        "No results for this query",
        "permission denied",
        [],
        {},
        {"error": "bad"},
        {"is_error": True},
        {"ok": False},
    ],
)
def test_errors_and_empty_answers_are_in_vain(result: Any) -> None:
    assert call(result=result).is_failure


@pytest.mark.parametrize(
    "result", ["ok", "", "3 errors fixed", {"error": None}, {"ok": True}, "written", 0, "4041 rows"]
)
def test_other_answers_are_not(result: Any) -> None:
    assert not call(result=result).is_failure


def test_the_host_may_know_of_a_failure() -> None:
    assert call(result="hm", failed=True).is_failure


def test_what_an_error_quotes_makes_no_other_complaint() -> None:
    one = call(result="Error: cannot open '/a/b.txt' at line 3")
    other = call(result="Error: cannot open '/c.txt' at line 14")

    assert one.failure_message == other.failure_message
    assert one.outcome != other.outcome


@pytest.mark.parametrize(
    "fields",
    [
        {"name": 1},
        {"tokens": -1},
        {"cost": float("nan")},
        {"at_s": float("inf")},
        {"tokens": True},
        {"cost": "1"},
        {"tokens": None},
    ],
)
def test_a_call_with_senseless_numbers_is_an_error(fields: dict[str, Any]) -> None:
    with pytest.raises((InputError, TypeError)):
        call(**fields)


@pytest.mark.parametrize("value", [object(), {1: {}, "a": 2}, {"a": {object()}}])
def test_arguments_that_are_no_json_are_an_error(value: Any) -> None:
    with pytest.raises(InputError):
        _ = call(arguments=value).exact_arguments


def test_a_history_keeps_a_window_and_all_totals() -> None:
    history = CallHistory()
    for number in range(5):
        history = history.add(call(at_s=100 + number, tokens=10, cost=0.5), keep=2)

    assert [each.at_s for each in history.calls] == [103, 104]
    assert history.earlier == CallTotals(calls=3, tokens=30, cost=1.5, since_s=100, until_s=102)


def test_calls_without_a_time_leave_the_start_open() -> None:
    assert CallTotals().with_call(call()).since_s is None


@pytest.mark.parametrize("fields", [{"calls": -1}, {"cost": float("inf")}, {"since_s": "now"}])
def test_senseless_totals_are_an_error(fields: dict[str, Any]) -> None:
    with pytest.raises((InputError, TypeError)):
        CallTotals(**fields)


def test_a_history_holds_calls() -> None:
    with pytest.raises(InputError):
        CallHistory(calls=("call",))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["{not json}", "{", "[1, 2", "{}x", "[" * 50_000 + "]" * 50_000])
def test_what_only_looks_like_json_is_a_text(text: str) -> None:
    assert call(arguments=text).exact_arguments == text
