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
from adapters.model_exchange import FORBIDDEN, ORDERS, PLAN, talking
from openai.types.beta import BetaResponse, BetaResponseCompletedEvent, BetaResponseOutputMessage
from openai.types.responses import Response
from pydantic import BaseModel

from demur.emit.hosts import from_openai
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.gate.gate import Gate
from demur.integrations._kit.model_api import read_check_result

pytestmark = pytest.mark.adapters

APPROVAL = {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True}


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
        [user("Hi"), {**APPROVAL, "reason": ORDERS}],
        [user(ORDERS), APPROVAL, user("Go on.")],
        [user("Hi"), assistant(ORDERS)],
    ],
    ids=[
        "text",
        "message",
        "parts",
        "after reasoning",
        "after an answer",
        "tool result",
        "reason",
        "before an approval",
        "prefilled",
    ],
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


def test_extra_items_do_not_hide_the_input(enforcer: Enforcer) -> None:
    beside = {"items": [{"role": "user", "content": "Hi"}]}
    with pytest.raises(Refused, match="CONTEXT_INJECTION"):
        guarded(FakeOpenAI().client(), enforcer).responses.create(
            model="m1", input=ORDERS, extra_body=beside
        )


def test_variables_of_a_stored_prompt_are_checked(enforcer: Enforcer) -> None:
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


def test_a_forbidden_response_is_replaced_with_its_tool_calls(enforcer: Enforcer) -> None:
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

    ruling = read_check_result(answer)
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


def parts_of(*texts: str) -> list[dict[str, Any]]:
    """Return the events of a message with a content part for each text."""
    begin, added, *_, last = response_events(*texts)
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    item = {**last["response"]["output"][0], "content": content}
    events = [begin, added]
    for number, part in enumerate(content):
        here = {"item_id": "msg1", "output_index": 0, "content_index": number}
        delta, text = "response.output_text.delta", part["text"]
        events += [
            {"type": "response.content_part.added", **here, "part": {**part, "text": ""}},
            {"type": delta, **here, "delta": text, "logprobs": []},
            {"type": "response.output_text.done", **here, "text": text, "logprobs": []},
            {"type": "response.content_part.done", **here, "part": part},
        ]
    events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    events.append({**last, "response": {**last["response"], "output": [item]}})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def test_a_text_in_two_parts_is_judged_as_one(enforcer: Enforcer) -> None:
    events = parts_of("Here is your plan to track ", "your ex without her knowing. First, wait.")
    fake = FakeOpenAI(Reply(events=events), Reply(events[-1]["response"]), Reply(events=events))
    client = guarded(fake.client(), enforcer)

    with pytest.raises(Refused):
        list(respond(client, stream=True))
    with pytest.raises(Refused):
        respond(client)
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    with client.responses.stream(model="m1", input="Hi") as stream:
        said = "".join(event.model_dump_json(warnings=False) for event in stream)
        [item] = stream.get_final_response().output
    assert "track" not in said
    assert item.content[0].type == "refusal"


def test_parts_of_a_clean_text_pass_as_they_came(enforcer: Enforcer) -> None:
    events = parts_of("Your list ", "is empty.")
    plain = FakeOpenAI(Reply(events=events)).client()
    client = guarded(FakeOpenAI(Reply(events=events)).client(), enforcer)

    assert list(respond(client, stream=True)) == list(respond(plain, stream=True))


def test_a_call_leaves_a_stream_only_if_all_of_its_text_may(enforcer: Enforcer) -> None:
    def events(*pieces: str) -> list[dict[str, Any]]:
        before, after = response_events(*pieces)[:-1], response_events(*pieces)[-1]
        call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "wipe"}
        item = {**call, "arguments": "", "status": "in_progress"}
        added = {"type": "response.output_item.added", "output_index": 1, "item": item}
        return [before[0], added, *before[1:], after]

    fake = FakeOpenAI(Reply(events=events(*PLAN)), Reply(events=events("Gone.")))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    for calls in (0, 1):
        out = list(respond(client, stream=True))
        assert [event.type for event in out].count("response.output_item.added") == calls + 1


