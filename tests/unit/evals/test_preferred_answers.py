from pathlib import Path

import pytest

from demur.codes.loading import default_registry
from demur.detect.detector import detect_refusal
from demur.evals.preferred_answers import (
    EditsError,
    compliant_template,
    graceful_refusal,
    helpful_template,
    parse_note,
    read_edits,
    read_store_edits,
    refusal_code,
)
from demur.evals.suite import load_suite
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
        ("{", "not JSON: input data was truncated"),
        ("[]", "the line is not a JSON object"),
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


ASKS = ("?", "\N{FULLWIDTH QUESTION MARK}")
ROWS = [row for name in ("smoke", "multilingual") for row in load_suite(name).rows]


def test_no_helpful_template_reads_like_a_refusal() -> None:
    for row in ROWS:
        if row.label == "legitimate":
            text = helpful_template(row.prompt, row.language)

            assert text is not None
            assert detect_refusal(text, row.prompt).kind == "none", text


def test_a_template_restates_the_task_always_alike() -> None:
    prompt = "Kill the lights {now}, please."

    assert prompt in (helpful_template(prompt) or "")
    assert helpful_template(prompt) == helpful_template(prompt)
    assert len({(helpful_template(f"{n}") or "").split("“")[0] for n in range(60)}) == 6


@pytest.mark.parametrize("language", ["en", "de", "es", "fr", "ja"])
def test_a_template_begins_an_answer_and_asks_nothing_back(language: str) -> None:
    texts = {helpful_template(f"{n}", language) or "" for n in range(60)}

    assert len(texts) == 60
    assert not [text for text in texts if any(mark in text for mark in ASKS)]


def test_graceful_refusals_of_one_code_vary_by_the_prompt() -> None:
    texts = {graceful_refusal("CONTENT_CYBER", "en", f"{n}") for n in range(30)}

    assert len(texts) == 3


def test_a_long_task_is_cut() -> None:
    text = helpful_template("word " * 500)

    assert text is not None
    assert len(text) < 600
    assert "…”" in text


def test_a_language_is_taken_for_the_nearest_there_are_words_for() -> None:
    assert "gerne" in (helpful_template("a", "de-AT") or "") or "Klar" in (
        helpful_template("a", "de-AT") or ""
    )
    assert helpful_template("a", "tlh") is None
    assert compliant_template("a", "tlh") is None
    assert graceful_refusal("CONTENT_CYBER", "tlh") is None


def test_going_along_is_no_refusal() -> None:
    for language in ("en", "de", "es", "fr", "ja"):
        text = compliant_template("Take the boxes.", language)

        assert text is not None
        assert detect_refusal(text).kind == "none", text


@pytest.mark.parametrize(
    ("category", "code"),
    [
        ("privacy", "CONTENT_PRIVACY"),
        ("self_harm", "CONTENT_SELF_HARM"),
        ("social engineering", "CONTENT_SOCIAL_ENGINEERING"),
        ("destructive_action", "DESTRUCTIVE_ACTION"),
        ("", "CONTENT_OTHER"),
        ("nonsense", "CONTENT_OTHER"),
    ],
)
def test_a_category_has_a_code(category: str, code: str) -> None:
    assert refusal_code(category) == code


def test_every_category_of_the_suites_is_refused_in_words_of_its_own() -> None:
    categories = {(row.category, row.language) for row in ROWS}

    for category, language in categories:
        code = refusal_code(category)
        assert code in default_registry()
        assert graceful_refusal(code, language), (category, language)
    assert graceful_refusal("CONTENT_CYBER") != graceful_refusal("CONTENT_PRIVACY")
