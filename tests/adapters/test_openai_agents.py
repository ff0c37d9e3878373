import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from adapters.driver_openai_agents import DRIVERS
from adapters.openai_agents_samples import (
    ORDER,
    PLAN,
    POLICY,
    WHO,
    Desk,
    call,
    code_in,
    deltas,
    grants,
    items,
    opening,
    refusing,
    say,
    stream,
)
from agents import (
    Agent,
    InputGuardrailTripwireTriggered,
    OpenAIConversationsSession,
    OutputGuardrailTripwireTriggered,
    RawResponsesStreamEvent,
    RunContextWrapper,
    Runner,
    ShellTool,
    SQLiteSession,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    WebSearchTool,
    handoff,
    set_tracing_disabled,
    trace,
)
from agents.mcp import MCPServerStdio
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai.types.responses import (
    ResponseTextDeltaEvent,
)
from openai.types.responses.response_text_delta_event import Logprob
from pydantic import BaseModel
from support.gates import CORE
from support.sample_guards import finding, seeing

from demur.codes.vocabulary import Surface
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult, Refused
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.integrations.openai_agents import OpenAIAgentsGuard
from demur.integrations.openai_agents.items import (
    RefusedEnd,
    build_output_info,
    filter_events,
    output_text,
    parse_arguments,
    read_new_prompt,
)
from demur.integrations.openai_agents.run import AgentRunState
from demur.model.grant import Grant
from demur.policy.loader import parse_policy
from demur.policy.policy import Mode
from demur.testing.conformance import run_scenario
from demur.testing.scenarios import SCENARIOS, FrameworkDriver, Scenario

pytestmark = pytest.mark.adapters


@pytest.fixture
def open_desk() -> Iterator[Callable[..., Desk]]:
    with opening() as opened:
        yield opened


@pytest.fixture
def session() -> Iterator[SQLiteSession]:
    kept = SQLiteSession("talk")
    yield kept
    kept.close()


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_scenario_passes(scenario: Scenario, driver: FrameworkDriver) -> None:
    assert run_scenario(driver, scenario).problems == ()


# Prompts.


