"""What an adapter adds to a call, beyond what the enforcer itself takes.

Each framework does the same with its fake model: a turn with one tool call and an answer, or,
where it has no tools, one answer. It does so without demur and with it, in turns; what the
enforcer took in between is counted apart. `python bench/adapters.py`, in the environment of
the frameworks (`make bench-adapters`).
"""

import asyncio
import importlib
import json
import logging
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from demur.enforce.context import Steps
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.errors import MissingExtraError
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline
from demur.integrations.guarded import guarded
from demur.integrations.web import PromptGuard, PromptGuardMiddleware
from demur.policy.loader import parse_policy
from demur.testing.scenarios import AnswerTurn, ToolTurn

ROUNDS = 15
CALLS = 20
POLICY = """
schema_version: policy.v1
policy_id: bench
policy_version: 1.0.0
defaults: { verdict: ALLOW }
rules: []
"""
PROMPT = "What is on my list for today?"
ARGUMENTS = {"order_id": "A-1"}
# Enough turns of a scripted model for all rounds and the one before them.
TURNS = [ToolTurn((("lookup", ARGUMENTS),)), AnswerTurn(("There.",))] * (CALLS * (ROUNDS + 1))


class Usage:
    """How often an enforcer was asked, and how many seconds it took."""

    points = 0
    spent = 0.0


class TimedEnforcer(Enforcer):
    """An enforcer that counts its own use, and that of the copies that adapters make of it."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.usage = Usage()

    def _fail_closed(self, *args: Any, **kwargs: Any) -> Steps[CheckResult]:
        began = time.perf_counter()
        self.usage.points += 1
        try:
            return (yield from super()._fail_closed(*args, **kwargs))
        finally:
            self.usage.spent += time.perf_counter() - began


class Pair(NamedTuple):
    """The same work without demur and with it; without, in a framework whose hooks do nothing.

    What a framework takes for calling hooks is its own affair, and is not the adapter's.
    """

    name: str
    bare: Callable[[], Awaitable[Any]]
    with_demur: Callable[[], Awaitable[Any]]


def enforcer() -> TimedEnforcer:
    """Return an enforcer without guards: they are measured elsewhere."""
    return TimedEnforcer(Gate(parse_policy(POLICY)), pipeline=GuardPipeline([]), detect_prose=False)


def lookup(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id} is there"


def python(by: TimedEnforcer) -> Pair:
    """Return a guarded function, scanned results included."""
    held = guarded(by, action="lookup", check_return=True)(lookup)

    async def bare() -> str:
        return lookup("A-1")

    async def with_demur() -> str:
        return held("A-1")

    return Pair("guarded", bare, with_demur)


def web(by: TimedEnforcer) -> Pair:
    """Return an ASGI application behind the middleware."""
    body = json.dumps({"prompt": PROMPT}).encode()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "headers": [(b"content-type", b"application/json")],
    }

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    held = PromptGuardMiddleware(app, PromptGuard(by))

    async def asked(application: Any) -> None:
        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(_message: Any) -> None:
            return None

        await application(dict(scope), receive, send)

    return Pair("web", lambda: asked(app), lambda: asked(held))


def openai_client(by: TimedEnforcer) -> Pair:
    """Return OpenAI's client over a transport that answers at once."""
    openai = importlib.import_module("openai")
    guard = importlib.import_module("demur.integrations.openai").guard_openai
    answer = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "Nothing."},
            }
        ],
    }
    httpx = importlib.import_module("httpx2")
    http = httpx.AsyncClient(
        transport=httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
    )
    plain = openai.AsyncOpenAI(api_key="none", http_client=http)
    held = guard(plain, by)
    messages = [{"role": "user", "content": PROMPT}]
    return Pair(
        "openai",
        lambda: plain.chat.completions.create(model="m", messages=messages),
        lambda: held.chat.completions.create(model="m", messages=messages),
    )


def anthropic_client(by: TimedEnforcer) -> Pair:
    """Return Anthropic's client over a transport that answers at once."""
    anthropic = importlib.import_module("anthropic")
    guard = importlib.import_module("demur.integrations.anthropic").guard_anthropic
    answer = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Nothing."}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    httpx = importlib.import_module("httpx2")
    http = httpx.AsyncClient(
        transport=httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
    )
    plain = anthropic.AsyncAnthropic(api_key="none", http_client=http)
    held = guard(plain, by)
    given = {
        "model": "m",
        "max_tokens": 10,
        "messages": [{"role": "user", "content": PROMPT}],
    }
    return Pair(
        "anthropic",
        lambda: plain.messages.create(**given),
        lambda: held.messages.create(**given),
    )


