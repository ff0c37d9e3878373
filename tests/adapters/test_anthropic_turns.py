"""Whole conversations with Anthropic's client: history, blocks, calls and parsed answers."""

from collections.abc import Iterator
from typing import Any

import pytest
from adapters.fake_anthropic import (
    FakeAnthropic,
    Reply,
    ask,
    assistant,
    guarded,
    message,
    message_events,
    shown,
    user,
)
from adapters.model_exchange import FORBIDDEN, ORDERS, PLAN, SORRY, talking
from anthropic import beta_tool
from pydantic import BaseModel, ValidationError
from support.gates import rows

from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.gate.gate import Gate
from demur.integrations._kit.guarded_response import UncheckedAnswerError
from demur.integrations._kit.model_api import read_check_result

pytestmark = pytest.mark.adapters

CALL = {"type": "tool_use", "id": "t", "name": "lookup", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": ORDERS}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
SPLIT = ("Here is your plan to track ", "your ex without her knowing. First, wait.")
ASKED: dict[str, Any] = {"model": "m1", "max_tokens": 9}


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


def is_refused(answer: Any) -> bool:
    ruling = read_check_result(answer)
    return ruling is not None and not ruling.allowed


def blocks(*given: str | dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a message with these blocks."""
    start, *_, delta, stop = message_events()
    events = [start]
    for index, one in enumerate(given):
        begin = {"type": "text", "text": ""} if isinstance(one, str) else one
        events.append({"type": "content_block_start", "index": index, "content_block": begin})
        if isinstance(one, str):
            added = {"type": "text_delta", "text": one}
            events.append({"type": "content_block_delta", "index": index, "delta": added})
        events.append({"type": "content_block_stop", "index": index})
    return [*events, delta, stop]


@pytest.mark.parametrize(
    "turn",
    [[user(ORDERS)], [user("Look."), assistant([CALL]), user([RESULT])]],
    ids=["prompt", "result"],
)
@pytest.mark.parametrize("anew", [True, False])
def test_a_refused_turn_does_not_become_history(
    turn: list[Any], anew: bool, enforcer: Enforcer
) -> None:
    fake = FakeAnthropic(Reply(message("Hi.")))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    refused = ask(client, *turn)
    assert is_refused(refused)
    later = guarded(fake.client(), enforcer, on_refusal="answer") if anew else client

    for between in (refused.content, refused.content[0].text, "Sorry."):
        assert is_refused(ask(later, *turn, assistant(between), user("Please go on.")))
    assert fake.heard == []
    assert not is_refused(ask(later, user("Please go on.")))


def test_all_of_a_history_is_judged_where_it_is_not_trusted(enforcer: Enforcer) -> None:
    client = guarded(FakeAnthropic().client(), enforcer, recheck_history=True)

    for before in (assistant(ORDERS), {"role": "system", "content": ORDERS}):
        with pytest.raises(Refused):
            ask(client, user("Hi"), before, assistant("Hm."), user("Go on."))


def test_words_put_into_the_models_mouth_are_judged(enforcer: Enforcer) -> None:
    with pytest.raises(Refused):
        ask(guarded(FakeAnthropic().client(), enforcer), user("Hi"), assistant(ORDERS))


def test_a_text_in_two_blocks_is_judged_as_one(enforcer: Enforcer) -> None:
    fake = FakeAnthropic(Reply(message(*SPLIT)), *[Reply(events=blocks(*SPLIT))] * 2)
    client = guarded(fake.client(), enforcer)

    with pytest.raises(Refused):
        ask(client)
    with pytest.raises(Refused):
        shown(ask(client, stream=True))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    with client.messages.stream(**ASKED, messages=[user("Hi")]) as stream:
        final = stream.get_final_message()
    assert final.stop_reason == "refusal"
    assert "track" not in final.model_dump_json(warnings=False)


@pytest.mark.parametrize(
    "given",
    [("Your list ", "is empty."), ("Wait. ", SEARCH, "Done."), ("I look.", CALL), (CALL,)],
    ids=["texts", "search", "call", "call alone"],
)
def test_blocks_of_a_clean_message_pass_as_they_came(given: Any, enforcer: Enforcer) -> None:
    plain = FakeAnthropic(Reply(events=blocks(*given))).client()
    client = guarded(FakeAnthropic(Reply(events=blocks(*given))).client(), enforcer)

    assert list(ask(client, stream=True)) == list(ask(plain, stream=True))


@pytest.mark.parametrize(
    "given", [("".join(PLAN), CALL), (CALL, *SPLIT), (SPLIT[0], CALL, SPLIT[1])]
)
def test_a_call_does_not_leave_with_a_refusal(given: Any, enforcer: Enforcer) -> None:
    fake = FakeAnthropic(Reply(events=blocks(*given)))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    with client.messages.stream(**ASKED, messages=[user("Hi")]) as stream:
        final = stream.get_final_message()

    assert [block.type for block in final.content] == ["text"]
    assert final.stop_reason == "refusal"


def test_blocks_opened_before_a_refusal_are_closed(enforcer: Enforcer) -> None:
    start, block, *_ = blocks(SEARCH)
    stop = blocks(*PLAN)[-2:]
    start["message"]["content"] = [{"type": "text", "text": "".join(PLAN)}]
    text = {"type": "text", "text": "".join(PLAN)}
    late = {"type": "content_block_start", "index": 1, "content_block": text}
    start_clean = blocks()[0]
    for events in ([start, *stop], [start_clean, block, late, *stop]):
        client = guarded(
            FakeAnthropic(Reply(events=events)).client(), enforcer, on_refusal="answer"
        )
        out = list(ask(client, stream=True))
        begun = [event.index for event in out if event.type == "content_block_start"]
        assert begun == [event.index for event in out if event.type == "content_block_stop"]
        assert "track" not in "".join(event.model_dump_json() for event in out)


def test_a_parsed_answer_was_checked(enforcer: Enforcer, gate: Gate) -> None:
    for text, error, code in (
        ("".join(PLAN), Refused, FORBIDDEN),
        (SORRY, ValidationError, "MODEL_DECLINED"),
    ):
        client = guarded(FakeAnthropic(Reply(message(text))).client(), enforcer)
        with pytest.raises(error) as caught:
            client.messages.parse(**ASKED, messages=[user("Hi")], output_format=Answer)
        assert code in rows(gate)[-1].reason_codes
        assert is_refused(caught.value)


@pytest.mark.parametrize("in_beta", [True, False])
@pytest.mark.parametrize("given", [ORDERS, "Hi"])
def test_a_refusal_in_place_of_what_is_parsed_has_nothing_parsed(
    given: str, in_beta: bool, enforcer: Enforcer
) -> None:
    pieces = ['{"text": "', *PLAN, '"}']
    asked = {**ASKED, "messages": [user(given)], "output_format": Answer}
    for reply in (Reply(message("".join(pieces))), Reply(events=message_events(*pieces))):
        client = guarded(FakeAnthropic(reply).client(), enforcer, on_refusal="answer")
        messages = client.beta.messages if in_beta else client.messages
        if reply.body is not None:
            answer = messages.parse(**asked)
        else:
            with messages.stream(**asked) as stream:
                answer = stream.get_final_message()
        assert answer.stop_reason == "refusal"
        assert answer.parsed_output is None
        assert "track" not in answer.model_dump_json(warnings=False)


def test_a_runner_of_tools_ends_where_a_result_is_refused(enforcer: Enforcer) -> None:
    @beta_tool
    def lookup() -> str:
        """Look it up."""
        return ORDERS

    fake = FakeAnthropic(Reply(message(CALL, stop_reason="tool_use")))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    runner = client.beta.messages.tool_runner(**ASKED, messages=[user("Hi")], tools=[lookup])

    assert runner.until_done().stop_reason == "refusal"
    assert len(fake.heard) == 1


def test_replacement_messages_have_the_usual_id_attributes(enforcer: Enforcer) -> None:
    fake = FakeAnthropic(Reply(message("".join(PLAN))))
    client = guarded(fake.client(), enforcer, on_refusal="answer")

    for given in (ORDERS, "Hi"):
        answer = ask(client, user(given))
        assert (answer._request_id, answer._workspace_id) == (None, None)


def test_a_raw_stream_is_guarded_where_it_is_parsed(enforcer: Enforcer) -> None:
    fake = FakeAnthropic(*[Reply(events=message_events(*PLAN))] * 2)
    client = guarded(fake.client(), enforcer)
    raw = client.messages.with_raw_response.create(**ASKED, messages=[user("Hi")], stream=True)

    with pytest.raises(UncheckedAnswerError):
        raw.iter_bytes()
    with pytest.raises(Refused):
        shown(raw.parse())
    opened = client.messages.with_streaming_response.create(
        **ASKED, messages=[user("Hi")], stream=True
    )
    with pytest.raises(Refused), opened as raw:
        shown(raw.parse())


def test_a_gate_is_enforced_as_it_is(gate: Gate) -> None:
    with pytest.raises(Refused):
        ask(guarded(FakeAnthropic().client(), gate), user(ORDERS))


LONG = "All is well with your list. " * 60


@pytest.mark.parametrize("size", [7, 400, len(LONG)])
def test_a_long_text_leaves_piece_by_piece(size: int, enforcer: Enforcer) -> None:
    pieces = [LONG[start : start + size] for start in range(0, len(LONG), size)]
    late, early = message_events(*pieces), message_events()
    early[1]["content_block"]["text"] = LONG
    for events in (late, early):
        client = guarded(FakeAnthropic(Reply(events=events)).client(), enforcer)
        with client.messages.stream(**ASKED, messages=[user("Hi")]) as stream:
            assert stream.get_final_text() == LONG


def test_blocks_released_before_a_refusal_remain(enforcer: Enforcer) -> None:
    fake = FakeAnthropic(Reply(events=blocks(LONG, SEARCH, LONG, "".join(PLAN))))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    with client.messages.stream(**ASKED, messages=[user("Hi")]) as stream:
        final = stream.get_final_message()

    assert final.content[0].text == LONG
    assert final.stop_reason == "refusal"
    assert "track" not in final.model_dump_json(warnings=False)
