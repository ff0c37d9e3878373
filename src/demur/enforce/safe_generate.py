"""One guarded call of a model: input guards, rate limit, decision, model, output guards, decision.

Nothing that a guard or the model does is raised: a guard that fails refuses, and a model that fails
is reported as such. A refusal comes with words to say instead. `safe_stream` releases text once no
guard can object to it any more. It holds the whole answer where pieces cannot be judged: an output
guard that needs the whole answer or has a timeout, rules that only warn of what obliges, or a gate
whose policy may differ from the guard. An answer longer than the output guard accepts ends there.
"""

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import aclosing, closing
from functools import cache
from typing import Any, Protocol, cast

from demur.codes.vocabulary import Surface
from demur.enforce.checks import RunGate, RunGuards, Steps, adrive, drive
from demur.enforce.context import ANONYMOUS, GenerationSession
from demur.enforce.result import GuardedAnswer
from demur.enforce.streams import max_answer_length, stream_config_for
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.monitor import Monitor
from demur.gate.pipeline import GuardPipeline, standard_pipeline
from demur.guards.output import OutputText
from demur.guards.output_stream import StreamConfig, guard_stream, guard_stream_async


def input_steps(session: GenerationSession) -> Steps[GuardedAnswer | None]:
    """Return the answer to give without calling the model, or None if it may be called."""
    session.add_findings((yield RunGuards(Surface.INPUT, session.event)))
    # Count refused prompts too, to slow down repeated attempts.
    session.add_findings((yield RunGuards(Surface.RATE, session.rate_request)))
    if session.gate is not None:
        asked = session.build_request("input")
        session.set_record((yield RunGate(asked, session.findings, tenant=session.tenant)))
    return None if session.result.allowed else session.finish_answer("")


def output_steps(session: GenerationSession, text: str) -> Steps[GuardedAnswer]:
    """Return the model's answer, or the text to show instead."""
    found = session.add_findings(
        (yield RunGuards(Surface.OUTPUT, OutputText(text, session.prompt)))
    )
    if session.gate is not None and found:
        asked = session.build_request("output")
        session.set_record((yield RunGate(asked, session.findings, tenant=session.tenant)))
    return session.finish_answer(text)


class HasGenerate(Protocol):
    """A model as an object."""

    def generate(self, prompt: str, /) -> Any:
        """Return the answer to a prompt."""


# A function of the prompt, or an object with such a method `generate`.
Model = Callable[[str], Any] | HasGenerate


class NoTextError(Exception):
    """The model returned something that is no text."""


class AsyncModelError(InputTypeError):
    """The model is async and was called by a sync function."""


def check_model(model: object) -> None:
    """Check that `model` can be called.

    Raises:
        InputTypeError: It is no model.
    """
    if not callable(model) and not callable(getattr(model, "generate", None)):
        raise InputTypeError.wrong_type("a model", "a function, or have a method `generate`", model)


def call_model(model: Model, prompt: str) -> str | Generator[str, None, None]:
    """Return the model's answer: a text, or an iterator of its pieces.

    Raises:
        AsyncModelError: The model is async.
        NoTextError: It is neither.
    """
    said = _model_function(model)(prompt)
    if inspect.isawaitable(said) or isinstance(said, AsyncIterable):
        if inspect.iscoroutine(said):
            said.close()
        raise AsyncModelError("the model is async", help="use `asafe_generate` or `asafe_stream`")
    return _text_or_pieces(said)


async def acall_model(model: Model, prompt: str) -> str | AsyncGenerator[str, None]:
    """Return the model's answer: a text, or an iterator of its pieces.

    Raises:
        NoTextError: It is neither.
    """
    said = _model_function(model)(prompt)
    if inspect.isawaitable(said):
        said = await said
    if isinstance(said, AsyncIterable):
        return _aiterate_texts(said)
    answer = _text_or_pieces(said)
    return answer if isinstance(answer, str) else _aiterate_sync(answer)


def _model_function(model: Model) -> Callable[[str], Any]:
    generate = getattr(model, "generate", None)
    return cast("Callable[[str], Any]", generate if callable(generate) else model)


def _text_or_pieces(answer: Any) -> str | Generator[str, None, None]:
    if isinstance(answer, str):
        return answer
    if not isinstance(answer, Iterable) or isinstance(answer, bytes | dict):
        raise NoTextError(type(answer).__name__)
    return _iterate_texts(answer)


def _iterate_texts(pieces: Iterable[Any]) -> Generator[str, None, None]:
    try:
        for part in pieces:
            yield _require_text(part)
    finally:
        # Close the source, so that the model stops when the consumer does.
        if hasattr(pieces, "close"):
            pieces.close()


async def _aiterate_texts(pieces: AsyncIterable[Any]) -> AsyncGenerator[str, None]:
    try:
        async for part in pieces:
            yield _require_text(part)
    finally:
        if hasattr(pieces, "aclose"):
            await pieces.aclose()


async def _aiterate_sync(pieces: Generator[str, None, None]) -> AsyncGenerator[str, None]:
    with closing(pieces):
        for part in pieces:
            yield part


def _require_text(part: Any) -> str:
    if not isinstance(part, str):
        raise NoTextError(type(part).__name__)
    return part


