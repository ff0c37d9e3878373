from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

import pytest

from demur.errors import InputError
from demur.guards.tool_loop import CallHistory, CallTotals, LoopConfig, RecordedCall, check
from demur.model.finding import Action, Finding


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


def test_quotations_in_an_error_do_not_change_its_failure_message() -> None:
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
def test_a_text_that_only_looks_like_json_stays_a_text(text: str) -> None:
    assert call(arguments=text).exact_arguments == text


LONG = (
    "Here are the ten most popular articles of the week, sorted by the number of readers they had."
)


def found(calls: Iterable[RecordedCall], **config: Any) -> list[Finding]:
    return list(check(CallHistory(calls=tuple(calls)), LoopConfig(**config)))


def rules(calls: Iterable[RecordedCall], **config: Any) -> list[str]:
    return [finding.evidence["rule"] for finding in found(calls, **config)]


def call_guard(
    name: str = "t", result: Any = None, at_s: float | None = None, **arguments: Any
) -> RecordedCall:
    return RecordedCall(name=name, arguments=arguments, result=result, at_s=at_s)


def test_no_calls_make_no_loop() -> None:
    assert found([]) == []


def test_the_third_same_call_is_a_loop() -> None:
    assert rules([call_guard(q="a")] * 2) == []
    assert rules([call_guard(q="a")] * 3) == ["REPEAT"]


def test_a_spelling_does_not_hide_a_repeat() -> None:
    spelt = ['{"q": "a", "n": 1}', '{"n":1,"q":"a"}', '{"q": "\u200ba ", "n": 1}']

    assert rules(RecordedCall(name="t", arguments=text) for text in spelt) == ["REPEAT"]


def test_a_loop_is_found_before_its_last_call_has_run() -> None:
    assert rules(
        [call_guard(q="a", result="x"), call_guard(q="a", result="x"), call_guard(q="a")]
    ) == ["REPEAT"]


def test_the_finding_reports_the_cycle() -> None:
    [finding] = found([call_guard("start"), *[call_guard("a"), call_guard("b")] * 3])

    assert finding.code == "LOOP_DETECTED"
    assert finding.evidence == {
        "rule": "CYCLE",
        "tool": "a",
        "repeats": 3,
        "cycle": ["a", "b"],
        "positions": [1, 2, 3, 4, 5, 6],
    }


@pytest.mark.parametrize("length", [2, 3, 6, 7, 16])
def test_cycles_are_found_up_to_the_longest(length: int) -> None:
    around = [call_guard(f"t{number}") for number in range(length)]

    assert rules(around * 3) == ["CYCLE"]
    assert rules((around * 3)[:-1]) == []
    assert rules(around * 3, longest_cycle=length - 1) == []


def test_a_cycle_may_be_cut_anywhere() -> None:
    around = [call_guard("a"), call_guard("b"), call_guard("c")]

    assert rules((around * 4)[1:-1]) == ["CYCLE"]


def test_almost_the_same_call_with_the_same_answer_is_a_loop() -> None:
    asked = [call_guard(query=f"latest news {n}", result=LONG) for n in range(3)]

    assert rules(asked) == ["NEAR_REPEAT"]


def test_turning_pages_past_the_end_is_a_loop() -> None:
    assert rules(call_guard(page=n, result=[]) for n in range(3)) == ["NEAR_REPEAT"]


def test_failure_after_failure_is_no_progress() -> None:
    places = ["atlas", "bazaar", "cellar", "depot", "estate", "forest", "garden", "harbour"]
    asked = [call_guard(place=name, result=f"Error: '{name}' is closed") for name in places]

    assert rules(asked[:-1]) == []
    assert rules(asked) == ["NO_PROGRESS"]
    assert rules([*asked, call_guard(place="island")]) == ["NO_PROGRESS"]
    assert rules([*asked, call_guard("other")]) == []


