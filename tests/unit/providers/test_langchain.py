from typing import Any

import msgspec
import pytest
from support.lookalikes import error, thing

from demur.model.refusal import Refusal
from demur.providers.normalization import normalize

CORE = "langchain_core.exceptions"


def code_of(obj: Any) -> str | None:
    refusal = normalize(obj)
    return None if refusal is None else refusal.code


def message(*content: dict[str, Any], **fields: Any) -> Any:
    said = {"content": list(content), "response_metadata": {}, "additional_kwargs": {}, **fields}
    return thing("langchain_core.messages.ai", "AIMessage", **said)


def block(words: str = "I will not.", **extras: Any) -> dict[str, Any]:
    return {"type": "refusal", "refusal": words, "extras": extras}


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (block(), "MODEL_DECLINED"),
        (block(category="cyber"), "CONTENT_CYBER"),
        (block(category="brand_new"), "FILTERED_UNSPECIFIED"),
        (block(finish_reason="PROHIBITED_CONTENT"), "PLATFORM_PROHIBITED"),
        (block(finish_reason="stop"), "MODEL_DECLINED"),
        (block("REFUSED: TOPIC_DENIED: politics"), "TOPIC_DENIED"),
    ],
)
def test_a_refusal_block_is_read_by_its_extras(refusal: dict[str, Any], code: str) -> None:
    assert code_of(message(refusal)) == code
    assert code_of({"content": [refusal], "response_metadata": {"x": 1}, "type": "ai"}) == code


def test_the_category_in_a_block_beats_the_bare_stop_reason() -> None:
    said = message(block(category="bio"), response_metadata={"stop_reason": "refusal"})

    assert code_of(said) == "CONTENT_CBRN"


def test_a_bare_stop_reason_beats_a_block_that_says_no_more() -> None:
    said = message(block(), response_metadata={"stop_reason": "refusal"})

    assert code_of(said) == "FILTERED_UNSPECIFIED"


def test_the_details_of_a_stop_are_read_from_the_metadata() -> None:
    metadata = {"stop_reason": "refusal", "stop_details": {"type": "refusal", "category": "cyber"}}

    assert code_of(message(response_metadata=metadata)) == "CONTENT_CYBER"


def test_the_words_of_openai_are_a_refusal() -> None:
    declined = message(
        additional_kwargs={"refusal": "I can't help."}, response_metadata={"finish_reason": "stop"}
    )
    coded = message(additional_kwargs={"refusal": "No.\nREFUSED: RCE_RISK: eval"})

    assert code_of(declined) == "MODEL_DECLINED"
    assert code_of(coded) == "RCE_RISK"


def test_an_ordinary_message_is_none() -> None:
    text = {"type": "text", "text": "I can't help with that."}

    assert code_of(message(text, response_metadata={"finish_reason": "stop"})) is None
    assert code_of(message(text, additional_kwargs={"refusal": None})) is None


def test_a_refusal_that_is_raised_is_read_from_its_message() -> None:
    raised = error(
        CORE, "ModelRefusalError", "refused", raw_message=message(block(category="cyber"))
    )

    assert code_of(raised) == "CONTENT_CYBER"
    assert (
        code_of(error(CORE, "ModelRefusalError", "refused", raw_message=message()))
        == "MODEL_DECLINED"
    )
    assert code_of(error(CORE, "ModelRefusalError", "refused")) == "MODEL_DECLINED"
    assert code_of(error("langchain_openai", "OpenAIRefusalError", "no")) == "MODEL_DECLINED"


def test_flagged_content_is_not_carried_on() -> None:
    categories = thing("openai", "Categories", self_harm_intent=True, harassment=True, hate=False)
    raised = error(
        "langchain_openai.middleware",
        "OpenAIModerationError",
        "my secret plan was flagged",
        content="my secret plan",
        stage="input",
        result=thing("openai", "Moderation", categories=categories, flagged=True),
    )
    refusal = normalize(raised)

    assert refusal is not None
    assert refusal.code == "CONTENT_SELF_HARM"
    assert refusal.surface == "input"
    assert refusal.evidence["left_out"] == ["content"]
    assert b"secret" not in msgspec.json.encode(refusal)


def test_moderation_that_names_no_known_category_is_still_a_refusal() -> None:
    result = {"categories": {"sorcery": True}}
    raised = error(
        "langchain_openai.middleware", "OpenAIModerationError", "x", stage="tool", result=result
    )
    refusal = normalize(raised)

    assert refusal is not None
    assert (refusal.code, refusal.surface) == ("CONTENT_OTHER", "tool_result")


def test_the_strictest_flag_decides_by_its_wire_name_too() -> None:
    result = {"categories": {"sexual": True, "sexual/minors": True, "self-harm": True}}
    raised = error("langchain_openai", "OpenAIModerationError", "x", stage="output", result=result)

    assert code_of(raised) == "CONTENT_CSAE"


def test_personal_data_that_matched_is_not_carried_on() -> None:
    raised = error(
        "langchain.agents.middleware._redaction",
        "PIIDetectionError",
        "Detected 2 of email: ada@example.org",
        pii_type="email",
        matches=[{"value": "ada@example.org"}, {"value": "bob@example.org"}],
    )
    refusal = normalize(raised)

    assert refusal is not None
    assert refusal.code == "PII_DETECTED"
    assert refusal.evidence == {"entity": "email", "count": 2, "left_out": ["matches"]}
    assert b"example.org" not in msgspec.json.encode(refusal)


@pytest.mark.parametrize(
    ("decision", "code"),
    [
        ({"type": "reject", "message": "not today"}, "APPROVAL_DENIED"),
        ({"type": "reject"}, "APPROVAL_DENIED"),
        ({"type": "reject", "message": "REFUSED: RCE_RISK: eval"}, "RCE_RISK"),
        ({"type": "approve"}, None),
        ({"type": "reject", "invoice": 3}, None),
    ],
)
def test_a_human_decision_on_a_tool_call_has_its_code(
    decision: dict[str, Any], code: str | None
) -> None:
    assert code_of(decision) == code
    assert code_of({"decisions": [{"type": "approve"}, decision]}) == code


def test_a_guard_answers_in_place_of_a_tool() -> None:
    refusal = Refusal.from_code("RCE_RISK", "eval", decision_id="dec_1")
    fields: dict[str, Any] = {"tool_call_id": "call_1", "content": "no", "status": "error"}
    carrying = thing(
        "langchain_core.messages.tool", "ToolMessage", **fields, artifact={"refusal": refusal}
    )
    worded = thing(
        "langchain_core.messages.tool", "ToolMessage", **fields | {"content": refusal.line}
    )

    assert normalize(carrying) == refusal
    # The content is what the model reads, and may be what a tool returned.
    assert code_of(worded) is None
    assert code_of([{"role": "tool", **fields, "content": refusal.line}]) is None
    assert code_of(thing("langchain_core.messages.tool", "ToolMessage", **fields)) is None
    assert (
        code_of(thing("langchain_core.messages.tool", "ToolMessage", **fields | {"status": "ok"}))
        is None
    )