class SafeStream:
    """The pieces of an answer that may be shown, or the text to show instead, with all findings.

    `answer` is available once all pieces were read. An answer that is stopped midway ends with
    the text to show instead.
    """

    def __init__(self, session: GenerationSession, model: Model) -> None:
        self._session = session
        self._model = model
        self._pieces = self._run_call()
        self._generated: GuardedAnswer | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    def close(self) -> None:
        """Abandon the answer; no more text is released."""
        self._pieces.close()

    @property
    def answer(self) -> GuardedAnswer:
        """The result of the call.

        Raises:
            InputError: Not all pieces were read.
        """
        return _require_answer(self._generated)

    def _run_call(self) -> Generator[str, None, None]:
        session = self._session
        self._generated = drive(input_steps(session), session)
        if self._generated is None:
            yield from self._stream_answer()
        else:
            yield self._generated.text

    def _stream_answer(self) -> Iterator[str]:
        session, seen = self._session, list[str]()
        config, limit = _stream_limits(session)
        shown = False
        try:
            said = call_model(self._model, session.prompt)
            if isinstance(said, str):
                seen.append(said)
            else:
                with closing(said):
                    pieces = _keep_pieces(said, seen, limit)
                    for piece in _filter_pieces(pieces, config, session.prompt):
                        shown = True
                        yield piece
        except AsyncModelError:
            raise
        except _ModelError as error:
            self._generated = session.finish_failure(error.error)
        except Exception as error:  # noqa: BLE001 - on any error, no more text is released
            guarding = config is not None and seen
            self._generated = session.finish_failure(
                error, "the output guard" if guarding else "the model"
            )
        else:
            self._generated = drive(output_steps(session, "".join(seen)), session)
        yield from _final_pieces(self._generated, shown=shown)


class AsyncSafeStream:
    """The pieces of an answer that may be shown, like `SafeStream`, to be awaited."""

    def __init__(self, session: GenerationSession, model: Model) -> None:
        self._session = session
        self._model = model
        self._pieces = self._run_call()
        self._generated: GuardedAnswer | None = None

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """Abandon the answer; no more text is released."""
        await self._pieces.aclose()

    @property
    def answer(self) -> GuardedAnswer:
        """The result of the call.

        Raises:
            InputError: Not all pieces were read.
        """
        return _require_answer(self._generated)

    async def _run_call(self) -> AsyncGenerator[str, None]:
        session = self._session
        self._generated = await adrive(input_steps(session), session)
        if self._generated is None:
            async with aclosing(self._stream_answer()) as pieces:
                async for piece in pieces:
                    yield piece
        else:
            yield self._generated.text

    async def _stream_answer(self) -> AsyncGenerator[str, None]:
        session, seen = self._session, list[str]()
        config, limit = _stream_limits(session)
        shown = False
        try:
            said = await acall_model(self._model, session.prompt)
            if isinstance(said, str):
                seen.append(said)
            else:
                pieces = _afilter_pieces(_akeep_pieces(said, seen, limit), config, session.prompt)
                async with aclosing(said), aclosing(pieces):
                    async for piece in pieces:
                        shown = True
                        yield piece
        except _ModelError as error:
            self._generated = session.finish_failure(error.error)
        except Exception as error:  # noqa: BLE001 - on any error, no more text is released
            guarding = config is not None and seen
            self._generated = session.finish_failure(
                error, "the output guard" if guarding else "the model"
            )
        else:
            self._generated = await adrive(output_steps(session, "".join(seen)), session)
        for piece in _final_pieces(self._generated, shown=shown):
            yield piece


def _stream_limits(session: GenerationSession) -> tuple[StreamConfig | None, float]:
    return stream_config_for(session.pipeline, session.gate, session.registry), max_answer_length(
        session.pipeline, session.gate
    )


class _ModelError(Exception):
    """Wraps an error of the model, to distinguish it from an error of the guard."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _filter_pieces(
    pieces: Iterator[str], config: StreamConfig | None, prompt: str
) -> Iterator[str]:
    """Yield the text that may be shown while the answer is written; none if it is held."""
    if config is not None:
        yield from guard_stream(pieces, config, prompt=prompt)
        return
    for _ in pieces:
        """The piece is kept, and checked at the end."""


async def _afilter_pieces(
    pieces: AsyncIterator[str], config: StreamConfig | None, prompt: str
) -> AsyncGenerator[str, None]:
    if config is not None:
        async for piece in guard_stream_async(pieces, config, prompt=prompt):
            yield piece
        return
    async for _ in pieces:
        """The piece is kept, and checked at the end."""


def _keep_pieces(pieces: Iterator[str], kept: list[str], max_length: float) -> Iterator[str]:
    """Yield the pieces and keep them; stop after the one that makes the answer too long."""
    left = max_length
    try:
        for piece in pieces:
            kept.append(piece)
            left -= len(piece)
            if left < 0:
                return
            yield piece
    except Exception as error:
        raise _ModelError(error) from error


async def _akeep_pieces(
    pieces: AsyncIterator[str], kept: list[str], max_length: float
) -> AsyncIterator[str]:
    left = max_length
    try:
        async for piece in pieces:
            kept.append(piece)
            left -= len(piece)
            if left < 0:
                return
            yield piece
    except Exception as error:
        raise _ModelError(error) from error


def _final_pieces(answer: GuardedAnswer, *, shown: bool) -> Iterator[str]:
    """Yield the text that is still to be shown at the end."""
    if not shown:
        yield answer.text
    elif answer.blocked or answer.error is not None:
        yield f"\n\n{answer.text}"


def _require_answer(answer: GuardedAnswer | None) -> GuardedAnswer:
    if answer is None:
        raise InputError("the answer is not finished", help="read all of its pieces first")
    return answer


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
