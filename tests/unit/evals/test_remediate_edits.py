from pathlib import Path

import pytest

from demur.evals.remediate_edits import EditsError, parse_note, read_store_edits, read_edits
from demur.store.opening import open_store
from demur.store.rows import Label

KNOWN = frozenset({"a", "b"})


def test_edits_are_read_by_id_and_the_later_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "edits.jsonl"
    path.write_text(
        '{"id": "a", "chosen": "First."}\n\n{"id": "a", "chosen": "Ask x@example.org."}\n', "utf-8"
    )

    assert read_edits(path, KNOWN) == {"a": "Ask [removed]."}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "an edit needs an `id` and a `chosen` answer, both strings"),
        ('{"id": "a", "chosen": " "}', "an edit needs an `id` and a `chosen` answer, both strings"),
        ('{"id": "c", "chosen": "Yes."}', "`c` is not a row of this run"),
    ],
)
def test_each_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "edits.jsonl"
    path.write_text(f'{{"id": "a", "chosen": "Yes."}}\n{line}\n', "utf-8")
    with pytest.raises(EditsError) as caught:
        read_edits(path, KNOWN)

    assert (caught.value.where, caught.value.problem) == (f"{path}:2", problem)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EditsError, match="cannot read the edits: no such file"):
        read_edits(tmp_path / "none", KNOWN)


@pytest.mark.parametrize(
    ("note", "edit"),
    [
        (" Answer: Take the box. ", "Take the box."),
        ("answer:\nYes.\n\nThen this.", "Yes.\n\nThen this."),
        ("the answer: no", None),
        ("answer:  ", None),
        ("", None),
    ],
)
def test_a_note_holds_an_answer_if_it_says_so(note: str, edit: str | None) -> None:
    assert parse_note(note) == edit


def test_answers_in_a_store_are_found_by_decision_and_tenant() -> None:
    def label(
        decision_id: str, note: str, tenant: str = "acme", value: str = "false_refusal"
    ) -> Label:
        return Label(decision_id, tenant, "2026-11-15T12:00:00.000Z", "review", value, note, "mara")

    with open_store(":memory:") as store:
        store.add_label(label("a", "answer: First."))
        store.add_label(label("a", "answer: Second."))
        store.add_label(label("a", "a remark"))
        store.add_label(label("b", "answer: Good.", value="good"))
        store.add_label(label("b", "answer: Third.", tenant="other"))
        store.add_label(label("c", "answer: Unknown row."))

        assert read_store_edits(store, KNOWN) == {"a": "Second.", "b": "Third."}
        assert read_store_edits(store, KNOWN, tenant="acme") == {"a": "Second."}
