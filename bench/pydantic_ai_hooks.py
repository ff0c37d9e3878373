"""What of a run with demur is Pydantic AI's own: the price of having hooks at all.

The same run is made by an agent without a capability, by one whose hooks do nothing, and by
one with demur, in turns; what the enforcer took is counted apart. Then each hook alone, with
an enforcer that answers at once. What is counted is the time of the processor, without
collections of garbage: the rest of the machine has no part in it, nor who made the garbage.
`python bench/pydantic_ai_hooks.py`, in the environment of the frameworks.
"""

import asyncio
import gc
import inspect
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from time import thread_time
from typing import Any

from adapters import ARGUMENTS, POLICY, PROMPT, lookup, quiet
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel

from demur.codes.vocabulary import Surface
from demur.enforce.context import Steps
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline
from demur.integrations.pydantic_ai import PydanticAIGuard
from demur.policy.loader import parse_policy

ROUNDS = 300
HOOKS = (
    *("for_run", "before_model_request", "prepare_model_request"),
    *("get_wrapper_model", "after_model_request"),
    *("after_tool_validate", "before_tool_execute", "after_tool_execute"),
    *("before_output_process", "after_output_process"),
)
ALLOWED = CheckResult(Surface.RUNTIME)
Base: Any = AbstractCapability


class TimedEnforcer(Enforcer):
    """An enforcer without guards that knows how often it was asked, and how long it took."""

    spent = 0.0
    points = 0

    @classmethod
    def make(cls) -> "TimedEnforcer":
        """Return one that allows all."""
        return cls(Gate(parse_policy(POLICY)), pipeline=GuardPipeline([]), detect_prose=False)

    def _fail_closed(self, *args: Any, **kwargs: Any) -> Steps[CheckResult]:
        began = thread_time()
        self.points += 1
        try:
            return (yield from super()._fail_closed(*args, **kwargs))
        finally:
            self.spent += thread_time() - began


class QuickEnforcer(Enforcer):
    """An enforcer that allows all, at once."""

    def _fail_closed(self, *_: Any, **__: Any) -> Steps[CheckResult]:
        return ALLOWED
        yield  # a generator, like the method that it overrides


@dataclass
class Idle(Base):  # type: ignore[misc] # of another environment
    """Has the hooks of the adapter, and does nothing in them."""

    def get_ordering(self) -> CapabilityOrdering:
        """Return the place that the adapter takes."""
        return CapabilityOrdering(position="innermost")

    async def for_run(self, _ctx: Any) -> "Idle":
        """Return another one, as for every run."""
        return replace(self)

    def get_wrapper_model(self, model: Any) -> Any:
        """Return a model around the model."""
        return WrapperModel(model)

    async def before_model_request(self, _ctx: Any, request_context: Any) -> Any:
        """Go on."""
        return request_context

    async def prepare_model_request(self, _ctx: Any, request_context: Any) -> Any:
        """Go on."""
        return request_context

    async def after_model_request(self, _ctx: Any, *, response: Any, **_: Any) -> Any:
        """Go on."""
        return response

    async def after_tool_validate(self, _ctx: Any, *, args: Any, **_: Any) -> Any:
        """Go on."""
        return args

    async def before_tool_execute(self, _ctx: Any, *, args: Any, **_: Any) -> Any:
        """Go on."""
        return args

    async def after_tool_execute(self, _ctx: Any, *, result: Any, **_: Any) -> Any:
        """Go on."""
        return result

    async def before_output_process(self, _ctx: Any, *, output: Any, **_: Any) -> Any:
        """Go on."""
        return output

    async def after_output_process(self, _ctx: Any, *, output: Any, **_: Any) -> Any:
        """Go on."""
        return output


