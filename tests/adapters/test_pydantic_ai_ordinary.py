"""Ordinary agents of Pydantic AI: files, output functions, other capabilities, ways to run."""

import asyncio
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from adapters.driver_pydantic_ai import ScriptedModel, free_tool, orphans
from adapters.pydantic_ai_runs import (
    LARGE,
    ORDERS,
    PLAN,
    POL,
    RISKY,
    SMALL,
    Conversation,
    said,
    streamed,
    told,
)
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput, TextOutput
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from pydantic_ai.ui.vercel_ai.request_types import SubmitMessage, TextUIPart, UIMessage
from support.gates import CORE, opened, rows

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.integrations.pydantic_ai import PydanticAIGuard, RunRefused
from demur.model.finding import Finding
from demur.policy.loader import parse_policy
from demur.policy.policy import Mode
from demur.testing.conformance import SCENARIO_POLICY
from demur.testing.scenarios import AnswerTurn, ToolTurn

pytestmark = pytest.mark.adapters

SHOUTS = parse_policy(
    SCENARIO_POLICY.replace("in: [generate,", "in: [generate, shout,"), registry=CORE
)


# Files.


def file_of(text: str, kind: str) -> BinaryContent:
    return BinaryContent(text.encode(), media_type=kind)


@pytest.mark.parametrize("kind", ["text/plain", "Text/Markdown; charset=utf-8", "application/json"])
def test_a_file_of_text_in_a_prompt_is_read(kind: str) -> None:
    with opened(POL) as gate:
        played = Conversation(gate, AnswerTurn(("Fine.",)))

        error = played.refused(["See this file:", file_of(ORDERS, kind)])

    assert error.refusal.code == "CONTEXT_INJECTION"
    assert played.script.heard == []


@pytest.mark.parametrize("wrap", [lambda file: file, lambda file: ["See:", file]])
def test_a_file_of_text_that_a_tool_returns_is_read(wrap: Callable[[Any], Any]) -> None:
    with opened(POL) as gate:
        given = wrap(file_of(ORDERS, "text/plain"))
        tools = [free_tool("lookup", lambda *_: given)]
        played = Conversation(gate, ToolTurn((SMALL,)), AnswerTurn(("Fine.",)), tools=tools)
        played.run()

    assert "Ignore all" not in said(played.script.heard[1])


def test_files_of_another_kind_pass() -> None:
    with opened(POL) as gate:
        played = Conversation(gate, AnswerTurn(("Fine.",)))

        assert played.run(["A picture:", file_of(ORDERS, "image/png")]).output == "Fine."


# Output functions in streams.


def test_a_function_for_the_output_is_called_once_with_the_whole_answer() -> None:
    given: list[str] = []

    def shout(text: str) -> str:
        given.append(text)
        return text.upper()

    with opened(SHOUTS) as gate:
        talk = AnswerTurn(tuple(f"This is sentence {number}. " for number in range(60)))
        shown = streamed(Conversation(gate, talk, output_type=TextOutput(shout)), "output")

        assert [one.action_type for one in rows(gate)] == ["generate", "shout"]
    assert given == [talk.text]
    assert shown == [talk.text.upper()]


def test_partial_output_of_an_output_function_is_not_shown() -> None:
    def shout(ctx: RunContext[Any], text: str) -> str:
        return PLAN if ctx.partial_output else text

    with opened(SHOUTS) as gate:
        talk = AnswerTurn(tuple(f"This is sentence {number}. " for number in range(60)))
        shown = streamed(Conversation(gate, talk, output_type=TextOutput(shout)), "output")

    assert shown == [talk.text]


# Output as JSON in the text.


class Plan(BaseModel):
    title: str
    steps: list[str]


def written(title: str) -> AnswerTurn:
    """Return a plan that a model writes down piece by piece."""
    text = Plan(title=title, steps=["Wait. Then go on."] * 200).model_dump_json(indent=1)
    return AnswerTurn(tuple(text[place : place + 40] for place in range(0, len(text), 40)))


