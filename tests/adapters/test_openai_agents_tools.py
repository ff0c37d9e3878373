"""Tools that have no guardrails of their own, or are there only in a run: all are guarded."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

import pytest
from adapters.openai_agents_samples import NOW, ORDER, WHO, call, code_in, grants, items, say
from agents import (
    Agent,
    ComputerTool,
    CustomTool,
    SQLiteSession,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    function_tool,
)
from agents.sandbox import Capability, SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Filesystem, Shell
from agents.testing import ModelCall, ModelStep, ScriptedModel, scripted_sandbox_session
from agents.tool import Tool
from openai.types.responses import ResponseCustomToolCall
from support.gates import CORE, RING
from support.sample_guards import finding
from support.sample_guards import guard as toy

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.errors import InputError
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.integrations.openai_agents import OpenAIAgentsGuard
from demur.policy.loader import parse_policy
from demur.store.opening import open_store

pytestmark = pytest.mark.adapters

PATCH = "*** Begin Patch\n*** Add File: note.txt\n+hello\n*** End Patch"
FREE = """
schema_version: policy.v1
policy_id: free
policy_version: 1.0.0
defaults: {verdict: ALLOW}
rules:
  - id: R_HARD
    stage: HARD_BLOCKS
    if: {action_type: {in: [exec_command, burn, whisper]}}
    then: {verdict: DENY, reason_codes: [ACTION_HIGH_RISK]}
  - id: R_WAITS
    stage: ESCALATIONS
    if: {action_type: {in: [apply_patch, write]}}
    then: {verdict: ESCALATE, reason_codes: [SPEND_OVER_APPROVAL_LIMIT], missing: [approval]}