class Watch:
    """How often each hook was called, and how long it took."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.spent: Counter[str] = Counter()

    def over(self, name: str, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Return a hook that is timed."""

        async def awaited(*given: Any, **more: Any) -> Any:
            began = thread_time()
            try:
                return await hook(*given, **more)
            finally:
                self._add(name, began)

        def called(*given: Any, **more: Any) -> Any:
            began = thread_time()
            try:
                return hook(*given, **more)
            finally:
                self._add(name, began)

        return awaited if inspect.iscoroutinefunction(hook) else called

    def _add(self, name: str, began: float) -> None:
        self.spent[name] += thread_time() - began  # type: ignore[assignment] # seconds
        self.calls[name] += 1


def answer(history: Any, _info: Any) -> ModelResponse:
    """Call the tool, and then answer."""
    if any(isinstance(one, ModelResponse) for one in history):
        return ModelResponse([TextPart("There.")])
    return ModelResponse([ToolCallPart("lookup", dict(ARGUMENTS))])


def run_of(*capabilities: Any) -> Callable[[], Awaitable[Any]]:
    """Return a run of an agent with a tool."""
    agent: Any = Agent(FunctionModel(answer), tools=[lookup], capabilities=capabilities)
    return lambda: agent.run(PROMPT)


def row(name: str, *figures: float) -> str:
    """Return a row of the table."""
    return f"{name:<24}" + "".join(f"{figure:>12.0f}" for figure in figures)


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    """Return how long a piece of work takes, in microseconds."""
    began = thread_time()
    await work()
    return (thread_time() - began) * 1e6


async def whole() -> Iterable[str]:
    """Return the rows of whole runs; what was added is that of the same round, by its median."""
    by = TimedEnforcer.make()
    runs = (run_of(), run_of(Idle()), run_of(PydanticAIGuard(by)))
    taken: list[tuple[float, ...]] = []
    for number in range(ROUNDS):
        gc.collect(0)
        by.spent, by.points = 0.0, 0
        took = [0.0] * len(runs)
        # In another order each time: whoever follows demur finds colder caches.
        for place in (number % 3, (number + 1) % 3, (number + 2) % 3)[:: 1 if number % 2 else -1]:
            took[place] = await timed(runs[place])
        taken.append((*took, by.spent * 1e6))

    def usual(figure: Callable[..., float]) -> float:
        return statistics.median(figure(*one) for one in taken)

    hooks = usual(lambda bare, idle, *_: idle - bare)
    added = usual(lambda _, idle, held, asked: held - asked - idle)
    return (
        row("without a capability", usual(lambda bare, *_: bare)),
        row("hooks that do nothing", usual(lambda _, idle, *__: idle)),
        row("demur", usual(lambda _, __, held, ___: held), usual(lambda *one: one[3]), added),
        "",
        row("a point: the framework", hooks / by.points),
        row("a point: the adapter", added / by.points),
    )


async def each() -> Iterable[str]:
    """Return the rows of hooks."""
    watch = Watch()
    kind: Any = type(
        "Timed",
        (PydanticAIGuard,),
        {name: watch.over(name, getattr(PydanticAIGuard, name)) for name in HOOKS},
    )
    work = run_of(kind(QuickEnforcer()))
    rounds: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        gc.collect(0)
        watch.spent.clear()
        watch.calls.clear()
        await work()
        rounds.append({name: watch.spent[name] / watch.calls[name] * 1e6 for name in HOOKS})
    return [
        row(name, watch.calls[name], statistics.median(one[name] for one in rounds))
        for name in HOOKS
    ]


def main() -> None:
    """Print what the framework takes, and what the adapter does."""
    gc.disable()
    with quiet():
        print("microseconds for one run of an agent with a tool call, medians")
        print(" " * 24 + "".join(f"{head:>12}" for head in ("run", "enforcer", "adapter")))
        print(*asyncio.run(whole()), sep="\n")
        print("\nmicroseconds in one hook, where the enforcer answers at once, medians")
        print(" " * 24 + "".join(f"{head:>12}" for head in ("a run", "each")))
        print(*asyncio.run(each()), sep="\n")


if __name__ == "__main__":
    main()
