import asyncio
import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.evals.chat_reply import (
    MAX_WAIT_S,
    ChatCompletion,
    ChatStreamParser,
    ReplyError,
    RequestPace,
    parse_completion,
    parse_error,
    parse_retry_after,
    parse_value,
    retry_wait,
)


def completion(content: Any = "Hello.", finish: str = "stop", **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": content, **message}
    return {
        "choices": [{"index": 0, "message": said, "finish_reason": finish}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5},
    }


def test_a_completion_has_text_tokens_and_itself() -> None:
    value = completion()

    assert parse_completion(json.dumps(value).encode()) == ChatCompletion("Hello.", value, 3, 5)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            completion([{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]),
            "in parts",
        ),
        (completion(None, refusal="I can't."), "I can't."),
        (completion(None, "content_filter"), ""),
        (completion(""), ""),
    ],
)
def test_text_is_found_in_every_shape_of_a_message(value: Any, text: str) -> None:
    assert parse_value(value).text == text


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "the response is empty"),
        (b"<html><body>Sign in</body></html>", "the response is a web page: <html>"),
        (b'{"choices": [', "the response is not JSON"),
        (b"[1]", "not a JSON object"),
        (b"{}", "no choices"),
        (b'{"choices": []}', "no choices"),
        (b'{"choices": {}}', "no choices"),
        (b'{"choices": [3]}', "no message"),
        (b'{"choices": [{"text": "old"}]}', "no message"),
        (b'{"choices": [{"message": {}, "finish_reason": "length"}]}', "finish reason is `length`"),
        (b'{"choices": [{"message": {"content": [{"type": "image"}, 3]}}]}', "no text"),
        (b"[" * 5000, "not JSON"),
    ],
)
def test_a_body_that_is_not_a_completion_is_a_protocol_error(body: bytes, problem: str) -> None:
    with pytest.raises(ReplyError) as caught:
        parse_completion(body)

    assert caught.value.kind == "protocol"
    assert problem in caught.value.problem
    assert not caught.value.retryable


@given(st.binary())
def test_no_body_raises_anything_else(body: bytes) -> None:
    with pytest.raises(ReplyError):
        parse_completion(body)


@pytest.mark.parametrize("usage", [None, 3, {}, {"prompt_tokens": "3", "completion_tokens": -1}])
def test_strange_counts_of_tokens_count_for_nothing(usage: Any) -> None:
    assert parse_value({**completion(), "usage": usage})[2:] == (0, 0)


AZURE = {
    "error": {
        "code": "content_filter",
        "innererror": {"content_filter_result": {"violence": {"filtered": True}}},
    }
}


def test_a_filter_that_answers_with_an_error_status_has_refused() -> None:
    parsed = parse_error(400, json.dumps(AZURE).encode())

    assert parsed == ChatCompletion("", {"status_code": 400, "body": AZURE})


def test_an_error_with_a_good_status_is_an_error_and_a_filter_is_none() -> None:
    assert parse_value(AZURE).text == ""
    with pytest.raises(ReplyError, match="an error with status 200: it broke") as caught:
        parse_value({"error": {"message": "it\nbroke"}})
    assert caught.value.kind == "http"


@pytest.mark.parametrize(
    ("status", "kind", "again"),
    [
        (400, "http", False),
        (401, "http", False),
        (404, "http", False),
        (408, "http", True),
        (429, "rate_limit", True),
        (500, "http", True),
        (503, "http", True),
        (302, "http", False),
    ],
)
def test_the_status_says_whether_to_ask_again(status: int, kind: str, again: bool) -> None:
    with pytest.raises(ReplyError, match=f"status {status}: no way") as caught:
        parse_error(status, b'{"error": {"message": "no way"}}')

    assert (caught.value.kind, caught.value.retryable) == (kind, again)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "status 502"),
        (b"<h1>Bad  gateway</h1>", "status 502: <h1>Bad gateway</h1>"),
        (b'{"error": "plain"}', "status 502: plain"),
        (b'{"error": {"code": 1}}', 'status 502: {"error": {"code": 1}}'),
        (b"x" * 10_000, f"status 502: {'x' * 159}…"),
    ],
)
def test_the_words_of_an_error_are_kept_in_part(body: bytes, said: str) -> None:
    with pytest.raises(ReplyError) as caught:
        parse_error(502, body)

    assert caught.value.problem == said