def openai_agents(by: TimedEnforcer) -> Pair:
    """Return an agent of the OpenAI Agents SDK, with a tool."""
    agents = importlib.import_module("agents")
    fake = importlib.import_module("agents.testing")
    guard = importlib.import_module("demur.integrations.openai_agents").OpenAIAgentsGuard(by)
    agents.set_tracing_disabled(disabled=True)
    tool = agents.function_tool(lookup)

    async def passes(*_: Any) -> Any:
        return agents.GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    async def lets(_: Any) -> Any:
        return agents.ToolGuardrailFunctionOutput.allow()

    hooked_tool = agents.function_tool(
        lookup,
        tool_input_guardrails=[agents.tool_input_guardrail(lets)],
        tool_output_guardrails=[agents.tool_output_guardrail(lets)],
    )
    hooks = {
        "input_guardrails": [agents.InputGuardrail(passes, run_in_parallel=False)],
        "output_guardrails": [agents.OutputGuardrail(passes)],
    }

    def agent(**more: Any) -> Any:
        call = fake.function_call("lookup", ARGUMENTS, call_id="c-1")
        turns = [[call], [fake.assistant_message("There.")]] * (CALLS * (ROUNDS + 1))
        return agents.Agent("desk", model=fake.ScriptedModel(turns), **more)

    bare, held = agent(tools=[hooked_tool], **hooks), guard.protect(agent(tools=[tool]))
    return Pair(
        "openai-agents",
        lambda: agents.Runner.run(bare, PROMPT),
        lambda: guard.run(held, PROMPT),
    )


def langchain(by: TimedEnforcer) -> Pair:
    """Return an agent of LangChain, with a tool."""
    create_agent = importlib.import_module("langchain.agents").create_agent
    idle = importlib.import_module("langchain_hooks").idle
    messages = importlib.import_module("langchain_core.messages")
    fakes = importlib.import_module("langchain_core.language_models.fake_chat_models")
    middleware = importlib.import_module("demur.integrations.langchain").LangChainGuard
    call = {"name": "lookup", "args": ARGUMENTS, "id": "c-1", "type": "tool_call"}

    class Fake(fakes.GenericFakeChatModel):  # type: ignore[name-defined] # of another environment
        """Calls the tool, and answers, for ever."""

        def bind_tools(self, _tools: Any, **_: Any) -> Any:
            """Return itself."""
            return self

    def turns() -> Iterator[Any]:
        while True:
            yield messages.AIMessage("", tool_calls=[call])
            yield messages.AIMessage("There.")

    bare = create_agent(Fake(messages=turns()), tools=[lookup], middleware=[idle()])
    held = create_agent(Fake(messages=turns()), tools=[lookup], middleware=[middleware(by)])
    return Pair(
        "langchain",
        lambda: bare.ainvoke({"messages": PROMPT}),
        lambda: held.ainvoke({"messages": PROMPT}),
    )


def pydantic_ai(by: TimedEnforcer) -> Pair:
    """Return an agent of Pydantic AI, with a tool."""
    parts = importlib.import_module("pydantic_ai.messages")
    function_model = importlib.import_module("pydantic_ai.models.function").FunctionModel
    agent_class = importlib.import_module("pydantic_ai").Agent
    idle = importlib.import_module("pydantic_ai_hooks").Idle
    capability = importlib.import_module("demur.integrations.pydantic_ai").PydanticAIGuard

    def fake(history: Any, _info: Any) -> Any:
        if any(isinstance(one, parts.ModelResponse) for one in history):
            return parts.ModelResponse([parts.TextPart("There.")])
        return parts.ModelResponse([parts.ToolCallPart("lookup", ARGUMENTS)])

    bare = agent_class(function_model(fake), tools=[lookup], capabilities=[idle()])
    held = agent_class(function_model(fake), tools=[lookup], capabilities=[capability(by)])
    return Pair("pydantic-ai", lambda: bare.run(PROMPT), lambda: held.run(PROMPT))


def claude(by: TimedEnforcer) -> Pair:
    """Return what the Claude Agent SDK asks before a tool."""
    hooks = importlib.import_module("demur.integrations.claude_agent").claude_hooks(by)
    hook = hooks["PreToolUse"][0].hooks[0]
    asked = {
        "hook_event_name": "PreToolUse",
        "session_id": "s",
        "transcript_path": "",
        "cwd": "/",
        "tool_name": "Read",
        "tool_input": {"file_path": "list.txt"},
        "tool_use_id": "t-1",
    }

    async def bare() -> None:
        return None

    return Pair("claude-agent-sdk", bare, lambda: hook(dict(asked), "t-1", {"signal": None}))


def llamaindex(by: TimedEnforcer) -> Pair:
    """Return an agent of LlamaIndex, with a tool; LlamaIndex has no hooks."""
    driver = importlib.import_module("driver_llamaindex")
    workflow = importlib.import_module("llama_index.core.agent.workflow")
    guard = importlib.import_module("demur.integrations.llamaindex").LlamaIndexGuard(by)
    tools = importlib.import_module("llama_index.core.tools")

    def agent() -> Any:
        tool = tools.FunctionTool.from_defaults(lookup)
        return workflow.FunctionAgent(llm=driver.ScriptedModel(TURNS), tools=[tool])

    async def ask(agent: Any) -> Any:
        return await agent.run(PROMPT)

    bare, held = agent(), guard.attach(agent())
    return Pair("llamaindex", lambda: ask(bare), lambda: ask(held))


