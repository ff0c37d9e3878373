"""The context of a call, and the steps of a check with the driver that runs them.

A check is written once, as a generator that yields steps. `drive` runs each step synchronously,
`adrive` awaits it. An error of a step is raised in the generator, at its `yield`.
"""

from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping
from inspect import isawaitable
from typing import Any, NamedTuple, Protocol, TypeVar

from demur.codes.vocabulary import Surface
from demur.gate.excerpt import Utterance
from demur.gate.gate import Gate
from demur.gate.monitor import Monitor
from demur.gate.pipeline import GuardPipeline
from demur.gate.scoring import PipelineResult
from demur.model.grant import Grant
from demur.model.record import DecisionRecord

GENERATE_ACTION = "generate"
ANONYMOUS = "anonymous"
_Result = TypeVar("_Result")


class CallContext(NamedTuple):
    """The framework and run of a call, and the subject it is made for.

    `framework`, `run` and `call_id` are recorded. `run` is the key of the history of tool calls: a
    run, session or thread of one agent. `subject` (`id`, `type`, `roles`) is the requester;
    `key` replaces its id as the key of rate limits. `subject` and `tenant` override those of the
    enforcer.
    `signals` are what models and services say about the call, for rules to read. `subjects` are
    those that you authenticated the caller as; None trusts `subject`.
    """

    framework: str = ""
    run: str | None = None
    call_id: str | None = None
    subject: Mapping[str, Any] | None = None
    tenant: str | None = None
    key: str | None = None
    signals: Mapping[str, Any] | None = None
    subjects: Collection[str] | None = None

    @property
    def trace(self) -> dict[str, str]:
        """The part that is recorded."""
        fields = {"framework": self.framework, "run": self.run, "call_id": self.call_id}
        return {name: value for name, value in fields.items() if value}

    def rate_key(self, subject: Mapping[str, Any] | None) -> str:
        """Return the key of rate limits for a call by `subject`."""
        name = self.key or (subject or {}).get("id")
        return name if isinstance(name, str) and name else ANONYMOUS


class Step(Protocol):
    """Work that a check hands to its driver, such as running guards or calling a model."""

    def run(self) -> Any:
        """Do the work and return its value."""

    async def arun(self) -> Any:
        """Do the work without blocking the event loop, and return its value."""


Steps = Generator[Step, Any, _Result]


class Call(NamedTuple):
    """A step that calls a function; `async_function` takes its place where it can be awaited."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    async_function: Callable[..., Awaitable[Any]] | None = None

    def run(self) -> Any:
        """Return the function's value."""
        return self.function(*self.arguments)

    async def arun(self) -> Any:
        """Return the value of `async_function` or else of the function, awaited if necessary."""
        value = (self.async_function or self.function)(*self.arguments)
        return await value if isawaitable(value) else value


class RunGuards(NamedTuple):
    """The step that returns what the guards and scorers of a surface find."""

    pipeline: GuardPipeline
    surface: Surface | str
    event: Any
    monitor: Monitor | None

    def run(self) -> PipelineResult:
        """Run the guards."""
        return self.pipeline.inspect(self.surface, self.event, monitor=self.monitor)

    async def arun(self) -> PipelineResult:
        """Run the guards without blocking the event loop."""
        return await self.pipeline.ainspect(self.surface, self.event, monitor=self.monitor)


class RunGate(NamedTuple):
    """The step that returns the gate's decision."""

    gate: Gate
    request: Mapping[str, Any]
    found: PipelineResult
    grants: Iterable[Grant]
    accepted: Iterable[str]
    tenant: str | None
    signals: Mapping[str, Any] | None = None
    subjects: Collection[str] | None = None
    said: Utterance | None = None

    def run(self) -> DecisionRecord:
        """Decide."""
        return self.gate.decide(self.request, **self._decide_arguments())

    async def arun(self) -> DecisionRecord:
        """Decide without blocking the event loop."""
        return await self.gate.adecide(self.request, **self._decide_arguments())

    def _decide_arguments(self) -> dict[str, Any]:
        return {
            "findings": self.found.findings,
            "guard_signals": self.found.signals,
            "guard_models": self.found.models,
            "grants": self.grants,
            "accepted": self.accepted,
            "tenant": self.tenant,
            "signals": self.signals,
            "subjects": self.subjects,
            "said": self.said,
        }


def drive(steps: Steps[_Result]) -> _Result:
    """Run the steps and return their result."""
    step = _next(steps)
    while not isinstance(step, _Done):
        try:
            value = step.run()
        except Exception as error:  # noqa: BLE001 - the generator handles or raises it
            step = _next(steps, error=error)
        else:
            step = _next(steps, value)
    return step.result  # type: ignore[no-any-return] # a generator's return value


async def adrive(steps: Steps[_Result]) -> _Result:
    """Run the steps and return their result, without blocking the event loop."""
    step = _next(steps)
    while not isinstance(step, _Done):
        try:
            value = await step.arun()
        except Exception as error:  # noqa: BLE001 - the generator handles or raises it
            step = _next(steps, error=error)
        else:
            step = _next(steps, value)
    return step.result  # type: ignore[no-any-return] # a generator's return value


class _Done(NamedTuple):
    result: Any


def _next(steps: Steps[Any], value: Any = None, error: Exception | None = None) -> Step | _Done:
    try:
        return steps.send(value) if error is None else steps.throw(error)
    except StopIteration as done:
        return _Done(done.value)
