"""What the hooks of the LiteLLM guardrail and its guarded functions add to a call.

Each hook is called as the proxy calls it, in turns with a guardrail whose hooks do nothing.
The guarded functions call LiteLLM's own, which answer by `mock_response`. What the enforcer
and LiteLLM took in between is counted apart. Time is that of the thread that asks, so a busy
machine and LiteLLM's threads for its logs do not count. `python
bench/litellm_hooks.py`, in LiteLLM's own environment.
"""

import asyncio
import logging
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

# Or else it asks the network for prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.types.utils import ModelResponse, ModelResponseStream

from demur.enforce.context import Steps
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline
from demur.integrations.litellm import LiteLLMGuard, guard_litellm
from demur.policy.loader import parse_policy

CALLS = 400
STREAMS = 40
PIECES = 50
AIM = 100
POLICY = """
schema_version: policy.v1
policy_id: bench
policy_version: 1.0.0
defaults: { verdict: ALLOW }
rules: []
"""
ASKED: dict[str, Any] = {
    "model": "gpt-4o-mini",
    "messages": [{"role": "user", "content": "What is on my list for today?"}],
}
TEXT = "Nothing is on your list. " * 6
MOCKED = {**ASKED, "mock_response": TEXT}
STREAMED = {**MOCKED, "stream": True}


class TimedEnforcer(Enforcer):
    """An enforcer that knows how long it took."""

    spent = 0.0

    def _fail_closed(self, *args: Any, **kwargs: Any) -> Steps[CheckResult]:
        began = time.thread_time()
        try:
            return (yield from super()._fail_closed(*args, **kwargs))
        finally:
            self.spent += time.thread_time() - began

    def stream_answer(self, *given: Any, **more: Any) -> Any:
        """Return a stream whose time counts as the enforcer's."""
        return TimedStream(super().stream_answer(*given, **more), self)


class TimedStream:
    """A stream of an enforcer that knows how long it took."""

    def __init__(self, inner: Any, by: TimedEnforcer) -> None:
        self._inner = inner
        self._by = by

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def add(self, text: str) -> str:
        """Return what may be shown."""
        began = time.thread_time()
        shown: str = self._inner.add(text)
        self._by.spent += time.thread_time() - began
        return shown

    def end(self) -> CheckResult:
        """Return the ruling."""
        began = time.thread_time()
        ruling: CheckResult = self._inner.end()
        self._by.spent += time.thread_time() - began
        return ruling

    async def aend(self) -> CheckResult:
        """Return the ruling."""
        began = time.thread_time()
        ruling: CheckResult = await self._inner.aend()
        self._by.spent += time.thread_time() - began
        return ruling


class Idle(CustomGuardrail):  # type: ignore[misc,unused-ignore] # of another environment
    """Has the hooks, and does nothing in them."""

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: Any, call_type: Any
    ) -> Any:
        """Go on."""
        del user_api_key_dict, cache, call_type
        return data

    async def async_post_call_success_hook(
        self, data: Any, user_api_key_dict: Any, response: Any
    ) -> Any:
        """Go on."""
        del data, user_api_key_dict
        return response

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: Any
    ) -> Any:
        """Go on."""
        del user_api_key_dict, request_data
        async for chunk in response:
            yield chunk


class TimedLiteLLM:
    """LiteLLM's own functions, which answer by `mock_response`, and how long they took."""

    spent = 0.0

    def completion(self, **given: Any) -> Any:
        """Return an answer, or a stream."""
        began = time.thread_time()
        answer = litellm.completion(**given)
        self.spent += time.thread_time() - began
        return TimedPieces(answer, self) if given.get("stream") else answer

    async def acompletion(self, **given: Any) -> Any:
        """Return an answer, or a stream."""
        began = time.thread_time()
        answer = await litellm.acompletion(**given)
        self.spent += time.thread_time() - began
        return TimedPieces(answer, self) if given.get("stream") else answer

    responses = litellm.responses
    aresponses = litellm.aresponses


class TimedPieces:
    """A stream of LiteLLM's, and how long it took."""

    def __init__(self, inner: Any, by: TimedLiteLLM) -> None:
        self._inner = inner
        self._by = by

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        began = time.thread_time()
        try:
            return next(self._inner)
        finally:
            self._by.spent += time.thread_time() - began

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        began = time.thread_time()
        try:
            return await anext(self._inner)
        finally:
            self._by.spent += time.thread_time() - began

    def close(self) -> None:
        """Do nothing."""

    async def aclose(self) -> None:
        """Do nothing."""


