from enum import Enum
from typing import Any

import pytest
from support.lookalikes import error, thing

from demur.providers.normalization import normalize

KERNEL = "semantic_kernel.connectors.ai.open_ai.exceptions.content_filter_ai_exception"
FRAMEWORK = "agent_framework.exceptions"


class Codes(Enum):
    RESPONSIBLE_AI_POLICY_VIOLATION = "ResponsibleAIPolicyViolation"


class Severity(Enum):
    HIGH = "high"


def code_of(obj: Any) -> str | None:
    refusal = normalize(obj)
    return None if refusal is None else refusal.code


def result(*, filtered: bool) -> Any:
    return thing(
        KERNEL, "ContentFilterResult", filtered=filtered, detected=True, severity=Severity.HIGH
    )


def test_the_category_that_was_filtered_decides() -> None:
    raised = error(
        KERNEL,
        "ContentFilterAIException",
        "filtered",
        base="ServiceContentFilterException",
        content_filter_code=Codes.RESPONSIBLE_AI_POLICY_VIOLATION,
        content_filter_result={
            "hate": result(filtered=False),
            "self_harm": result(filtered=True),
        },
    )
    refusal = normalize(raised)

    assert refusal is not None
    assert refusal.code == "CONTENT_SELF_HARM"
    assert refusal.evidence == {"via": "microsoft_agents", "category": "self_harm"}


def test_a_detected_but_unfiltered_category_does_not_explain_the_block() -> None:
    raised = error(
        KERNEL,
        "ContentFilterAIException",
        "filtered",
        content_filter_code=Codes.RESPONSIBLE_AI_POLICY_VIOLATION,
        content_filter_result={"jailbreak": result(filtered=False)},
    )
    refusal = normalize(raised)

    assert refusal is not None
    assert refusal.code == "FILTERED_UNSPECIFIED"
    assert refusal.source is not None
    assert refusal.source.native == "ResponsibleAIPolicyViolation"


@pytest.mark.parametrize(
    "name", ["ChatClientContentFilterException", "AgentContentFilterException"]
)
def test_an_exception_without_fields_is_unexplained(name: str) -> None:
    assert code_of(error(FRAMEWORK, name, "filtered")) == "FILTERED_UNSPECIFIED"


@pytest.mark.parametrize("link", ["inner_exception", "__cause__", "__context__"])
def test_the_error_of_the_client_behind_it_says_more(link: str) -> None:
    inner = {"content_filter_result": {"violence": {"filtered": True, "severity": "high"}}}
    body = {"code": "content_filter", "message": "filtered", "innererror": inner}
    raised = error(FRAMEWORK, "ChatClientContentFilterException", "filtered")
    setattr(raised, link, error("openai", "BadRequestError", "400", status_code=400, body=body))

    assert code_of(raised) == "CONTENT_VIOLENCE"


def test_another_error_behind_it_says_nothing() -> None:
    raised = error(FRAMEWORK, "AgentContentFilterException", "filtered")
    raised.__cause__ = ValueError("closed enum")

    assert code_of(raised) == "FILTERED_UNSPECIFIED"


def test_other_exceptions_are_no_refusal() -> None:
    assert code_of(error(FRAMEWORK, "ChatClientException", "offline")) is None
