"""What each part of a guarded LangChain agent takes: the framework, its hooks, and the adapter.

A turn with one tool call and an answer is run by an agent without middleware, by one whose
middleware has the adapter's hooks, state and jumps and does nothing in them, and by a guarded
one, in turns. What the enforcer takes is counted apart. Then each hook is called alone, with an
enforcer that answers at once. What is counted is the time of the processor in all threads,
without collections of garbage: the framework hands work from one thread to another, and how long
it waits there tells of the machine. `python bench/langchain_hooks.py`, in the environment of the
frameworks.
"""

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from adapters import ARGUMENTS, POLICY, PROMPT
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from demur.codes.vocabulary import Surface
from demur.enforce.context import Steps
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline
from demur.integrations.langchain import LangChainGuard
from demur.policy.loader import parse_policy

ROUNDS = 40
RUNS = 10
CALLS = 100
CALL: ToolCall = {"name": "lookup", "args": dict(ARGUMENTS), "id": "c-1", "type": "tool_call"}
NODES = ("before_agent", "before_model", "after_model", "after_agent")
WRAPS = ("wrap_model_call", "wrap_tool_call")
GO = CheckResult(Surface.RUNTIME)
WIDTH = 28

Work = Callable[[], Awaitable[Any]]


class Sample(NamedTuple):
    """Microseconds of processor time for one piece of work, and those of the enforcer in it."""

    whole: float
    enforcer: float

    @property
    def rest(self) -> float:
        """What is not the enforcer's."""
        return self.whole - self.enforcer


class Counting(Enforcer):
    """Knows how often it was asked, and how long it took."""

    spent = 0.0
    points = 0

    def _fail_closed(self, *args: Any, **kwargs: Any) -> Steps[CheckResult]:
        began = time.process_time()
        self.points += 1
        try:
            return (yield from super()._fail_closed(*args, **kwargs))
        finally:
            self.spent += time.process_time() - began


class Instant(Enforcer):
    """Lets everything go ahead, and looks at nothing."""

    def _fail_closed(self, *_: Any, **__: Any) -> Steps[CheckResult]:
        return GO
        yield  # a generator, like the method that it overrides


def model() -> Any:
    """Return a model that says the same two things in turns, and needs no other thread for it."""

    def turns() -> Iterator[Any]:
        while True:
            yield AIMessage("", tool_calls=[CALL])
            yield AIMessage("There.")

    async def generate(self: Any, messages: Any, *_: Any, **__: Any) -> Any:
        return self._generate(messages)

    body = {"bind_tools": lambda self, _tools, **_: self, "_agenerate": generate}
    kind: Any = type("Fake", (GenericFakeChatModel,), body)
    return kind(messages=turns())


async def lookup(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id} is there"


def idle() -> Any:
    """Return a middleware with the hooks and the state of the adapter's, that does nothing."""
    body: dict[str, Any] = {"state_schema": LangChainGuard.state_schema}
    ends = hook_config(can_jump_to=["end"])
    for name in (*NODES, *WRAPS):
        if getattr(LangChainGuard, name) is not getattr(AgentMiddleware, name):
            body[f"a{name}"] = ends(_nothing) if name in NODES else _on
    return type("Idle", (AgentMiddleware,), body)()


async def _nothing(_self: Any, state: Any, runtime: Any) -> None:
    del state, runtime


async def _on(_self: Any, request: Any, handler: Any) -> Any:
    return await handler(request)


def agent(*middleware: Any) -> Work:
    """Return a run of an agent with that middleware."""
    made: Any = create_agent(model(), tools=[lookup], middleware=middleware)
    return lambda: made.ainvoke({"messages": PROMPT})