def google_adk(by: TimedEnforcer) -> Pair:
    """Return an agent of Google ADK, with a tool."""
    driver = importlib.import_module("driver_google_adk")
    agents = importlib.import_module("google.adk.agents")
    app_class = importlib.import_module("google.adk.apps").App
    runner_class = importlib.import_module("google.adk.runners").InMemoryRunner
    guard = importlib.import_module("demur.integrations.google_adk").GoogleADKGuard(by)
    idle = importlib.import_module("google.adk.plugins.base_plugin").BasePlugin("idle")

    def runner(plugin: Any) -> Any:
        agent = agents.LlmAgent(name="desk", model=driver.ScriptedModel(TURNS), tools=[lookup])
        return runner_class(app=app_class(name="desk", root_agent=agent, plugins=[plugin]))

    async def ask(runner: Any) -> Any:
        where = {"app_name": "desk", "user_id": "u-1", "session_id": "s-1"}
        sessions = runner.session_service
        if await sessions.get_session(**where):
            await sessions.delete_session(**where)
        return await driver.play(runner, PROMPT)

    bare, held = runner(idle), runner(guard)
    return Pair("google-adk", lambda: ask(bare), lambda: ask(held))


def crewai(by: TimedEnforcer) -> Pair:
    """Return an agent of CrewAI, with a tool; its hooks belong to the process."""
    driver = importlib.import_module("driver_crewai")
    agent_class = importlib.import_module("crewai").Agent
    hooks = importlib.import_module("crewai.hooks")
    tool = importlib.import_module("crewai.tools").tool("lookup")(lookup)
    guard = importlib.import_module("demur.integrations.crewai").CrewAIGuard(by)

    def agent() -> Any:
        model = driver.ScriptedModel.of(TURNS)
        return agent_class(role="clerk", goal="help", backstory="Helps.", llm=model, tools=[tool])

    points = [
        hooks.InterceptionPoint[name]
        for name in ("PRE_MODEL_CALL", "POST_MODEL_CALL", "PRE_TOOL_CALL", "POST_TOOL_CALL")
    ]

    def idle(_: Any) -> None:
        return None

    async def ask() -> None:
        for point in points:
            hooks.register_hook(point, idle)
        await bare.kickoff_async(PROMPT)
        for point in points:
            hooks.unregister_hook(point, idle)

    async def ask_guarded() -> None:
        with guard:
            await held.kickoff_async(PROMPT)

    bare, held = agent(), agent()
    return Pair("crewai", ask, ask_guarded)


PAIRS = (
    *(python, web, openai_client, anthropic_client, openai_agents, langchain),
    *(pydantic_ai, claude, llamaindex, google_adk, crewai),
)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep frameworks from logging."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    """Return how long one piece of work takes on average, in microseconds."""
    began = time.perf_counter()
    for _ in range(CALLS):
        await work()
    return (time.perf_counter() - began) / CALLS * 1e6


async def measure(make: Callable[[TimedEnforcer], Pair]) -> str:
    """Return the row of one adapter."""
    by = enforcer()
    pair = make(by)
    await timed(pair.bare)
    await timed(pair.with_demur)
    usage = by.usage
    bare, added, asked = [], [], []
    for _ in range(ROUNDS):
        alone = await timed(pair.bare)
        usage.points, usage.spent = 0, 0.0
        held = await timed(pair.with_demur)
        spent = usage.spent / CALLS * 1e6
        bare.append(alone)
        asked.append(spent)
        added.append(held - alone - spent)
    points = usage.points / CALLS
    whole = statistics.median(added)
    figures = (statistics.median(bare), statistics.median(asked), whole, points, whole / points)
    return f"{pair.name:<18}" + "".join(f"{figure:>12.0f}" for figure in figures)


def main() -> None:
    """Print what each adapter adds whose framework is installed here."""
    tests = Path(__file__).resolve().parents[1] / "tests"
    sys.path += [str(tests / "adapters"), str(tests)]  # the scripted models of the scenarios
    print("microseconds for one run of an agent (or one call), medians")
    heads = ("framework", "enforcer", "adapter", "points", "a point")
    print(" " * 18 + "".join(f"{head:>12}" for head in heads))
    with quiet():
        for make in PAIRS:
            try:
                row = asyncio.run(measure(make))
            except (MissingExtraError, ModuleNotFoundError) as error:
                row = f"{make.__name__} cannot run here: {error}"
            print(row)


if __name__ == "__main__":
    main()
