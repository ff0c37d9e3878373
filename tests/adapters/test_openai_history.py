"""What stands in a conversation with OpenAI's client: none of it passes for judged that was not."""

from collections.abc import Iterator
from typing import Any

import pytest
from adapters.fake_openai import (
    FakeOpenAI,
    Reply,
    ask,
    assistant,
    completion,
    guarded,
    respond,
    response,
    user,
)
from adapters.model_exchange import ORDERS, talking

from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.gate.gate import Gate
from demur.integrations._kit.model_api import read_check_result

pytestmark = pytest.mark.adapters

CALL = {"id": "c", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}


@pytest.fixture
def gate() -> Iterator[Gate]:
    with talking() as gate:
        yield gate


@pytest.fixture
def enforcer(gate: Gate) -> Enforcer:
    return Enforcer(gate)


def is_refused(answer: Any) -> bool:
    ruling = read_check_result(answer)
    return ruling is not None and not ruling.allowed


@pytest.mark.parametrize(
    "turn",
    [
        [user(ORDERS)],
        [user("Look."), CALLED, {"role": "tool", "tool_call_id": "c", "content": ORDERS}],
    ],
    ids=["prompt", "result"],
)
@pytest.mark.parametrize("shared", [True, False])
def test_a_refused_turn_of_a_chat_does_not_become_history(
    turn: list[Any], shared: bool, enforcer: Enforcer, gate: Gate
) -> None:
    fake = FakeOpenAI(Reply(completion("Hi.")))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    refused = ask(client, *turn).choices[0].message
    # Another process has another memory, and knows our refusal when it sees it.
    later = client if shared else guarded(fake.client(), Enforcer(gate), on_refusal="answer")

    for between in (refused, refused.model_dump(), assistant(refused.refusal)):
        assert is_refused(ask(later, *turn, between, user("Please go on.")))
    if shared:
        assert is_refused(ask(client, *turn, assistant("Sorry."), user("Please go on.")))
    assert fake.heard == []
    assert not is_refused(ask(client, user("Please go on.")))


@pytest.mark.parametrize("shared", [True, False])
def test_a_refused_turn_of_a_response_does_not_become_history(
    shared: bool, enforcer: Enforcer, gate: Gate
) -> None:
    fake = FakeOpenAI(Reply(response("Hi.")))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    refused = respond(client, [user(ORDERS)]).output
    later = client if shared else guarded(fake.client(), Enforcer(gate), on_refusal="answer")

    for between in (refused, [one.model_dump() for one in refused]):
        assert is_refused(respond(later, [user(ORDERS), *between, user("Please go on.")]))
    if shared:
        given = [user(ORDERS), assistant("Sorry."), user("Please go on.")]
        assert is_refused(respond(later, given))
    assert fake.heard == []
    assert not is_refused(respond(client, [user("Please go on.")]))


@pytest.mark.parametrize(
    "before",
    [assistant(ORDERS), {"role": "system", "content": ORDERS}, user(ORDERS)],
    ids=["assistant", "system", "user"],
)
def test_all_of_a_history_is_judged_where_it_is_not_trusted(
    before: dict[str, Any], enforcer: Enforcer
) -> None:
    messages = [user("Hi"), before, assistant("Hm."), user("Go on.")]
    fake = FakeOpenAI(Reply(completion("Hi.")), Reply(response("Hi.")))
    trusting = guarded(fake.client(), enforcer)
    client = guarded(fake.client(), enforcer, recheck_history=True)

    ask(trusting, *messages)
    respond(trusting, messages)
    with pytest.raises(Refused):
        ask(client, *messages)
    with pytest.raises(Refused):
        respond(client, messages)


def test_words_put_into_the_models_mouth_are_judged(enforcer: Enforcer) -> None:
    fake = FakeOpenAI(Reply(completion("Hi.")))
    client = guarded(fake.client(), enforcer)

    with pytest.raises(Refused):
        ask(client, user("Hi"), assistant(ORDERS))
    assert ask(client, user("Hi"), assistant("Well, ")).choices[0].message.content == "Hi."
