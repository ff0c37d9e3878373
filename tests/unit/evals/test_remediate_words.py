import pytest

from demur.codes.default import default_registry
from demur.detect.detector import detect_refusal
from demur.evals.remediate_words import (
    compliant_template,
    graceful_refusal,
    helpful_template,
    refusal_code,
)
from demur.evals.suite import load_suite

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
    assert len({(helpful_template(f"{n}") or "").split("“")[0] for n in range(30)}) == 3


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