def test_a_call_that_comes_back_among_other_calls_is_a_loop() -> None:
    asked = [
        step
        for n in range(12)
        for step in (call_guard(q="a", result=LONG), call_guard(f"noise{n}", n=n, result=str(n)))
    ]

    assert rules(asked[:-3]) == []
    assert rules(asked[:-1]) == ["RECURRENCE"]
    assert rules([*asked[:-2], call_guard(q="a")]) == ["RECURRENCE"]
    assert rules(asked) == []


def test_another_result_among_them_is_progress() -> None:
    asked = [call_guard(q="a", result=LONG) for _ in range(12)]
    asked[4] = call_guard(q="a", result=LONG + " And one more.")
    mixed = [step for n, each in enumerate(asked) for step in (call_guard(f"n{n}"), each)]

    assert rules(mixed) == []


def test_another_name_does_not_hide_a_repeat() -> None:
    names = ("search", "search_v2", "web_search")

    assert rules(call_guard(name, q="demur", result=LONG) for name in names) == ["REPEAT"]
    assert rules(call_guard(name, q="demur", result="ok") for name in names) == []
    assert rules(call_guard(name, q="demur") for name in names) == []


@pytest.mark.parametrize(
    "asked",
    [
        call_guard("Bash", command="gh pr checks 17", result="build  pending"),
        call_guard("BashOutput", bash_id="a1", result="still running"),
        call_guard("job_status", id=7, result="pending"),
        call_guard("Bash", command="sleep 30; kubectl get pods", result="web  Pending"),
        call_guard("Bash", command="gh pr checks 17", result=f"build  pending  {LONG}"),
        call_guard("read_background_job", job="b1", result="nothing new"),
        call_guard("list_workflow_runs", branch="x", result={"state": "queued"}),
        call_guard("Bash", command="tail -n 5 build.log", result=LONG),
        call_guard("Bash", command="aws cloudformation describe-stacks", result="CREATING"),
        call_guard("Read", file_path="/var/claude/-p/s/tasks/b1x.output", result=LONG),
        call_guard("Bash", command="cat /var/claude/-p/s/tasks/b1x.output", result="started"),
        call_guard("Bash", command="cat nohup.out", result="started"),
    ],
)
def test_asking_for_a_state_may_repeat_for_longer(asked: RecordedCall) -> None:
    assert rules([asked] * 19) == []
    assert rules([asked] * 20) == ["REPEAT"]


@pytest.mark.parametrize(
    "result", ["2 of 9 jobs running", '{"state": "IN_PROGRESS"}', "Not yet done."]
)
def test_a_result_that_is_under_way_may_be_asked_for_again(result: str) -> None:
    asked = call_guard("Read", file="out.txt", result=result)

    assert rules([asked] * 9) == []
    assert rules([*[asked] * 8, call_guard("Read", file="out.txt")]) == []
    assert rules([asked] * 10) == ["REPEAT"]


@pytest.mark.parametrize("result", ["Error: the job is not running", f"running {LONG * 20}", "ran"])
def test_other_results_are_not_under_way(result: str) -> None:
    assert rules([call_guard("Read", file="out.txt", result=result)] * 3) == ["REPEAT"]


LEGITIMATE = {
    "polling a job that moves": [call_guard(id=7, result=f"{n} %") for n in range(20)],
    "pages": [call_guard(page=n, result=f"item {n}") for n in range(20)],
    "pages without results": [call_guard(page=n) for n in range(20)],
    "pages with a call ahead": [
        *(call_guard(page=n, result=[n]) for n in range(20)),
        call_guard(page=20),
    ],
    "many files": [call_guard("read", path=f"src/{n}.py", result=f"text {n}") for n in range(20)],
    "many rows written": [call_guard("write", row=n, result="ok") for n in range(20)],
    "retries that back off": [call_guard(result="Error: busy", at_s=2.0**n) for n in range(6)],
    "patient polling": [call_guard(result="pending", at_s=30.0 * n) for n in range(9)],
    "edit and test": [
        step
        for n in range(6)
        for step in (
            call_guard("edit", text=f"try {n}", result="ok"),
            call_guard("test", result="1 failed"),
        )
    ],
    "a loop that was left": [*[call_guard("a")] * 5, call_guard("b")],
}