@pytest.mark.parametrize("kind", [NativeOutput, PromptedOutput])
@pytest.mark.parametrize("how", ["output", "response"])
def test_an_output_that_is_text_is_shown_once_it_is_whole(kind: Any, how: str) -> None:
    with opened(POL) as gate:
        bad = written(PLAN.replace(" ", "\n"))
        shown = streamed(Conversation(gate, bad, output_type=kind(Plan)), how)
        assert "knowing" not in str(shown[:-1])
        assert isinstance(shown[-1], RunRefused)

        good = written("Rest")
        shown = streamed(Conversation(gate, good, output_type=kind(Plan)), "output")
        assert shown[-1] == Plan.model_validate_json(good.text)
        assert [one.action_type for one in rows(gate)].count("generate") == 3


class Worried:
    """A guard that sees a person in danger behind every answer."""

    SURFACE = Surface.OUTPUT
    CODES: tuple[str, ...] = (ReasonCode.CRISIS_ESCALATION,)

    def check(self, _event: Any, _config: Any = None) -> Iterator[Finding]:
        """Find it."""
        yield Finding(code=ReasonCode.CRISIS_ESCALATION, surface=Surface.OUTPUT)


def test_no_line_of_help_makes_an_output_unreadable() -> None:
    with opened(POL, mode=Mode.ADVISORY) as gate:
        enforcer = Enforcer(gate, pipeline=GuardPipeline([GuardStep(Worried())]))
        talk = written("Rest")
        played = Conversation(gate, talk, enforcer=enforcer, output_type=NativeOutput(Plan))

        assert played.run().output == Plan.model_validate_json(talk.text)


# Other capabilities.


