import json
from types import SimpleNamespace
from typing import Any

import pytest

from demur.providers.gathering import stored_events
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


def chunk(*choices: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"delta": {}, **choice} for choice in choices]}


@pytest.mark.parametrize(
    "events",
    [
        [
            chunk(
                {"index": 1, "finish_reason": "content_filter"},
                {"index": 0, "finish_reason": "stop"},
            )
        ],
        [chunk({"index": 0, "finish_reason": "content_filter"}), chunk({"finish_reason": "stop"})],
        [
            chunk({"index": 0, "finish_reason": "content_filter"}),
            chunk({"index": 0, "finish_reason": "stop"}),
        ],
        [
            {
                "candidates": [
                    {"index": 1, "finishReason": "OTHER"},
                    {"index": 0, "finishReason": "STOP"},
                ]
            }
        ],
        [
            {"candidates": [{"index": 0, "finishReason": "OTHER"}]},
            {"candidates": [{"index": 0, "finishReason": "STOP"}]},
        ],
        [
            {"serverContent": {"turnCompleteReason": "SOMETHING_NEW"}},
            {"serverContent": {"turnCompleteReason": "TURN_COMPLETE_REASON_UNSPECIFIED"}},
        ],
        [
            {"type": "message_delta", "delta": {"stop_reason": "refusal"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        ],
        [
            {"messageStop": {"stopReason": "content_filtered"}},
            {"messageStop": {"stopReason": "end_turn"}},
        ],
        [
            {"type": "response.done", "response": {"status_details": {"reason": "content_filter"}}},
            {"type": "response.done", "response": {"output": [], "status_details": None}},
        ],
    ],
    ids=[
        "place",
        "no index",
        "chat",
        "place gemini",
        "gemini",
        "live",
        "anthropic",
        "bedrock",
        "realtime",
    ],
)
def test_a_later_or_other_ending_does_not_undo_a_refusal(events: list[Any]) -> None:
    assert read(events) in {"FILTERED_UNSPECIFIED", "CONTENT_OTHER"}
    assert normalize(events) is not None


def test_results_for_the_prompt_are_not_undone_by_later_ones() -> None:
    def results(*, filtered: bool) -> dict[str, Any]:
        found = {"content_filter_results": {"hate": {"filtered": filtered}}}
        return {**chunk({"index": 0}), "prompt_filter_results": [found]}

    first, later = results(filtered=True), results(filtered=False)
    assert read([first, first, later]) == "CONTENT_HATE"
    assert read([later, later]) is None


def test_a_rating_that_blocked_is_not_undone_by_a_later_one() -> None:
    rating = {"category": "HARM_CATEGORY_HARASSMENT", "blocked": True}
    first = {"candidates": [{"index": 0, "safetyRatings": [rating]}]}
    later = {"candidates": [{"index": 0, "safetyRatings": [{**rating, "blocked": False}]}]}

    assert read([first, later]) == "CONTENT_HARASSMENT"
    assert read([later]) is None


@pytest.mark.parametrize("index", [float("nan"), float("inf"), -1, 1e300, "1", True, None])
def test_any_index_is_taken(index: Any) -> None:
    refused = chunk({"index": index, "finish_reason": "content_filter"})
    gemini = {"candidates": [{"index": index, "finishReason": "SAFETY"}]}

    assert read([refused, chunk({"index": 0, "finish_reason": "stop"})]) == "FILTERED_UNSPECIFIED"
    assert read([gemini]) == "CONTENT_OTHER"


class Exploding(dict[str, Any]):
    def keys(self) -> Any:  # noqa: D102 - as the mapping's own
        raise RuntimeError

    def __iter__(self) -> Any:
        raise RuntimeError


@pytest.mark.parametrize(
    "event", [Exploding(), "[" * 100_000, {"choices": [{"delta": {}, "index": 0}] * 9000}]
)
def test_feeding_never_raises(event: Any) -> None:
    stream = StreamReader().feed(event)
    assert stream.refusal is None or not stream.refusal.decided
    assert stream.feed(CHAT[2]).refusal is not None


def test_a_stream_that_keeps_too_much_was_not_judged() -> None:
    stream = StreamReader()
    for number in range(1100):
        stream.feed(chunk({"index": number % 1000}))
        stream.feed(
            {"type": "response.output_item.done", "item": {"error": {"code": f"e{number}"}}}
        )
    assert stream.refusal is not None
    assert (stream.refusal.code, stream.refusal.decided) == ("INTERNAL_ERROR", False)
    assert stream.feed(CHAT[2]).refusal is not None


def test_every_response_of_a_list_is_judged() -> None:
    answered = {"type": "message", "stop_reason": "end_turn", "content": []}
    refused = {**answered, "stop_reason": "refusal"}

    assert normalize([refused, *([answered] * 300)]) is not None
    assert normalize([answered] * 300) is None


def test_an_image_that_was_blocked_while_it_streamed() -> None:
    failed = {"type": "image_generation_call", "error": {"code": "moderation_blocked"}}
    done = {"type": "response.output_item.done", "item": failed}

    assert read([RESPONSES[0], done]) == "CONTENT_OTHER"
    ended = {"type": "response.completed", "response": {"output": [failed]}}
    assert (
        read([ended, {"type": "response.completed", "response": {"output": []}}]) == "CONTENT_OTHER"
    )
    tool = {"type": "shell_call_output", "error": {"code": "permission_denied"}}
    assert read([{**done, "item": tool}]) is None


def test_a_refusal_part_without_words_refuses_already() -> None:
    added = {"type": "response.content_part.added", "part": {"type": "refusal", "refusal": ""}}

    assert read([added]) == "MODEL_DECLINED"
    assert read([{**added, "part": {"type": "refusal"}}]) == "MODEL_DECLINED"
    ended = {"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}]}
    assert read([{"type": "response.completed", "response": ended}]) == "MODEL_DECLINED"


@pytest.mark.parametrize("event", [None, "", "data: [DONE]", ": ping", b"\xff", 3, [], object()])
def test_what_is_no_event_changes_nothing(event: Any) -> None:
    assert read([event, *CHAT]) == "MODEL_DECLINED"


@pytest.mark.parametrize("given", ["words", "two\nlines", [], (1, 2), (400, {}), {}, None])
def test_what_is_no_stream_has_no_events(given: Any) -> None:
    assert stored_events(given) is None
