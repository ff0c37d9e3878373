"""Answers in which one word contradicts another: the refusal among them is found."""

from typing import Any

import pytest

from demur.providers.normalization import normalize

MASK = {"piiEntities": [{"type": "EMAIL", "match": "a@b", "action": "ANONYMIZED"}]}


def code_of(given: Any) -> str | None:
    refusal = normalize(given)
    return refusal.code if refusal else None


def guarded(**assessment: Any) -> dict[str, Any]:
    guardrail = {"inputAssessment": {"g": assessment}}
    return {"stopReason": "guardrail_intervened", "trace": {"guardrail": guardrail}}


@pytest.mark.parametrize(
    "body",
    [
        {"generation": "blocked", "stop_reason": "stop"},
        {"type": "message", "stop_reason": "end_turn", "content": []},
        {"stopReason": "end_turn"},
    ],
)
def test_a_model_s_own_stop_reason_hides_no_guardrail(body: dict[str, Any]) -> None:
    assert code_of(body) is None
    assert (
        code_of({**body, "amazon-bedrock-guardrailAction": "INTERVENED"}) == "FILTERED_UNSPECIFIED"
    )
    assert code_of({**body, "amazon-bedrock-guardrailAction": "NONE"}) is None


@pytest.mark.parametrize(
    "more",
    [
        {"newPolicy": {"items": [{"action": "BLOCKED"}]}},
        {"sensitiveInformationPolicy": {**MASK, "newThings": [{"action": "BLOCKED"}]}},
    ],
)
def test_a_mask_next_to_an_unknown_check_counts_as_blocked(more: dict[str, Any]) -> None:
    assert code_of(guarded(sensitiveInformationPolicy=MASK)) is None
    metrics = {"guardrailProcessingLatency": 3}
    assert code_of(guarded(sensitiveInformationPolicy=MASK, invocationMetrics=metrics)) is None
    assert (
        code_of(guarded(**{"sensitiveInformationPolicy": MASK, **more})) == "FILTERED_UNSPECIFIED"
    )


@pytest.mark.parametrize("results", [{}, {"content_filter_results": {}}])
def test_a_block_of_azure_needs_no_results(results: dict[str, Any]) -> None:
    entry = {"blocked": True, "source_type": "prompt", **results}

    assert code_of({"object": "response", "content_filters": [entry]}) == "FILTERED_UNSPECIFIED"
    assert code_of({"content_filters": [{**entry, "blocked": False}]}) is None


def choice(native: str | None = "STOP", **more: Any) -> dict[str, Any]:
    fields = {} if native is None else {"native_finish_reason": native}
    return {"finish_reason": "stop", "provider_specific_fields": fields, "message": {}, **more}


@pytest.mark.parametrize(
    ("choices", "code"),
    [
        ([choice(), choice(None, finish_reason="content_filter")], "FILTERED_UNSPECIFIED"),
        ([choice(message={"content": None, "refusal": "I can't."})], "MODEL_DECLINED"),
        ([choice(content_filter_results={"hate": {"filtered": True}})], "CONTENT_HATE"),
        ([choice("MALFORMED_FUNCTION_CALL", finish_reason="content_filter")], None),
        ([choice(), choice("SAFETY")], "CONTENT_OTHER"),
        ([choice()], None),
    ],
)
def test_a_native_reason_settles_its_own_choice_alone(choices: list[Any], code: str | None) -> None:
    assert code_of({"choices": choices}) == code


def test_a_reason_of_the_provider_does_not_hide_the_words_of_a_refusal() -> None:
    details = {"finish_reason": "stop", "refusal": "I can't."}
    said = {"kind": "response", "parts": [], "finish_reason": "content_filter"}

    assert code_of({**said, "provider_details": details}) == "MODEL_DECLINED"
    assert code_of({**said, "provider_details": {"finish_reason": "stop"}}) is None


@pytest.mark.parametrize(
    ("body", "decided"),
    [
        ({"type": "guardrail_error", "message": "guardrail timed out"}, False),
        ({"message": "moderation service error, block_on_error"}, False),
        ({"type": "guardrail_unavailable", "message": "Request blocked"}, False),
        ({"message": "the guardrail has failed"}, False),
        ({"message": "guardrail health check failed"}, False),
        ({"message": "moderation could not be run"}, False),
        ({"type": "guardrail", "message": "Request failed the moderation guardrail: sexual"}, True),
        ({"message": "Request failed the moderation guardrail"}, True),
        ({"message": "guardrail failed: hate and discrimination"}, True),
        ({"type": "invalid_request_error", "message": "blocked by guardrail"}, True),
    ],
)
def test_a_broken_guardrail_is_distinguished_from_a_refusal(
    body: dict[str, str], decided: bool
) -> None:
    refusal = normalize((403, {"object": "error", **body}))

    assert refusal
    assert refusal.decided is decided
    assert refusal.code == ("FILTERED_UNSPECIFIED" if decided else "GUARDRAIL_UNAVAILABLE")


