"""One guarded call of a model: check the prompt, call the model, check its answer.

Nothing that a guard or the model does is raised: a guard that fails refuses, and a model that fails
is reported as such. A refusal comes with a text to show instead. `safe_stream` releases text once
no guard can object to it any more; where text cannot be checked piece by piece, it is held until
the end. An answer longer than the output guard accepts ends there.
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
    Mapping,
)
from contextlib import closing
from functools import cache
from typing import Any, Protocol, Self, TypedDict, Unpack, cast

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.enforce.changes import OnFinding
from demur.enforce.context import ANONYMOUS, GENERATE_ACTION, Call, CallContext, Step
from demur.enforce.enforcer import EnforceMode, Enforcer
from demur.enforce.result import FAILURE_TEXT, CheckResult, GuardedAnswer, append_resources
from demur.errors import InputError, InputTypeError
from demur.gate.gate import Gate
from demur.gate.monitor import Monitor
from demur.gate.pipeline import GuardPipeline, standard_pipeline
from demur.model.finding import Finding

_GENERATE = {"action": {"type": GENERATE_ACTION}}
_model_guards = cache(standard_pipeline)


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


class GenerateOptions(TypedDict, total=False):
    """The settings of a guarded model call.

    Without a pipeline, the built-in and installed guards of input and output run. With a gate,
    policy decides on the findings: before the model is called and, if a guard finds something in
    the answer, again after it. `request` holds the parts of the request; its action is `generate`
    by default. `key` and `cost` are for rate limits; `locale` chooses crisis help lines.
    `on_finding` and `mode` are those of `Enforcer`: the model gets the changed prompt.
    """

    gate: Gate | None
    pipeline: GuardPipeline | None
    monitor: Monitor | None
    key: str
    cost: int
    request: Mapping[str, Any] | None
    tenant: str | None
    locale: str | None
    on_finding: OnFinding | None
    mode: EnforceMode | None


def safe_generate(prompt: str, model: Model, **options: Unpack[GenerateOptions]) -> GuardedAnswer:
    """Return the model's answer to a prompt, or a text to show instead, with all findings.

    `model` is a function of the prompt, or has a method `generate`; it returns a text or an
    iterable of pieces. The options are those of `GenerateOptions`.

    Raises:
        InputError: The request is invalid.
        InputTypeError: The prompt is no text, or the model is not callable or is async.
    """
    stream = safe_stream(prompt, model, **options)
    for _ in stream:
        """The pieces are part of the final answer, too."""
    return stream.answer


def asafe_generate(
    prompt: str, model: Model, **options: Unpack[GenerateOptions]
) -> Coroutine[Any, Any, GuardedAnswer]:
    """Return the model's answer or a text to show instead, like `safe_generate`, to be awaited.

    The model may also be a coroutine function or return an async iterable of pieces.

    Raises:
        InputError: The request is invalid.
        InputTypeError: The prompt is no text, or the model is not callable.
    """
    stream = asafe_stream(prompt, model, **options)

    async def read_all() -> GuardedAnswer:
        async for _ in stream:
            """The pieces are part of the final answer, too."""
        return stream.answer

    return read_all()


def safe_stream(prompt: str, model: Model, **options: Unpack[GenerateOptions]) -> "SafeStream":
    """Return the answer as an iterator of pieces that may be shown; options as `safe_generate`.

    Raises:
        InputError: The request is invalid.
        InputTypeError: The prompt is no text, or the model is not callable.
    """
    return SafeStream(prompt, model, options)


def asafe_stream(
    prompt: str, model: Model, **options: Unpack[GenerateOptions]
) -> "AsyncSafeStream":
    """Return the answer as an async iterator of pieces that may be shown.

    Raises:
        InputError: The request is invalid.
        InputTypeError: The prompt is no text, or the model is not callable.
    """
    return AsyncSafeStream(prompt, model, options)


class _GuardedCall:
    """One guarded call of a model, as a generator of pieces to show and steps to run."""

    def __init__(self, prompt: str, model: Model, options: GenerateOptions) -> None:
        gate, pipeline = options.get("gate"), options.get("pipeline")
        key, cost = options.get("key", ANONYMOUS), options.get("cost", 1)
        tenant, request = options.get("tenant"), options.get("request")
        if not callable(model) and not callable(getattr(model, "generate", None)):
            expected = "a function, or have a method `generate`"
            raise InputTypeError.wrong_type("a model", expected, model)
        if not isinstance(prompt, str):
            raise InputTypeError.wrong_type("a prompt", "a text", prompt)
        if key.__class__ is not str or not key:
            raise InputTypeError.wrong_type("a key", "a name", key)
        if cost.__class__ is not int or cost < 1:
            raise InputError(f"a cost is a whole number from 1 on, not `{cost}`", where="cost")
        self._prompt = prompt
        self._model = model
        self._cost = cost
        self._context = CallContext(key=key)
        self._request = {**_GENERATE, **(request or {})}
        if self._request["action"] is None:
            self._request |= _GENERATE
        self._enforcer = Enforcer(
            gate,
            pipeline=_model_guards() if pipeline is None else pipeline,
            monitor=options.get("monitor"),
            tenant=tenant,
            locale=options.get("locale"),
            on_finding=options.get("on_finding"),
            mode=options.get("mode"),
        )
        if gate is not None and (request or tenant is not None):
            gate.check_request(self._request, tenant=tenant)
        self._answer: GuardedAnswer | None = None
        self._source: Any = None
        self._rest: str | None = None
        self._steps = self._run()

    @property
    def answer(self) -> GuardedAnswer:
        """The result of the call.

        Raises:
            InputError: Not all pieces were read.
        """
        if self._answer is None:
            raise InputError("the answer is not finished", help="read all of its pieces first")
        return self._answer

    def _run(self) -> Generator[Step | str, Any, None]:
        enforcer, context, prompt = self._enforcer, self._context, self._prompt
        request, cost = self._request, self._cost
        steps = enforcer.prompt_steps(prompt, context, cost=cost, request=request)
        checked: CheckResult = yield from steps
        if not checked.allowed:
            self._answer = GuardedAnswer.from_result(checked, checked.user_text)
            yield self._answer.text
            return
        self._prompt = prompt = checked.apply_changes(prompt)
        for attempt in ("output", "output-again"):
            if isinstance(self._request.get("request_id"), str):
                request = {**request, "request_id": f"{self._request['request_id']}/{attempt}"}
            result = yield from self._answer_once(checked, request)
            if result is None or not result.may_reask or attempt != "output":
                break
            self._prompt = f"{prompt}\n\n{result.reask_message}"
        if self._rest is not None:
            yield self._rest

    def _answer_once(
        self, checked: CheckResult, request: Mapping[str, Any]
    ) -> Generator[Step | str, Any, CheckResult | None]:
        """Call the model and check its answer; `_rest` is what is left to show.

        Return the result, or None if the model failed.
        """
        enforcer, context = self._enforcer, self._context
        options: dict[str, Any] = {"prompt": self._prompt, "request": request, "earlier": checked}
        stream, shown = None, False
        self._source = None
        try:
            whole = yield Call(self._call_model, async_function=self._acall_model)
            if not isinstance(whole, str):
                self._source = pieces = whole
                stream = enforcer.stream_answer(context, **options)
                next_piece = Call(lambda: next(pieces, None), (), lambda: anext(pieces, None))
                while not stream.is_stopped and (piece := (yield next_piece)) is not None:
                    if text := stream.feed(piece):
                        shown = True
                        yield text
                yield Call(self._close_source, async_function=self._aclose_source)
        except AsyncModelError:
            raise
        except Exception as error:  # noqa: BLE001 - a model that fails is reported, not raised
            self._answer = _failed_answer(checked, type(error).__name__)
            self._rest = "\n\n" * shown + self._answer.text
            return None
        if stream is None:
            result = yield from enforcer.answer_steps(whole, context, **options)
        else:
            result, whole = (yield from stream.finish_steps()), stream.text
        changed = result.apply_changes(whole)
        text = append_resources(changed, result.resources) if result.allowed else result.user_text
        self._answer = GuardedAnswer.from_result(result, text)
        rest = stream.remaining_text if stream is not None and shown else text
        self._rest = rest if rest or not shown else None
        return result

    def _call_model(self) -> str | Generator[str, None, None]:
        answer = self._function(self._prompt)
        if inspect.isawaitable(answer) or isinstance(answer, AsyncIterable):
            if inspect.iscoroutine(answer):
                answer.close()
            help_text = "use `asafe_generate` or `asafe_stream`"
            raise AsyncModelError("the model is async", help=help_text)
        return _text_or_pieces(answer)

    async def _acall_model(self) -> str | AsyncGenerator[str, None]:
        answer = self._function(self._prompt)
        if inspect.isawaitable(answer):
            answer = await answer
        if not isinstance(answer, AsyncIterable):
            answer = _text_or_pieces(answer)
        return answer if isinstance(answer, str) else _aiterate_texts(answer)

    def _close_source(self) -> None:
        if self._source is not None:
            self._source.close()

    async def _aclose_source(self) -> None:
        if self._source is not None:
            await self._source.aclose()

    @property
    def _function(self) -> Callable[[str], Any]:
        generate = getattr(self._model, "generate", None)
        return cast("Callable[[str], Any]", generate if callable(generate) else self._model)


class SafeStream(_GuardedCall):
    """The pieces of an answer that may be shown, or the text to show instead, with all findings.

    `answer` is available after all pieces. An answer that is stopped midway ends with
    the text to show instead.
    """

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        item = next(self._steps)
        while not isinstance(item, str):
            try:
                value = item.run()
            except Exception as error:  # noqa: BLE001 - the call handles or raises it
                item = self._steps.throw(error)
            else:
                item = self._steps.send(value)
        return item

    def close(self) -> None:
        """Abandon the answer; no more text is released."""
        self._steps.close()
        self._close_source()


class AsyncSafeStream(_GuardedCall):
    """The pieces of an answer that may be shown, like `SafeStream`, to be awaited."""

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        try:
            item = next(self._steps)
            while not isinstance(item, str):
                try:
                    value = await item.arun()
                except Exception as error:  # noqa: BLE001 - the call handles or raises it
                    item = self._steps.throw(error)
                else:
                    item = self._steps.send(value)
        except StopIteration:
            raise StopAsyncIteration from None
        return item

    async def aclose(self) -> None:
        """Abandon the answer; no more text is released."""
        self._steps.close()
        await self._aclose_source()


def _failed_answer(checked: CheckResult, error: str) -> GuardedAnswer:
    """Return the answer if the model failed, which is no refusal."""
    finding = Finding(
        code=ReasonCode.INTERNAL_ERROR,
        surface=Surface.RUNTIME,
        # The message of an error may quote the prompt, so only its type is kept.
        detail=f"the model failed: {error}"[:120],
        evidence={"error": error, "stage": "model"},
    )
    text = append_resources(FAILURE_TEXT, checked.resources)
    return GuardedAnswer.from_result(checked, text)._replace(error=finding)


def _text_or_pieces(answer: Any) -> str | Generator[str, None, None]:
    if isinstance(answer, str):
        return answer
    if not isinstance(answer, Iterable) or isinstance(answer, bytes | dict):
        raise NoTextError(type(answer).__name__)
    return _iterate_texts(answer)


def _iterate_texts(pieces: Iterable[Any]) -> Generator[str, None, None]:
    try:
        for piece in pieces:
            yield _require_text(piece)
    finally:
        # Close the source, so that the model stops when the consumer does.
        if hasattr(pieces, "close"):
            pieces.close()


async def _aiterate_texts(
    pieces: AsyncIterable[Any] | Generator[str, None, None],
) -> AsyncGenerator[str, None]:
    if isinstance(pieces, Generator):
        with closing(pieces):
            for piece in pieces:
                yield piece
        return
    try:
        async for piece in pieces:
            yield _require_text(piece)
    finally:
        if hasattr(pieces, "aclose"):
            await pieces.aclose()


def _require_text(piece: Any) -> str:
    if not isinstance(piece, str):
        raise NoTextError(type(piece).__name__)
    return piece
