from collections.abc import Iterable
from typing import Any

import pytest

from demur.errors import InputError
from demur.guards.tool_loop.guard import LoopConfig, check
from demur.guards.tool_loop.history import RecordedCall, CallHistory, CallTotals
from demur.model.finding import Action, Finding

LONG = (
    "Here are the ten most popular articles of the week, sorted by the number of readers they had."
)


def found(calls: Iterable[RecordedCall], **config: Any) -> list[Finding]:
    return list(check(CallHistory(calls=tuple(calls)), LoopConfig(**config)))


def rules(calls: Iterable[RecordedCall], **config: Any) -> list[str]:
    return [finding.evidence["rule"] for finding in found(calls, **config)]


def call(
    name: str = "t", result: Any = None, at_s: float | None = None, **arguments: Any
) -> RecordedCall:
    return RecordedCall(name=name, arguments=arguments, result=result, at_s=at_s)


def test_no_calls_make_no_loop() -> None:
    assert found([]) == []


def test_the_third_same_call_is_a_loop() -> None:
    assert rules([call(q="a")] * 2) == []
    assert rules([call(q="a")] * 3) == ["REPEAT"]


def test_a_spelling_does_not_hide_a_repeat() -> None:
    spelt = ['{"q": "a", "n": 1}', '{"n":1,"q":"a"}', '{"q": "\u200ba ", "n": 1}']

    assert rules(RecordedCall(name="t", arguments=text) for text in spelt) == ["REPEAT"]


def test_a_loop_is_told_before_its_last_call_has_run() -> None:
    assert rules([call(q="a", result="x"), call(q="a", result="x"), call(q="a")]) == ["REPEAT"]


def test_the_finding_reports_the_cycle() -> None:
    [finding] = found([call("start"), *[call("a"), call("b")] * 3])

    assert finding.code == "LOOP_DETECTED"
    assert finding.evidence == {
        "rule": "CYCLE",
        "tool": "a",
        "repeats": 3,
        "cycle": ["a", "b"],
        "positions": [1, 2, 3, 4, 5, 6],
    }


@pytest.mark.parametrize("length", [2, 3, 4, 5, 6])
def test_cycles_are_found_up_to_the_longest(length: int) -> None:
    around = [call(f"t{number}") for number in range(length)]

    assert rules(around * 3) == ["CYCLE"]
    assert rules((around * 3)[:-1]) == []
    assert rules(around * 3, longest_cycle=length - 1) == []


def test_a_cycle_may_be_cut_anywhere() -> None:
    around = [call("a"), call("b"), call("c")]

    assert rules((around * 4)[1:-1]) == ["CYCLE"]


def test_almost_the_same_call_with_the_same_answer_is_a_loop() -> None:
    asked = [call(query=f"latest news {n}", result=LONG) for n in range(3)]

    assert rules(asked) == ["NEAR_REPEAT"]


def test_turning_pages_past_the_end_is_a_loop() -> None:
    assert rules(call(page=n, result=[]) for n in range(3)) == ["NEAR_REPEAT"]


def test_failure_after_failure_is_no_progress() -> None:
    places = ["atlas", "bazaar", "cellar", "depot", "estate", "forest", "garden", "harbour"]
    asked = [call(place=name, result=f"Error: '{name}' is closed") for name in places]

    assert rules(asked[:-1]) == []
    assert rules(asked) == ["NO_PROGRESS"]
    assert rules([*asked, call(place="island")]) == ["NO_PROGRESS"]
    assert rules([*asked, call("other")]) == []


LEGITIMATE = {
    "polling a job that moves": [call(id=7, result=f"{n} %") for n in range(20)],
    "pages": [call(page=n, result=f"item {n}") for n in range(20)],
    "pages without results": [call(page=n) for n in range(20)],
    "pages with a call ahead": [*(call(page=n, result=[n]) for n in range(20)), call(page=20)],
    "many files": [call("read", path=f"src/{n}.py", result=f"text {n}") for n in range(20)],
    "many rows written": [call("write", row=n, result="ok") for n in range(20)],
    "retries that back off": [call(result="Error: busy", at_s=2.0**n) for n in range(6)],
    "patient polling": [call(result="pending", at_s=30.0 * n) for n in range(9)],
    "edit and test": [
        step
        for n in range(6)
        for step in (call("edit", text=f"try {n}", result="ok"), call("test", result="1 failed"))
    ],
    "a loop that was left": [*[call("a")] * 5, call("b")],
}


@pytest.mark.parametrize("calls", LEGITIMATE.values(), ids=LEGITIMATE)
def test_ordinary_work_passes(calls: list[RecordedCall]) -> None:
    assert found(calls) == []


def test_patience_ends() -> None:
    assert rules(call(result="pending", at_s=30.0 * n) for n in range(10)) == ["REPEAT"]


def test_haste_is_not_patience() -> None:
    assert rules(call(result="pending", at_s=0.2 * n) for n in range(3)) == ["REPEAT"]
    assert rules(call(result="pending", at_s=at) for at in (0.0, 60.0, 62.0)) == ["REPEAT"]


def test_patience_holds_for_failures_too() -> None:
    asked = [
        call(place=f"{chr(97 + n) * 9}", result="Error: closed", at_s=10.0 * n) for n in range(10)
    ]

    assert rules(asked[:9]) == []
    assert rules(asked) == ["NO_PROGRESS"]


def test_tools_whose_repetition_means_nothing_are_left_out() -> None:
    assert rules([call("scroll")] * 9, ignore=("scroll",)) == []
    assert rules([call("scroll", result=[])] * 9, ignore=("scroll",)) == []


def test_the_action_is_the_config_s() -> None:
    [finding] = found([call()] * 3, action=Action.ESCALATE)

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
def test_a_budget_that_is_used_up_is_told(
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
    assert found([call()], max_seconds=0) == []


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
    [finding] = found([call("x\n" * 100)] * 3)

    assert len(finding.detail) <= 120
    assert finding.detail.isprintable()