"""


@pytest.fixture
def gate() -> Iterator[Gate]:
    policy = parse_policy(FREE, registry=CORE)
    with Gate(policy, open_store(":memory:"), keys=RING, clock=lambda: NOW) as opened:
        yield opened


def custom_call(name: str, text: str, call_id: str = "call-1") -> Any:
    return ResponseCustomToolCall(call_id=call_id, input=text, name=name, type="custom_tool_call")


def run(guard: OpenAIAgentsGuard, agent: Agent[Any], given: Any = "hello", **more: Any) -> Any:
    config = guard.run_config(tracing_disabled=True, **more)
    return asyncio.run(guard.run(agent, given, run_config=config))


class Custom:
    """A custom tool that says when it ran, in an agent that calls it."""

    def __init__(
        self, name: str, returns: str = "done", raises: Exception | None = None, **more: Any
    ) -> None:
        self.ran: list[str] = []
        self.returns = returns
        self.raises = raises
        self.tool = CustomTool(name, "It writes.", self._ran, **more)
        self.model = ScriptedModel([[custom_call(name, "hello there")], say("well")])
        self.agent: Agent[Any] = Agent("one", model=self.model, tools=[self.tool])

    async def _ran(self, _ctx: Any, text: str) -> str:
        self.ran.append(text)
        if self.raises is not None:
            raise self.raises
        return self.returns


# Custom tools.


def test_a_custom_tool_runs_if_it_may(gate: Gate) -> None:
    custom = Custom("look", format={"type": "text"})

    assert run(OpenAIAgentsGuard(gate), custom.agent).final_output == "well"
    assert custom.ran == ["hello there"]
    assert "'output': 'done'" in str(custom.model.last_call)
    assert gate.store is not None
    assert [one.action_type for one in gate.store.find_records()] == ["generate", "look"]


def test_a_refused_custom_tool_does_not_run_and_the_model_reads_why(gate: Gate) -> None:
    custom = Custom("write")

    assert run(OpenAIAgentsGuard(gate), custom.agent).final_output == "well"
    assert custom.ran == []
    assert "REFUSED: SPEND_OVER_APPROVAL_LIMIT" in str(custom.model.last_call)


def test_a_hard_refusal_of_a_custom_tool_ends_the_run(gate: Gate) -> None:
    custom = Custom("burn")

    with pytest.raises(ToolInputGuardrailTripwireTriggered) as tripped:
        run(OpenAIAgentsGuard(gate), custom.agent)

    assert code_in(tripped.value.output.output_info) == "ACTION_HIGH_RISK"
    assert custom.ran == []


def test_a_refused_custom_tool_result_is_withheld(gate: Gate) -> None:
    custom = Custom("look", returns=ORDER)

    run(OpenAIAgentsGuard(gate), custom.agent)

    assert custom.ran == ["hello there"]
    assert "REFUSED: CONTEXT_INJECTION" in str(custom.model.last_call)
    assert ORDER not in str(custom.model.last_call)


@pytest.mark.parametrize("own", [True, lambda *_: True], ids=["always", "asked"])
def test_a_custom_tool_s_own_wish_to_wait_still_counts(own: Any, gate: Gate) -> None:
    custom = Custom("look", needs_approval=own)

    assert len(run(OpenAIAgentsGuard(gate), custom.agent).interruptions) == 1
    assert custom.ran == []


def test_an_automatic_approval_does_not_lift_a_hard_refusal(gate: Gate) -> None:
    async def yes(*_: Any) -> Any:
        return {"approve": True}

    custom = Custom("burn", needs_approval=True, on_approval=yes)

    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        run(OpenAIAgentsGuard(gate), custom.agent)

    assert custom.ran == []


@pytest.mark.parametrize("grant_for", [None, lambda *_: []], ids=["nobody", "none"])
def test_an_approved_custom_tool_without_a_grant_does_not_run(grant_for: Any, gate: Gate) -> None:
    custom = Custom("write")
    guard = OpenAIAgentsGuard(gate, approval="interrupt", grant_for=grant_for)
    result = run(guard, custom.agent)
    [why] = guard.explain_interruptions(result)
    state = result.to_state()
    state.approve(state.get_interruptions()[0])

    run(guard, custom.agent, state)

    assert why.needs_approval
    assert custom.ran == []


def test_an_approved_custom_tool_runs_by_its_grant(gate: Gate) -> None:
    custom = Custom("write")
    guard = OpenAIAgentsGuard(Enforcer(gate, subject=WHO), approval="interrupt", grant_for=grants)
    state = run(guard, custom.agent).to_state()
    state.approve(state.get_interruptions()[0])

    run(guard, custom.agent, state)

    assert custom.ran == ["hello there"]


def test_a_custom_tool_is_guarded_once(gate: Gate) -> None:
    guard = OpenAIAgentsGuard(gate)
    guarded = guard.protect(Custom("look").agent)

    assert guard.protect(guarded) is guarded
    assert guard.protect(guarded.clone(name="two")).tools == guarded.tools


def test_a_custom_tool_may_go_unguarded(gate: Gate) -> None:
    custom, guard = Custom("burn"), OpenAIAgentsGuard(gate)

    run(guard, guard.protect(custom.agent, unguarded=["burn"]))

    assert custom.ran == ["hello there"]


def test_a_session_keeps_a_refused_custom_call_with_its_answer(gate: Gate) -> None:
    custom, guard = Custom("write"), OpenAIAgentsGuard(gate)
    session = SQLiteSession("talk")
    config = guard.run_config(tracing_disabled=True)
    try:
        asyncio.run(guard.run(custom.agent, "hello", session=session, run_config=config))
        kept = items(session)
    finally:
        session.close()

    assert [item.get("type", "message") for item in kept] == [
        *("message", "custom_tool_call", "custom_tool_call_output", "message")
    ]


def test_custom_tools_of_one_turn_are_ruled_on_each(gate: Gate) -> None:
    custom, guard = Custom("look"), OpenAIAgentsGuard(gate)
    other = Custom("write")
    turn = [custom_call("look", "one"), custom_call("write", "two", "call-2")]
    agent: Agent[Any] = Agent(
        "both", model=ScriptedModel([turn, say("well")]), tools=[custom.tool, other.tool]
    )

    run(guard, agent)

    assert (custom.ran, other.ran) == (["one"], [])


def test_a_refused_custom_tool_error_is_withheld(gate: Gate) -> None:
    custom = Custom("look", raises=RuntimeError(f"fetch failed: {ORDER}"))

    run(OpenAIAgentsGuard(gate), custom.agent)

    assert "REFUSED: CONTEXT_INJECTION" in str(custom.model.last_call)
    assert ORDER not in str(custom.model.last_call)
    assert gate.store is not None
    assert "CONTEXT_INJECTION" in [*gate.store.find_records()][-1].reason_codes


@pytest.mark.parametrize(
    ("error", "heard"),
    [(RuntimeError("no such file"), "no such file"), (RuntimeError(), "RuntimeError")],
    ids=["text", "none"],
)
def test_an_allowed_custom_tool_error_reaches_the_model(
    error: Exception, heard: str, gate: Gate
) -> None:
    custom = Custom("look", raises=error)

    run(OpenAIAgentsGuard(gate), custom.agent)

    assert f"'output': '{heard}'" in str(custom.model.last_call)


def risky(surface: Surface, found: Callable[[], bool]) -> GuardPipeline:
    """Return guards that find something for good on a surface, once `found` says so."""
    risk = finding("RCE_RISK", surface=surface, span=None)
    looks = toy(lambda *_: iter([risk] if found() else []), surface=surface)
    return GuardPipeline([GuardStep(looks)], registry=CORE)


def test_a_result_of_a_custom_tool_that_is_refused_for_good_ends_the_run(gate: Gate) -> None:
    custom = Custom("look")
    guards = risky(Surface.TOOL_RESULT, lambda: True)

    with pytest.raises(ToolOutputGuardrailTripwireTriggered) as tripped:
        run(OpenAIAgentsGuard(Enforcer(gate, pipeline=guards)), custom.agent)

    assert code_in(tripped.value.output.output_info) == "RCE_RISK"
    assert len(custom.model.calls) == 1


def test_a_custom_call_that_is_refused_for_good_by_the_time_it_is_approved_ends_the_run(
    gate: Gate,
) -> None:
    custom, risk = Custom("write"), list[bool]()
    guards = risky(Surface.TOOL_CALL, lambda: bool(risk))
    guard = OpenAIAgentsGuard(Enforcer(gate, pipeline=guards), approval="interrupt")
    agent = guard.protect(custom.agent)
    state = run(guard, agent).to_state()
    state.approve(state.get_interruptions()[0])
    risk.append(True)

    with pytest.raises(ToolInputGuardrailTripwireTriggered) as tripped:
        run(guard, agent, state)

    assert code_in(tripped.value.output.output_info) == "RCE_RISK"
    assert custom.ran == []
    assert len(custom.model.calls) == 1


@pytest.mark.parametrize("data", [{"size": 4}, None], ids=["some", "none"])
def test_a_custom_tool_s_own_data_stays(data: Any, gate: Gate) -> None:
    async def extracted(_context: Any) -> Any:
        return data

    custom = Custom("look", custom_data_extractor=extracted)

    result = run(OpenAIAgentsGuard(gate), custom.agent)

    [output] = [item for item in result.new_items if item.type == "tool_call_output_item"]
    assert output.custom_data == data


def streaming(output: Any) -> ModelStep:
    """Return a turn whose stream is its end alone: scripted models stream no custom calls."""

    async def streamed(given: ModelCall) -> AsyncIterator[Any]:
        events = ScriptedModel([say("hi")]).stream_response(
            given.system_instructions,
            given.input,
            given.model_settings,
            given.tools,
            given.output_schema,
            given.handoffs,
            given.tracing,
            previous_response_id=None,
            conversation_id=None,
            prompt=None,
        )
        async for event in events:
            if event.type == "response.completed":
                response = event.response.model_copy(update={"output": [output]})
                yield event.model_copy(update={"response": response})

    return ModelStep.stream(streamed, output=[output])


def test_a_hard_refusal_of_a_custom_tool_ends_a_stream(gate: Gate) -> None:
    custom, guard = Custom("burn"), OpenAIAgentsGuard(gate)
    custom.agent.model = ScriptedModel([streaming(custom_call("burn", "hello there"))])

    async def streamed() -> None:
        config = guard.run_config(tracing_disabled=True)
        result = guard.run_streamed(custom.agent, "hello", run_config=config)
        async for _ in guard.stream_events(result):
            pass

    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        asyncio.run(streamed())

    assert custom.ran == []


# What function tools raise.


def heard_of(_ctx: Any, error: Exception) -> str:
    return f"It failed: {error}"


@pytest.mark.parametrize("in_sandbox", [False, True], ids=["tool", "capability"])
def test_a_refused_function_tool_error_is_withheld(in_sandbox: bool, gate: Gate) -> None:
    @function_tool(failure_error_function=heard_of)
    def look(word: str) -> str:
        """Look."""
        raise RuntimeError(f"{word}: {ORDER}")

    turn, guard = [call("look", word="hi")], OpenAIAgentsGuard(gate)
    model = ScriptedModel([turn, say("well")])
    if in_sandbox:
        boxed(guard, SandboxAgent("box", model=model, capabilities=[Whispering(own=look)]))
    else:
        run(guard, Agent("one", model=model, tools=[look]))

    assert "REFUSED: CONTEXT_INJECTION" in str(model.last_call)
    assert ORDER not in str(model.last_call)


# Sandboxes.


def sandbox(*turns: Any, **more: Any) -> SandboxAgent[Any]:
    return SandboxAgent("box", model=ScriptedModel([*turns, say("well")]), **more)


def boxed(
    guard: OpenAIAgentsGuard, agent: Agent[Any], steps: Any = (), given: Any = "hello"
) -> Any:
    session = scripted_sandbox_session(steps)
    return run(guard, agent, given, sandbox=SandboxRunConfig(session=session))


def test_a_command_in_a_sandbox_is_ruled_on(gate: Gate) -> None:
    agent = sandbox([call("exec_command", cmd="ls")], capabilities=[Shell()])
    ran: list[Any] = []
    steps = [{"method": "exec", "responder": ran.append}]

    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        boxed(OpenAIAgentsGuard(gate), agent, steps)

    assert ran == []


def test_a_command_in_a_sandbox_is_ruled_on_in_a_stream(gate: Gate) -> None:
    agent = sandbox([call("exec_command", cmd="ls")], capabilities=[Shell()])
    guard, ran = OpenAIAgentsGuard(gate), list[Any]()
    session = scripted_sandbox_session([{"method": "exec", "responder": ran.append}])

    async def streamed() -> None:
        config = guard.run_config(tracing_disabled=True, sandbox=SandboxRunConfig(session=session))
        result = guard.run_streamed(agent, "hello", run_config=config)
        async for _ in guard.stream_events(result):
            pass

    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        asyncio.run(streamed())

    assert ran == []


def test_a_patch_in_a_sandbox_is_ruled_on(gate: Gate) -> None:
    agent = sandbox([custom_call("apply_patch", PATCH)], capabilities=[Filesystem()])
    ran: list[Any] = []

    boxed(OpenAIAgentsGuard(gate), agent, [{"method": "write", "responder": ran.append}])

    assert ran == []
    model: Any = agent.model
    assert "REFUSED: SPEND_OVER_APPROVAL_LIMIT" in str(model.last_call)


class Whispering(Capability):
    """A capability of somebody's own, whose tools are shared between runs."""

    type: str = "whispering"
    own: Any = None

    def tools(self) -> list[Tool]:
        """Return the tool."""
        return [self.own]


