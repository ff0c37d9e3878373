import json
from types import SimpleNamespace
from typing import Any

import pytest

from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass
from demur.providers import normalization as module
from demur.providers.event_streams import stored_events
from demur.providers.node import Node
from demur.providers.normalization import StreamReader, normalize, read_batch_line, read_signal
from demur.providers.readers import READERS, load_readers
from demur.providers.signals import Signal, SignalOutcome, list_systems, max_signal

DECLINED = {"choices": [{"message": {"refusal": "No."}, "finish_reason": "stop"}]}
FILTERED = {"error": {"code": "content_filter", "message": "x"}}


class ContentFilterFinishReasonError(Exception):
    def __init__(self, completion: Any = None) -> None:
        super().__init__("the answer was filtered")
        self.completion = completion


class ApiError(Exception):
    def __init__(self, body: Any) -> None:
        super().__init__("x")
        self.status_code = 400
        self.body = body


def code_of(given: Any) -> str | None:
    refusal = normalize(given)
    return refusal.code if refusal else None


def test_the_exception_of_the_parsing_helper_is_a_refusal() -> None:
    assert code_of(ContentFilterFinishReasonError()) == "FILTERED_UNSPECIFIED"
    assert code_of(ContentFilterFinishReasonError(SimpleNamespace(**DECLINED))) == "MODEL_DECLINED"


def test_the_cause_and_context_of_an_exception_are_read() -> None:
    outer = RuntimeError("the agent failed")
    outer.__cause__ = ApiError(FILTERED)
    assert code_of(outer) == "FILTERED_UNSPECIFIED"
    other = RuntimeError("while handling")
    other.__context__ = ApiError(FILTERED)
    assert code_of(other) == "FILTERED_UNSPECIFIED"
    assert code_of(ExceptionGroup("several", [ValueError(), ApiError(FILTERED)])) is not None


def test_a_context_that_was_put_aside_does_not_count() -> None:
    error = RuntimeError("something else")
    error.__context__ = ApiError(FILTERED)
    error.__suppress_context__ = True
    assert normalize(error) is None


def test_exceptions_in_a_circle_end() -> None:
    one, two = RuntimeError("one"), RuntimeError("two")
    one.__cause__, two.__cause__ = two, one
    assert normalize(one) is None


def test_an_error_nobody_listed_is_an_unexplained_filter() -> None:
    refusal = normalize(ApiError({"error": {"code": "lunar_policy", "message": "m"}}))
    assert refusal
    assert refusal.source
    assert (refusal.code, refusal.source.name) == ("FILTERED_UNSPECIFIED", "unlisted")


@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_other_statuses_are_ordinary_failures(status: int) -> None:
    assert normalize((status, {"error": {"code": "lunar_policy"}})) is None


@pytest.mark.parametrize("code", ["permission_denied", "forbidden", "invalid_request_error"])
def test_ordinary_codes_are_ordinary_failures(code: str) -> None:
    assert normalize((403, {"error": {"code": code, "message": "safety policy blocked"}})) is None


def test_a_refusal_beats_what_broke() -> None:
    both = {
        **DECLINED,
        "prompt_filter_results": [
            {"content_filter_results": {"error": {"code": "content_filter_error"}}}
        ],
    }
    assert code_of(both) == "MODEL_DECLINED"


def test_a_detection_without_a_block_is_a_signal_and_not_a_refusal() -> None:
    given = {"results": [{"flagged": True, "categories": {"violence": True}}]}
    signal = read_signal(given)
    assert signal
    assert (signal.outcome, signal.code) == (SignalOutcome.DETECT_ONLY, "CONTENT_VIOLENCE")
    assert normalize(given) is None


def test_a_long_native_value_is_cut_and_says_so() -> None:
    refusal = normalize({"choices": [{"message": {"refusal": "no " * 9000}}]})
    assert refusal
    assert refusal.source
    assert len(refusal.source.native) == 4000
    assert refusal.evidence["native_cut"] is True


def test_the_refusal_names_the_registry_passed_in() -> None:
    registry = Registry.load()
    refusal = normalize(DECLINED, registry=registry)
    assert refusal
    assert refusal.registry == registry.label


def test_a_signal_without_a_path_is_named_by_its_source() -> None:
    refusal = normalize((446, {}))
    assert refusal
    assert refusal.detail == "HTTP status: 446"


def broken_reader(_shape: Any) -> Signal | None:
    raise LookupError


def test_a_reader_that_breaks_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "load_readers", lambda: (broken_reader, *load_readers()))
    assert code_of(DECLINED) == "MODEL_DECLINED"
    refusal = normalize({"choices": [{"finish_reason": "stop"}]})
    assert refusal
    assert (refusal.code, refusal.decided) == ("INTERNAL_ERROR", False)
    assert "LookupError" in refusal.detail


def test_every_reader_is_a_function_with_a_mapping() -> None:
    assert len(set(load_readers())) == len(READERS)
    assert set(READERS.values()) - {"unlisted"} == set(list_systems())


