import json
from typing import Any

import pytest
from support.lookalikes import error, thing

from demur.model.refusal import Refusal
from demur.providers.normalization import normalize

ERRORS = "pydantic_ai.exceptions"


def code_of(obj: Any) -> str | None:
    refusal = normalize(obj)
    return None if refusal is None else refusal.code


def response(finish: str | None = "content_filter", **details: Any) -> dict[str, Any]:
    return {"kind": "response", "parts": [], "finish_reason": finish, "provider_details": details}


@pytest.mark.parametrize(
    ("details", "code"),
    [
        ({"refusal": "I won't."}, "MODEL_DECLINED"),
        ({"refusal": "No.\nREFUSED: TOPIC_DENIED: politics"}, "TOPIC_DENIED"),
        ({"finish_reason": "refusal", "refusal": "explained"}, "FILTERED_UNSPECIFIED"),
        ({"finish_reason": "refusal", "refusal_category": "bio"}, "CONTENT_CBRN"),
        ({"finish_reason": "refusal", "refusal_category": "brand_new"}, "FILTERED_UNSPECIFIED"),
        ({"finish_reason": "content_filter"}, "FILTERED_UNSPECIFIED"),
        ({"block_reason": "PROHIBITED_CONTENT"}, "PLATFORM_PROHIBITED"),
        ({"timestamp": "2026-01-01"}, "FILTERED_UNSPECIFIED"),
    ],
)
def test_the_details_of_the_provider_decide(details: dict[str, Any], code: str) -> None:
    fields = response(**details)

    assert code_of(fields) == code
    assert code_of(thing("pydantic_ai.messages", "ModelResponse", **fields)) == code


def test_an_answer_is_none() -> None:
    assert code_of(response("stop", finish_reason="STOP")) is None
    assert code_of(response("stop", timestamp="2026-01-01")) is None
    assert code_of(response("tool_call", finish_reason="tool_calls")) is None
    assert code_of(response(None, timestamp="2026-01-01")) is None


def test_a_response_without_details_still_says_that_it_was_filtered() -> None:
    bare = {"kind": "response", "parts": [], "finish_reason": "content_filter"}

    assert code_of(bare) == "FILTERED_UNSPECIFIED"
    assert code_of({**bare, "provider_details": None}) == "FILTERED_UNSPECIFIED"


def test_a_run_is_read_by_its_last_response_though_its_text_flows_on() -> None:
    refused, fine = response(finish_reason="SPII"), response("stop", finish_reason="STOP")

    def run(last: Any) -> Any:
        return thing("pydantic_ai.run", "AgentRunResult", output="partial text", response=last)

    assert code_of(run(refused)) == "PII_DETECTED"
    assert code_of(run(thing("pydantic_ai.messages", "ModelResponse", **refused))) == "PII_DETECTED"
    assert code_of(run(fine)) is None


def test_a_filter_that_is_raised_is_read_from_the_messages_on_it() -> None:
    body = json.dumps([{"kind": "request", "parts": []}, response(finish_reason="SPII")])
    raised = error(
        ERRORS, "ContentFilterError", "filtered", base="UnexpectedModelBehavior", body=body
    )

    assert code_of(raised) == "PII_DETECTED"
    assert (
        code_of(error(ERRORS, "ContentFilterError", "filtered", body=None))
        == "FILTERED_UNSPECIFIED"
    )
    single = error(ERRORS, "ContentFilterError", "x", body=json.dumps(response(refusal="no")))
    assert code_of(single) == "MODEL_DECLINED"


def test_a_filter_that_is_raised_is_read_from_the_error_behind_it() -> None:
    inner = {"content_filter_result": {"hate": {"filtered": True, "severity": "high"}}}
    body = {"code": "content_filter", "message": "filtered", "innererror": inner}
    raised = error(ERRORS, "ContentFilterError", "filtered", body=None)
    raised.__cause__ = error("openai", "BadRequestError", "400", status_code=400, body=body)

    assert code_of(raised) == "CONTENT_HATE"


def test_other_behaviour_that_was_not_expected_is_no_refusal() -> None:
    assert code_of(error(ERRORS, "UnexpectedModelBehavior", "Exceeded maximum retries")) is None


def test_an_approval_that_is_missing_carries_the_refusal_in_its_metadata() -> None:
    refusal = Refusal.from_code("APPROVAL_REQUIRED", "refund", decision_id="dec_1")
    raised = error(ERRORS, "ApprovalRequired", metadata={"refusal": refusal})

    assert normalize(raised) == refusal
    assert code_of(error(ERRORS, "ApprovalRequired", metadata=None)) == "APPROVAL_REQUIRED"


def test_a_tool_call_that_was_denied() -> None:
    denied = thing("pydantic_ai.tools", "ToolDenied", message="not today", kind="tool-denied")
    coded = {"kind": "tool-denied", "message": "REFUSED: RCE_RISK: eval"}
    part = {"part_kind": "tool-return", "tool_name": "sh", "content": "no", "outcome": "denied"}

    assert code_of(denied) == "APPROVAL_DENIED"
    assert code_of(coded) == "RCE_RISK"
    assert code_of(part) == "APPROVAL_DENIED"
    assert code_of({**part, "content": "REFUSED: RCE_RISK: eval"}) == "RCE_RISK"
    assert code_of({**part, "outcome": "success"}) is None
