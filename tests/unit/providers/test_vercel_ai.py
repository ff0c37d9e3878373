from typing import Any

import pytest

from demur.providers.normalization import normalize

RATED = [{"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "blocked": True}]


def code_of(obj: Any) -> str | None:
    refusal = normalize(obj)
    return None if refusal is None else refusal.code


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, "FILTERED_UNSPECIFIED"),
        ({"rawFinishReason": "refusal"}, "FILTERED_UNSPECIFIED"),
        ({"rawFinishReason": "RECITATION"}, "IP_RECITATION"),
        ({"rawFinishReason": "end_turn"}, "FILTERED_UNSPECIFIED"),
        ({"providerMetadata": {"anthropic": {"stopDetails": {"category": "bio"}}}}, "CONTENT_CBRN"),
        (
            {"providerMetadata": {"google": {"promptFeedback": {"blockReason": "BLOCKLIST"}}}},
            "TERM_BLOCKLISTED",
        ),
        (
            {"rawFinishReason": "SAFETY", "providerMetadata": {"vertex": {"safetyRatings": RATED}}},
            "CONTENT_OTHER",
        ),
    ],
)
def test_a_filtered_result_is_read_by_its_provider_metadata(
    more: dict[str, Any], code: str
) -> None:
    assert code_of({"text": "", "finishReason": "content-filter", **more}) == code


def test_the_newer_form_keeps_both_words_together() -> None:
    reason = {"unified": "content-filter", "raw": "SPII"}

    assert code_of({"type": "finish", "finishReason": reason}) == "PII_DETECTED"


@pytest.mark.parametrize("reason", ["stop", "tool-calls", "other", "unknown", "length", None])
def test_other_reasons_are_no_refusal(reason: str | None) -> None:
    assert code_of({"text": "Hm.", "finishReason": reason}) is None
