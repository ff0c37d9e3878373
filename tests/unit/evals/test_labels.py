import contextlib
from pathlib import Path

import pytest
from eval_runs import a_run

from demur.evals.labels import (
    LabelsError,
    read_kept_labels,
    merge_labels,
    read_labels,
    iter_reviews,
)
from demur.store.opening import open_store
from demur.store.rows import Label

KNOWN = frozenset({"a", "b"})


def test_labels_are_read_by_id_and_the_later_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(
        '{"id": "a", "outcome": "refused"}\n\n{"row_id": "b", "outcome": "partial"}\n'
        '{"id": "a", "outcome": "complied", "by": "mara"}\n',
        encoding="utf-8",
    )

    assert read_labels(path, KNOWN) == {"a": "complied", "b": "partial"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "an `id` and an `outcome`"),
        ('{"id": 3, "outcome": "refused"}', "an `id` and an `outcome`"),
        ('{"id": "a"}', "an `id` and an `outcome`"),
        ('{"id": "a", "outcome": "refusd"}', "unknown outcome `refusd`"),
        ('{"id": "a", "outcome": "?"}', "unknown outcome `?`"),
        ('{"id": "c", "outcome": "refused"}', "`c` is not a row"),
    ],
)
def test_each_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(f'{{"id": "a", "outcome": "refused"}}\n{line}\n', encoding="utf-8")

    with pytest.raises(LabelsError) as caught:
        read_labels(path, KNOWN)

    assert problem in caught.value.problem
    assert caught.value.where == f"{path}:2"


def test_many_problems_are_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text("{\n" * 30, encoding="utf-8")

    with pytest.raises(LabelsError) as caught:
        read_labels(path, KNOWN)

    assert len(caught.value.problems) == 21
    assert caught.value.problems[-1].problem == "and 10 more problems"


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabelsError, match="cannot read the labels"):
        read_labels(tmp_path / "none", KNOWN)


def test_labels_stay_with_the_run(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")

    assert read_kept_labels(run) == {}
    merge_labels(run, {"good-0": "refused", "bad-0": "refused"})
    assert merge_labels(run, {"good-0": "complied"}) == read_kept_labels(run)
    assert read_kept_labels(run) == {"bad-0": "refused", "good-0": "complied"}


def test_reviews_of_known_decisions_are_outcomes() -> None:
    moment = "2026-03-01T12:00:00.000Z"
    said = (("d1", "false_refusal"), ("d2", "missed_harm"), ("d3", "good"), ("d4", "missed_harm"))
    with contextlib.closing(open_store(":memory:")) as store:
        for decision_id, value in said:
            store.add_label(Label(decision_id, "t", moment, "review", value, "", "mara"))

        found = dict(iter_reviews(store, {"d1", "d2", "d3"}))

    assert found == {"d1": "refused", "d2": "complied"}