class Work(NamedTuple):
    """Work with demur in it; `pieces` is by how much it is divided.

    `framework` says how long LiteLLM itself took for it, or does the same without demur.
    """

    name: str
    with_demur: Callable[[], Awaitable[Any]]
    framework: TimedLiteLLM | Callable[[], Awaitable[Any]]
    pieces: int = 1


def chunks() -> list[ModelResponseStream]:
    """Return the chunks of an answer, the last of which ends it."""
    made = [{"index": 0, "delta": {"content": "Nothing. "}} for _ in range(PIECES - 1)]
    ended: list[Any] = [*made, {"index": 0, "delta": {}, "finish_reason": "stop"}]
    return [ModelResponseStream(choices=[one]) for one in ended]


def hooks(by: TimedEnforcer) -> Iterator[Work]:
    """Yield the hooks of a guardrail, as a proxy calls them."""
    held, idle = LiteLLMGuard(by), Idle(guardrail_name="idle")
    message = {"role": "assistant", "content": TEXT}
    answer = ModelResponse(choices=[{"index": 0, "finish_reason": "stop", "message": message}])
    said = chunks()

    def before(guardrail: Any) -> Any:
        data = {**ASKED, "metadata": {}}
        return guardrail.async_pre_call_hook(None, None, data, "acompletion")

    def after(guardrail: Any) -> Any:
        data = {**ASKED, "metadata": {}}
        return guardrail.async_post_call_success_hook(data, None, answer)

    async def through(guardrail: Any) -> None:
        async def stream() -> AsyncIterator[Any]:
            for one in said:
                yield one

        data = {**ASKED, "metadata": {}}
        async for _ in guardrail.async_post_call_streaming_iterator_hook(None, stream(), data):
            """All of it."""

    yield Work("pre-call hook", lambda: before(held), lambda: before(idle))
    yield Work("post-call hook", lambda: after(held), lambda: after(idle))
    yield Work("stream hook, a chunk", lambda: through(held), lambda: through(idle), PIECES)


def functions(by: TimedEnforcer) -> Iterator[Work]:
    """Yield the guarded functions, around LiteLLM's own."""
    client = TimedLiteLLM()
    held = guard_litellm(by, client)

    async def waited() -> None:
        held.completion(**MOCKED)

    async def listened() -> None:
        for _ in held.completion(**STREAMED):
            """All of it."""

    async def alistened() -> None:
        async for _ in await held.acompletion(**STREAMED):
            """All of it."""

    # A mocked answer comes in pieces of three characters.
    pieces = -(-len(TEXT) // 3) + 1
    yield Work("completion", waited, client)
    yield Work("acompletion", lambda: held.acompletion(**MOCKED), client)
    yield Work("completion, a chunk", listened, client, pieces)
    yield Work("acompletion, a chunk", alistened, client, pieces)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep frameworks from logging."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    """Return how many seconds a call takes."""
    began = time.thread_time()
    await work()
    return time.thread_time() - began


async def sample(work: Work, by: TimedEnforcer) -> tuple[float, float, float]:
    """Return what the framework, the enforcer and the adapter took, in microseconds."""
    framework = work.framework
    if isinstance(framework, TimedLiteLLM):
        framework.spent = by.spent = 0.0
        whole = await timed(work.with_demur)
        alone = framework.spent
    else:
        alone = await timed(framework)
        by.spent = 0.0
        whole = await timed(work.with_demur)
    taken = (alone, by.spent, whole - alone - by.spent)
    first, second, third = (one / work.pieces * 1e6 for one in taken)
    return first, second, third


async def measure(work: Work, by: TimedEnforcer) -> str:
    """Return the row of one kind of work."""
    calls = CALLS if work.pieces == 1 else STREAMS
    await sample(work, by)
    samples = [await sample(work, by) for _ in range(calls)]
    figures = [statistics.median(column) for column in zip(*samples, strict=True)]
    met = "yes" if figures[-1] <= AIM else "NO"
    return f"{work.name:<22}" + "".join(f"{figure:>12.0f}" for figure in figures) + f"{met:>12}"


async def print_all() -> None:
    """Print what each hook and function adds."""
    by = TimedEnforcer(Gate(parse_policy(POLICY)), pipeline=GuardPipeline([]), detect_prose=False)
    for work in (*hooks(by), *functions(by)):
        print(await measure(work, by), flush=True)


def main() -> None:
    """Print the table."""
    print(f"microseconds a call, or a chunk of a stream, medians; the aim is {AIM} at most")
    heads = ("framework", "enforcer", "adapter", "met?")
    print(" " * 22 + "".join(f"{head:>12}" for head in heads))
    with quiet():
        asyncio.run(print_all())


if __name__ == "__main__":
    main()
