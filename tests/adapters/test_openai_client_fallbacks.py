"""Other models of OpenAI's client: what they give is judged, and their failures lose nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest
from adapters.fake_openai import (
    FakeOpenAI,
    Reply,
    ask,
    chat_chunks,
    completion,
    guarded,
    respond,
    response,
    response_events,
    shown,
)
from adapters.model_exchange import FORBIDDEN, PLAN, SORRY, talking
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from support.gates import rows

from demur.emit.envelope import to_envelope
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.gate.gate import Gate
from demur.integrations._kit.guarded_response import UncheckedAnswerError
from demur.integrations._kit.model_api import read_check_result, read_trace
from demur.model.refusal import Refusal

pytestmark = pytest.mark.adapters

BAD = "".join(PLAN)
POLITE = f"{SORRY} Let me look it up first."
CALL = {"id": "c", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
MISSING = Reply({"error": {"message": "no such model", "code": "model_not_found"}}, status=404)


@pytest.fixture
def gate() -> Iterator[Gate]:
    with talking() as gate:
        yield gate


@pytest.fixture
def enforcer(gate: Gate) -> Enforcer:
    return Enforcer(gate)


def after(other: Callable[[dict[str, Any]], Any], by: Enforcer, **settings: Any) -> Any:
    """Return a client whose model declines, so that a function is asked."""
    fake = FakeOpenAI(Reply(completion(SORRY)))
    return guarded(fake.client(), by, fallbacks=[other], **settings)


async def later(_body: Any) -> Any:
    return completion(BAD)


@pytest.mark.parametrize(
    "other",
    [
        lambda _body: {"type": "message", "content": [{"type": "text", "text": BAD}]},
        lambda _body: {"choices": [BAD]},
        lambda _body: iter([BAD]),
        lambda _body: BAD,
        lambda _body: None,
        later,
    ],
    ids=["another form", "no choice", "iterator", "text", "nothing", "to be awaited"],
)
@pytest.mark.parametrize("on_refusal", ["raise", "answer"])
def test_a_fallback_answer_in_another_form_is_not_returned(
    other: Any, on_refusal: str, enforcer: Enforcer
) -> None:
    with pytest.raises(UncheckedAnswerError, match="demur cannot check") as caught:
        ask(after(other, enforcer, on_refusal=on_refusal))
    trail = read_trace(caught.value)
    assert trail is not None
    assert [one.is_refused for one in trail.attempts] == [True]


@pytest.mark.parametrize("given", [{**completion(BAD), "id": None}, completion(BAD)])
def test_a_mapping_that_is_a_completion_is_coerced_to_one(
    given: dict[str, Any], enforcer: Enforcer
) -> None:
    whole = {name: value for name, value in given.items() if value is not None}
    with pytest.raises(Refused, match=FORBIDDEN):
        ask(after(lambda _body: whole, enforcer))
    answer = ask(after(lambda _body: whole, enforcer, on_refusal="answer"))
    assert FORBIDDEN in answer.choices[0].message.refusal
    answer = ask(after(lambda _body: completion("Fine."), enforcer))
    assert isinstance(answer, ChatCompletion)
    assert answer.choices[0].message.content == "Fine."


def test_a_mapping_that_is_a_response_is_coerced_to_one(enforcer: Enforcer) -> None:
    for text, on_refusal in (("Fine.", "raise"), (BAD, "answer")):
        fake = FakeOpenAI(Reply(response(SORRY)))
        given = response(text)
        other = {"fallbacks": [lambda _body, given=given: given], "on_refusal": on_refusal}
        answer = respond(guarded(fake.client(), enforcer, **other))
        assert isinstance(answer, Response)
        assert (FORBIDDEN in answer.to_json()) == (text == BAD)


@pytest.mark.parametrize("text", ["Fine.", BAD])
def test_a_raw_response_of_a_function_can_be_parsed(text: str, enforcer: Enforcer) -> None:
    made = ChatCompletion.model_validate(completion(text))
    for name in ("with_raw_response", "with_streaming_response"):
        chat = after(lambda _body: made, enforcer).chat.completions
        asked: dict[str, Any] = {"model": "m1", "messages": []}
        if text == BAD:
            with pytest.raises(Refused), _opened(getattr(chat, name).create(**asked)):
                pass
        else:
            with _opened(getattr(chat, name).create(**asked)) as raw:
                assert raw.parse().choices[0].message.content == "Fine."
                assert dict(raw.headers) == {}
                trail = read_trace(raw)
                assert trail is not None
                assert trail.attempts[-1].model == "<lambda>"


class _Same:
    """A raw response, which is no context of its own."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __enter__(self) -> Any:
        return self._raw

    def __exit__(self, *_: object) -> None:
        pass


def _opened(raw: Any) -> Any:
    return raw if hasattr(type(raw), "__enter__") else _Same(raw)


ELSEWHERE = Reply({"error": to_envelope(Refusal.from_code("LANGUAGE_UNSUPPORTED"))}, status=400)


def test_a_fallback_function_must_return_a_stream_for_a_stream(enforcer: Enforcer) -> None:
    def asked(other: Any) -> Any:
        client = guarded(FakeOpenAI(ELSEWHERE).client(), enforcer, fallbacks=[other])
        return ask(client, stream=True)

    def streaming(_body: Any) -> Any:
        return ask(FakeOpenAI(Reply(events=chat_chunks("Bonjour."))).client(), stream=True)

    assert shown(asked(streaming)) == "Bonjour."
    for other in (
        lambda _body: ChatCompletion.model_validate(completion(BAD)),
        lambda _body: iter([BAD]),
        later,
    ):
        with pytest.raises(UncheckedAnswerError):
            asked(other)


