"""Streams of chat completions: what leaves, in which order, and how they end."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
from adapters.fake_openai import (
    FakeOpenAI,
    Reply,
    ask,
    chat_chunks,
    guarded,
    httpx,
    shown,
    user,
)
from adapters.model_exchange import FORBIDDEN, ORDERS, PLAN, SORRY, talking
from agents import (
    Agent,
    ModelRefusalError,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from support.gates import rows

from demur.emit.hosts import from_openai
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.gate.gate import Gate
from demur.integrations._kit.model_api import read_check_result

pytestmark = pytest.mark.adapters


@pytest.fixture
def gate() -> Iterator[Gate]:
    with talking() as gate:
        yield gate


@pytest.fixture
def enforcer(gate: Gate) -> Enforcer:
    return Enforcer(gate)


def test_a_stream_passes_in_order_and_ends_as_it_did(enforcer: Enforcer) -> None:
    calls = [
        {"index": 0, "id": "c-1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    ]
    chunks = chat_chunks("Your list ", "is empty.", usage=True)
    chunks[3:3] = [{**chunks[0], "choices": [{"index": 0, "delta": {"tool_calls": calls}}]}]
    fake = FakeOpenAI(Reply(events=chunks))
    stream = ask(guarded(fake.client(), enforcer), stream=True)
    out = list(stream)

    assert shown(out) == "Your list is empty."
    assert out[0].choices[0].delta.role == "assistant"
    assert [bool(one.choices and one.choices[0].delta.tool_calls) for one in out].count(True) == 1
    assert out[-2].choices[0].finish_reason == "stop"
    assert out[-1].usage.total_tokens == 3
    assert fake.streams[0].closed
    assert isinstance(stream, openai.Stream)
    assert read_check_result(stream) is not None


def test_a_stream_is_cut_where_it_goes_wrong_and_the_connection_closed(
    enforcer: Enforcer,
) -> None:
    pieces = (*PLAN, *["and so on "] * 100)
    fake = FakeOpenAI(Reply(events=chat_chunks(*pieces)))
    stream = ask(guarded(fake.client(), enforcer, on_refusal="answer"), stream=True)
    out = list(stream)

    assert "track" not in shown(out)
    *_, said, last = out
    assert last.choices[0].finish_reason == "stop"
    refusal = from_openai({"refusal": said.choices[0].delta.refusal})
    assert refusal is not None
    assert refusal.code == FORBIDDEN
    kept = fake.streams[0]
    assert kept.closed
    assert kept.read < len(pieces)
    ruling = read_check_result(stream)
    assert ruling is not None
    assert ruling.is_hard


def test_a_cut_is_raised_by_default(enforcer: Enforcer) -> None:
    fake = FakeOpenAI(Reply(events=chat_chunks(*PLAN)))
    stream = ask(guarded(fake.client(), enforcer), stream=True)

    with pytest.raises(Refused, match=FORBIDDEN):
        list(stream)
    assert fake.streams[0].closed
    assert list(stream) == []


def test_one_choice_is_cut_and_the_other_goes_on(enforcer: Enforcer) -> None:
    bad, good = chat_chunks(*PLAN), chat_chunks("Read ", "a ", "book", ".", index=1)
    mixed = [chunk for pair in zip(bad, good, strict=True) for chunk in pair]
    fake = FakeOpenAI(Reply(events=mixed))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    out = list(ask(client, stream=True, n=2))

    by_choice: dict[int, str] = {0: "", 1: ""}
    ends: list[int] = []
    for chunk in out:
        for choice in chunk.choices:
            by_choice[choice.index] += choice.delta.content or ""
            ends += [choice.index] if choice.finish_reason else []
    assert by_choice[1] == "Read a book."
    assert "track" not in by_choice[0]
    assert sorted(ends) == [0, 1]


def test_probabilities_do_not_spell_what_is_held_back(enforcer: Enforcer) -> None:
    chunks = chat_chunks(*PLAN)
    for chunk in chunks[1:-1]:
        token = {"token": chunk["choices"][0]["delta"]["content"], "logprob": -1.0, "bytes": None}
        chunk["choices"][0]["logprobs"] = {"content": [{**token, "top_logprobs": []}]}
    fake = FakeOpenAI(Reply(events=chunks))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    out = list(ask(client, stream=True, logprobs=True))

    assert "track" not in "".join(chunk.model_dump_json() for chunk in out)


def test_text_and_finish_and_role_in_one_chunk_come_apart_in_order(enforcer: Enforcer) -> None:
    [_, chunk] = chat_chunks("Done.", finish=None)
    chunk["choices"][0] |= {"delta": {"role": "assistant", "content": "Done."}}
    last = json.loads(json.dumps(chunk))
    last["choices"][0] |= {"finish_reason": "stop"}
    fake = FakeOpenAI(Reply(events=[chunk, last]))
    out = list(ask(guarded(fake.client(), enforcer), stream=True))

    assert shown(out) == "Done.Done."
    assert out[0].choices[0].delta.role == "assistant"
    assert [one.choices[0].finish_reason for one in out] == [None] * (len(out) - 1) + ["stop"]


def test_a_stream_without_an_end_gives_what_was_held_back(enforcer: Enforcer) -> None:
    fake = FakeOpenAI(Reply(events=chat_chunks("Half an", " answer", finish=None)))

    assert shown(ask(guarded(fake.client(), enforcer), stream=True)) == "Half an answer"


def test_a_stream_that_refuses_is_ruled_on_at_its_end(enforcer: Enforcer, gate: Gate) -> None:
    for chunks, code in (
        (chat_chunks("I'm sorry, but I can't ", "help with that request."), "MODEL_DECLINED"),
        (chat_chunks(finish="content_filter"), "FILTERED_UNSPECIFIED"),
    ):
        stream = ask(guarded(FakeOpenAI(Reply(events=chunks)).client(), enforcer), stream=True)
        list(stream)
        ruling = read_check_result(stream)
        assert ruling is not None
        assert ruling.refusal is not None
        assert ruling.refusal.code == code
        assert any(code in record.reason_codes for record in rows(gate))


def test_a_content_filter_next_to_text_is_recognised(enforcer: Enforcer) -> None:
    hate = {"hate": {"filtered": True, "severity": "high"}}
    answer, prompt = chat_chunks("So ", "far."), chat_chunks("So ", "far.")
    answer[2]["choices"][0]["content_filter_results"] = hate
    prompt[2]["prompt_filter_results"] = [{"prompt_index": 0, "content_filter_results": hate}]
    for chunks in (answer, prompt):
        fake = FakeOpenAI(Reply(events=chunks))
        stream = ask(guarded(fake.client(), enforcer), stream=True)
        list(stream)
        ruling = read_check_result(stream)
        assert ruling is not None
        assert not ruling.allowed


def test_a_stream_left_after_its_end_is_ruled_on_too(enforcer: Enforcer) -> None:
    fake = FakeOpenAI(Reply(events=chat_chunks(SORRY, usage=True)))
    with ask(guarded(fake.client(), enforcer), stream=True) as stream:
        for chunk in stream:
            if chunk.choices[0].finish_reason:
                break

    ruling = read_check_result(stream)
    assert ruling is not None
    assert not ruling.allowed
    assert fake.streams[0].closed


def test_a_stream_abandoned_early_is_closed(enforcer: Enforcer) -> None:
    fake = FakeOpenAI(Reply(events=chat_chunks("One ", "two ", "three.")))
    stream = ask(guarded(fake.client(), enforcer), stream=True)
    next(stream)
    stream.close()

    assert fake.streams[0].closed
    assert list(stream) == []
    assert stream.response.status_code == 200


def test_an_error_within_a_stream_is_raised_as_it_is(enforcer: Enforcer, gate: Gate) -> None:
    refused = {"error": {"code": "content_filter", "message": "filtered"}}
    broken = {"error": {"message": "overloaded"}}
    for event, recorded in ((refused, 1), (broken, 0)):
        before = len(rows(gate))
        fake = FakeOpenAI(Reply(events=[*chat_chunks("Here", finish=None), event]))
        stream = ask(guarded(fake.client(), enforcer), stream=True)
        with pytest.raises(openai.APIError) as caught:
            list(stream)
        assert (read_check_result(caught.value) is not None) == bool(recorded)
        # One for the prompt, and one for the refusal.
        assert len(rows(gate)) - before == 1 + recorded


def test_a_refused_prompt_can_be_answered_as_a_stream(enforcer: Enforcer) -> None:
    client = guarded(FakeOpenAI().client(), enforcer, on_refusal="answer")
    with ask(client, user(ORDERS), stream=True) as stream:
        out = [next(stream), *stream]

    assert isinstance(stream, openai.Stream)
    assert out[0].choices[0].delta.role == "assistant"
    assert "CONTEXT_INJECTION" in out[1].choices[0].delta.refusal
    assert out[2].choices[0].finish_reason == "stop"
    assert read_check_result(stream) is not None


LONG = "All is well with your list. " * 60


@pytest.mark.parametrize("size", [7, 400, len(LONG)])
def test_a_long_text_leaves_piece_by_piece(size: int, enforcer: Enforcer) -> None:
    pieces = [LONG[start : start + size] for start in range(0, len(LONG), size)]
    chunks = chat_chunks(*pieces)
    for chunk in chunks:
        chunk["choices"][0]["delta"]["role"] = "assistant"
        chunk["choices"][0]["logprobs"] = {
            "content": [{"token": "x", "logprob": 0, "bytes": [], "top_logprobs": []}]
        }
    fake = FakeOpenAI(Reply(events=[{**one, "usage": None} for one in chunks]))
    out = list(ask(guarded(fake.client(), enforcer), stream=True))

    texts = [one.choices[0].delta.content for one in out if one.choices[0].delta.content]
    assert "".join(texts) == LONG
    assert texts != pieces or size == 7
    assert out[0].choices[0].delta.role == "assistant"
    assert all(
        one.choices[0].logprobs is None
        for one in out
        if one.choices[0].delta.content not in {None, "", *pieces}
    )


@pytest.mark.parametrize("whole", [True, False])
def test_text_released_before_a_refusal_remains(whole: bool, enforcer: Enforcer) -> None:
    said = LONG + "".join(PLAN)
    fake = FakeOpenAI(Reply(events=chat_chunks(*([said] if whole else [LONG, *PLAN]))))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    out = list(ask(client, stream=True))

    text = shown(out)
    assert text
    assert said.startswith(text)
    assert "track" not in text
    assert out[-2].choices[0].delta.refusal


CALL = {
    "index": 0,
    "id": "c-1",
    "type": "function",
    "function": {"name": "wipe", "arguments": "{}"},
}


def with_call(*pieces: str, after: int) -> list[dict[str, Any]]:
    """Return chunks of a text with a call after some of them."""
    chunks = chat_chunks(*pieces, finish="tool_calls")
    call = {"index": 0, "delta": {"tool_calls": [CALL]}, "finish_reason": None}
    chunks[after + 1 : after + 1] = [{**chunks[0], "choices": [call]}]
    return chunks


@pytest.mark.parametrize("after", range(len(PLAN) + 1))
def test_a_call_does_not_leave_with_a_refusal(after: int, enforcer: Enforcer) -> None:
    fake = FakeOpenAI(Reply(events=with_call(*PLAN, after=after)))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    out = list(ask(client, stream=True))

    assert not any(one.choices[0].delta.tool_calls for one in out)
    assert out[-1].choices[0].finish_reason == "stop"


def test_no_tool_of_an_agent_runs_after_a_refused_stream(enforcer: Enforcer) -> None:
    ran: list[str] = []

    @function_tool
    def wipe() -> str:
        """Wipe it."""
        ran.append("wipe")
        return "wiped"

    async def played(*pieces: str) -> Any:
        replies = [Reply(events=with_call(*pieces, after=2)), Reply(events=chat_chunks("Done."))]
        client = guarded(FakeOpenAI(*replies).async_client(), enforcer, on_refusal="answer")
        model = OpenAIChatCompletionsModel("m1", client)
        run = Runner.run_streamed(Agent("a", model=model, tools=[wipe]), "Hi")
        async for _ in run.stream_events():
            """All of it."""
        return run.final_output

    set_tracing_disabled(disabled=True)
    with pytest.raises(ModelRefusalError):
        asyncio.run(played(*PLAN))
    assert ran == []
    assert asyncio.run(played("I ", "wipe ", "it.")) == "Done."
    assert ran == ["wipe"]


def test_choices_in_one_chunk_are_judged_apart(enforcer: Enforcer) -> None:
    pairs = zip(chat_chunks(*PLAN), chat_chunks("I ", "am ", "fine", ".", index=1), strict=True)
    chunks = [{**one, "choices": one["choices"] + two["choices"]} for one, two in pairs]
    client = guarded(FakeOpenAI(Reply(events=chunks)).client(), enforcer, on_refusal="answer")
    out = [one for chunk in ask(client, stream=True, n=2) for one in chunk.choices]

    assert "".join(one.delta.content or "" for one in out if one.index == 1) == "I am fine."
    assert [one.finish_reason for one in out if one.index == 0][-1] == "stop"
    assert not any("track" in (one.delta.content or "") for one in out)


class Slow(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A stream that waits in its middle until it is closed."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        yield f"data: {json.dumps(chat_chunks('a')[0])}\n\n".encode()
        self.begun.set()
        self.closed.wait(5)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield f"data: {json.dumps(chat_chunks('a')[0])}\n\n".encode()
        self.begun.set()
        await asyncio.to_thread(self.closed.wait, 5)

    def close(self) -> None:
        """Note it."""
        self.closed.set()

    async def aclose(self) -> None:
        """Note it."""
        self.closed.set()


def slow_client(kind: Any, http: Any) -> tuple[Slow, Any]:
    inner = Slow()
    headers = {"content-type": "text/event-stream"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=inner, headers=headers))
    return inner, kind(api_key="k", base_url="http://x/v1", http_client=http(transport=transport))


def test_a_stream_can_be_closed_from_another_thread(enforcer: Enforcer) -> None:
    inner, plain = slow_client(openai.OpenAI, httpx.Client)
    stream = ask(guarded(plain, enforcer), stream=True)
    reader = threading.Thread(target=lambda: list(stream))
    reader.start()
    assert inner.begun.wait(5)
    stream.close()
    reader.join(5)

    assert inner.closed.is_set()
    assert not reader.is_alive()


def test_a_stream_can_be_closed_from_another_task(enforcer: Enforcer) -> None:
    async def played() -> None:
        inner, plain = slow_client(openai.AsyncOpenAI, httpx.AsyncClient)
        stream = await ask(guarded(plain, enforcer), stream=True)

        async def read() -> None:
            async for _ in stream:
                """All of it."""

        reader = asyncio.create_task(read())
        assert await asyncio.to_thread(inner.begun.wait, 5)
        await stream.close()
        assert inner.closed.is_set()
        await asyncio.wait_for(reader, 5)
        await plain.close()

    asyncio.run(played())