def hooks() -> dict[str, Work]:
    """Return each hook alone, in the order of a run in which all is allowed."""
    guard, none = LangChainGuard(Instant()), None
    said = HumanMessage(PROMPT, id="h-1")
    calls = AIMessage("", tool_calls=[CALL], id="a-1")
    done = ToolMessage("A-1 is there", tool_call_id="c-1", id="t-1")
    answer = AIMessage("There.", id="a-2")

    def state(*messages: Any) -> Any:
        return {**notes, "messages": list(messages)}

    def asked(*messages: Any) -> Any:
        return ModelRequest(model=speaks, messages=list(messages), state=state(*messages))

    def saying(message: Any) -> Any:
        async def handler(_request: Any) -> Any:
            return ModelResponse([message])

        return handler

    async def running(_request: Any) -> Any:
        return done

    speaks, fresh = model(), {"messages": [said]}
    notes: dict[str, Any] = dict(guard.before_agent(fresh, none) or {})
    notes |= guard.after_model(state(said, calls), none) or {}
    first, later = asked(said), asked(said, calls, done)
    called, ended = state(said, calls), state(said, calls, done, answer)
    nothing: Any = None
    call = ToolCallRequest(tool_call=CALL, tool=nothing, state=called, runtime=nothing)
    return {
        "before_agent": lambda: guard.abefore_agent(fresh, none),
        "model call, it calls a tool": lambda: guard.awrap_model_call(first, saying(calls)),
        "after_model, a tool call": lambda: guard.aafter_model(called, none),
        "tool call": lambda: guard.awrap_tool_call(call, running),
        "model call, it answers": lambda: guard.awrap_model_call(later, saying(answer)),
        "after_model, an answer": lambda: guard.aafter_model(ended, none),
    }


async def sampled(work: Work, times: int, by: Counting) -> Sample:
    """Return what one piece of work takes, over several."""
    by.spent, by.points = 0.0, 0
    began = time.process_time()
    for _ in range(times):
        await work()
    taken = time.process_time() - began
    return Sample(taken / times * 1e6, by.spent / times * 1e6)


async def measured(
    sides: dict[str, Work], times: int, by: Counting | None = None
) -> dict[str, list[Sample]]:
    """Return the samples of each side, taken in turns so that a busy machine slows all alike."""
    counts = Counting() if by is None else by
    samples: dict[str, list[Sample]] = {name: [] for name in sides}
    gc.disable()
    for _ in range(ROUNDS + 1):
        for name, work in sides.items():
            samples[name].append(await sampled(work, times, counts))
        gc.collect()
    gc.enable()
    return {name: taken[1:] for name, taken in samples.items()}


def between(some: Sequence[Sample], others: Sequence[Sample]) -> float:
    """Return by how much some take longer than others, beside the enforcer."""
    return statistics.median(one.rest - other.rest for one, other in zip(some, others, strict=True))


def row(name: str, *figures: float) -> None:
    """Print a row."""
    print(f"{name:<{WIDTH}}" + "".join(f"{figure:>12.0f}" for figure in figures))


async def show_runs() -> None:
    """Print what a run takes, and what is added to one without demur."""
    by = Counting(Gate(parse_policy(POLICY)), pipeline=GuardPipeline([]), detect_prose=False)
    sides = {
        "no middleware": agent(),
        "hooks that do nothing": agent(idle()),
        "guarded, answered at once": agent(LangChainGuard(Instant())),
        "guarded": agent(LangChainGuard(by)),
    }
    runs = await measured(sides, RUNS, by)
    points = by.points / RUNS
    bare, hooked, *guarded = runs.items()
    print("microseconds of processor time for one run of an agent, medians")
    heads = ("run", "enforcer", "adds", "points", "a point")
    print(" " * WIDTH + "".join(f"{head:>12}" for head in heads))
    for (name, samples), (_, before) in zip(
        (bare, hooked, *guarded), (bare, bare, *[hooked] * len(guarded)), strict=True
    ):
        run, enforcer = (statistics.median(part) for part in zip(*samples, strict=True))
        adds = between(samples, before)
        row(name, run, enforcer, adds, points, adds / points)


async def show_hooks() -> None:
    """Print what each hook takes."""
    print("\nmicroseconds of processor time for one hook alone, medians")
    for name, samples in (await measured(hooks(), CALLS)).items():
        row(name, statistics.median(one.whole for one in samples))


if __name__ == "__main__":
    asyncio.run(show_runs())
    asyncio.run(show_hooks())