class SessionTurnError:
    def __init__(self) -> None:
        self.code = "cyber_policy"
        self.message = "m"


def test_a_session_error_is_normalized_on_its_own() -> None:
    assert code_of(SessionTurnError()) == "CONTENT_CYBER"


def test_a_moderation_category_is_known_by_the_name_of_its_attribute() -> None:
    signal = read_signal({"results": [{"categories": {"self_harm_intent": True}}]})
    assert signal
    assert signal.code == "CONTENT_SELF_HARM"


def test_among_equals_the_first_signal_wins() -> None:
    soft = Signal("a", "p", 1, "MODEL_DECLINED", refusal_class=RefusalClass.SOFT_BLOCK)
    hard = soft._replace(name="h", refusal_class=RefusalClass.HARD_BLOCK)
    assert max_signal([soft, soft._replace(name="b"), None]) == soft
    assert max_signal([soft, hard]) == hard
    assert max_signal([hard._replace(outcome=SignalOutcome.NOT_JUDGED), soft]) == soft
    assert max_signal([]) is None


def shared_in_itself() -> dict[str, Any]:
    whole: dict[str, Any] = {}
    many = [whole] * 3000
    whole.update(message=whole, content=many, choices=many, output=many, delta=whole)
    return whole


class Endless(list[Any]):
    def __iter__(self) -> Any:
        while True:
            yield self[0]


class BreaksOff(list[Any]):
    def __iter__(self) -> Any:
        yield self[0]
        raise RuntimeError


@pytest.mark.parametrize(
    "given",
    [
        shared_in_itself(),
        Endless([{"delta": {}}]),
        {"choices": [{"finish_reason": "x" * 1_000_000}] * 10_000},
        '{"a": 1}\n' * 20_000,
    ],
    ids=["shared", "endless", "long words", "lines"],
)
def test_a_response_too_large_to_read_is_undecided(given: Any) -> None:
    refusal = normalize(given)

    assert refusal
    assert (refusal.code, refusal.decided) == ("INTERNAL_ERROR", False)


def test_a_list_that_breaks_off_gives_what_was_there() -> None:
    assert code_of(BreaksOff([DECLINED])) == "MODEL_DECLINED"
    assert code_of(BreaksOff([{}])) == "INTERNAL_ERROR"
    assert code_of(Endless([None])) == "INTERNAL_ERROR"


def test_a_refusal_counts_even_where_the_rest_cannot_be_read() -> None:
    assert code_of([DECLINED, shared_in_itself()]) == "MODEL_DECLINED"
    assert code_of({**shared_in_itself(), "choices": DECLINED["choices"]}) == "MODEL_DECLINED"


@pytest.mark.parametrize("text", ["{\n" * 500_000, "{}\n" * 50_000, "a\n" * 500_000])
def test_long_text_that_says_nothing_is_no_refusal(text: str) -> None:
    assert normalize(text) is None


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
def test_an_unknown_event_changes_nothing(event: Any) -> None:
    assert read([event, *CHAT]) == "MODEL_DECLINED"


@pytest.mark.parametrize("given", ["words", "two\nlines", [], (1, 2), (400, {}), {}, None])
def test_a_non_stream_has_no_events(given: Any) -> None:
    assert stored_events(given) is None


CHAT_batches = {"choices": [{"finish_reason": "content_filter", "message": {"content": None}}]}
MESSAGE = {"type": "message", "stop_reason": "refusal", "content": []}
GEMINI_batches = {"candidates": [{"finishReason": "OTHER"}]}
ERROR = {"type": "invalid_request_error", "code": "content_filter"}
LINES: list[dict[str, Any]] = [
    {
        "id": "x",
        "custom_id": "1",
        "response": {"status_code": 200, "body": CHAT_batches},
        "error": None,
    },
    {"custom_id": "1", "response": {"status_code": 400, "body": {"error": ERROR}}, "error": None},
    {"custom_id": "1", "response": None, "error": ERROR},
    {"custom_id": "1", "result": {"type": "succeeded", "message": MESSAGE}},
    {"custom_id": "1", "result": {"type": "errored", "error": {"type": "error", "error": ERROR}}},
    {"key": "1", "response": GEMINI_batches},
    {"request": {"contents": []}, "response": GEMINI_batches},
    {"recordId": "1", "modelInput": {}, "modelOutput": MESSAGE},
]


@pytest.mark.parametrize("line", LINES)
def test_the_response_in_a_line_of_a_batch_is_read(line: dict[str, Any]) -> None:
    refusal = normalize(line)
    assert refusal
    assert refusal.code == "FILTERED_UNSPECIFIED"
    assert normalize([{"custom_id": "0", "result": {"type": "canceled"}}, line]) is not None


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"custom_id": "1", "result": {"type": "expired"}},
        {"custom_id": "1", "error": "x"},
        {"response": {"status_code": 200, "body": CHAT_batches}},
    ],
)
def test_other_objects_are_no_lines_of_a_batch(line: dict[str, Any]) -> None:
    assert read_batch_line(Node(line)) is None
