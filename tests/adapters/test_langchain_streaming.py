import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice, repeat
from typing import Any

import pytest
from adapters.driver_langchain import ScriptedModel, free_tool, refusal_in
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain.chat_models import init_chat_model
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import var_child_runnable_config
from pydantic import BaseModel, Field

from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.guards.builtin import load_builtin
from demur.integrations.langchain import LangChainGuard
from demur.integrations.langchain.streaming import (
    ChunkFilter,
    ModelWatch,
    RunListeners,
    chunk_text,
    suppress_callbacks,
)
from demur.policy.loader import parse_policy
from demur.testing.conformance import SCENARIO_POLICY

pytestmark = pytest.mark.adapters

GIVEN: Any = {"messages": "Any ideas for tonight?"}
QUIET = ["Your list ", "is ", "empty."]
PLAN = ["Once upon a time. " * 40, "Here is your plan to track your ", "ex without her knowing."]
LOST = "never listened to"
SOMEBODY = RunListeners([], has_callbacks=True)
NOBODY = RunListeners([], has_callbacks=False)


def enforcer() -> Enforcer:
    return Enforcer(
        Gate(parse_policy(SCENARIO_POLICY)),
        pipeline=GuardPipeline([GuardStep(load_builtin("output"))]),
    )


def agent_of(model: Any) -> Any:
    return create_agent(
        model,
        tools=[free_tool("lookup", lambda *_: "done")],
        middleware=[LangChainGuard(enforcer())],
    )


@pytest.fixture(autouse=True)
def one_wording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Word each refusal alike; otherwise the decision's id chooses the words."""
    monkeypatch.setattr("demur.respond.words.choose_variation", lambda *_: 0)


def shown(parts: Sequence[Any]) -> str:
    return "".join(part[0].text for part in parts if isinstance(part[0], AIMessage))


def streamed(model: Any) -> str:
    return shown(list(agent_of(model).stream(GIVEN, stream_mode="messages")))


async def astreamed(model: Any) -> str:
    stream: AsyncIterator[Any] = agent_of(model).astream(GIVEN, stream_mode="messages")
    return shown([part async for part in stream])


def both(model: Any) -> str:
    """Return what is shown, waited for and awaited alike."""
    text = streamed(model)
    assert asyncio.run(astreamed(model)) == text
    return text


class AsyncModel(ScriptedModel):
    """Streams only where it is awaited."""

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for piece in self._next(messages):
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))


class EventModel(ScriptedModel):
    """Has a hook of its own for events."""

    def _stream_chat_model_events(self, *_: Any, **__: Any) -> Iterator[Any]:
        raise AssertionError(LOST)