def events(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "model": "m"}


WHOLE = (
    events(
        chunk(role="assistant", content=""),
        chunk(content="Hel"),
        chunk(content="lo."),
        chunk("stop"),
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    )
    + b": a comment\n\ndata: [DONE]\n\n"
)


@given(st.lists(st.integers(0, len(WHOLE)), max_size=8))
def test_a_stream_reads_the_same_however_it_is_cut(cuts: list[int]) -> None:
    parser = ChatStreamParser()
    places = [0, *sorted(cuts), len(WHOLE)]
    for start, end in pairwise(places):
        parser.feed(WHOLE[start:end])
    parsed = parser.build_completion()

    assert (parsed.text, parsed.prompt_tokens, parsed.completion_tokens) == ("Hello.", 1, 2)
    assert parsed.native["choices"][0]["finish_reason"] == "stop"
    assert parsed.native["model"] == "m"


def read(stream: bytes) -> ChatCompletion:
    parser = ChatStreamParser()
    parser.feed(stream)
    return parser.build_completion()


def test_a_truncated_stream_is_no_answer_and_can_be_retried() -> None:
    with pytest.raises(ReplyError, match="stopped before its end") as caught:
        read(events(chunk(content="Hel")))

    assert (caught.value.kind, caught.value.retryable) == ("protocol", True)


def test_a_refusal_and_a_filter_come_through_a_stream() -> None:
    assert read(events(chunk(refusal="I can't."), chunk("stop"))).text == "I can't."
    filtered = read(events(chunk(content="Well"), chunk("content_filter")))
    assert filtered.native["choices"][0]["finish_reason"] == "content_filter"
    assert read(events(AZURE)).text == ""


@pytest.mark.parametrize(
    ("stream", "kind"),
    [
        (b"data: {broken\n\n", "protocol"),
        (b"data: [1]\n\n", "protocol"),
        (b"<html>\n", "protocol"),
        (b"", "protocol"),
        (b'data: {"error": {"message": "overloaded"}}\n\n', "http"),
    ],
)
def test_an_invalid_stream_is_an_error(stream: bytes, kind: str) -> None:
    with pytest.raises(ReplyError) as caught:
        read(stream)

    assert caught.value.kind == kind


def test_odd_events_are_passed_over_and_a_stream_may_be_silent() -> None:
    odd = events({"choices": [3]}, {"choices": [{"delta": None}]}, {"choices": None}, chunk("stop"))

    assert read(odd).text == ""


@given(attempt=st.integers(2, 50), key=st.text())
def test_waiting_grows_is_spread_and_is_bounded(attempt: int, key: str) -> None:
    wait = retry_wait(attempt, None, key)
    whole = 0.5 * 2 ** (attempt - 2)

    assert min(whole / 2, MAX_WAIT_S) <= wait <= min(whole, MAX_WAIT_S)
    assert wait == retry_wait(attempt, None, key)


def test_requests_that_failed_together_come_back_apart() -> None:
    assert len({retry_wait(2, None, f"r{number}") for number in range(50)}) > 20


def test_the_retry_wait_of_the_server_counts_up_to_a_maximum() -> None:
    assert retry_wait(2, 3.0, "a") == 3.0
    assert retry_wait(2, 86_400.0, "a") == MAX_WAIT_S


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            30,
        ),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:27:00 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            None,
        ),
    ],
)
def test_the_header_is_read_as_seconds_or_as_a_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert parse_retry_after(headers) == seconds


async def turns(pace: RequestPace, count: int) -> float:
    began = time.monotonic()
    await asyncio.gather(*(pace.wait_turn() for _ in range(count)))
    return time.monotonic() - began


def test_requests_are_spread_over_time() -> None:
    assert asyncio.run(turns(RequestPace(100), 11)) >= 0.099


def test_without_a_limit_nobody_waits() -> None:
    pace = RequestPace(None)

    assert asyncio.run(turns(pace, 1000)) < 1
    assert pace._next == 0
