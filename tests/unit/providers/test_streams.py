import json
from types import SimpleNamespace
from typing import Any

import pytest

from demur.providers.gathering import events_of
from demur.providers.normalize import normalize
from demur.providers.streams import StreamReader

CHAT = [
    {"choices": [], "prompt_filter_results": [{"content_filter_results": {"hate": {}}}]},
    {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Su"}}]},
    {"choices": [{"index": 0, "delta": {"refusal": "I can't "}}]},
    {"choices": [{"index": 0, "delta": {"refusal": "do that."}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]
AZURE = [
    {
        "choices": [
            {"index": 0, "delta": {}, "content_filter_results": {"hate": {"filtered": True}}}
        ]
    },
    {
        "choices": [
            {
                "index": 0,
                "delta": {},
                "finish_reason": "content_filter",
                "content_filter_results": {"hate": {"filtered": False}},
            }
        ]
    },
]
RESPONSES = [
    {"type": "response.created", "response": {"object": "response", "output": []}},
    {"type": "response.refusal.delta", "output_index": 0, "content_index": 0, "delta": "No"},
    {"type": "response.refusal.delta", "output_index": 0, "content_index": 0, "delta": "."},
    {"type": "response.refusal.done", "output_index": 0, "content_index": 0, "refusal": "No."},
]
PART = [
    {"type": "response.content_part.done", "part": {"type": "refusal", "refusal": "No."}},
]
INCOMPLETE = [
    {"type": "response.output_text.delta", "delta": "Su"},
    {
        "type": "response.incomplete",
        "response": {
            "object": "response",
            "incomplete_details": {"reason": "content_filter"},
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "Su"}]}],
        },
    },
]
FAILED = [
    {"type": "response.created", "response": {"object": "response"}},
    {"type": "error", "code": "bio_policy", "message": "m"},
]
ANTHROPIC = [
    {"type": "message_start", "message": {"model": "m", "content": [], "stop_reason": None}},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Sure"}},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "refusal", "stop_details": {"category": "cyber"}},
    },
    {"type": "message_stop"},
]
FALLBACK = [
    {"type": "message_start", "message": {"model": "m"}},
    {
        "type": "content_block_start",
        "content_block": {
            "type": "fallback",
            "from": {"model": "m"},
            "to": {"model": "n"},
            "trigger": {"type": "refusal", "category": "bio"},
        },
    },
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
]
GEMINI = [
    {"candidates": [{"index": 0, "content": {"parts": [{"text": "Su"}]}}]},
    {
        "candidates": [
            {
                "index": 0,
                "finishReason": "SAFETY",
                "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "blocked": True}],
            }
        ]
    },
]
PROMPT = [{"promptFeedback": {"blockReason": "JAILBREAK"}}, {"promptFeedback": {}}]
LIVE = [{"serverContent": {"turnCompleteReason": "BLOCKLIST"}}, {"serverContent": {}}]
BEDROCK = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"delta": {"text": "Su"}}},
    {"messageStop": {"stopReason": "guardrail_intervened"}},
    {
        "metadata": {
            "usage": {},
            "trace": {
                "guardrail": {
                    "inputAssessment": {
                        "g": {"topicPolicy": {"topics": [{"name": "x", "action": "BLOCKED"}]}}
                    }
                }
            },
        }
    },
]
INVOKED = [
    {"chunk": {"bytes": b'{"type": "message_start", "message": {"model": "m"}}'}},
    {"chunk": {"bytes": b'{"type": "message_delta", "delta": {"stop_reason": "refusal"}}'}},
]
COHERE = [
    {"event_type": "text-generation", "text": "Su"},
    {"event_type": "stream-end", "finish_reason": "ERROR_TOXIC"},
]
ASSISTANTS = [
    {
        "event": "thread.message.incomplete",
        "data": {"object": "thread.message", "incomplete_details": {"reason": "content_filter"}},
    }
]
STREAMS = [
    pytest.param(CHAT, "MODEL_DECLINED", id="chat"),
    pytest.param(AZURE, "CONTENT_HATE", id="azure"),
    pytest.param(RESPONSES, "MODEL_DECLINED", id="responses"),
    pytest.param(PART, "MODEL_DECLINED", id="responses part"),
    pytest.param(INCOMPLETE, "FILTERED_UNSPECIFIED", id="responses incomplete"),
    pytest.param(FAILED, "CONTENT_CBRN", id="responses failed"),
    pytest.param(ANTHROPIC, "CONTENT_CYBER", id="anthropic"),
    pytest.param(FALLBACK, "CONTENT_CBRN", id="anthropic fallback"),
    pytest.param(GEMINI, "CONTENT_HARASSMENT", id="gemini"),
    pytest.param(PROMPT, "JAILBREAK_WRAPPER", id="gemini prompt"),
    pytest.param(LIVE, "TERM_BLOCKLISTED", id="gemini live"),
    pytest.param(BEDROCK, "TOPIC_DENIED", id="bedrock"),
    pytest.param(INVOKED, "FILTERED_UNSPECIFIED", id="bedrock bytes"),
    pytest.param(COHERE, "CONTENT_OTHER", id="cohere"),
    pytest.param(ASSISTANTS, "FILTERED_UNSPECIFIED", id="assistants"),
]


