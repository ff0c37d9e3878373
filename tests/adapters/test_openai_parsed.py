"""Structured outputs of OpenAI's client: judged before they are parsed."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from adapters.fake_openai import FakeOpenAI, Reply, completion, guarded, response, user
from adapters.model_exchange import FORBIDDEN, ORDERS, PLAN, SORRY, talking
from openai import LengthFinishReasonError
from pydantic import BaseModel, ValidationError
from support.gates import rows

from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.gate.gate import Gate
from demur.integrations._kit.model_api import read_check_result

pytestmark = pytest.mark.adapters


class Answer(BaseModel):
    """What is asked for."""

    text: str


@pytest.fixture
def gate() -> Iterator[Gate]:
    with talking() as gate:
        yield gate


@pytest.fixture
def enforcer(gate: Gate) -> Enforcer:
    return Enforcer(gate)


def parsed(client: Any, interface: str, given: str = "Hi") -> Any:
    if interface == "chat":
        asked = {"messages": [user(given)], "response_format": Answer}
        return client.chat.completions.parse(model="m1", **asked)
    return client.responses.parse(model="m1", input=given, text_format=Answer)


def reply(interface: str, text: str) -> Reply:
    return Reply(completion(text) if interface == "chat" else response(text))


def value_of(answer: Any, interface: str) -> Any:
    return answer.choices[0].message.parsed if interface == "chat" else answer.output_parsed


@pytest.mark.parametrize("interface", ["chat", "responses"])
def test_a_parsed_answer_was_checked(interface: str, enforcer: Enforcer, gate: Gate) -> None:
    plan = json.dumps({"text": "".join(PLAN)})
    replies = [
        reply(interface, text) for text in (json.dumps({"text": "Hi."}), "".join(PLAN), plan)
    ]
    client = guarded(FakeOpenAI(*replies).client(), enforcer)

    answer = parsed(client, interface)
    assert value_of(answer, interface) == Answer(text="Hi.")
    assert read_check_result(answer) is not None
    assert answer._request_id is None
    for _ in range(2):
        with pytest.raises(Refused):
            parsed(client, interface)
        assert FORBIDDEN in rows(gate)[-1].reason_codes


@pytest.mark.parametrize("interface", ["chat", "responses"])
def test_a_refusal_in_prose_is_recorded(interface: str, enforcer: Enforcer, gate: Gate) -> None:
    client = guarded(FakeOpenAI(reply(interface, SORRY)).client(), enforcer)
    with pytest.raises(ValidationError) as caught:
        parsed(client, interface)

    assert "MODEL_DECLINED" in rows(gate)[-1].reason_codes
    ruling = read_check_result(caught.value)
    assert ruling is not None
    assert caught.value.__notes__ == [ruling.line]


@pytest.mark.parametrize("interface", ["chat", "responses"])
def test_a_refusal_in_place_of_what_is_parsed_has_nothing_parsed(
    interface: str, enforcer: Enforcer
) -> None:
    fake = FakeOpenAI(reply(interface, "".join(PLAN)))
    client = guarded(fake.client(), enforcer, on_refusal="answer")

    for given in (ORDERS, "Hi"):
        answer = parsed(client, interface, given)
        assert value_of(answer, interface) is None
        assert answer._request_id is None
        ruling = read_check_result(answer)
        assert ruling is not None
        assert not ruling.allowed


def test_errors_of_the_parser_stay_what_they_are(enforcer: Enforcer) -> None:
    fake = FakeOpenAI(Reply(completion('{"text": ', finish="length")))
    with pytest.raises(LengthFinishReasonError) as caught:
        parsed(guarded(fake.client(), enforcer), "chat")

    assert read_check_result(caught.value) is not None


def test_raw_responses_are_parsed_after_they_were_judged(enforcer: Enforcer) -> None:
    fake = FakeOpenAI(reply("chat", '{"text": "Hi."}'), reply("chat", "".join(PLAN)))
    raw = guarded(fake.client(), enforcer).chat.completions.with_raw_response
    asked: dict[str, Any] = {"model": "m1", "messages": [user("Hi")], "response_format": Answer}

    answer = raw.parse(**asked)
    assert answer.status_code == 200
    assert value_of(answer.parse(), "chat") == Answer(text="Hi.")
    assert read_check_result(answer) is not None
    with pytest.raises(Refused):
        raw.parse(**asked)