def test_a_refused_prompt_reaches_no_model(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()

    with pytest.raises(InputGuardrailTripwireTriggered) as caught:
        desk.run(desk.agent(say("hi")), ORDER)

    info = caught.value.guardrail_result.output.output_info
    assert code_in(info) == "CONTEXT_INJECTION"
    assert info["words"]
    assert desk.model.calls == ()
    assert "CONTEXT_INJECTION" in desk.codes


def test_a_refused_prompt_is_not_kept(
    open_desk: Callable[..., Desk], session: SQLiteSession
) -> None:
    desk = open_desk()
    agent = desk.agent(say("one"), say("two"))
    desk.run(agent, "first", session=session)

    with pytest.raises(InputGuardrailTripwireTriggered):
        desk.run(agent, ORDER, session=session)
    desk.run(agent, "second", session=session)

    said = [item for item in items(session) if item["role"] == "user"]
    assert [item["content"] for item in said] == ["first", "second"]


def test_a_refused_prompt_of_a_streamed_run_is_not_kept(
    open_desk: Callable[..., Desk], session: SQLiteSession
) -> None:
    desk = open_desk()

    async def streamed() -> None:
        result = desk.guard.run_streamed(
            desk.agent(say("one")),
            ORDER,
            session=session,
            run_config=desk.guard.run_config(tracing_disabled=True),
        )
        with pytest.raises(InputGuardrailTripwireTriggered):
            async for _ in desk.guard.stream_events(result):
                pass

    asyncio.run(streamed())
    assert items(session) == []


@pytest.mark.parametrize(
    ("given", "prompt"),
    [
        ("hello", "hello"),
        ([], ""),
        ([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], "a\nb"),
        (
            [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b"},
                {"role": "user", "content": [{"type": "input_text", "text": "c"}, {"type": "x"}]},
                {"type": "function_call", "name": "look"},
                {"role": "user", "content": "d"},
                {"role": "assistant", "content": "Sure, "},
            ],
            "c\nd",
        ),
        ([SimpleNamespace(role="user", content=None)], ""),
    ],
)
def test_the_prompt_is_all_that_nobody_answered(given: Any, prompt: str) -> None:
    assert read_new_prompt(given) == prompt


# Answers.


def test_a_forbidden_answer_ends_the_run_and_is_not_kept(
    open_desk: Callable[..., Desk], session: SQLiteSession
) -> None:
    desk = open_desk()

    with pytest.raises(OutputGuardrailTripwireTriggered) as caught:
        desk.run(desk.agent(say(PLAN)), session=session)

    assert code_in(caught.value.guardrail_result.output.output_info) == "OUTPUT_FORBIDDEN"
    assert PLAN not in str(items(session))


def test_a_declining_answer_is_returned_and_recorded(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk()
    words = "I'm sorry, but I can't help with that request."

    result = desk.run(desk.agent(say(words)))

    assert result.final_output == words
    [told] = [one.output.output_info for one in result.output_guardrail_results]
    assert code_in(told) == "MODEL_DECLINED"
    assert desk.codes == ["MODEL_DECLINED"]


def test_a_model_s_own_refusal_becomes_words(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()

    result = desk.run(desk.agent(refusing("No.")))

    [told] = [one.output.output_info for one in result.output_guardrail_results]
    assert code_in(told) == "MODEL_DECLINED"
    assert result.final_output == told["words"]
    assert desk.codes == ["MODEL_DECLINED"]


def test_a_model_refusal_is_raised_if_configured(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(on_model_refusal="raise")

    with pytest.raises(Refused, match="MODEL_DECLINED"):
        desk.run(desk.agent(refusing("No.")))


class Verdict(BaseModel):
    good: bool


def test_words_are_no_value_of_a_type(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()

    with pytest.raises(Refused, match="MODEL_DECLINED"):
        desk.run(desk.agent(refusing("No."), output_type=Verdict))


def test_a_refusal_that_only_goes_on_record_is_left_to_the_sdk(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk()
    desk.guard = OpenAIAgentsGuard(Enforcer(Gate(parse_policy(POLICY), None, mode=Mode.ADVISORY)))

    with pytest.raises(Exception, match="Model refused to produce output"):
        desk.run(desk.agent(refusing("No.")))


def test_a_provider_s_exception_that_refuses_is_typed(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    cause = type("ContentFilterFinishReasonError", (Exception,), {"__module__": "openai"})()

    with pytest.raises(Refused, match="REFUSED: FILTERED_UNSPECIFIED") as caught:
        desk.run(desk.agent(ModelStep.raise_error(cause)))

    assert caught.value.__cause__ is cause
    assert desk.codes == ["FILTERED_UNSPECIFIED"]


def test_any_other_exception_passes(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()

    with pytest.raises(KeyError, match="lost"):
        desk.run(desk.agent(ModelStep.raise_error(KeyError("lost"))))

    assert desk.codes == []


# Tools.


def test_a_refused_call_is_reported_to_the_model(
    open_desk: Callable[..., Desk], session: SQLiteSession
) -> None:
    desk = open_desk()

    result = desk.run(desk.agent([call("pay", amount=900)], say("well")), session=session)

    assert desk.ran == []
    [told] = [one.output.output_info for one in result.tool_input_guardrail_results]
    assert code_in(told) == "SPEND_OVER_APPROVAL_LIMIT"
    output = next(one for one in items(session) if one.get("type") == "function_call_output")
    assert output["call_id"] == "call-1"
    assert output["output"].startswith("REFUSED: SPEND_OVER_APPROVAL_LIMIT")


def test_nothing_runs_after_a_hard_block(
    open_desk: Callable[..., Desk], session: SQLiteSession
) -> None:
    desk = open_desk()
    turn = [call("look", order="A"), call("wipe", "call-2"), call("look", "call-3", order="B")]

    with pytest.raises(ToolInputGuardrailTripwireTriggered) as caught:
        desk.run(desk.agent(turn, say("done")), session=session)

    assert code_in(caught.value.output.output_info) == "ACTION_HIGH_RISK"
    assert desk.ran == ["look A"]
    kept = [(one.get("type"), one.get("call_id")) for one in items(session)]
    assert kept[1:] == [("function_call", "call-1"), ("function_call_output", "call-1")]


def test_a_hostile_result_is_kept_from_the_model(
    open_desk: Callable[..., Desk], session: SQLiteSession
) -> None:
    desk = open_desk()
    desk.returns = ORDER

    result = desk.run(desk.agent([call("look", order="A")], say("well")), session=session)

    [told] = [one.output.output_info for one in result.tool_output_guardrail_results]
    assert code_in(told) == "CONTEXT_INJECTION"
    assert ORDER not in str(items(session))
    assert ORDER not in str(desk.model.last_call)


def test_a_result_that_is_refused_for_good_ends_the_run(
    open_desk: Callable[..., Desk], session: SQLiteSession
) -> None:
    found = finding("RCE_RISK", surface=Surface.TOOL_RESULT, span=None)
    step = GuardStep(seeing(found, surface=Surface.TOOL_RESULT))
    desk = open_desk(pipeline=GuardPipeline([step], registry=CORE))
    desk.returns = "a secret"

    with pytest.raises(ToolOutputGuardrailTripwireTriggered) as caught:
        desk.run(desk.agent([call("look", order="A")], say("well")), session=session)

    assert code_in(caught.value.output.output_info) == "RCE_RISK"
    assert [one.get("type") for one in items(session)] == [None]


def test_runs_are_distinct(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    for _ in range(4):
        desk.run(desk.agent([call("look", order="A")], say("well")))

    runs = {record.personal.request["trace"]["run"] for record in desk.records}
    assert len(runs) == 4
    assert "LOOP_DETECTED" not in desk.codes


def test_a_trace_names_the_run(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    # Whoever ran before may have switched it off, for all that follows.
    set_tracing_disabled(disabled=False)

    with trace("talk", trace_id="trace_1") as named:
        desk.run(desk.agent(say("well")), run_config=None)

    assert {record.personal.request["trace"]["run"] for record in desk.records} == {named.trace_id}


def test_the_context_says_for_whom_it_is(open_desk: Callable[..., Desk]) -> None:
    def occasion(ctx: RunContextWrapper[Any]) -> CallContext:
        return CallContext(run="talk-7", subject={"id": ctx.context, "type": "user"})

    desk = open_desk(context=occasion)
    desk.run(desk.agent([call("look", order="A")], say("well")), context="ann")

    asked = [record.personal.request for record in desk.records]
    assert {one["subject"]["id"] for one in asked} == {"ann"}
    assert asked[-1]["trace"] == {
        "framework": "openai-agents",
        "run": "talk-7",
        "call_id": "call-1",
    }


# Streams.


def test_a_clean_stream_comes_whole(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()

    events = stream(desk, desk.agent([call("look", order="A")], say("All is well.")))

    assert deltas(events) == "All is well."
    assert [event.name for event in events if event.type == "run_item_stream_event"] == [
        "tool_called",
        "tool_output",
        "message_output_created",
    ]


def test_a_forbidden_stream_is_cut_and_recorded_once(
    open_desk: Callable[..., Desk], session: SQLiteSession
) -> None:
    desk = open_desk()

    *events, error = stream(desk, desk.agent(say(PLAN)), session=session)

    assert isinstance(error, OutputGuardrailTripwireTriggered)
    info = error.guardrail_result.output.output_info
    assert code_in(info) == "OUTPUT_FORBIDDEN"
    assert deltas(events).strip() == info["words"]
    assert PLAN not in str(events)
    assert PLAN not in str(items(session))
    assert desk.codes.count("OUTPUT_FORBIDDEN") == 1


def piece(text: str) -> Any:
    return RawResponsesStreamEvent(
        data=ResponseTextDeltaEvent(
            content_index=0,
            delta=text,
            item_id="m",
            logprobs=[Logprob(token="secret", logprob=0.0)],
            output_index=0,
            sequence_number=1,
            type="response.output_text.delta",
        )
    )


OTHER: Any = SimpleNamespace(type="agent_updated_stream_event")
DONE: Any = SimpleNamespace(type="run_item_stream_event")


def let_out(*events: Any, run: AgentRunState | None = None) -> list[Any]:
    async def given() -> AsyncIterator[Any]:
        for event in events:
            yield event

    async def gathered() -> list[Any]:
        state = run or AgentRunState()
        filtered = filter_events(given(), state, Enforcer(), CallContext())
        return [one async for one in filtered]

    return asyncio.run(gathered())


def test_text_leaves_as_soon_as_guards_are_done_with_it() -> None:
    long = "It rained all day and nobody minded. " * 60

    later = [piece("The end."), DONE, piece("More."), DONE, piece(""), DONE]
    events = let_out(OTHER, piece(long), *later)

    assert deltas(events) == f"{long}The end.More."
    shown = [len(deltas([event])) for event in events]
    assert shown[0] == 0
    assert 0 < shown[1] < len(long)
    assert "secret" not in str(events)


def test_a_stream_ends_with_its_refusal() -> None:
    *events, last = let_out(piece(PLAN), piece(" First, wait."), DONE)

    assert isinstance(last, RefusedEnd)
    assert deltas(events) == last.result.user_text
    assert DONE not in events


def test_a_stream_ends_with_its_refusal_though_nothing_was_streamed() -> None:
    message = assistant_message(PLAN)
    whole = SimpleNamespace(type="run_item_stream_event", item=SimpleNamespace(raw_item=message))

    words, last = let_out(whole, DONE)

    assert isinstance(last, RefusedEnd)
    assert deltas([words]) == last.result.user_text


def ruled(text: str) -> AgentRunState:
    """Return a run in which a text was ruled on."""
    run = AgentRunState()
    enforcer = Enforcer()
    asyncio.run(run.check_once(text, lambda: enforcer.acheck_answer(text)))
    return run


async def never() -> CheckResult:
    raise AssertionError


@pytest.mark.parametrize("text", ["All is well.", PLAN])
def test_a_text_that_was_ruled_on_is_not_ruled_on_again(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ruled(text)
    monkeypatch.setattr("demur.enforce.streams.AnswerStream.afinish", never)

    events = let_out(piece(text[:9]), piece(text[9:]), DONE, run=run)

    ruling = asyncio.run(run.check_once(text, never))
    assert deltas(events) == (text if ruling.allowed else ruling.user_text)
    assert (events[-1] == DONE) is ruling.allowed


@pytest.mark.parametrize("text", [f"{PLAN} First, wait.", PLAN[:-1]])
def test_a_refused_beginning_is_a_refused_answer(text: str) -> None:
    assert not asyncio.run(ruled(PLAN).check_once(text, never)).allowed


def test_an_answer_that_was_cut_is_ruled_on_though_it_was_allowed() -> None:
    refusal = Enforcer().check_answer(PLAN)

    async def refused() -> CheckResult:
        return refusal

    run = ruled("All is well.")
    assert asyncio.run(run.check_once("All is well.", refused, cut=True)) is refusal


def test_concurrent_checks_of_one_key_share_one_check_result() -> None:
    asked: list[CheckResult] = []

    async def slowly() -> CheckResult:
        await asyncio.sleep(0.01)
        asked.append(CheckResult(Surface.OUTPUT))
        return asked[-1]

    async def both() -> None:
        run = AgentRunState()
        await asyncio.gather(run.check_once("a", slowly), run.check_once("a", slowly))

    asyncio.run(both())
    assert len(asked) == 1


def test_a_stream_that_breaks_off_shows_what_was_let_out_alone() -> None:
    assert deltas(let_out(piece("It rained"))) == ""


def test_a_provider_s_exception_in_a_stream_is_typed(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    cause = type("ContentFilterFinishReasonError", (Exception,), {"__module__": "openai"})()

    *_, error = stream(desk, desk.agent(ModelStep.raise_error(cause)))

    assert isinstance(error, Refused)


def test_any_other_exception_in_a_stream_passes(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()

    *_, error = stream(desk, desk.agent(ModelStep.raise_error(KeyError("lost"))))

    assert isinstance(error, KeyError)


# Approvals.


def interrupted(desk: Desk, agent: Agent[Any]) -> Any:
    result = desk.run(agent)
    [ruling] = desk.guard.explain_interruptions(result)
    assert ruling.needs_approval
    assert desk.ran == []
    return result


def test_an_approved_call_runs_by_its_grant(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(approval="interrupt", grant_for=grants)
    agent = desk.guard.protect(desk.agent([call("pay", amount=900)], say("well")))
    state = interrupted(desk, agent).to_state()

    state.approve(state.get_interruptions()[0])
    result = desk.run(agent, state)

    assert result.final_output == "well"
    assert desk.ran == ["pay 900"]
    assert desk.records[-1].lifted_by == ("g-1",)


def test_an_approval_without_a_grant_lifts_nothing(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(approval="interrupt", grant_for=lambda *_: [])
    agent = desk.guard.protect(desk.agent([call("pay", amount=900)], say("well")))
    state = interrupted(desk, agent).to_state()

    state.approve(state.get_interruptions()[0])
    desk.run(agent, state)

    assert desk.ran == []
    assert "REFUSED: SPEND_OVER_APPROVAL_LIMIT" in str(desk.model.last_call)


def test_an_approved_call_runs_by_a_grant_that_the_enforcer_has_by_then(
    open_desk: Callable[..., Desk],
) -> None:
    desk, given = open_desk(), list[Grant]()
    enforcer = Enforcer(desk.gate, subject=WHO, authority=lambda _request: given)
    desk.guard = OpenAIAgentsGuard(enforcer, approval="interrupt")
    agent = desk.guard.protect(desk.agent([call("pay", amount=900)], say("well")))
    result = interrupted(desk, agent)
    given += grants(desk.guard.explain_interruptions(result)[0])
    state = result.to_state()

    state.approve(state.get_interruptions()[0])
    desk.run(agent, state)

    assert desk.ran == ["pay 900"]


def test_a_call_held_by_its_own_tool_runs_with_its_grant(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(grant_for=grants)
    agent = desk.agent([call("pay", amount=900)], say("well"))
    pay: Any = agent.tools[1]
    pay.needs_approval = True
    state = desk.run(agent).to_state()

    state.approve(state.get_interruptions()[0])
    desk.run(agent, state)

    assert desk.ran == ["pay 900"]


def test_a_call_that_needs_no_approval_is_checked_once(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(approval="interrupt", grant_for=grants)

    desk.run(desk.agent([call("pay", amount=9)], say("well")))

    assert desk.ran == ["pay 9"]
    assert [record.action_type for record in desk.records] == ["generate", "pay"]


async def asks(_ctx: Any, given: dict[str, Any], _call_id: str) -> bool:
    return given["amount"] == 9


@pytest.mark.parametrize("own", [True, asks, lambda *_: True])
def test_a_tool_s_own_wish_to_wait_still_counts(own: Any, open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(approval="interrupt", grant_for=grants)
    agent = desk.agent([call("pay", amount=9)], say("well"))
    pay: Any = agent.tools[1]
    pay.needs_approval = own

    result = desk.run(agent)

    assert len(result.interruptions) == 1
    assert desk.guard.explain_interruptions(result) == ()


def test_a_check_result_applies_only_to_its_own_arguments(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk(approval="interrupt", grant_for=grants)
    hooks = desk.guard._hooks
    ctx = RunContextWrapper(None)
    asyncio.run(hooks.needs_approval("pay", False, ctx, {"amount": 9}, "call-1"))
    at = hooks.context_for(ctx)._replace(call_id="call-1")

    assert hooks.pending.take_result(at, "pay", '{"amount": 900}') is None
    assert hooks.pending.take_result(at, "pay", '{"amount": 9}') is None


def test_the_number_of_kept_check_results_is_bounded(
    open_desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demur.integrations.openai_agents.hooks._MAX_KEPT", 2)
    hooks = open_desk(approval="interrupt", grant_for=grants).guard._hooks
    for number in range(4):
        asked = hooks.needs_approval("look", False, RunContextWrapper(None), {}, f"call-{number}")
        asyncio.run(asked)

    assert [call_id for _, call_id in hooks.pending._checked] == ["call-2", "call-3"]


# Protection.


def test_whom_it_hands_over_to_is_guarded(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    other = Agent(
        "other", model=ScriptedModel([[call("wipe", "call-2")]]), tools=desk.agent().tools
    )
    first = desk.agent([function_call("transfer_to_other", {}, call_id="call-1")], handoffs=[other])

    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        desk.run(first)

    assert desk.ran == []


def test_whom_a_handoff_names_is_guarded(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    other = Agent("other", model=ScriptedModel([say(PLAN)]))
    turn = [function_call("transfer_to_other", {}, call_id="call-1")]
    first = desk.agent(turn, handoffs=[handoff(other)])

    with pytest.raises(OutputGuardrailTripwireTriggered):
        desk.run(first)


def test_agents_may_hand_over_in_a_circle(open_desk: Callable[..., Desk]) -> None:
    guard = open_desk().guard
    one: Agent[Any] = Agent("one")
    two: Agent[Any] = Agent("two", handoffs=[one])
    one.handoffs = [two]

    guarded: Any = guard.protect(one)

    assert guarded.handoffs[0].handoffs[0] is guarded
    assert one.handoffs == [two]


def test_protecting_twice_is_protecting_once(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(approval="interrupt", grant_for=grants)
    agent = desk.agent()

    once = desk.guard.protect(agent)
    twice: Any = desk.guard.protect(once)

    assert agent.input_guardrails == []
    assert [getattr(tool, "tool_input_guardrails", None) for tool in agent.tools] == [None] * 3
    assert twice.input_guardrails == [desk.guard.input_guardrail]
    assert twice.tools[0].tool_input_guardrails == [desk.guard.tool_input_guardrail]
    assert not isinstance(
        twice.tools[0].needs_approval.args[1], type(twice.tools[0].needs_approval)
    )


def test_tools_of_mcp_servers_are_guarded(open_desk: Callable[..., Desk]) -> None:
    guard = open_desk().guard
    server = MCPServerStdio({"command": "true"})

    guard.protect(guard.protect(Agent("one", mcp_servers=[server])))

    assert server.tool_input_guardrails == [guard.tool_input_guardrail]
    assert server.tool_output_guardrails == [guard.tool_output_guardrail]


def test_a_tool_that_cannot_be_guarded_is_refused(open_desk: Callable[..., Desk]) -> None:
    guard = open_desk().guard
    agent: Agent[Any] = Agent("one", tools=[ShellTool(executor=lambda _request: "ran")])

    with pytest.raises(InputError, match="the tool `shell` cannot be guarded"):
        guard.protect(agent)

    assert guard.protect(agent, unguarded=["shell"]).tools == agent.tools


def test_tools_that_run_at_the_provider_pass(open_desk: Callable[..., Desk]) -> None:
    tools: list[Any] = [WebSearchTool(), ShellTool(environment={"type": "container_auto"})]

    assert open_desk().guard.protect(Agent("one", tools=tools)).tools == tools


def test_only_an_agent_can_be_protected(open_desk: Callable[..., Desk]) -> None:
    nobody: Any = "an agent"

    with pytest.raises(InputTypeError, match="an `Agent`"):
        open_desk().guard.protect(nobody)


def test_a_protected_agent_runs_by_the_sdk_alone(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()

    with pytest.raises(InputGuardrailTripwireTriggered):
        asyncio.run(Runner.run(desk.guard.protect(desk.agent(say("hi"))), ORDER))


# Sessions.


def test_a_clean_session_is_the_session_otherwise(
    open_desk: Callable[..., Desk], session: SQLiteSession
) -> None:
    clean: Any = open_desk().guard.wrap_session(session)

    async def used() -> tuple[Any, Any, Any]:
        await clean.add_items([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
        popped, left = await clean.pop_item(), await clean.get_items()
        await clean.clear_session()
        return popped, left, await clean.get_items(limit=3)

    popped, left, nothing = asyncio.run(used())
    assert (popped["content"], len(left), nothing) == ("b", 1, [])
    clean.session_id, clean.session_settings = "other", None
    assert (clean.session_id, clean.session_settings) == ("other", None)
    assert (session.session_id, session.session_settings) == ("other", None)
    assert clean.sessions_table == session.sessions_table
    with pytest.raises(AttributeError):
        clean._shared_connection  # noqa: B018 - that it is not there is the point


def test_unchecked_input_is_held_back_from_the_session(
    open_desk: Callable[..., Desk], session: SQLiteSession
) -> None:
    clean: Any = open_desk().guard.wrap_session(session)
    ctx = RunContextWrapper(None)
    asked = {"role": "user", "content": "a"}

    asyncio.run(clean.add_items([asked], wrapper=ctx))
    assert items(session) == []

    assert asyncio.run(clean.get_items(wrapper=ctx)) == [asked]
    assert items(session) == [asked]


def test_items_that_a_run_writes_are_not_input(
    open_desk: Callable[..., Desk], session: SQLiteSession
) -> None:
    clean: Any = open_desk().guard.wrap_session(session)
    ctx = RunContextWrapper(None)
    asked, said = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}

    asyncio.run(clean.add_items([asked], wrapper=ctx))
    asyncio.run(clean.add_items([said], wrapper=ctx))

    assert items(session) == [asked, said]


class Asking:
    """A session that wants to know the run."""

    session_id = "asking"
    session_settings = None

    def __init__(self) -> None:
        self.runs: list[Any] = []

    async def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> list[Any]:
        """Return nothing."""
        del limit
        self.runs.append(wrapper)
        return []


def test_a_session_that_accepts_the_run_context_gets_it(open_desk: Callable[..., Desk]) -> None:
    asking: Any = Asking()
    ctx = RunContextWrapper(None)
    clean: Any = open_desk().guard.wrap_session(asking)

    asyncio.run(clean.get_items(wrapper=ctx))

    assert asking.runs == [ctx]


def test_a_session_at_the_provider_cannot_be_kept_clean(open_desk: Callable[..., Desk]) -> None:
    kept = OpenAIConversationsSession.__new__(OpenAIConversationsSession)

    with pytest.raises(InputError, match="the provider stores"):
        open_desk().guard.wrap_session(kept)


# Forms.


@dataclass
class Row:
    text: str


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("plain", "plain"),
        (Verdict(good=True), "good\nTrue"),
        (Row("x\ny"), "text\nx\ny"),
    ],
)
def test_every_output_form_is_read_as_text(said: Any, text: str) -> None:
    assert output_text(said) == text


def test_arguments_that_are_no_json_are_none() -> None:
    assert (parse_arguments("{"), parse_arguments(""), parse_arguments('{"a": 1}')) == (
        None,
        {},
        {"a": 1},
    )


def test_constraints_of_an_allowed_result_are_in_the_output_info() -> None:
    assert build_output_info(CheckResult(Surface.OUTPUT)) is None
    assert build_output_info(CheckResult(Surface.OUTPUT, constraints=("slowly",))) == {
        "constraints": ["slowly"]
    }


def test_outside_of_a_run_there_is_none(open_desk: Callable[..., Desk]) -> None:
    assert open_desk().guard._hooks.context_for(RunContextWrapper(None)).run is None