class MuteModel(BaseChatModel):
    """Does not stream."""

    pieces: list[str]

    @property
    def _llm_type(self) -> str:
        return "mute"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Return the model that knows the tools."""
        return self.bind(tools=list(tools), **kwargs)

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ScriptedModel(turns=[self.pieces])._generate(messages)


@pytest.mark.parametrize("kind", [ScriptedModel, AsyncModel, EventModel])
def test_of_a_forbidden_answer_only_what_was_clean_leaves(kind: type[ScriptedModel]) -> None:
    text = both(kind(turns=[[*PLAN, LOST]] * 2))

    assert text.startswith("Once upon a time. ")
    assert "track your" not in text
    assert LOST not in text
    assert "because it contained something that could harm a person" in text


class Endless(ScriptedModel):
    """Goes on for ever; `said` counts its pieces, and says when it was told to stop."""

    said: list[str] = Field(default_factory=list)

    def _pieces(self) -> Generator[ChatGenerationChunk]:
        try:
            for piece in chain(PLAN, repeat("And then some more. ")):
                self.said.append(piece)
                yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        finally:
            self.said.append("closed")

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        yield from self._pieces()


class AsyncEndless(Endless):
    """Goes on for ever where it is awaited."""

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        with closing(self._pieces()) as pieces:
            for piece in pieces:
                yield piece


class UnclosedModel(Endless):
    """Hands out iterators that cannot be closed."""

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        return islice(self._pieces(), None)

    def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        return _Unclosed(self._pieces())


class _Unclosed:
    def __init__(self, pieces: Iterator[ChatGenerationChunk]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[ChatGenerationChunk]:
        return self

    async def __anext__(self) -> ChatGenerationChunk:
        return next(self._pieces)


@pytest.mark.parametrize("kind", [Endless, AsyncEndless, UnclosedModel])
def test_nobody_listens_any_further_once_an_answer_is_forbidden(kind: type[Endless]) -> None:
    model = kind(turns=[])

    text = both(model)

    assert "And then" not in text
    assert "track your" not in text
    assert model.said.count("closed") == 2


def test_an_allowed_answer_leaves_whole() -> None:
    assert both(ScriptedModel(turns=[QUIET] * 2)) == "Your list is empty."


def test_an_allowed_answer_leaves_before_it_has_come_to_its_end() -> None:
    parts = list(
        agent_of(ScriptedModel(turns=[["Once upon a time. " * 9] * 9])).stream(
            GIVEN, stream_mode="messages"
        )
    )

    assert len([part for part in parts if part[0].text]) > 2


def test_the_state_keeps_the_words_alone() -> None:
    [answer] = agent_of(ScriptedModel(turns=[PLAN])).invoke(GIVEN)["messages"][1:]
    parts = list(agent_of(ScriptedModel(turns=[PLAN])).stream(GIVEN, stream_mode=["values"]))

    last = parts[-1][1]["messages"][-1]
    assert last.content == answer.content
    assert not last.content.startswith("Once")
    assert last.response_metadata["refusal"]["code"] == "OUTPUT_FORBIDDEN"


def test_events_of_a_run_are_guarded_as_well() -> None:
    async def told() -> str:
        events = agent_of(ScriptedModel(turns=[PLAN])).astream_events(GIVEN, version="v2")
        return "".join([str(event["data"]) async for event in events])

    assert "track your" not in asyncio.run(told())


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_events_of_the_next_protocol_are_guarded_as_well() -> None:
    events = agent_of(EventModel(turns=[PLAN])).stream_events(GIVEN, version="v3")

    assert "track your" not in "".join(map(str, events))


@pytest.mark.parametrize(
    "model",
    [
        MuteModel(pieces=PLAN),
        MuteModel(pieces=PLAN, tags=["mine"]),
        ScriptedModel(turns=[PLAN] * 2, disable_streaming=True),
        ScriptedModel(turns=[PLAN] * 2, cache=InMemoryCache()),
    ],
    ids=["mute", "tagged", "disabled", "cached"],
)
def test_an_answer_that_is_not_streamed_is_shown_once_it_was_judged(model: BaseChatModel) -> None:
    text = both(model)

    assert "track your" not in text
    assert "because it contained something that could harm a person" in text


def test_a_provider_refusal_follows_the_streamed_text() -> None:
    cut = AIMessage("Well, ", response_metadata={"finish_reason": "content_filter"})

    text = streamed(ScriptedModel(turns=[cut]))

    assert text.startswith("Well, ")
    assert "a filter I depend on stopped it" in text


def test_tool_calls_are_streamed_as_they_are() -> None:
    call = {"name": "lookup", "args": {"order_id": "A-1"}, "id": "call-1", "type": "tool_call"}
    model = ScriptedModel(turns=[AIMessage("Let me see. ", tool_calls=[call]), QUIET])

    parts = list(agent_of(model).stream(GIVEN, stream_mode="messages"))

    assert shown(parts) == "Let me see. Your list is empty."
    assert [one for part in parts for one in getattr(part[0], "tool_call_chunks", ())]


class Blocks(ScriptedModel):
    """Streams each piece as a block of its own, and calls after them."""

    calls: list[Any] = Field(default_factory=list)

    def _stream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Iterator[Any]:
        for place, piece in enumerate(self._next(messages)):
            block = {"type": "text", "text": piece, "index": place}
            yield ChatGenerationChunk(message=AIMessageChunk(content=[block]))
        for call in self.calls:
            chunk = AIMessageChunk(content=[], tool_call_chunks=[call])
            yield ChatGenerationChunk(message=chunk)


def test_a_forbidden_answer_in_blocks_stays_refused() -> None:
    parts = list(agent_of(Blocks(turns=[PLAN])).stream(GIVEN, stream_mode=["messages", "values"]))

    [answer] = parts[-1][1]["messages"][1:]
    assert answer.response_metadata["refusal"]["code"] == "OUTPUT_FORBIDDEN"
    assert "Once" not in answer.text
    said = shown([part for mode, part in parts if mode == "messages"])
    assert said.count("because it contained something that could harm a person") == 1


def test_blocks_are_read_as_a_model_reads_them_once_they_are_all_there() -> None:
    split = ["Here is your plan to track", "your ex without her knowing."]
    parts = list(agent_of(Blocks(turns=[split])).stream(GIVEN, stream_mode="values"))
    assert refusal_in(parts[-1]["messages"]) is None

    parts = list(agent_of(Blocks(turns=[split])).stream(GIVEN, stream_mode=["messages", "values"]))

    refusal = refusal_in(parts[-1][1]["messages"])
    assert refusal is not None
    assert refusal.code == "OUTPUT_FORBIDDEN"


class Form(BaseModel):
    """An answer of a given form."""

    text: str


def test_a_refused_stream_with_a_structured_answer_stays_refused() -> None:
    call = {"name": "Form", "args": '{"text": "fine"}', "id": "1", "index": 0}
    agent: Any = create_agent(
        Blocks(turns=[PLAN], calls=[call]),
        middleware=[LangChainGuard(enforcer())],
        response_format=ToolStrategy(Form),
    )

    [*_, (_, run)] = agent.stream(GIVEN, stream_mode=["messages", "values"])

    assert refusal_in(run["messages"]) is not None


# Models that are wrapped


def told(model: Any) -> str:
    """Return all events of a run."""

    async def events() -> str:
        seen = agent_of(model).astream_events(GIVEN, version="v2")
        return "".join([str(event) async for event in seen])

    return asyncio.run(events())


class Broken(ScriptedModel):
    """Is down."""

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        raise ConnectionError

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise ConnectionError


def scripted() -> ScriptedModel:
    return ScriptedModel(turns=[[*PLAN, LOST]] * 9)


WRAPPED: dict[str, Callable[[], Any]] = {
    "tags": lambda: scripted().with_config(tags=["x"]),
    "bound": lambda: scripted().bind(stop=["."]),
    "bound twice": lambda: scripted().with_config(tags=["x"]).bind(stop=["."]),
    "fallbacks": lambda: scripted().with_fallbacks([scripted()]),
    "a fallback": lambda: Broken(turns=[]).with_fallbacks([scripted().with_config(tags=["x"])]),
    "listeners": lambda: scripted().with_listeners(on_end=lambda _: None),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_model_that_is_wrapped_streams_through_the_guard(name: str) -> None:
    text = both(WRAPPED[name]())

    assert text.startswith("Once upon a time. ")
    assert "track your" not in text
    assert LOST not in text
    assert "because it contained something that could harm a person" in text
    assert "track your" not in told(WRAPPED[name]())


def test_a_model_that_tries_again_streams_through_the_guard() -> None:
    model: Any = scripted().with_retry()
    agent: Any = create_agent(model, middleware=[LangChainGuard(enforcer())])

    text = shown(list(agent.stream(GIVEN, stream_mode="messages")))

    assert text.startswith("Once upon a time. ")
    assert "track your" not in text


class Rebuilt(ScriptedModel):
    """Makes another model where it is given tools."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Return another model."""
        return ScriptedModel(turns=self.turns, heard=self.heard).bind(tools=list(tools), **kwargs)


