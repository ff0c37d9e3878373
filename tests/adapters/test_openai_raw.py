"""HTTP responses of OpenAI's client: what is read of them was judged."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from adapters.fake_openai import (
    FakeOpenAI,
    Reply,
    chat_chunks,
    completion,
    guarded,
    response_events,
    shown,
    user,
)
from adapters.model_exchange import FORBIDDEN, ORDERS, PLAN, talking
from agents import (
    Agent,
    ModelRefusalError,
    OpenAIResponsesModel,
    Runner,
    set_tracing_disabled,
)
from openai import Stream
from openai.types.chat import ChatCompletionChunk
from support.gates import rows

from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.gate.gate import Gate
from demur.integrations._kit.guarded_response import UncheckedAnswerError
from demur.integrations._kit.model_api import read_check_result

pytestmark = pytest.mark.adapters

ASKED: dict[str, Any] = {"model": "m1", "messages": [user("Hi")]}
USAGE = {
    "input_tokens": 1,
    "output_tokens": 1,
    "total_tokens": 2,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


@pytest.fixture
def gate() -> Iterator[Gate]:
    with talking() as gate:
        yield gate


@pytest.fixture
def enforcer(gate: Gate) -> Enforcer:
    return Enforcer(gate)


def test_a_raw_stream_is_guarded_where_it_is_parsed(enforcer: Enforcer) -> None:
    fake = FakeOpenAI(*[Reply(events=chat_chunks("Hi.")), Reply(events=chat_chunks(*PLAN))] * 2)
    chat = guarded(fake.client(), enforcer).chat.completions

    raw = chat.with_raw_response.create(**ASKED, stream=True)
    assert raw.headers["content-type"] == "text/event-stream"
    assert shown(raw.parse()) == "Hi."
    assert read_check_result(raw) is not None
    with pytest.raises(Refused):
        shown(chat.with_raw_response.create(**ASKED, stream=True).parse())
    with chat.with_streaming_response.create(**ASKED, stream=True) as raw:
        assert shown(raw.parse(to=Stream[ChatCompletionChunk])) == "Hi."
    with (
        pytest.raises(Refused),
        chat.with_streaming_response.create(**ASKED, stream=True) as raw,
    ):
        shown(raw.parse())
    assert all(stream.closed for stream in fake.streams)


@pytest.mark.parametrize("name", ["iter_lines", "iter_bytes", "read", "text", "http_response"])
def test_bytes_of_a_stream_are_kept_from_who_does_not_trust_them(
    name: str, enforcer: Enforcer
) -> None:
    fake = FakeOpenAI(*[Reply(events=chat_chunks("Hi."))] * 2)
    for trusts in (False, True):
        client = guarded(fake.client(), enforcer, allow_raw_bytes=trusts)
        raw = client.chat.completions.with_streaming_response
        with raw.create(**ASKED, stream=True) as answer:
            if trusts:
                assert getattr(answer, name)
            else:
                with pytest.raises(UncheckedAnswerError):
                    getattr(answer, name)


def test_an_answer_that_is_read_in_pieces_is_judged_before(enforcer: Enforcer) -> None:
    fake = FakeOpenAI(Reply(completion("Hi.")), Reply(completion("".join(PLAN))))
    raw = guarded(fake.client(), enforcer).chat.completions.with_streaming_response

    with raw.create(**ASKED) as answer:
        assert b"Hi." in b"".join(answer.iter_bytes())
        assert answer.parse().choices[0].message.content == "Hi."
    with pytest.raises(Refused), raw.create(**ASKED):
        pass


def test_a_raw_stream_is_not_opened_for_a_refused_prompt(enforcer: Enforcer) -> None:
    fake = FakeOpenAI()
    raw = guarded(fake.client(), enforcer).chat.completions.with_streaming_response
    with (
        pytest.raises(Refused),
        raw.create(model="m1", messages=[user(ORDERS)], stream=True),
    ):
        pass
    assert fake.heard == []


def test_a_stream_that_agents_open_raw_is_guarded(enforcer: Enforcer, gate: Gate) -> None:
    async def played(*pieces: str) -> list[str]:
        fake = FakeOpenAI(Reply(events=response_events(*pieces, usage=USAGE)))
        client = guarded(fake.async_client(), enforcer, on_refusal="answer")
        run = Runner.run_streamed(Agent("a", model=OpenAIResponsesModel("m1", client)), "Hi")
        events = [event async for event in run.stream_events()]
        return [repr(event) for event in events] + [run.final_output]

    set_tracing_disabled(disabled=True)
    assert asyncio.run(played("All ", "fine."))[-1] == "All fine."
    with pytest.raises(ModelRefusalError):
        asyncio.run(played(*PLAN))
    assert FORBIDDEN in rows(gate)[-1].reason_codes
