"""One call around a model: input, rate, model, output, in this order.

Nothing that a guard or the model does is raised: a guard that fails refuses, and a model that
fails is reported as such. A refusal comes with a text to show instead.
"""

from collections.abc import Coroutine, Mapping
from functools import cache
from typing import Any

from demur.enforce.generated import GuardedAnswer
from demur.enforce.model_call import Model, check_model
from demur.enforce.safe_stream import AsyncSafeStream, SafeStream
from demur.enforce.session import ANONYMOUS, GenerationSession
from demur.gate.activation import Monitor
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardPipeline
from demur.gate.standard import standard_pipeline

__all__ = ["asafe_generate", "asafe_stream", "safe_generate", "safe_stream"]


def safe_generate(
    prompt: str,
    model: Model,
    *,
    gate: Gate | None = None,
    pipeline: GuardPipeline | None = None,
    monitor: Monitor | None = None,
    key: str = ANONYMOUS,
    cost: int = 1,
    request: Mapping[str, Any] | None = None,
    tenant: str | None = None,
    locale: str | None = None,
) -> GuardedAnswer:
    """Return the model's answer to a prompt, or a text to show instead, with all findings.

    `model` is a function of the prompt, or has a method `generate`; it returns a text or an
    iterable of pieces. Without a pipeline, the built-in and installed guards of input and output
    run. With a gate, policy decides on the findings: before the model is called and, if a guard
    finds something in the answer, again after it. The request is `request`, or an action of type
    `generate`. `key` and `cost` are for rate limits; `locale` chooses crisis help lines.

    Raises:
        InputError: The request cannot be used.
        InputTypeError: The prompt is no text, or the model cannot be called or is async.
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
        """The pieces are part of the final answer, too."""
    return stream.answer


def asafe_generate(
    prompt: str, model: Model, **settings: Any
) -> Coroutine[Any, Any, GuardedAnswer]:
    """Return the model's answer or a text to show instead, like `safe_generate`, to be awaited.

    It takes the same settings. The model may also be a coroutine function or return an async
    iterable of pieces.

    Raises:
        InputTypeError: The prompt is no text, or the model cannot be called.
    """
    return _drain_stream(asafe_stream(prompt, model, **settings))


async def _drain_stream(stream: AsyncSafeStream) -> GuardedAnswer:
    async for _ in stream:
        """The pieces are part of the final answer, too."""
    return stream.answer


def safe_stream(
    prompt: str,
    model: Model,
    *,
    gate: Gate | None = None,
    pipeline: GuardPipeline | None = None,
    monitor: Monitor | None = None,
    key: str = ANONYMOUS,
    cost: int = 1,
    request: Mapping[str, Any] | None = None,
    tenant: str | None = None,
    locale: str | None = None,
) -> SafeStream:
    """Return the answer as an iterator of pieces that may be shown; settings as `safe_generate`.

    Raises:
        InputTypeError: The prompt is no text, or the model cannot be called.
    """
    session = _open_session(
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
    """Return the answer as an async iterator of pieces that may be shown.

    Raises:
        InputTypeError: The prompt is no text, or the model cannot be called.
    """
    return AsyncSafeStream(_open_session(prompt, model, **settings), model)


def _open_session(
    prompt: str,
    model: Model,
    *,
    pipeline: GuardPipeline | None = None,
    **settings: Any,
) -> GenerationSession:
    check_model(model)
    chosen = _model_guards() if pipeline is None else pipeline
    return GenerationSession(prompt, pipeline=chosen, **settings)


@cache
def _model_guards() -> GuardPipeline:
    return standard_pipeline()