RATING = {"category": "HARM_CATEGORY_HARASSMENT", "blocked": True}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"promptFeedback": {"safetyRatings": [RATING]}}, "CONTENT_HARASSMENT"),
        ({"promptFeedback": {"blockReason": 1}}, "FILTERED_UNSPECIFIED"),
        ({"promptFeedback": {"safetyRatings": [{**RATING, "blocked": False}]}}, None),
        (
            {"candidates": [{"finishReason": "STOP", "safetyRatings": [RATING]}]},
            "CONTENT_HARASSMENT",
        ),
        ({"candidates": [{"safetyRatings": [RATING]}]}, "CONTENT_HARASSMENT"),
        ({"candidates": [{"finishReason": 3}]}, "CONTENT_OTHER"),
        ({"candidates": [{"finishReason": 9}]}, "FILTERED_UNSPECIFIED"),
        ({"candidates": [{"finishReason": 1}]}, None),
        ({"candidates": [{"finishReason": 0}]}, None),
        ({"promptFeedback": {}, "candidates": [{"finishReason": "OTHER"}]}, "FILTERED_UNSPECIFIED"),
        ({"kind": "task", "status": {"state": 7}}, "TASK_REJECTED"),
        ({"contextId": "c", "status": {"state": 3}}, None),
        ({"job": "backup", "status": {"state": 7}}, None),
        ({"sanitizationResult": {"invocationResult": "FAILURE"}}, "GUARDRAIL_UNAVAILABLE"),
        ({"sanitizationResult": {}}, None),
    ],
)
def test_google_s_and_other_numbers_and_ratings_tell_of_blocks(body: Any, code: str | None) -> None:
    assert code_of(body) == code


@pytest.mark.parametrize(
    "given",
    [
        {
            "candidates": [
                {
                    "finishReason": "SAFETY",
                    "safetyRatings": [{**RATING, "category": "HARM_CATEGORY_DANGEROUS_CONTENT"}],
                }
            ]
        },
        (403, {"guardrails": [{"action": "block", "categories": {"dangerous": True}}]}),
        {
            "sanitizationResult": {
                "filterMatchState": "MATCH_FOUND",
                "filterResults": {
                    "rai": {
                        "raiFilterResult": {
                            "matchState": "MATCH_FOUND",
                            "raiFilterTypeResults": {"dangerous": {"matchState": "MATCH_FOUND"}},
                        }
                    }
                },
            }
        },
        {
            "validation_passed": False,
            "validation_summaries": [
                {"validator_name": "MentionsDrugs", "validator_status": "fail"}
            ],
        },
    ],
)
def test_danger_of_any_kind_is_not_taken_for_a_daring_stunt(given: Any) -> None:
    assert code_of(given) == "CONTENT_OTHER"


def test_a_stream_that_nobody_read_was_not_judged() -> None:
    unread: Any = ({"choices": []} for _ in range(2))
    refusal = normalize(unread)

    assert refusal
    assert (refusal.code, refusal.decided) == ("INTERNAL_ERROR", False)
    assert len(list(unread)) == 2


@pytest.mark.parametrize(
    "given",
    [
        {"outcome": "fail", "error_message": "assert 1 == 2"},
        {"result": {"violations": ["line too long"]}},
        {"model": "gpt-4o", "choices": [{"message": {"content": "unsafe\nS1"}}]},
        (403, {"Error": {"Code": "AccessDenied", "Message": "x"}}),
        (403, {"error": {"code": "PermissionDenied"}}),
        (403, {"error": {"code": "x", "type": "request_forbidden"}}),
        (400, {"error": {"code": "invalid_filter", "message": "bad OData filter"}}),
        (400, {"error": {"code": "feature_flag_disabled"}}),
        {"object": "response", "output": [{"type": "mcp_call", "error": {"code": "policy"}}]},
    ],
)
def test_an_ordinary_failure_is_no_refusal(given: Any) -> None:
    assert normalize(given) is None


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"outcome": "fail", "error_message": "x", "fix_value": None}, "POLICY_VIOLATION"),
        ({"result": {"violations": ["no"], "allow": False}}, "POLICY_VIOLATION"),
        ({"result": {"violations": ["no"]}, "decision_id": "d"}, "POLICY_VIOLATION"),
        ({"result": {"violations": [{"code": "RCE_RISK"}]}}, "RCE_RISK"),
        ({"result": {"violation": [{"msg": "no"}]}}, "POLICY_VIOLATION"),
        (
            {"model": "llama-guard-3", "choices": [{"message": {"content": "unsafe\nS1"}}]},
            "CONTENT_VIOLENCE",
        ),
        (
            {"model": "my-safety", "choices": [{"message": {"content": "unsafe\nS1"}}]},
            "CONTENT_OTHER",
        ),
        ((403, {"error": {"code": "request_blocked"}}), "FILTERED_UNSPECIFIED"),
        ((400, {"error": {"code": "invalid_content_policy"}}), "FILTERED_UNSPECIFIED"),
        ((403, {"error": {"code": "AccessBlockedByContentSafety"}}), "FILTERED_UNSPECIFIED"),
    ],
)
def test_similar_responses_that_refuse_are_refusals(given: Any, code: str) -> None:
    assert code_of(given) == code
