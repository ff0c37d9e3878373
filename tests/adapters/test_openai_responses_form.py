"""Responses and their streams: what is judged, what leaves, and how they end."""

from collections.abc import Iterator
from typing import Any

import pytest
from adapters.fake_openai import (
    FakeOpenAI,
    Reply,
    assistant,
    guarded,
    respond,
    response,
    response_events,
    user,
)
from adapters.model_talk import FORBIDDEN, ORDERS, PLAN, talking
from openai.types.responses import Response
from pydantic import BaseModel

from demur.emit.openai import from_openai
from demur.gate.enforcer import Enforcer
from demur.gate.gate import Gate
from demur.gate.ruling import Refused
from demur.integrations.model_client.call import ruling_of

pytestmark = pytest.mark.adapters


@pytest.fixture
def gate() -> Iterator[Gate]:
    with talking() as gate:
        yield gate


@pytest.fixture
def enforcer(gate: Gate) -> Enforcer:
    return Enforcer(gate)


@pytest.mark.parametrize(
    "given",
    [
        ORDERS,
        [user(ORDERS)],
        [user([{"type": "input_text", "text": ORDERS}])],
        [user("Hi"), {"type": "reasoning", "id": "r", "summary": []}, user(ORDERS)],
        [user("Hi"), assistant("Hello"), user(ORDERS), {"role": "developer", "content": "Hm."}],
        [
            user("Hi"),
            {"type": "function_call", "call_id": "c", "name": "lookup", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": ORDERS},
        ],
    ],
    ids=["text", "message", "parts", "after reasoning", "after an answer", "tool result"],
)
def test_a_refused_input_is_never_sent(given: Any, enforcer: Enforcer) -> None:
    fake = FakeOpenAI()
    answer = respond(guarded(fake.client(), enforcer, on_refusal="answer"), given)

    assert fake.heard == []
    assert isinstance(answer, Response)
    [item] = answer.model_dump()["output"]
    refusal = from_openai(item["content"][0])
    assert refusal is not None
    assert refusal.code == "CONTEXT_INJECTION"
    assert answer.output_text == ""


def test_what_a_stored_prompt_is_filled_with_is_judged(enforcer: Enforcer) -> None:
    variables = {"city": "Paris", "note": {"type": "input_text", "text": ORDERS}}
    with pytest.raises(Refused, match="CONTEXT_INJECTION"):
        guarded(FakeOpenAI().client(), enforcer).responses.create(
            prompt={"id": "p-1", "variables": variables}
        )


class City(BaseModel):
    name: str


def test_parsed_responses_are_guarded(enforcer: Enforcer) -> None:
    fake = FakeOpenAI(Reply(response('{"name": "Paris"}')))
    client = guarded(fake.client(), enforcer, on_refusal="answer")

    answer = client.responses.parse(model="m1", input="Where?", text_format=City)
    assert answer.output_parsed == City(name="Paris")
    refused = client.responses.parse(model="m1", input=ORDERS, text_format=City)
    assert refused.output_parsed is None
    assert "CONTEXT_INJECTION" in refused.output[0].content[0].refusal


def test_a_forbidden_response_is_replaced_with_all_that_it_asked_for(enforcer: Enforcer) -> None:
    call = {"call_id": "c", "name": "lookup", "arguments": "{}"}
    fake = FakeOpenAI(Reply(response("".join(PLAN), calls=[call])))
    answer = respond(guarded(fake.client(), enforcer, on_refusal="answer"))

    assert [item.type for item in answer.output] == ["message"]
    assert (answer.id, answer.output_text) == ("r1", "")
    assert "track" not in answer.model_dump_json()


def test_a_response_that_fails_by_policy_is_ruled_on(enforcer: Enforcer) -> None:
    details = {"reason": "content_filter"}
    body = response(None, status="incomplete", incomplete_details=details)
    answer = respond(guarded(FakeOpenAI(Reply(body)).client(), enforcer))

    ruling = ruling_of(answer)
    assert ruling is not None
    assert not ruling.allowed


def test_a_response_stream_passes_in_order(enforcer: Enforcer) -> None:
    events = response_events("Your list ", "is empty.")
    fake = FakeOpenAI(Reply(events=events))
    out = list(respond(guarded(fake.client(), enforcer), stream=True))

    kinds = list(dict.fromkeys(event.type for event in out))
    assert kinds == list(dict.fromkeys(event["type"] for event in events))
    said = [event.delta for event in out if event.type == "response.output_text.delta"]
    assert "".join(said) == "Your list is empty."


def test_a_response_stream_ends_in_a_refusal_that_its_helper_can_read(
    enforcer: Enforcer,
) -> None:
    fake = FakeOpenAI(Reply(events=response_events(*PLAN)))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    with client.responses.stream(model="m1", input="Hi") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()

    assert kinds[-1] == "response.completed"
    assert "response.refusal.done" in kinds
    assert FORBIDDEN in final.output[0].content[0].refusal
    assert "track" not in final.model_dump_json(warnings=False)
    assert fake.streams[0].closed


def test_a_refused_input_is_a_stream_that_its_helper_can_read(enforcer: Enforcer) -> None:
    client = guarded(FakeOpenAI().client(), enforcer, on_refusal="answer")
    with client.responses.stream(model="m1", input=ORDERS) as stream:
        final = stream.get_final_response()

    assert "CONTEXT_INJECTION" in final.output[0].content[0].refusal


def test_text_that_comes_whole_at_the_end_is_judged_before_it_leaves(enforcer: Enforcer) -> None:
    whole = [
        event
        for event in response_events("".join(PLAN))
        if event["type"] in {"response.created", "response.completed"}
    ]
    client = guarded(FakeOpenAI(Reply(events=whole)).client(), enforcer)
    with pytest.raises(Refused, match=FORBIDDEN):
        list(respond(client, stream=True))

    fake = FakeOpenAI(Reply(events=whole[1:]))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    out = list(respond(client, stream=True))
    assert "track" not in "".join(event.model_dump_json() for event in out)
    assert out[-1].type == "response.completed"


def test_a_stream_of_nothing_but_text_can_be_cut_too(enforcer: Enforcer) -> None:
    events = response_events(*PLAN)
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    fake = FakeOpenAI(Reply(events=deltas))
    out = list(respond(guarded(fake.client(), enforcer, on_refusal="answer"), stream=True))

    assert out[-1].type == "response.completed"
    assert FORBIDDEN in out[-1].response.output[0].content[0].refusal


def test_clean_text_that_comes_whole_is_judged_once(enforcer: Enforcer) -> None:
    events = response_events("All is ", "well.")
    whole = [event for event in events if event["type"] != "response.output_text.delta"]
    fake = FakeOpenAI(Reply(events=whole))
    out = list(respond(guarded(fake.client(), enforcer), stream=True))

    assert [event.type for event in out] == [event["type"] for event in whole]


def test_the_end_of_a_response_ends_what_is_still_held(enforcer: Enforcer) -> None:
    events = response_events("Half an ", "answer")
    kept = {"response.created", "response.output_text.delta"}
    cut = [event for event in events if event["type"] in kept]
    failed = {"type": "response.failed", "response": {**response(None), "status": "failed"}}
    fake = FakeOpenAI(Reply(events=[*cut, {**failed, "sequence_number": 9}]))
    out = list(respond(guarded(fake.client(), enforcer), stream=True))

    said = [event.delta for event in out if event.type == "response.output_text.delta"]
    assert "".join(said) == "Half an answer"
    assert out[-1].type == "response.failed"
