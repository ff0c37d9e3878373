from typing import Any

import pytest
from support.lookalikes import error

from demur.providers.normalization import normalize


def code_of(obj: Any) -> str | None:
    refusal = normalize(obj)
    return None if refusal is None else refusal.code


@pytest.mark.parametrize(
    ("scanner", "code"),
    [
        ("PromptInjection", "CONTEXT_INJECTION"),
        ("Toxicity", "CONTENT_HARASSMENT"),
        ("Secrets", "SECRET_LEAK"),
        ("Anonymize", "PII_DETECTED"),
        ("Sensitive", "PII_DETECTED"),
        ("BanTopics", "TOPIC_DENIED"),
        ("NoRefusal", "MODEL_DECLINED"),
        ("AcmeScanner", "FILTERED_UNSPECIFIED"),
        ("JSON", None),
    ],
)
def test_the_failed_scanner_decides_the_code(scanner: str, code: str | None) -> None:
    scanned = ("text", {scanner: False, "Language": True}, {scanner: 0.9, "Language": 0.0})

    assert code_of(scanned) == code
    assert code_of([*scanned]) == code


def test_the_score_and_the_scanner_are_kept_and_the_text_is_not() -> None:
    refusal = normalize(("my secret", {"Toxicity": False}, {"Toxicity": 0.9}))

    assert refusal is not None
    assert refusal.evidence == {"scanner": "Toxicity", "score": 0.9}
    assert refusal.source is not None
    assert refusal.source.native == {"Toxicity": False}


def test_of_several_the_strictest_decides() -> None:
    verdicts = {"Toxicity": False, "TokenLimit": False}

    assert code_of(("text", verdicts, {})) == "BUDGET_EXCEEDED"


@pytest.mark.parametrize(
    "other",
    [
        ("text", {"Toxicity": True}, {"Toxicity": 0.0}),
        ("text", {}, {}),
        ("text", {"Toxicity": 0.0}, {}),
        ("text", {"Toxicity": False}),
        (1, {"Toxicity": False}, {}),
        [1, 2, 3],
    ],
)
def test_other_tuples_are_no_refusal(other: Any) -> None:
    assert code_of(other) is None


def test_the_server_gives_scores_only() -> None:
    answer = {"is_valid": False, "scanners": {"BanTopics": 0.8, "Toxicity": -1.0}}

    assert code_of(answer) == "TOPIC_DENIED"
    assert code_of({**answer, "scanners": {"Toxicity": 0}}) == "FILTERED_UNSPECIFIED"
    assert code_of({**answer, "is_valid": True}) is None


def test_the_exception_has_no_fields() -> None:
    raised = error("llm_guard.exception", "LLMGuardValidationError", "invalid", base="ValueError")

    assert code_of(raised) == "FILTERED_UNSPECIFIED"
