"""One reason of Gemini, four frameworks: they disagree on what it is, the answer here does not.

Each row gives Gemini's reason and the words that four frameworks make of it. From the
native response the reason has one code. From what a framework hands over it has the same
code wherever the framework still carries Gemini's own word; where it does not, the test
says what is left of it.
"""

from typing import Any, NamedTuple

import pytest
from support.lookalikes import thing

from demur.providers.normalization import normalize


class Row(NamedTuple):
    reason: str
    code: str | None
    litellm: str
    pydantic_ai: str | None
    strands: str
    langchain_block: bool


ROWS = (
    Row(
        "SAFETY", "CONTENT_OTHER", "content_filter", "content_filter", "guardrail_intervened", True
    ),
    Row(
        "RECITATION", "IP_RECITATION", "content_filter", "content_filter", "content_filtered", False
    ),
    Row("LANGUAGE", "LANGUAGE_UNSUPPORTED", "content_filter", "error", "end_turn", False),
    Row("OTHER", "FILTERED_UNSPECIFIED", "content_filter", None, "end_turn", False),
    Row("BLOCKLIST", "TERM_BLOCKLISTED", "content_filter", "content_filter", "end_turn", True),
    Row(
        "PROHIBITED_CONTENT",
        "PLATFORM_PROHIBITED",
        "content_filter",
        "content_filter",
        "end_turn",
        True,
    ),
    Row("SPII", "PII_DETECTED", "content_filter", "content_filter", "end_turn", False),
    Row("IMAGE_SAFETY", "CONTENT_OTHER", "content_filter", "content_filter", "end_turn", False),
    Row(
        "IMAGE_PROHIBITED_CONTENT",
        "PLATFORM_PROHIBITED",
        "content_filter",
        "content_filter",
        "end_turn",
        False,
    ),
    Row("NO_IMAGE", None, "content_filter", "error", "end_turn", False),
    Row("IMAGE_RECITATION", "IP_RECITATION", "content_filter", None, "end_turn", False),
)
BLOCK_CODES = {
    "SAFETY": "CONTENT_OTHER",
    "OTHER": "FILTERED_UNSPECIFIED",
    "BLOCKLIST": "TERM_BLOCKLISTED",
    "PROHIBITED_CONTENT": "PLATFORM_PROHIBITED",
    "IMAGE_SAFETY": "CONTENT_OTHER",
    "JAILBREAK": "JAILBREAK_WRAPPER",
}
HARASSED = [
    {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "LOW", "blocked": False},
    {"category": "HARM_CATEGORY_HARASSMENT", "probability": "HIGH", "blocked": True},
]

rows = pytest.mark.parametrize("row", ROWS, ids=[row.reason for row in ROWS])
blocks = pytest.mark.parametrize(("reason", "code"), BLOCK_CODES.items())


def code_of(obj: Any) -> str | None:
    refusal = normalize(obj)
    return None if refusal is None else refusal.code


def gemini(reason: str, ratings: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"candidates": [{"finishReason": reason, "safetyRatings": ratings or []}]}


def litellm(row: Row, *, native: bool = True, ratings: Any = ()) -> Any:
    kept = {"native_finish_reason": row.reason} if native else None
    message = {"role": "assistant", "content": None, "provider_specific_fields": None}
    choice = {"index": 0, "finish_reason": row.litellm, "message": message}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "gemini-3-pro",
        "choices": [{**choice, "provider_specific_fields": kept}],
        "vertex_ai_safety_results": list(ratings),
    }


def pydantic_ai(finish: str | None, **details: Any) -> Any:
    return thing(
        "pydantic_ai.messages",
        "ModelResponse",
        parts=[],
        model_name="gemini-3-pro",
        finish_reason=finish,
        provider_name="google",
        provider_details=details,
        kind="response",
    )


def strands(stop_reason: str) -> Any:
    message = {"role": "assistant", "content": []}
    return thing(
        "strands.agent.agent_result",
        "AgentResult",
        stop_reason=stop_reason,
        message=message,
        metrics=thing("strands.telemetry.metrics", "EventLoopMetrics"),
        state={},
    )