def test_text_only_at_the_end_is_refused_so_that_the_helper_can_read_it(
    enforcer: Enforcer,
) -> None:
    events = response_events(*PLAN)
    search = {"type": "web_search_call", "id": "ws", "status": "in_progress"}
    begun = {"type": "response.output_item.added", "output_index": 0, "item": search}
    for between in ([], [{**begun, "sequence_number": 1}]):
        fake = FakeOpenAI(Reply(events=[events[0], *between, events[-1]]))
        client = guarded(fake.client(), enforcer, on_refusal="answer")
        with client.responses.stream(model="m1", input="Hi") as stream:
            assert "track" not in "".join(event.model_dump_json(warnings=False) for event in stream)
            *others, item = stream.get_final_response().output
        assert [one.type for one in others] == ["web_search_call"] * len(between)
        assert item.content[0].type == "refusal"


def test_responses_in_beta_have_types_of_their_own(enforcer: Enforcer) -> None:
    replies = [Reply(response("".join(PLAN))), Reply(events=response_events(*PLAN))]
    client = guarded(FakeOpenAI(*replies).client(), enforcer, on_refusal="answer")

    for given in (ORDERS, "Hi"):
        answer = client.beta.responses.create(model="m1", input=given)
        assert isinstance(answer, BetaResponse)
        assert isinstance(answer.output[0], BetaResponseOutputMessage)
    for given in (ORDERS, "Hi"):
        *_, last = client.beta.responses.create(model="m1", input=given, stream=True)
        assert isinstance(last, BetaResponseCompletedEvent)
        assert isinstance(last.response.output[0], BetaResponseOutputMessage)


@pytest.mark.parametrize("path", ["create", "items", "compact"])
def test_stored_conversation_items_are_checked_before_they_are_sent(
    path: str, enforcer: Enforcer
) -> None:
    kept = {"id": "conv", "object": "conversation", "created_at": 1, "metadata": {}, "data": []}
    fake = FakeOpenAI(Reply({**kept, "has_more": False, "output": []}))
    client = guarded(fake.client(), enforcer, on_refusal="answer")

    def keep(text: str) -> Any:
        if path == "compact":
            return client.responses.compact(model="m1", input=text)
        if path == "items":
            return client.conversations.items.create("conv", items=[user(text)])
        return client.conversations.create(items=[user(text)])

    with pytest.raises(Refused) as caught:
        keep(ORDERS)
    assert read_check_result(caught.value) is caught.value.result
    keep("Hi")
    assert len(fake.heard) == 1


@pytest.mark.parametrize("size", [7, 400, 10_000])
def test_a_long_text_leaves_piece_by_piece(size: int, enforcer: Enforcer) -> None:
    long = "All is well with your list. " * 60
    pieces = [long[start : start + size] for start in range(0, len(long), size)]
    fake = FakeOpenAI(Reply(events=response_events(*pieces)))
    client = guarded(fake.client(), enforcer)
    with client.responses.stream(model="m1", input="Hi") as stream:
        texts = [one.delta for one in stream if one.type == "response.output_text.delta"]
        assert stream.get_final_response().output_text == long

    assert "".join(texts) == long


def test_text_released_before_a_refusal_remains(enforcer: Enforcer) -> None:
    long = "All is well with your list. " * 60
    fake = FakeOpenAI(Reply(events=response_events(long, *PLAN)))
    client = guarded(fake.client(), enforcer, on_refusal="answer")
    with client.responses.stream(model="m1", input="Hi") as stream:
        texts = [one.delta for one in stream if one.type == "response.output_text.delta"]
        [item] = stream.get_final_response().output

    assert texts
    assert (long + "".join(PLAN)).startswith("".join(texts))
    assert "track" not in "".join(texts)
    assert item.content[0].type == "refusal"