def test_tools_of_any_capability_are_ruled_on_and_stay_as_they_are(gate: Gate) -> None:
    ran: list[str] = []

    @function_tool
    def whisper(word: str) -> str:
        """Whisper."""
        ran.append(word)
        return "done"

    agent = sandbox([call("whisper", word="hi")], capabilities=[Whispering(own=whisper)])

    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        boxed(OpenAIAgentsGuard(gate), agent)

    assert ran == []
    assert whisper.tool_input_guardrails is None


def test_a_capability_s_tool_that_cannot_be_guarded_is_refused(gate: Gate) -> None:
    computer: Any = ComputerTool(computer=lambda **_: None)
    agent = sandbox(capabilities=[Whispering(own=computer)])

    with pytest.raises(InputError, match="the tool `computer_use_preview` cannot be guarded"):
        boxed(OpenAIAgentsGuard(gate), agent)


def test_a_sandbox_agent_is_guarded_once_and_stays_as_it_is(gate: Gate) -> None:
    guard, other = OpenAIAgentsGuard(gate), OpenAIAgentsGuard(gate)
    agent = sandbox()
    kinds = [type(one) for one in agent.capabilities]

    guarded = cast("SandboxAgent[Any]", guard.protect(agent))
    again = cast("SandboxAgent[Any]", guard.protect(guarded.clone(name="two")))

    assert guard.protect(guarded) is guarded
    assert again.capabilities == guarded.capabilities
    assert other.protect(guarded) is not guarded
    assert [type(one) for one in agent.capabilities] == kinds
    assert all(isinstance(*pair) for pair in zip(guarded.capabilities, kinds, strict=True))