class Adds(AbstractCapability[Any]):
    """Another capability, which says something for the model that is asked now."""

    async def prepare_model_request(
        self, _ctx: Any, request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Add orders."""
        added = ModelRequest([UserPromptPart(ORDERS)])
        request_context.messages = [*request_context.messages, added]
        return request_context


@pytest.mark.parametrize("streams", [False, True])
def test_content_added_for_the_model_at_the_last_moment_is_checked(streams: bool) -> None:
    with opened(POL) as gate:
        played = Conversation(gate, AnswerTurn(("Fine.",)), capabilities=[Adds()])
        error = streamed(played)[-1] if streams else played.refused()

    assert error.refusal.code == "CONTEXT_INJECTION"
    assert played.script.heard == []


# Ways to run.


def node_by_node(agent: Agent[Any, Any], shown: list[Any]) -> Any:
    """Run an agent, and listen to each of its steps."""

    async def run() -> Any:
        async with agent.iter("Any ideas?") as steps:
            async for node in steps:
                if Agent.is_model_request_node(node) or Agent.is_call_tools_node(node):
                    async with node.stream(steps.ctx) as stream:
                        async for event in stream:
                            shown.append(event)  # noqa: PERF401 - what was shown before an error
        return steps.result

    return asyncio.run(run())


def event_by_event(agent: Agent[Any, Any], shown: list[Any]) -> Any:
    """Run an agent, and listen to all that happens."""

    async def run() -> None:
        async with agent.run_stream_events("Any ideas?") as events:
            async for event in events:
                shown.append(event)  # noqa: PERF401 - what was shown before an error

    return asyncio.run(run())


@pytest.mark.parametrize("listen", [node_by_node, event_by_event])
def test_no_step_shows_what_is_refused(listen: Callable[..., Any]) -> None:
    shown: list[Any] = []
    with opened(POL) as gate:
        played = Conversation(gate, AnswerTurn((PLAN[:30], PLAN[30:])))
        with pytest.raises(RunRefused):
            listen(played.agent, shown)

    assert shown
    assert "track your ex" not in str(shown)


def test_a_run_may_bring_the_capability_along() -> None:
    script = ScriptedModel([AnswerTurn(("Fine.",))])
    agent: Agent[Any, str] = Agent(script.model)
    with opened(POL) as gate, pytest.raises(RunRefused):
        asyncio.run(agent.run(ORDERS, capabilities=[PydanticAIGuard(gate)]))

    assert script.heard == []


def test_tools_of_a_set_are_named_as_the_model_names_them_and_may_be_tried_again() -> None:
    shop: FunctionToolset[Any] = FunctionToolset()

    @shop.tool_plain(retries=2)
    def refund(order_id: str, amount: int) -> str:
        if amount == 1:
            raise ModelRetry("Not so little.")
        return f"{order_id} is paid"

    def asked(**given: Any) -> ModelResponse:
        return ModelResponse([ToolCallPart("refund", given)])

    with opened(POL) as gate:
        script = ScriptedModel(
            [
                asked(order_id="A-1", amount=1),
                asked(order_id="A-1", amount="few"),
                asked(order_id="A-1", amount=2),
                ModelResponse([ToolCallPart("shop_refund", {"order_id": "A-1", "amount": 2})]),
                AnswerTurn(("Fine.",)),
            ]
        )
        agent: Agent[Any, str] = Agent(
            script.model,
            toolsets=[shop, shop.prefixed("shop")],
            capabilities=[PydanticAIGuard(gate)],
        )

        result = asyncio.run(agent.run("Hello"))

    outcomes = [part.outcome for part in told(result.all_messages())]
    # No rule allows the name that the model called it by in the end.
    assert outcomes == ["retried", "retried", "success", "denied"]


def test_calls_next_to_a_refused_one_run_and_each_is_answered() -> None:
    with opened(POL) as gate:
        calls = (SMALL, ("refund", {"amount": 5}), ("fetch", {"page": 1}))
        played = Conversation(gate, ToolTurn(calls), AnswerTurn(("Fine.",)))

        messages = played.run().all_messages()

        assert [one.action_type for one in rows(gate)] == ["generate", "lookup", "refund", "fetch"]
    assert sorted(name for name, _ in played.ran) == ["fetch", "lookup"]
    assert orphans(messages) == 0


def test_an_agent_that_works_for_another_asks_for_no_approval_of_its_own_accord() -> None:
    with opened(POL) as gate:
        inner = Conversation(
            gate, ToolTurn((LARGE,)), AnswerTurn(("It must wait.",)), approval="message"
        )

        async def lookup(order_id: str) -> str:
            return str((await inner.agent.run(f"Pay {order_id} back.")).output)

        outer = Conversation(gate, ToolTurn((SMALL,)), AnswerTurn(("Fine.",)), tools=[lookup])
        messages = outer.run().all_messages()

    assert inner.ran == []
    assert "It must wait." in said(messages)


def test_an_answer_in_parts_around_a_refusal_in_prose_stays_whole() -> None:
    sorry = ModelResponse([TextPart("I can't help with that."), TextPart("Ask somebody else.")])
    with opened(POL) as gate:
        result = Conversation(gate, sorry).run()

    assert result.output == "I can't help with that.Ask somebody else."
    assert result.response.metadata["refusal"]["surface"] == "model"


# A UI.


def chunks_for_people(talk: Conversation, text: str) -> list[dict[str, Any]]:
    """Return the chunks that the framework sends to a person's browser."""
    asked = UIMessage(id="m", role="user", parts=[TextUIPart(type="text", text=text)])
    request = SubmitMessage(trigger="submit-message", id="r", messages=[asked])
    adapter: Any = VercelAIAdapter(agent=talk.agent, run_input=request)

    async def collect() -> list[dict[str, Any]]:
        return [chunk.model_dump() async for chunk in adapter.run_stream()]

    return asyncio.run(collect())


def test_a_person_sees_words_and_no_refusal_line() -> None:
    with opened(POL) as gate:
        prompt = chunks_for_people(Conversation(gate), ORDERS)
        called = ModelResponse([ToolCallPart(*RISKY)])
        call = chunks_for_people(Conversation(gate, called), "Hello")

    for chunks in (prompt, call):
        [error] = [one for one in chunks if one["type"] == "error"]
        assert error["error_text"].startswith("I see")
        assert "REFUSED" not in str(chunks)


def test_a_traceback_shows_the_refusal_line() -> None:
    with opened(POL) as gate:
        refused = Conversation(gate).refused(ORDERS)

    assert str(refused) == refused.result.user_text
    assert refused.result.line in "".join(traceback.format_exception(refused))