def read(events: list[Any]) -> str | None:
    stream = StreamReader()
    for event in events:
        stream.feed(event)
    return stream.refusal.code if stream.refusal else None


def as_object(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{key: as_object(item) for key, item in value.items()})
    return [as_object(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("events", "code"), STREAMS)
def test_a_stream_gives_the_code_of_its_refusal(events: list[Any], code: str) -> None:
    assert read(events) == code
    assert read([as_object(event) for event in events]) == code


@pytest.mark.parametrize(("events", "code"), STREAMS)
def test_a_kept_stream_gives_the_same(events: list[Any], code: str) -> None:
    refusal = normalize(events)
    assert refusal
    assert refusal.code == code
    assert normalize(tuple(events)) == refusal


@pytest.mark.parametrize(("events", "code"), [row for row in STREAMS if row.id != "bedrock bytes"])
def test_lines_of_a_stream_give_the_same(events: list[Any], code: str) -> None:
    sent = "".join(f"event: x\ndata: {json.dumps(event)}\n\n" for event in events)
    refusal = normalize(f"{sent}data: [DONE]\n\n")
    assert refusal
    assert refusal.code == code
    assert normalize("\n".join(json.dumps(event) for event in (*events, {}))) == refusal


def test_a_stream_that_breaks_off_answers_from_what_was_there() -> None:
    assert read(CHAT[:3]) == "MODEL_DECLINED"
    assert read(RESPONSES[:2]) == "MODEL_DECLINED"
    assert read(ANTHROPIC[:2]) is None
    assert read(BEDROCK[:3]) == "FILTERED_UNSPECIFIED"
    assert read([]) is None


def test_partial_words_of_a_refused_turn_are_gone() -> None:
    refusal = normalize(ANTHROPIC)
    assert "Sure" not in repr(refusal)


def test_a_refusal_is_known_while_the_stream_still_runs() -> None:
    stream = StreamReader().feed(CHAT[2])
    assert stream.refusal
    assert stream.refusal.detail == "I can't "


@pytest.mark.parametrize("event", [None, "", "data: [DONE]", ": ping", b"\xff", 3, [], object()])
def test_what_is_no_event_changes_nothing(event: Any) -> None:
    assert read([event, *CHAT]) == "MODEL_DECLINED"


@pytest.mark.parametrize("given", ["words", "two\nlines", [], (1, 2), (400, {}), {}, None])
def test_what_is_no_stream_has_no_events(given: Any) -> None:
    assert events_of(given) is None