# Failures


def test_a_fallback_that_fails_loses_nothing(enforcer: Enforcer) -> None:
    fake = FakeOpenAI(Reply(completion(SORRY)), MISSING, MISSING)
    answer = ask(guarded(fake.client(), enforcer, fallbacks=["m2", "m3"]))

    assert answer.choices[0].message.content == SORRY
    trail = read_trace(answer)
    assert trail is not None
    assert [(one.model, one.failed) for one in trail.attempts] == [
        ("m1", False),
        ("m2", True),
        ("m3", True),
    ]
    assert trail.served_by == "m1"
    ruling = read_check_result(answer)
    assert ruling is not None
    assert not ruling.allowed


def test_after_a_failing_fallback_the_next_one_is_tried(enforcer: Enforcer) -> None:
    fake = FakeOpenAI(Reply(completion(SORRY)), MISSING, Reply(completion("Fine.")))
    answer = ask(guarded(fake.client(), enforcer, fallbacks=["m2", "m3"]))

    assert answer.choices[0].message.content == "Fine."
    trail = read_trace(answer)
    assert trail is not None
    assert trail.served_by == "m3"


def test_the_first_model_that_fails_raises_with_its_trail(enforcer: Enforcer) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        ask(guarded(FakeOpenAI(MISSING).client(), enforcer, fallbacks=["m2"]))

    trail = read_trace(caught.value)
    assert trail is not None
    assert (trail.served_by, [one.failed for one in trail.attempts]) == (None, [True])
    assert read_check_result(caught.value) is None


# Polite words beside a call


def test_an_answer_that_asks_for_tools_declines_nothing(enforcer: Enforcer, gate: Gate) -> None:
    fake = FakeOpenAI(Reply(completion(POLITE, calls=[CALL])))
    answer = ask(guarded(fake.client(), enforcer, fallbacks=["m2"]))
    assert answer.choices[0].message.tool_calls[0].function.name == "lookup"

    item = {"call_id": "c", "name": "lookup", "arguments": "{}"}
    fake = FakeOpenAI(Reply(response(POLITE, calls=[item])))
    answer = respond(guarded(fake.client(), enforcer, fallbacks=["m2"]))
    assert answer.output[1].name == "lookup"
    assert not [row for row in rows(gate) if "MODEL_DECLINED" in row.reason_codes]


def test_a_stream_that_asks_for_tools_declines_nothing(enforcer: Enforcer, gate: Gate) -> None:
    chunks = chat_chunks(POLITE, finish=None)
    call = {"index": 0, **CALL}
    asking = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    chunks.append({**chunks[0], "choices": [asking]})
    stream = ask(guarded(FakeOpenAI(Reply(events=chunks)).client(), enforcer), stream=True)
    assert shown(list(stream)) == POLITE
    ruling = read_check_result(stream)
    assert ruling is not None
    assert ruling.allowed
    assert not [row for row in rows(gate) if "MODEL_DECLINED" in row.reason_codes]


# Words in which a model refuses


def refusing(text: str) -> dict[str, Any]:
    body = completion(None)
    body["choices"][0]["message"]["refusal"] = text
    return body


def test_words_of_a_refusal_are_judged_as_an_answer(enforcer: Enforcer) -> None:
    client = guarded(FakeOpenAI(Reply(refusing(SORRY)), Reply(refusing(BAD))).client(), enforcer)
    assert ask(client).choices[0].message.refusal == SORRY
    with pytest.raises(Refused, match=FORBIDDEN):
        ask(client)

    item = response("x")
    item["output"][0]["content"] = [{"type": "refusal", "refusal": BAD}]
    with pytest.raises(Refused, match=FORBIDDEN):
        respond(guarded(FakeOpenAI(Reply(item)).client(), enforcer))


def test_words_of_a_refusal_in_a_stream_are_judged_before_they_leave(enforcer: Enforcer) -> None:
    def played(*pieces: str) -> str:
        chunks = chat_chunks(*pieces)
        for chunk in chunks[1:-1]:
            delta = chunk["choices"][0]["delta"]
            delta["refusal"] = delta.pop("content")
        client = guarded(FakeOpenAI(Reply(events=chunks)).client(), enforcer, on_refusal="answer")
        out = [one.delta for chunk in ask(client, stream=True) for one in chunk.choices]
        return "".join(one.refusal or "" for one in out)

    assert played("I'm sorry, but I can't ", "help with that request.") == SORRY
    said = played(*PLAN)
    assert FORBIDDEN in said
    assert "without her" not in said


def test_words_of_a_refusal_in_a_stream_of_a_response_are_judged(enforcer: Enforcer) -> None:
    def played(*pieces: str) -> str:
        events = [_refusing(event) for event in response_events(*pieces)]
        client = guarded(FakeOpenAI(Reply(events=events)).client(), enforcer, on_refusal="answer")
        return "".join(event.to_json() for event in respond(client, stream=True))

    assert "help with that request." in played("I'm sorry, but I can't ", "help with that request.")
    said = played(*PLAN)
    assert FORBIDDEN in said
    assert "without her" not in said


def _refusing(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event of a refusal in place of one of a text."""
    kind = event["type"].replace("output_text", "refusal")
    made = {**event, "type": kind}
    if "refusal" in kind:
        made.pop("logprobs")
    if "text" in made:
        made["refusal"] = made.pop("text")
    if "part" in made:
        made["part"] = {"type": "refusal", "refusal": made["part"]["text"]}
    for holder in (made.get("item"), *made.get("response", {}).get("output", ())):
        if holder:
            parts = holder["content"]
            holder["content"] = [{"type": "refusal", "refusal": one["text"]} for one in parts]
    return made