# Agents as tools.


class Nested:
    """An agent that calls another as a tool, which calls a tool."""

    def __init__(self, gate: Gate) -> None:
        self.ran: list[str] = []
        self.guard = OpenAIAgentsGuard(gate)

        @function_tool
        def burn() -> str:
            """Burn."""
            self.ran.append("burn")
            return "burnt"

        self.inner: Agent[Any] = Agent(
            "inner", model=ScriptedModel([[call("burn", "call-2")], say("well")]), tools=[burn]
        )

    def outer(self, inner: Agent[Any]) -> Agent[Any]:
        """Return the agent that has the other as a tool."""
        tool = inner.as_tool("helper", "It helps.", failure_error_function=None)
        turns = [[call("helper", input="help")], say("well")]
        return Agent("outer", model=ScriptedModel(turns), tools=[tool])


def test_an_agent_as_a_tool_must_be_guarded_itself(gate: Gate) -> None:
    nested = Nested(gate)

    with pytest.raises(InputError, match="the agent behind the tool `helper` is not guarded"):
        run(nested.guard, nested.outer(nested.inner))

    assert nested.ran == []


def test_a_guarded_agent_as_a_tool_is_held(gate: Gate) -> None:
    nested = Nested(gate)
    agent = nested.outer(nested.guard.protect(nested.inner))

    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        run(nested.guard, agent)

    assert nested.ran == []


def test_an_agent_as_a_tool_can_be_exempted_explicitly(gate: Gate) -> None:
    nested = Nested(gate)
    agent = nested.guard.protect(nested.outer(nested.inner), unguarded=["helper"])

    assert nested.guard.protect(agent) is agent
    assert nested.guard.protect(agent.clone(name="two", handoffs=[agent])).name == "two"
    assert run(nested.guard, agent).final_output == "well"
    assert nested.ran == ["burn"]


def test_agents_may_be_tools_of_each_other(gate: Gate) -> None:
    guard = OpenAIAgentsGuard(gate)
    one = guard.protect(Agent("one"))
    two = guard.protect(Agent("two", tools=[one.as_tool("one", "One.")]))
    one.tools = [*guard.protect(Agent("x", tools=[two.as_tool("two", "Two.")])).tools]

    assert guard.protect(one) is one
