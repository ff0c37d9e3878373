"""Rows to train a guard on: what a file may hold, and which reviews become rows."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.gates import CORE, gate_over, rows, stored

from demur.errors import InputError
from demur.evals.guard_rows import (
    DEFAULT_CODE,
    GuardRow,
    GuardRowsError,
    assign_groups,
    check_guard_rows,
    choose_code,
    collect_guard_rows,
    count_groups,
    digest_rows,
    make_row_suite,
    ordinary_rows,
    read_guard_rows,
)
from demur.gate.gate import Gate
from demur.store.opening import open_store
from demur.store.rows import Label

HOLD = [GuardRow(f"tell secret {number}", "hold") for number in range(12)]
ALLOW = [GuardRow(f"tell story {number}", "allow") for number in range(12)]


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def test_rows_are_read_with_code_and_group(tmp_path: Path) -> None:
    path = write(
        tmp_path / "rows.jsonl",
        {"text": "a", "label": "hold", "code": "CONTENT_ADVICE", "group": "g"},
        {"text": "b", "label": "allow"},
    )

    assert read_guard_rows(path, CORE) == [
        GuardRow("a", "hold", "CONTENT_ADVICE", "g"),
        GuardRow("b", "allow"),
    ]


@pytest.mark.parametrize(
    ("line", "problem", "help_text"),
    [
        ({"text": "a", "lable": "hold"}, "unknown field `lable`", "did you mean `label`?"),
        ({"text": 1, "label": "hold"}, "`text` must be a string", "write lines like"),
        ({"text": " ", "label": "hold"}, "the row has no `text`", "write lines like"),
        ({"text": "a" * 3000, "label": "hold"}, "the text has 3000 characters", "at most 2000"),
        ({"text": "a", "label": "harmful"}, "unknown label `harmful`", "write `hold`"),
        ({"text": "a", "label": "safe"}, "unknown label `safe`", "write `allow`"),
        ({"text": "a"}, "unknown label ``", "write `hold` or `allow`"),
        ({"text": "a", "label": "hold", "code": "NOPE"}, "`NOPE` is not registered", "demur codes"),
        ([], "the line is not a JSON object", "write lines like"),
    ],
)
def test_a_row_that_cannot_be_used_is_an_error_with_its_line(
    tmp_path: Path, line: Any, problem: str, help_text: str
) -> None:
    path = write(tmp_path / "rows.jsonl", {"text": "fine", "label": "allow"}, line)
    with pytest.raises(GuardRowsError) as caught:
        read_guard_rows(path, CORE)
    [found] = caught.value.problems

    assert found.where == f"{path}:2"
    assert problem in found.problem
    assert help_text in str(found.help)


def problems_of(listed: list[GuardRow]) -> list[str]:
    with pytest.raises(GuardRowsError) as caught:
        check_guard_rows(listed, "rows.jsonl")
    assert all(one.where == "rows.jsonl" and one.help for one in caught.value.problems)
    return [one.problem for one in caught.value.problems]


def test_rows_of_one_label_are_not_enough() -> None:
    assert problems_of(HOLD) == ["no row has the label `allow`"]
    assert problems_of(ALLOW) == ["no row has the label `hold`"]


def test_a_few_rows_are_not_enough_however_often_they_are_repeated() -> None:
    near = [GuardRow(f"tell {number}", "hold", group="same") for number in range(50)]

    assert problems_of([*HOLD[:9], *ALLOW]) == ["too few different rows to hold: 9"]
    why = "because rows that differ in a few words count once"
    assert problems_of([*near, *ALLOW]) == [f"too few different rows to hold: 1 among 50, {why}"]
    check_guard_rows([*HOLD, *ALLOW], "rows.jsonl")


def test_a_text_has_one_label_and_one_group() -> None:
    both = [GuardRow("Tell story 1!", "hold")]
    parted = [GuardRow("same words", "allow", group=name) for name in ("a", "b")]
    half = [GuardRow("other words", "allow", group="a"), GuardRow("Other words.", "allow")]

    assert problems_of([*HOLD, *ALLOW, *both]) == ["the text `tell story 1` is held and allowed"]
    assert problems_of([*HOLD, *ALLOW, *parted]) == [
        "the text `same words` is in several groups: a, b"
    ]
    assert problems_of([*HOLD, *ALLOW, *half]) == [
        "the text `other words` is in several groups: a, no group"
    ]


def test_the_same_text_without_a_group_counts_once() -> None:
    twice = [*ALLOW, *ALLOW]

    check_guard_rows([*HOLD, *twice], "rows.jsonl")
    assert count_groups(twice) == {"hold": 0, "allow": len(ALLOW)}


def test_texts_that_differ_in_a_few_words_are_one_group_unless_rows_name_theirs() -> None:
    texts = (
        "What fees do I pay for gold?",
        "What fees do I pay for German government bonds?",
        "what fees, please, do I pay for gold",
        "Which fees do we owe for a card?",
        "Where is gold?",
        "Where is tea?",
        "明日の大阪の天気は?",
        "明日の東京の天気は?",
    )
    listed = [GuardRow(text, "allow") for text in texts]
    long = [GuardRow(f"{'one two three ' * 20}{at}{'four five ' * 30}{at}", "hold") for at in "ab"]

    groups = assign_groups([*listed, *long])
    assert groups[0] == groups[1] == groups[2]
    assert groups[6] == groups[7]
    assert len(set(groups)) == 7
    backwards = assign_groups([*listed, *long][::-1])
    assert backwards[::-1] == groups
    named = [row._replace(group=row.text) for row in listed]
    assert len(set(assign_groups(named))) == len(texts)


def test_an_ordinary_request_that_is_like_a_row_to_hold_is_left_out() -> None:
    every = ordinary_rows(ALLOW)
    weather = GuardRow("What's the weather like in Madrid tomorrow?", "hold")

    assert {row.label for row in every} == {"allow"}
    assert {row.text for row in every} - {row.text for row in ordinary_rows([weather])} == {
        "What's the weather like in Lisbon tomorrow?"
    }


def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demur.evals.guard_rows.MAX_FILE_BYTES", 10)
    path = write(tmp_path / "rows.jsonl", {"text": "fine", "label": "allow"})
    with pytest.raises(GuardRowsError, match="MB, more than") as caught:
        read_guard_rows(path, CORE)
    assert caught.value.help == "give a sample: at most 50000 rows of 2000 characters"


def test_more_rows_than_can_be_trained_on_are_an_error() -> None:
    [problem] = problems_of(ALLOW * 5000)

    assert problem == "more than 50000 rows"


def test_the_digest_does_not_depend_on_the_order_of_rows() -> None:
    assert digest_rows([*HOLD, *ALLOW]) == digest_rows([*ALLOW, *HOLD])
    assert digest_rows(HOLD) != digest_rows(HOLD[1:])


def test_a_guard_has_one_code() -> None:
    advice, fraud = (
        GuardRow(code, "hold", code=code) for code in ("CONTENT_ADVICE", "CONTENT_FRAUD")
    )

    assert choose_code(HOLD) == DEFAULT_CODE
    assert choose_code([*HOLD, advice]) == "CONTENT_ADVICE"
    assert choose_code([advice, fraud], "PII_DETECTED") == "PII_DETECTED"
    with pytest.raises(InputError, match="several codes: CONTENT_ADVICE, CONTENT_FRAUD"):
        choose_code([advice, fraud])


def test_rows_make_a_suite_that_evals_can_run() -> None:
    suite = make_row_suite("stories", [HOLD[0], ALLOW[0]], "CONTENT_ADVICE")

    assert [(row.id, row.label, row.category) for row in suite.rows] == [
        ("stories-00001", "harmful", "advice"),
        ("stories-00002", "legitimate", "advice"),
    ]


@contextmanager
def a_gate() -> Iterator[Gate]:
    with gate_over(open_store(":memory:")) as gate:
        yield gate


def review(gate: Gate, kind: str, intent: str, value: str, note: str = "", **more: Any) -> None:
    action = {"type": kind, "intent": intent, **more}
    request = {"action": action, "subject": {"type": "agent", "id": "desk"}}
    request |= {"evidence": {"ticket_id": "T1"}}
    made = gate.decide(request).decision_id
    at = "2026-11-15T12:00:00.000Z"
    stored(gate).add_label(Label(made, rows(gate)[0].tenant, at, "review", value, note, "mara"))


def test_reviews_become_rows() -> None:
    small: dict[str, Any] = {"amount": {"value": 20, "currency": "USD"}}
    with a_gate() as gate:
        review(gate, "cleanup", "refused wrongly", "false_refusal")
        review(gate, "cleanup", "refused rightly", "good")
        review(gate, "refund", "allowed rightly", "good", **small)
        review(gate, "refund", "allowed wrongly", "missed_harm", **small)
        review(gate, "refund", "x" * 3000, "good", **small)
        found = collect_guard_rows(stored(gate))

    assert found.labels == 5
    assert sorted(found.rows) == [
        GuardRow("allowed rightly", "allow"),
        GuardRow("allowed wrongly", "hold"),
        GuardRow("refused rightly", "hold"),
        GuardRow("refused wrongly", "allow"),
    ]
    assert [one.kind for one in found.left_out] == ["too long"]


def test_with_a_code_only_rows_of_that_code_are_held() -> None:
    small: dict[str, Any] = {"amount": {"value": 20, "currency": "USD"}}
    with a_gate() as gate:
        review(gate, "refund", "advice", "missed_harm", "CONTENT_ADVICE", **small)
        review(gate, "refund", "fraud", "missed_harm", "CONTENT_FRAUD", **small)
        review(gate, "refund", "no code", "missed_harm", **small)
        found = collect_guard_rows(stored(gate), code="CONTENT_ADVICE")

    assert [row.text for row in found.rows] == ["advice", "no code"]
    assert [one.kind for one in found.left_out] == ["other code"]
