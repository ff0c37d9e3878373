"""One call around a model: input, rate, model, output, in this order.

Nothing that a guard or the model does is raised: a guard that fails refuses, and a model that
fails is reported as such. What is refused comes back with words to say instead.
"""

from collections.abc import Coroutine, Mapping
from functools import cache
from typing import Any

from demur.enforce.generated import Generated
from demur.enforce.model_call import Model, check_model
from demur.enforce.safe_stream import AsyncSafeStream, SafeStream
from demur.enforce.session import ANONYMOUS, Session
from demur.gate.activation import Monitor
from demur.gate.gate import Gate
from demur.gate.pipeline import Pipeline
from demur.gate.standard import standard_pipeline

__all__ = ["asafe_generate", "asafe_stream", "safe_generate", "safe_stream"]


def safe_generate(
    prompt: str,
    model: Model,
    *,
    gate: Gate | None = None,
    pipeline: Pipeline | None = None,
    monitor: Monitor | None = None,
    key: str = ANONYMOUS,
    cost: int = 1,
    request: Mapping[str, Any] | None = None,
    tenant: str | None = None,
    locale: str | None = None,
) -> Generated:
    """Return the model's answer to a prompt, or what to say instead, and all that was found.

    `model` is a function of the prompt, or has a method `generate`; it returns a text, or an
    iterable of pieces of one. Without a pipeline it is the built-in guards of input and output
    and those that packages installed. With a gate, policy decides what becomes of findings:
    once before the model is asked and, if something is found in its answer, once after; the
    request is `request`, or an action of type `generate`. `key` and `cost` are for rate limits,
    `locale` chooses help lines for somebody in danger.

    Raises:
        InputError: The request cannot be used.
        InputTypeError: The prompt is no text, or the model is none or has to be awaited.
    """
    stream = safe_stream(
        prompt,
        model,
        gate=gate,
        pipeline=pipeline,
        monitor=monitor,
        key=key,
        cost=cost,
        request=request,
        tenant=tenant,
        locale=locale,
    )
    for _ in stream:
        """What may be shown on the way is in the whole, too."""
    return stream.generated


def asafe_generate(prompt: str, model: Model, **settings: Any) -> Coroutine[Any, Any, Generated]:
    """Return the model's answer or what to say instead, like `safe_generate`, to be awaited.

    It takes the same settings. The model may also be a coroutine function, or return an
    asynchronous iterable of pieces.

    Raises:
        InputTypeError: The prompt is no text, or the model is none.
    """
    return _drained(asafe_stream(prompt, model, **settings))


async def _drained(stream: AsyncSafeStream) -> Generated:
    async for _ in stream:
        """What may be shown on the way is in the whole, too."""
    return stream.generated


def safe_stream(
    prompt: str,
    model: Model,
    *,
    gate: Gate | None = None,
    pipeline: Pipeline | None = None,
    monitor: Monitor | None = None,
    key: str = ANONYMOUS,
    cost: int = 1,
    request: Mapping[str, Any] | None = None,
    tenant: str | None = None,
    locale: str | None = None,
) -> SafeStream:
    """Return the answer as an iterator of pieces that may be shown; settings as `safe_generate`.

    Raises:
        InputTypeError: The prompt is no text, or the model is none.
    """
    session = _session(
        prompt,
        model,
        gate=gate,
        pipeline=pipeline,
        monitor=monitor,
        key=key,
        cost=cost,
        request=request,
        tenant=tenant,
        locale=locale,
    )
    return SafeStream(session, model)


def asafe_stream(prompt: str, model: Model, **settings: Any) -> AsyncSafeStream:
    """Return the answer as an asynchronous iterator of pieces that may be shown.

    Raises:
        InputTypeError: The prompt is no text, or the model is none.
    """
    return AsyncSafeStream(_session(prompt, model, **settings), model)


def _session(
    prompt: str,
    model: Model,
    *,
    pipeline: Pipeline | None = None,
    **settings: Any,
) -> Session:
    check_model(model)
    chosen = _usual() if pipeline is None else pipeline
    return Session(prompt, pipeline=chosen, **settings)


@cache
def _usual() -> Pipeline:
    return standard_pipeline()
