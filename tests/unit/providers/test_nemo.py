import json
from typing import Any

import pytest
from support.lookalikes import thing

from demur.model.refusal import Refusal
from demur.providers.normalization import normalize

PHRASES = (
    "I'm sorry, I can't respond to that.",
    "Es tut mir leid, darauf kann ich nicht antworten.",
    "申し訳ありませんが、それにはお答えできません。",
)


def normalized(obj: Any) -> Refusal:
    refusal = normalize(obj)
    assert refusal is not None
    return refusal


def rail(name: str, kind: str = "input", *, stop: bool = True) -> dict[str, Any]:
    return {
        "type": kind,
        "name": name,
        "decisions": ["execute x", "refuse to respond"],
        "stop": stop,
    }


def answer(*rails: dict[str, Any], phrase: str = PHRASES[0]) -> Any:
    said = [{"role": "assistant", "content": phrase}]
    log = thing("nemoguardrails", "GenerationLog", activated_rails=list(rails))
    return thing("nemoguardrails", "GenerationResponse", response=said, log=log)


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_rail_that_stopped_refuses_in_any_language(phrase: str) -> None:
    refusal = normalized(answer(rail("content safety check input $model=guard"), phrase=phrase))

    assert (refusal.code, refusal.surface) == ("CONTENT_OTHER", "input")
    assert refusal.evidence == {"guard": "content safety check input $model=guard"}


@pytest.mark.parametrize("phrase", PHRASES)
def test_the_phrase_alone_says_nothing(phrase: str) -> None:
    assert normalize(answer(rail("self check input", stop=False), phrase=phrase)) is None
    assert normalize({"response": [{"role": "assistant", "content": phrase}]}) is None


@pytest.mark.parametrize(
    ("name", "kind", "code", "surface"),
    [
        ("self check input", "input", "POLICY_VIOLATION", "input"),
        ("jailbreak detection heuristics", "input", "JAILBREAK_WRAPPER", "input"),
        ("topic safety check input $model=x", "input", "TOPIC_DENIED", "input"),
        ("detect sensitive data on output", "output", "PII_DETECTED", "output"),
        ("self check facts", "output", "UNGROUNDED", "output"),
        ("detect sensitive data on retrieval", "retrieval", "PII_DETECTED", "retrieval"),
        ("injection detection", "output", "CONTEXT_INJECTION", "output"),
        ("our own rail", "tool_input", "FILTERED_UNSPECIFIED", "tool_call"),
    ],
)
def test_the_name_of_the_rail_decides(name: str, kind: str, code: str, surface: str) -> None:
    refusal = normalized(answer(rail(name, kind)))

    assert (refusal.code, refusal.surface) == (code, surface)


def test_a_rail_of_the_dialogue_may_stop_without_refusing() -> None:
    assert normalize(answer(rail("generate next step", "dialog"))) is None


def test_the_log_also_comes_from_the_server() -> None:
    log = {"activated_rails": [rail("self check output", "output")]}
    said = {"choices": [{"message": {"role": "assistant", "content": PHRASES[0]}}]}

    assert normalized({**said, "guardrails": {"log": log}}).code == "POLICY_VIOLATION"
    assert normalized({**said, "guardrails_data": {"log": log}}).code == "POLICY_VIOLATION"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("InputRailException", "POLICY_VIOLATION"),
        ("ContentSafetyCheckOuputException", "CONTENT_OTHER"),
        ("ContentSafetyCheckOutputException", "CONTENT_OTHER"),
        ("PromptSecurityRailRailException", "CONTEXT_INJECTION"),
        ("JailbreakDetectionRailException", "JAILBREAK_WRAPPER"),
        ("AcmeRailException", "FILTERED_UNSPECIFIED"),
        (None, "FILTERED_UNSPECIFIED"),
    ],
)
def test_an_exception_event_is_known_by_its_role(kind: str | None, code: str) -> None:
    event = {"role": "exception", "content": {"type": kind, "uid": "1", "message": "not allowed"}}

    assert normalized(event).code == code
    assert normalized([event]).code == code
    assert normalized({"response": [event]}).code == code


def test_an_exception_event_may_carry_a_refusal_line() -> None:
    content = {"type": "InputRailException", "message": "REFUSED: RCE_RISK: eval"}

    assert normalized({"role": "exception", "content": content}).code == "RCE_RISK"


@pytest.mark.parametrize(
    ("rails", "surface"),
    [
        ("input_rails", "input"),
        ("output_rails", "output"),
        ("tool_input_rails", "tool_call"),
        ("tool_output_rails", "tool_result"),
        (None, None),
    ],
)
def test_a_frame_inside_a_stream(rails: str | None, surface: str | None) -> None:
    error = {
        "type": "guardrails_violation",
        "code": "content_blocked",
        "message": "x",
        "param": rails,
    }
    refusal = normalized(json.dumps({"error": error}))

    assert (refusal.code, refusal.surface) == ("POLICY_VIOLATION", surface)


def test_a_frame_may_name_the_rail_or_carry_a_line() -> None:
    error = {"type": "guardrails_violation", "param": "jailbreak detection model", "message": "x"}

    assert normalized({"error": error}).code == "JAILBREAK_WRAPPER"
    assert normalized({"error": {**error, "message": "REFUSED: RCE_RISK: eval"}}).code == "RCE_RISK"


def test_the_check_of_the_server() -> None:
    rails = {
        "self check input": {"status": "success"},
        "topic safety check input": {"status": "blocked"},
    }

    assert normalized({"status": "blocked", "rails_status": rails}).code == "TOPIC_DENIED"
    unnamed = {"self check input": {"status": "success"}}
    assert normalized({"status": "blocked", "rails_status": unnamed}).code == "POLICY_VIOLATION"
    assert normalize({"status": "success", "rails_status": unnamed}) is None