@pytest.mark.parametrize("calls", LEGITIMATE.values(), ids=LEGITIMATE)
def test_ordinary_work_passes(calls: list[RecordedCall]) -> None:
    assert found(calls) == []


def test_patience_ends() -> None:
    assert rules(call_guard(result="pending", at_s=30.0 * n) for n in range(10)) == ["REPEAT"]


def test_haste_is_not_patience() -> None:
    assert rules(call_guard(result="pending", at_s=0.2 * n) for n in range(3)) == ["REPEAT"]
    hasty = [call_guard(result="nothing new", at_s=at) for at in (0.0, 60.0, 62.0)]
    assert rules(hasty) == ["REPEAT"]


def test_what_is_under_way_may_be_asked_for_at_any_pace_of_a_model() -> None:
    paces = [5.0, 3.5, 4.2, 1.1, 9.0, 2.0, 6.0, 3.0]
    asked = [call_guard(result="pending", at_s=sum(paces[:n])) for n in range(9)]

    assert rules(asked) == []
    assert rules([*asked, call_guard(result="pending", at_s=60.0)]) == ["REPEAT"]


def test_patience_holds_for_failures_too() -> None:
    asked = [
        call_guard(place=f"{chr(97 + n) * 9}", result="Error: closed", at_s=10.0 * n)
        for n in range(10)
    ]

    assert rules(asked[:9]) == []
    assert rules(asked) == ["NO_PROGRESS"]


def test_tools_whose_repetition_means_nothing_are_left_out() -> None:
    assert rules([call_guard("scroll")] * 9, ignore=("scroll",)) == []
    assert rules([call_guard("scroll", result=[])] * 9, ignore=("scroll",)) == []


def test_the_action_is_the_config_s() -> None:
    [finding] = found([call_guard()] * 3, action=Action.ESCALATE)

    assert finding.action is Action.ESCALATE


@pytest.mark.parametrize(
    ("budget", "resource", "used"),
    [
        ({"max_calls": 4}, "steps", 5),
        ({"max_tokens": 10}, "tokens", 11),
        ({"max_cost": 0.5}, "money", 0.75),
        ({"max_seconds": 60}, "time", 90),
    ],
)
def test_an_exhausted_budget_is_a_finding(
    budget: dict[str, float], resource: str, used: float
) -> None:
    earlier = CallTotals(calls=3, tokens=4, cost=0.25, since_s=10)
    calls = (
        RecordedCall(name="a", tokens=3, cost=0.25, at_s=100),
        RecordedCall(name="b", tokens=4, cost=0.25, at_s=40),
    )
    event = CallHistory(calls=calls, earlier=earlier)
    [finding] = check(event, LoopConfig(**budget))  # type: ignore[arg-type]

    assert finding.code == "BUDGET_EXCEEDED"
    assert (finding.evidence["resource"], finding.evidence["used"]) == (resource, used)
    more = {name: limit + 100 for name, limit in budget.items()}
    assert list(check(event, LoopConfig(**more))) == []  # type: ignore[arg-type]


def test_without_times_no_time_is_used() -> None:
    assert found([call_guard()], max_seconds=0) == []


@pytest.mark.parametrize(
    "config",
    [
        {"repeats": 1},
        {"patient_repeats": 0},
        {"no_progress": 1},
        {"longest_cycle": 0},
        {"near": 0},
        {"near": 1.5},
        {"window": 10},
        {"window": 20, "no_progress": 30},
    ],
)
def test_a_config_that_cannot_work_is_an_error(config: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        LoopConfig(**config)


def test_another_event_is_refused() -> None:
    with pytest.raises(TypeError, match="History"):
        list(check([], LoopConfig()))  # type: ignore[arg-type]


def test_a_long_name_is_cut_in_the_finding() -> None:
    [finding] = found([call_guard("x\n" * 100)] * 3)

    assert len(finding.detail) <= 120
    assert finding.detail.isprintable()
