"""Requests and answers that the clients of OpenAI change instead of refusing them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from adapters.fake_openai import (
    FakeOpenAI,
    Reply,
    ask,
    chat_chunks,
    completion,
    guarded,
    user,
)
from pydantic import BaseModel
from support.gates import opened

from demur.codes.vocabulary import DecisionOutput
from demur.enforce.opening import read_agent_policy
from demur.enforce.result import Refused
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.integrations._kit.model_api import read_trace
from demur.policy.loader import parse_policy

pytestmark = pytest.mark.adapters

KEY = "AKIAQ3EGRIFLV7XY2ABC"


@pytest.fixture
def gate() -> Iterator[Gate]:
    with opened(parse_policy(read_agent_policy())) as gate:
        yield gate


def as_reply(reply: Any) -> Reply:
    return Reply(reply) if isinstance(reply, dict) else Reply(events=reply)


def client_for(gate: Gate, *replies: Any, **options: Any) -> tuple[Any, FakeOpenAI]:
    fake = FakeOpenAI(*map(as_reply, replies))
    return guarded(fake.client(), gate, **options), fake


def test_a_provider_gets_the_changed_request(gate: Gate) -> None:
    client, fake = client_for(gate, completion("Fine."), on_finding="redact")
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        user(f"Keep {KEY}."),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": f"Found {KEY}."},
        user([{"type": "text", "text": f"And {KEY}."}]),
    ]
    answer = ask(client, *messages)

    assert answer.choices[0].message.content == "Fine."
    assert KEY not in json.dumps(fake.heard)
    assert json.dumps(fake.heard).count("[removed]") == 3
    trace: Any = read_trace(answer)
    prompt = trace.prompt
    assert prompt.record.decision_output is DecisionOutput.ALLOW_CONSTRAINED
    assert KEY in messages[0]["content"]


def test_an_answer_is_asked_for_once_more_with_the_reason(gate: Gate) -> None:
    replies = completion(f"It is {KEY}."), completion("It is the usual key.")
    client, fake = client_for(gate, *replies, on_finding={"output": "reask"})
    answer = ask(client, user("Which key?"))

    assert answer.choices[0].message.content == "It is the usual key."
    [_, again] = fake.heard
    assert "REFUSED: SECRET_LEAK" in json.dumps(again)
    assert KEY not in json.dumps(again)
    trace: Any = read_trace(answer)
    assert len(trace.attempts) == 2


def test_a_second_answer_like_the_first_is_refused(gate: Gate) -> None:
    replies = completion(f"It is {KEY}."), completion(f"It is {KEY}.")
    client, fake = client_for(gate, *replies, on_finding={"output": "reask"})

    with pytest.raises(Refused, match="SECRET_LEAK"):
        ask(client, user("Which key?"))
    assert len(fake.heard) == 2


class Note(BaseModel):
    text: str


def test_a_parsed_answer_is_parsed_from_the_changed_text(gate: Gate) -> None:
    client, _ = client_for(gate, completion(json.dumps({"text": KEY})), on_finding="redact")
    answer = client.chat.completions.parse(
        model="m1", messages=[user("Which key?")], response_format=Note
    )

    assert answer.choices[0].message.parsed == Note(text="[removed]")
    assert KEY not in str(answer.choices[0].message.content)


def test_a_raw_response_cannot_be_changed(gate: Gate) -> None:
    client, _ = client_for(gate, completion(f"It is {KEY}."), on_finding="redact")

    with pytest.raises(Refused, match="SECRET_LEAK"):
        client.chat.completions.with_raw_response.create(model="m1", messages=[user("Which key?")])


def test_all_choices_are_changed(gate: Gate) -> None:
    client, _ = client_for(gate, completion(f"A {KEY}.", f"B {KEY}."), on_finding="mask")
    answer = client.chat.completions.create(model="m1", messages=[user("Which key?")], n=2)

    assert [one.message.content for one in answer.choices] == [f"{x} {'*' * 20}." for x in "AB"]


def test_a_stream_with_calls_and_text_is_changed(gate: Gate) -> None:
    chunks = chat_chunks("The key ", "is AKIAQ3EG", "RIFLV7XY2ABC", " indeed.")
    client, _ = client_for(gate, chunks, on_finding="redact")
    stream = client.chat.completions.create(model="m1", messages=[user("Which key?")], stream=True)
    text = "".join(one.choices[0].delta.content or "" for one in stream if one.choices)

    assert text == "The key is [removed] indeed."


def test_shadow_mode_changes_and_refuses_nothing(gate: Gate) -> None:
    client, _ = client_for(
        gate, completion(f"It is {KEY}."), mode="shadow", on_finding={"output": "redact"}
    )

    assert ask(client, user("Which key?")).choices[0].message.content == f"It is {KEY}."


def test_arguments_of_tools_cannot_be_changed_by_a_client(gate: Gate) -> None:
    with pytest.raises(InputError, match="cannot be changed here"):
        client_for(gate, on_finding={"tool_call": "redact"})


ANSWERED = {"role": "assistant", "content": "Fine."}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.mark.parametrize("on_finding", ["redact", {"input": "mask", "tool_result": "redact"}])
def test_a_later_request_leaves_out_what_was_taken_out(gate: Gate, on_finding: Any) -> None:
    """INVARIANT: what was taken out of a message stays out of later requests with it."""
    client, fake = client_for(gate, completion("Fine."), on_finding=on_finding)
    ask(
        client,
        user(f"Keep {KEY}."),
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": f"Found {KEY}."},
        ANSWERED,
        user("And now?"),
    )

    assert KEY not in json.dumps(fake.heard)
    assert "Keep " in json.dumps(fake.heard)


def test_an_earlier_message_that_cannot_be_changed_is_refused(gate: Gate) -> None:
    client, fake = client_for(gate, on_finding="redact")
    halves = (f"-----BEGIN PRIVATE KEY-----\n{'A' * 64}", f"{'B' * 64}\n-----END PRIVATE KEY-----")
    split = user([{"type": "text", "text": half} for half in halves])

    with pytest.raises(Refused, match="SECRET_LEAK"):
        ask(client, split, ANSWERED, user("And now?"))
    assert not fake.heard