class Foreign(Runnable[Any, Any]):
    """Asks a model that nobody sees."""

    def bind_tools(self, _tools: Sequence[Any], **_: Any) -> Any:
        """Return itself."""
        return self

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 - as there
        """Ask it."""
        del kwargs
        return scripted().invoke(input, config)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 - as there
        """Ask it."""
        del kwargs
        return await scripted().ainvoke(input, config)


def configurable(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(
        "langchain.chat_models.base._init_chat_model_helper", lambda **_: scripted()
    )
    return init_chat_model("any", configurable_fields=("temperature",))


@pytest.mark.parametrize("kind", ["rebuilt", "foreign", "configurable", "in a sequence"])
def test_of_a_model_that_cannot_be_watched_nothing_leaves_before_it_was_judged(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, Callable[[], Any]] = {
        "rebuilt": lambda: Rebuilt(turns=[[*PLAN, LOST]] * 2),
        "foreign": Foreign,
        "configurable": lambda: configurable(monkeypatch),
        "in a sequence": lambda: Foreign().with_config(tags=["x"]),
    }

    text = both(made[kind]())

    assert not text.startswith("Once")
    assert "because it contained something that could harm a person" in text
    assert "track your" not in told(made[kind]())


@pytest.mark.parametrize("disabled", [False, True])
def test_events_do_not_tell_of_an_answer_that_is_not_streamed(disabled: bool) -> None:
    model = (
        ScriptedModel(turns=[PLAN], disable_streaming=True) if disabled else MuteModel(pieces=PLAN)
    )

    text = told(model)

    assert "track your" not in text
    assert "because it contained something that could harm a person" in text


def test_callbacks_of_the_model_itself_are_kept() -> None:
    class Counts(BaseCallbackHandler):
        ended = 0

        def on_llm_end(self, *_: Any, **__: Any) -> None:
            self.ended += 1

    listed, managed = Counts(), Counts()

    both(ScriptedModel(turns=[QUIET] * 2, callbacks=[listed]))
    both(ScriptedModel(turns=[QUIET] * 2, callbacks=CallbackManager([managed])))

    assert (listed.ended, managed.ended) == (2, 2)


def test_callbacks_in_a_list_are_separated() -> None:
    class Listens(BaseCallbackHandler):
        def tap_output_iter(self, _run: Any, output: Any) -> Any:
            return output

    class Notes(BaseCallbackHandler):
        pass

    config: Any = {"callbacks": [Listens(), Notes()]}
    token = var_child_runnable_config.set(config)
    try:
        with suppress_callbacks() as audience:
            inside: Any = var_child_runnable_config.get()
            assert [type(one) for one in inside["callbacks"]] == [Notes]
        assert [type(one) for one in audience.listeners] == [Listens]
        assert var_child_runnable_config.get() is config
    finally:
        var_child_runnable_config.reset(token)


def test_the_original_model_is_not_modified() -> None:
    model = ScriptedModel(turns=[QUIET])

    watched = ModelWatch(enforcer(), CallContext(), None, SOMEBODY).wrap_model(
        model, {}, is_async=False
    )

    assert type(watched) is ScriptedModel
    assert "_stream" not in vars(model)
    assert watched.model_dump() == model.model_dump()


class Streaming(ScriptedModel):
    """Streams whoever listens, if it is told to."""

    streaming: bool = False


@pytest.mark.parametrize(
    ("audience", "model", "same"),
    [
        (NOBODY, Streaming(turns=[]), True),
        (SOMEBODY, Streaming(turns=[]), False),
        (NOBODY, Streaming(turns=[], streaming=True), False),
        (NOBODY, Streaming(turns=[], callbacks=[BaseCallbackHandler()]), False),
    ],
    ids=["nobody", "somebody", "streams by itself", "has callbacks"],
)
def test_only_a_model_without_listeners_is_called_directly(
    audience: RunListeners, model: Streaming, same: bool
) -> None:
    called = ModelWatch(enforcer(), CallContext(), None, audience).wrap_model(
        model, {}, is_async=True
    )

    assert (called is model) is same


def test_callbacks_of_a_model_hear_what_may_be_shown() -> None:
    heard: list[str] = []

    class Hears(BaseCallbackHandler):
        def on_llm_new_token(self, token: Any, **_: Any) -> None:
            heard.append(str(token))

    model = Streaming(turns=[PLAN], streaming=True, callbacks=[Hears()])

    run = agent_of(model).invoke(GIVEN)

    assert refusal_in(run["messages"]) is not None
    assert "track your" not in "".join(heard)
    assert "Once upon" in "".join(heard)


def test_a_text_other_than_the_streamed_one_has_no_check_result() -> None:
    watch = ModelWatch(enforcer(), CallContext(), None, SOMEBODY)
    model = watch.wrap_model(ScriptedModel(turns=[QUIET]), {}, is_async=False)

    list(model.stream("Hi."))

    assert watch.result_for("Your list is full.") is None
    assert watch.refusal is None
    ruling = watch.result_for("Your list is empty.")
    assert ruling is not None
    assert ruling.allowed


# Chunks

TEXTS = st.text("ab ", max_size=5)
CONTENTS = st.one_of(
    TEXTS,
    st.lists(
        st.one_of(
            TEXTS.map(lambda text: {"type": "text", "text": text, "index": 0}),
            st.just({"type": "reasoning", "reasoning": "hm", "index": 1}),
        ),
        max_size=3,
    ),
)


@given(st.lists(st.tuples(CONTENTS, st.booleans()), max_size=6))
def test_chunks_of_an_allowed_answer_add_up_to_it(said: list[tuple[Any, bool]]) -> None:
    chunks = ChunkFilter(enforcer().stream_answer())
    left: list[ChatGenerationChunk] = []
    for content, last in said:
        message = AIMessageChunk(content=content, chunk_position="last" if last else None)
        left += chunks.feed(ChatGenerationChunk(message=message))
    assert chunks.stream.finish().allowed
    left += chunks.flush()

    text = "".join(chunk_text(content) for content, _ in said)
    assert "".join(chunk_text(chunk.message.content) for chunk in left) == text == chunks.shown_text


def test_words_after_blocks_of_text_are_a_block_of_the_same_text() -> None:
    said = [
        [{"type": "text", "text": "Once upon a time. " * 40, "index": 3}],
        [{"type": "text", "text": "Here is your plan to track your ex ", "index": 3}],
        [{"type": "text", "text": "without her knowing. ", "index": 3}],
    ]
    chunks = ChunkFilter(enforcer().stream_answer())
    left: list[ChatGenerationChunk] = []
    for content in said:
        message = AIMessageChunk(content=list(content))
        left += chunks.feed(ChatGenerationChunk(message=message))
    refused = chunks.stream.finish()
    left += chunks.flush()

    whole = left[0].message
    for chunk in left[1:]:
        whole += chunk.message
    assert isinstance(whole.content, list)
    [block] = whole.content
    assert isinstance(block, dict)
    assert block["index"] == 3
    assert block["text"].endswith(refused.user_text)


def test_the_replacement_of_an_empty_answer_is_plain_text() -> None:
    broken = Enforcer(pipeline=GuardPipeline([GuardStep(_Broken())]))
    chunks = ChunkFilter(broken.stream_answer())
    refused = chunks.stream.finish()

    [chunk] = chunks.flush()

    assert not refused.allowed
    assert chunk.message.content == refused.user_text


class _Broken:
    SURFACE = load_builtin("output").SURFACE
    CODES: tuple[str, ...] = ("OUTPUT_FORBIDDEN",)

    def check(self, _event: Any, _config: Any = None) -> Iterator[Any]:
        raise ConnectionError


def test_the_refusal_of_a_stream_is_found_like_any_other() -> None:
    run = list(agent_of(ScriptedModel(turns=[PLAN])).stream(GIVEN, stream_mode="values"))[-1]

    refusal = refusal_in(run["messages"])

    assert refusal is not None
    assert refusal.code == "OUTPUT_FORBIDDEN"