def langchain(content: list[dict[str, Any]], **metadata: Any) -> Any:
    return thing(
        "langchain_core.messages.ai",
        "AIMessage",
        content=content,
        additional_kwargs={},
        response_metadata={"model_provider": "google_genai", **metadata},
        type="ai",
    )


def refusal_block(**extras: str) -> dict[str, Any]:
    return {"type": "refusal", "refusal": "", "extras": extras}


@rows
def test_the_native_reason_has_one_code(row: Row) -> None:
    assert code_of(gemini(row.reason)) == row.code


@rows
def test_litellm_keeps_the_reason_next_to_its_finish_reason(row: Row) -> None:
    assert code_of(litellm(row)) == row.code


@rows
def test_without_the_reason_litellm_has_only_its_one_word_left(row: Row) -> None:
    assert code_of(litellm(row, native=False)) == "FILTERED_UNSPECIFIED"


def test_ratings_that_litellm_keeps_still_tell_why_when_the_reason_is_lost() -> None:
    assert code_of(litellm(ROWS[0], native=False, ratings=[HARASSED])) == "CONTENT_HARASSMENT"
    assert code_of(litellm(ROWS[0], native=False, ratings=HARASSED)) == "CONTENT_HARASSMENT"


@rows
def test_pydantic_ai_keeps_the_reason_in_its_details(row: Row) -> None:
    assert code_of(pydantic_ai(row.pydantic_ai, finish_reason=row.reason)) == row.code


@rows
def test_langchain_keeps_the_reason_in_its_metadata_also_where_it_makes_no_block(row: Row) -> None:
    blocks = [refusal_block(finish_reason=row.reason)] if row.langchain_block else []

    assert code_of(langchain(blocks, finish_reason=row.reason)) == row.code
    if blocks:
        assert code_of(langchain(blocks)) == row.code


@rows
def test_strands_keeps_nothing_so_what_it_calls_the_end_of_a_turn_stays_that(row: Row) -> None:
    lost = row.strands == "end_turn"

    assert code_of(strands(row.strands)) == (None if lost else "FILTERED_UNSPECIFIED")


@blocks
def test_a_blocked_prompt_has_one_code_in_all_that_keep_the_reason(reason: str, code: str) -> None:
    feedback = {"block_reason": reason, "safety_ratings": []}

    assert code_of({"promptFeedback": {"blockReason": reason}}) == code
    assert code_of(pydantic_ai("content_filter", block_reason=reason)) == code
    assert code_of(langchain([], prompt_feedback=feedback)) == code
    assert code_of(langchain([refusal_block(block_reason=reason)])) == code


@blocks
def test_a_blocked_prompt_is_unspecified_in_litellm_and_lost_in_strands(
    reason: str, code: str
) -> None:
    blocked = Row(
        reason, code, "content_filter", "content_filter", "end_turn", langchain_block=True
    )

    assert code_of(litellm(blocked, native=False)) == "FILTERED_UNSPECIFIED"
    assert code_of(strands(blocked.strands)) is None


def test_the_ratings_refine_the_reason_alike_wherever_they_are_kept() -> None:
    kept = litellm(ROWS[0], ratings=[HARASSED])
    details = {"finish_reason": "SAFETY", "safety_ratings": HARASSED}

    codes = {
        code_of(gemini("SAFETY", HARASSED)),
        code_of(kept),
        code_of(pydantic_ai("content_filter", **details)),
        code_of(langchain([], **details)),
    }
    assert codes == {"CONTENT_HARASSMENT"}


def test_the_answer_says_who_refused_and_through_whom_it_came() -> None:
    refusal = normalize(pydantic_ai("error", finish_reason="LANGUAGE"))

    assert refusal is not None
    assert refusal.source is not None
    assert refusal.source.name == "gemini.candidate"
    assert refusal.source.path == "provider_details.finish_reason"
    assert refusal.source.native == "LANGUAGE"
    assert refusal.evidence["via"] == "pydantic_ai"
