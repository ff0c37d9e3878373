"""LiteLLM's guarded functions, against its own mocked answers and a scripted provider."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

# Or else it asks the network for prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
import pytest
from adapters.litellm_fake import MODEL, ScriptedModel, asked_of, response_of
from adapters.model_exchange import FORBIDDEN, ORDERS, PLAN, SORRY, talking
from litellm.exceptions import (
    ContentPolicyViolationError,
    InternalServerError,
    MidStreamFallbackError,
    RateLimitError,
)
from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
from litellm.router import Router
from litellm.types.llms.openai import ResponsesAPIResponse
from litellm.types.utils import ModelResponse, ModelResponseStream
from support.gates import rows

from demur.emit.envelope import from_envelope, to_envelope
from demur.emit.hosts import from_openai
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.integrations._kit.guarded_response import UncheckedAnswerError
from demur.integrations._kit.model_api import read_check_result, read_trace
from demur.integrations.litellm import GuardedLiteLLM, guard_litellm
from demur.model.refusal import Refusal
from demur.testing.scenarios import AnswerTurn, ToolTurn

pytestmark = [
    pytest.mark.litellm,
    # What LiteLLM's own types say about themselves.
    pytest.mark.filterwarnings("ignore:Item .* is using the `ReadOnly` qualifier:UserWarning"),
]

NAME = "gpt-4o-mini"
LONG = "All is well with your list. " * 60
ELSEWHERE = f"No.\n{Refusal.from_code('LANGUAGE_UNSUPPORTED', 'not this one').line}"


@pytest.fixture(autouse=True)
def _alone() -> None:
    litellm.callbacks = []


@pytest.fixture
def gate() -> Iterator[Gate]:
    with talking() as gate:
        yield gate


@pytest.fixture
def guarded(gate: Gate) -> GuardedLiteLLM:
    return guard_litellm(Enforcer(gate))


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def ask(on: Any, *messages: Any, says: Any = "Fine.", **more: Any) -> Any:
    """Return the answer of a mocked model."""
    said = list(messages) or [user("Hello?")]
    return on.completion(NAME, said, mock_response=says, **more)


def scripted(*turns: Any) -> ScriptedModel:
    """Return a provider that LiteLLM asks from now on."""
    model = ScriptedModel(turns)
    asked_of(model)
    return model


def shown(chunks: list[Any], index: int = 0) -> str:
    parts = [part for chunk in chunks for part in chunk.choices if part.index == index]
    return "".join(part.delta.content or "" for part in parts)


async def heard(stream: AsyncIterator[Any]) -> list[Any]:
    return [one async for one in stream]


# What goes in


def test_a_refused_prompt_is_raised_and_never_sent(guarded: GuardedLiteLLM, gate: Gate) -> None:
    model = scripted(AnswerTurn(("Never said.",)))
    asked: dict[str, Any] = {"model": MODEL, "messages": [user(ORDERS)]}
    asked["litellm_session_id"] = "s-1"
    for stream in (False, True):
        with pytest.raises(Refused, match="CONTEXT_INJECTION") as caught:
            guarded.completion(**asked, stream=stream)
        with pytest.raises(Refused, match="CONTEXT_INJECTION"):
            asyncio.run(guarded.acompletion(**asked, stream=stream))
        assert read_check_result(caught.value) == caught.value.result

    assert model.heard == []
    assert {str(one["request"]["trace"]) for one in rows(gate)} == {
        str({"framework": "litellm", "run": "s-1"})
    }


def test_a_host_says_in_which_run_it_asks(gate: Gate) -> None:
    guarded = guard_litellm(gate, context=CallContext(run="r-1"))
    ask(guarded, litellm_session_id="s-1")

    [record] = rows(gate)
    assert record["request"]["trace"]["run"] == "r-1"


def test_a_refused_prompt_can_be_answered_in_litellms_own_type(gate: Gate) -> None:
    answer = ask(guard_litellm(gate, on_refusal="answer"), user(ORDERS))

    assert isinstance(answer, ModelResponse)
    message: Any = answer.choices[0].message
    assert message.content is None
    refusal = from_openai(message.model_dump())
    assert refusal is not None
    assert refusal.code == "CONTEXT_INJECTION"
    assert from_envelope(message.provider_specific_fields["refusal"]) is not None
    assert read_check_result(answer) is not None
    assert "_demur_trace" not in answer.model_dump_json()


@pytest.mark.parametrize(
    "more",
    [
        {"messages": (user(one) for one in (ORDERS, "Go on."))},
        {"messages": [user([{"type": "text", "text": ORDERS}])]},
        {"messages": [user("Hi")], "extra_body": {"messages": [user(ORDERS)]}},
        {"messages": [user("Hi")], "prompt_id": "p", "prompt_variables": {"topic": ORDERS}},
        {"messages": [litellm.Message(content=ORDERS, role="user")]},
        {"messages": [user("Hi")], "fallbacks": [{"model": "b", "messages": [user(ORDERS)]}]},
    ],
    ids=["generator", "parts", "extra body", "stored prompt", "object", "fallback"],
)
def test_no_form_of_a_chat_leads_around_the_guard(
    more: dict[str, Any], guarded: GuardedLiteLLM
) -> None:
    with pytest.raises(Refused):
        guarded.completion(NAME, mock_response="Fine.", **more)


@pytest.mark.parametrize(
    "more",
    [
        {"input": ORDERS},
        {"input": [user(ORDERS)]},
        {"input": "Hi", "extra_body": {"input": ORDERS}},
        {"input": "Hi", "prompt": {"id": "p", "variables": {"topic": ORDERS}}},
        {"input": ORDERS, "items": [user("Hi")]},
        {"input": "Hi", "fallbacks": ["b", {"model": "b", "input": ORDERS}]},
    ],
    ids=["text", "items", "extra body", "stored prompt", "beside items", "fallback"],
)
def test_no_form_of_a_response_leads_around_the_guard(
    more: dict[str, Any], guarded: GuardedLiteLLM
) -> None:
    with pytest.raises(Refused):
        guarded.responses(model=NAME, mock_response="Fine.", **more)


def test_messages_from_a_generator_are_judged_and_sent(guarded: GuardedLiteLLM) -> None:
    model = scripted(AnswerTurn(("Fine.",)))
    guarded.completion(MODEL, (user(one) for one in ("Hi", "there")))

    assert [one["content"] for one in model.heard[0]] == ["Hi", "there"]


def test_a_tool_result_is_judged_by_the_name_of_its_call(
    guarded: GuardedLiteLLM, gate: Gate
) -> None:
    asked = cast("Any", response_of(ToolTurn((("lookup", {}),)))).choices[0].message
    result = {"role": "tool", "tool_call_id": asked.tool_calls[0].id, "content": ORDERS}

    with pytest.raises(Refused, match="CONTEXT_INJECTION"):
        ask(guarded, user("Look."), asked, result)

    [record] = rows(gate)
    assert record.action_type == "lookup"
    assert record["request"]["trace"]["call_id"] == asked.tool_calls[0].id


def test_history_is_judged_once_unless_it_is_not_trusted(gate: Gate) -> None:
    messages = [user(ORDERS), {"role": "assistant", "content": "No."}, user("Thanks.")]

    assert ask(guard_litellm(gate), *messages).choices[0].message.content == "Fine."
    with pytest.raises(Refused):
        ask(guard_litellm(gate, recheck_history=True), *messages)


# What comes out


def test_an_answer_comes_back_as_it_is_with_its_trail(guarded: GuardedLiteLLM) -> None:
    answer = ask(guarded, says="Paris.")

    assert isinstance(answer, ModelResponse)
    assert answer.choices[0].message.content == "Paris."
    trail = read_trace(answer)
    assert trail is not None
    assert trail.served_by == NAME


def test_tool_calls_of_an_answer_are_the_hosts_to_judge(guarded: GuardedLiteLLM) -> None:
    scripted(ToolTurn((("lookup", {"id": 1}),)))
    message = guarded.completion(MODEL, [user("Look.")]).choices[0].message

    assert [call.function.name for call in message.tool_calls] == ["lookup"]


def test_of_several_choices_only_the_forbidden_one_is_replaced(gate: Gate) -> None:
    texts = ("Read a book.", "".join(PLAN))
    choices = [{"index": n, "message": {"content": text}} for n, text in enumerate(texts)]
    guarded = guard_litellm(gate, on_refusal="answer")
    answer = ask(guarded, says=ModelResponse(choices=choices), n=2)

    first, second = answer.choices
    assert first.message.content == "Read a book."
    assert (second.message.content, second.index) == (None, 1)
    assert FORBIDDEN in second.message.refusal
    assert "track" not in answer.model_dump_json()


@pytest.mark.parametrize("stream", [False, True])
def test_a_declining_answer_is_returned_with_its_check_result(
    stream: bool, guarded: GuardedLiteLLM
) -> None:
    answer = ask(guarded, says=SORRY, stream=stream)
    said = shown(list(answer)) if stream else answer.choices[0].message.content

    assert said == SORRY
    ruling = read_check_result(answer)
    assert ruling is not None
    assert ruling.refusal is not None
    assert ruling.refusal.code == "MODEL_DECLINED"


@pytest.mark.parametrize("awaits", [False, True])
def test_a_provider_block_is_distinguished_from_a_failure(
    awaits: bool, guarded: GuardedLiteLLM, gate: Gate
) -> None:
    blocked = ContentPolicyViolationError("filtered", model=NAME, llm_provider="azure")
    failed = {"litellm.RateLimitError": RateLimitError}
    down = {"litellm.InternalServerError": InternalServerError}

    def asked(says: Any) -> None:
        if awaits:
            asyncio.run(guarded.acompletion(NAME, [user("Hi")], mock_response=says))
        else:
            ask(guarded, says=says)

    for says, kind in ({blocked: type(blocked)} | failed | down).items():
        with pytest.raises(kind) as caught:
            asked(says)
        ruling = read_check_result(caught.value)
        assert (ruling is not None) == (says is blocked)
        if ruling is not None:
            assert ruling.line in caught.value.__notes__
    assert sum("CONTENT_OTHER" in one.reason_codes for one in rows(gate)) == 1


class Odd:
    """A client whose answers are of a kind that nobody knows."""

    def completion(self, **_: Any) -> Any:
        """Return it."""
        return object()

    acompletion = responses = aresponses = completion


def test_an_answer_that_cannot_be_read_does_not_leave(gate: Gate) -> None:
    guarded = guard_litellm(gate, Odd())
    with pytest.raises(UncheckedAnswerError, match="demur cannot check"):
        guarded.completion(NAME, [])
    with pytest.raises(UncheckedAnswerError, match="demur cannot check"):
        guarded.responses("Hi", NAME)


# Streams


def test_a_clean_stream_leaves_whole_as_it_is_cleared(guarded: GuardedLiteLLM) -> None:
    stream = ask(guarded, says=LONG, stream=True)
    chunks = list(stream)

    assert isinstance(stream, CustomStreamWrapper)
    assert shown(chunks) == LONG
    assert all(isinstance(one, ModelResponseStream) for one in chunks)
    assert len(chunks) > 100
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("size", [3, 7, 400, len(LONG)])
def test_released_chunks_rebuild_to_the_original_text(size: int, guarded: GuardedLiteLLM) -> None:
    scripted(AnswerTurn(tuple(LONG[at : at + size] for at in range(0, len(LONG), size))))
    chunks = list(guarded.completion(MODEL, [user("Hi")], stream=True))

    whole = cast("Any", litellm.stream_chunk_builder(chunks))
    assert whole.choices[0].message.content == LONG


@pytest.mark.parametrize("awaits", [False, True])
def test_nothing_refused_leaves_and_the_model_is_not_listened_to(awaits: bool, gate: Gate) -> None:
    by = guard_litellm(gate, on_refusal="answer")

    async def aplayed() -> list[Any]:
        return await heard(await by.acompletion(MODEL, [user("Hi")], stream=True))

    model = scripted(AnswerTurn((*PLAN, *("Then wait. " for _ in range(500)))))
    chunks = asyncio.run(aplayed()) if awaits else None
    if chunks is None:
        chunks = list(by.completion(MODEL, [user("Hi")], stream=True))

    assert "track" not in shown(chunks)
    said = chunks[-2].choices[0].delta
    assert FORBIDDEN in said.refusal
    assert from_envelope(said.provider_specific_fields["refusal"]) is not None
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert model.read < 200


def test_a_refused_stream_is_raised_by_default(guarded: GuardedLiteLLM) -> None:
    stream = ask(guarded, says="".join(PLAN), stream=True)
    with pytest.raises(Refused, match=FORBIDDEN):
        list(stream)

    ruling = read_check_result(stream)
    assert ruling is not None
    assert not ruling.allowed


def test_choices_of_a_stream_are_judged_apart(gate: Gate) -> None:
    def both(pieces: tuple[str, str]) -> ModelResponseStream:
        said: Any = [{"index": n, "delta": {"content": text}} for n, text in enumerate(pieces)]
        return ModelResponseStream(choices=said)

    class Client(Odd):
        def completion(self, **_: Any) -> Any:
            """Return two choices in the same chunks."""
            yield from map(both, zip(PLAN, ("I ", "am ", "fine", "."), strict=True))
            ends: Any = [{"index": n, "delta": {}, "finish_reason": "stop"} for n in (0, 1)]
            yield ModelResponseStream(choices=ends)

    guarded = guard_litellm(gate, Client(), on_refusal="answer")
    chunks = list(guarded.completion(NAME, [user("Hi")], stream=True, n=2))

    assert shown(chunks, 1) == "I am fine."
    assert "track" not in shown(chunks)


def test_a_refused_prompt_can_be_answered_as_a_stream(gate: Gate) -> None:
    guarded = guard_litellm(gate, on_refusal="answer")
    chunks = list(ask(guarded, user(ORDERS), stream=True))
    later = asyncio.run(_streamed(guarded, user(ORDERS)))

    for out in (chunks, later):
        assert "CONTEXT_INJECTION" in out[1].choices[0].delta.refusal
        assert out[2].choices[0].finish_reason == "stop"


async def _streamed(guarded: GuardedLiteLLM, *messages: Any) -> list[Any]:
    return await heard(
        await guarded.acompletion(NAME, list(messages), mock_response="Fine.", stream=True)
    )


def test_a_stream_abandoned_early_is_closed(guarded: GuardedLiteLLM) -> None:
    closed: list[str] = []

    class Model(ScriptedModel):
        def streaming(self, *_args: Any, **given: Any) -> Iterator[Any]:
            """Note when it is closed."""
            try:
                yield from super().streaming(**given)
            finally:
                closed.append("closed")

    asked_of(Model([AnswerTurn((LONG, LONG)), AnswerTurn((LONG, LONG))]))
    with guarded.completion(MODEL, [user("Hi")], stream=True) as stream:
        assert next(stream).choices
    assert closed == ["closed"]
    assert list(stream) == []

    async def awaited() -> None:
        async with await guarded.acompletion(MODEL, [user("Hi")], stream=True) as stream:
            assert (await anext(stream)).choices
        assert await heard(stream) == []

    asyncio.run(awaited())


@pytest.mark.parametrize("awaits", [False, True])
def test_an_error_within_a_stream_is_raised_without_what_was_held_back(
    awaits: bool, gate: Gate
) -> None:
    class Model(ScriptedModel):
        def streaming(self, *_args: Any, **given: Any) -> Iterator[Any]:
            """Break off."""
            yield next(iter(super().streaming(**given)))
            raise ConnectionError

    async def awaited() -> None:
        await heard(await by.acompletion(MODEL, [user("Hi")], stream=True))

    def waited() -> None:
        list(by.completion(MODEL, [user("Hi")], stream=True))

    by = guard_litellm(gate)
    asked_of(Model([AnswerTurn(("".join(PLAN), "more"))]))
    with pytest.raises(MidStreamFallbackError) as caught:
        asyncio.run(awaited()) if awaits else waited()

    assert read_check_result(caught.value) is None
    assert caught.value.generated_content == ""


# Other models


def elsewhere() -> ModelResponse:
    message = {"role": "assistant", "content": None, "refusal": ELSEWHERE}
    return ModelResponse(choices=[{"index": 0, "finish_reason": "stop", "message": message}])


@pytest.mark.parametrize("awaits", [False, True])
def test_a_fallback_model_is_tried_where_the_next_step_allows(awaits: bool, gate: Gate) -> None:
    model = scripted(elsewhere(), elsewhere(), AnswerTurn(("Bonjour.",)))
    others = ["scripted/b", "scripted/c", "scripted/d"]
    guarded = guard_litellm(gate, fallbacks=others)
    if awaits:
        answer = asyncio.run(guarded.acompletion(MODEL, [user("Hi")]))
    else:
        answer = guarded.completion(MODEL, [user("Hi")])

    assert answer.choices[0].message.content == "Bonjour."
    assert model.models == ["any", "b", "c"]
    trail = read_trace(answer)
    assert trail is not None
    assert (trail.served_by, len(trail.attempts)) == ("scripted/c", 3)


@pytest.mark.parametrize("awaits", [False, True])
def test_a_retry_after_a_wait_happens_once(awaits: bool, gate: Gate) -> None:
    slept: list[float] = []
    refusal = Refusal.from_code("RATE_LIMIT", "not now", evidence={"retry_after": 2})
    later = RateLimitError("later", llm_provider="openai", model=NAME)
    cast("Any", later).body = {"error": to_envelope(refusal)}

    class Client(Odd):
        said: tuple[Any, ...] = (later, response_of(AnswerTurn(("Here I am.",))))

        def completion(self, **_: Any) -> Any:
            """Raise, and answer."""
            first, *rest = self.said
            self.said = tuple(rest)
            if isinstance(first, Exception):
                raise first
            return first

        async def acompletion(self, **given: Any) -> Any:
            """Raise, and answer."""
            return self.completion(**given)

    guarded = guard_litellm(gate, Client(), retry_after_wait=True, sleep=slept.append)
    if awaits:
        answer = asyncio.run(guarded.acompletion(NAME, [user("Hi")]))
    else:
        answer = guarded.completion(NAME, [user("Hi")])

    assert answer.choices[0].message.content == "Here I am."
    assert slept == [2]


@pytest.mark.parametrize("on_refusal", ["raise", "answer"])
def test_every_answer_of_a_fallback_function_is_checked(on_refusal: Any, gate: Gate) -> None:
    def asked(other: Any) -> Any:
        scripted(AnswerTurn((SORRY,)))
        guarded = guard_litellm(gate, fallbacks=[other], on_refusal=on_refusal)
        return guarded.completion(MODEL, [user("Hi")])

    async def later(_body: Any) -> Any:
        return response_of(AnswerTurn(PLAN))

    good: Any = response_of(AnswerTurn(("Fine.",)))
    fine = asked(lambda _body: good.model_dump())
    assert isinstance(fine, ModelResponse)
    assert fine.choices[0].message.content == "Fine."
    bad = cast("Any", response_of(AnswerTurn(PLAN))).model_dump()
    if on_refusal == "raise":
        with pytest.raises(Refused, match=FORBIDDEN):
            asked(lambda _body: bad)
    else:
        assert FORBIDDEN in asked(lambda _body: bad).choices[0].message.refusal
    given = ("".join(PLAN), {"text": "".join(PLAN)}, {"choices": ["".join(PLAN)]})
    for other in (*(lambda _body, one=one: one for one in given), later):
        with pytest.raises(UncheckedAnswerError):
            asked(other)


def test_a_fallback_that_fails_loses_nothing(gate: Gate) -> None:
    down = InternalServerError("down", llm_provider="p", model="m")
    model = scripted(AnswerTurn((SORRY,)), down, AnswerTurn(("Fine.",)))
    others = ["scripted/b", "scripted/c"]
    answer = guard_litellm(gate, fallbacks=others).completion(MODEL, [user("Hi")])
    assert answer.choices[0].message.content == "Fine."
    assert model.models == ["any", "b", "c"]

    scripted(AnswerTurn((SORRY,)), down)
    answer = guard_litellm(gate, fallbacks=["scripted/b"]).completion(MODEL, [user("Hi")])
    assert answer.choices[0].message.content == SORRY
    trail = read_trace(answer)
    assert trail is not None
    assert (trail.served_by, trail.attempts[-1].failed) == (MODEL, True)


def test_an_answer_that_asks_for_tools_declines_nothing(gate: Gate) -> None:
    polite = response_of(ToolTurn((("lookup", {}),)))
    polite.choices[0].message.content = SORRY
    scripted(polite)
    answer = guard_litellm(gate, fallbacks=["scripted/b"]).completion(MODEL, [user("Hi")])

    assert answer.choices[0].message.tool_calls[0].function.name == "lookup"
    assert not [row for row in rows(gate) if "MODEL_DECLINED" in row.reason_codes]


def test_words_of_a_refusal_are_judged_as_an_answer(guarded: GuardedLiteLLM) -> None:
    message = {"role": "assistant", "content": None, "refusal": "".join(PLAN)}
    scripted(ModelResponse(choices=[{"index": 0, "finish_reason": "stop", "message": message}]))
    with pytest.raises(Refused, match=FORBIDDEN):
        guarded.completion(MODEL, [user("Hi")])


# A router, and what it may be set to


def test_the_trace_names_the_model_chosen_by_a_router_or_litellm(gate: Gate) -> None:
    groups = [
        {"model_name": name, "litellm_params": {"model": f"scripted/{name}"}} for name in "ab"
    ]
    blocked = ContentPolicyViolationError("blocked", model="m", llm_provider="p")
    own = Router(model_list=groups, num_retries=0, content_policy_fallbacks=[{"a": ["b"]}])
    scripted(blocked, AnswerTurn(("Fine.",)), AnswerTurn(("Fine.",)))
    for served in ("b", "a"):
        trail = read_trace(guard_litellm(gate, own).completion("a", [user("Hi")]))
        assert trail is not None
        assert trail.served_by == served

    class Client(Odd):
        def completion(self, **_: Any) -> Any:
            """Answer as one that was asked after another."""
            answer = response_of(AnswerTurn(("Fine.",)))
            answer._hidden_params = {"additional_headers": {"x-litellm-attempted-fallbacks": 1}}
            return answer

    for others, expected in (([{"model": "b"}], "b"), (["b"], "b"), (None, NAME)):
        answer = guard_litellm(gate, Client()).completion(NAME, [user("Hi")], fallbacks=others)
        trail = read_trace(answer)
        assert trail is not None
        assert trail.served_by == expected


def router(**params: Any) -> Router:
    deployment = {"model": NAME, "api_key": "none", "mock_response": "".join(PLAN), **params}
    return Router(model_list=[{"model_name": "m", "litellm_params": deployment}], num_retries=0)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("params", [{}, {"stream": True}], ids=["plain", "always streams"])
def test_a_router_is_guarded_whatever_its_deployments_are_set_to(
    params: dict[str, Any], stream: bool, gate: Gate
) -> None:
    guarded = guard_litellm(gate, router(**params))

    def played() -> str:
        answer = guarded.completion("m", [user("Hi")], **({"stream": True} if stream else {}))
        return "".join(shown([one]) for one in answer) if hasattr(answer, "__next__") else ""

    with pytest.raises(Refused, match=FORBIDDEN):
        played()


def test_a_router_is_guarded_where_it_is_awaited(gate: Gate) -> None:
    guarded = guard_litellm(gate, router())

    async def played() -> None:
        with pytest.raises(Refused, match=FORBIDDEN):
            await guarded.acompletion("m", [user("Hi")])
        with pytest.raises(Refused, match=FORBIDDEN):
            await heard(await guarded.acompletion("m", [user("Hi")], stream=True))
        with pytest.raises(Refused, match=FORBIDDEN):
            await guarded.aresponses("Hi", "m")

    asyncio.run(played())


# Responses


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_is_judged_also_where_litellm_gives_it_whole(stream: bool, gate: Gate) -> None:
    # LiteLLM mocks no streams of responses.
    guarded = guard_litellm(gate, on_refusal="answer")
    answer = guarded.responses("Hi", NAME, mock_response="".join(PLAN), stream=stream)

    assert isinstance(answer, ResponsesAPIResponse)
    [part] = cast("Any", answer.output[0]).content
    assert FORBIDDEN in part.refusal
    assert "track" not in answer.model_dump_json()


@pytest.mark.parametrize("awaits", [False, True])
def test_a_stream_of_a_response_holds_back_and_ends_in_a_refusal(awaits: bool, gate: Gate) -> None:
    guarded = guard_litellm(gate, on_refusal="answer")

    async def aplayed() -> list[Any]:
        return await heard(await guarded.aresponses("Hi", MODEL, stream=True))

    def played() -> list[Any]:
        if awaits:
            return asyncio.run(aplayed())
        return list(guarded.responses("Hi", MODEL, stream=True))

    model = scripted(AnswerTurn((LONG,)), AnswerTurn((*PLAN, *("Then wait. " for _ in range(500)))))
    deltas = [one.delta for one in played() if one.type == "response.output_text.delta"]
    assert "".join(deltas) == LONG
    events = played()

    assert [one.type.value for one in events][-6:] == [
        "response.content_part.added",
        "response.refusal.delta",
        "response.refusal.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert "track" not in "".join(str(one) for one in events)
    assert FORBIDDEN in events[-1].response.output[-1].content[0].refusal
    assert model.read < 200


# Settings


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"enforcer": object()}, InputTypeError),
        ({"client": object()}, InputTypeError),
        ({"on_refusal": "shrug"}, InputError),
        ({"fallbacks": "m2"}, InputTypeError),
    ],
)
def test_settings_that_cannot_be_used_are_refused(
    given: dict[str, Any], kind: type[Exception], gate: Gate
) -> None:
    with pytest.raises(kind):
        guard_litellm(**{"enforcer": gate, **given})
