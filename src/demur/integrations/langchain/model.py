"""Chat models of LangChain without an agent: `guard_langchain_model(model, enforcer)`.

demur checks each request before it is sent, and each answer before the caller or a callback gets
it, streams included. Tool calls are checked where they run. The guarded model has a subclass of
its class, so that chains, bound tools and structured output use it like any other.
"""
# ruff: noqa: SLF001 - LangChain's models are extended by overriding private methods

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, Unpack

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import LC_ID_PREFIX, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables.config import ensure_config

from demur.enforce.context import Steps, adrive, drive
from demur.enforce.enforcer import Enforcer
from demur.errors import InputTypeError
from demur.gate.gate import Gate
from demur.integrations._kit import AdapterOptions, ContextSource, check_context, resolve_context
from demur.integrations._kit.client_proxy import call_model
from demur.integrations._kit.model_api import (
    ModelClientSettings,
    OutgoingRequest,
    RefusalMode,
    build_settings,
)
from demur.integrations.langchain.context import FRAMEWORK
from demur.integrations.langchain.model_format import (
    LangChainFormat,
    list_entries,
    list_marks,
    mark_declined_answers,
    read_messages,
)
from demur.integrations.langchain.streaming import is_cached

_Model = TypeVar("_Model", bound=BaseChatModel)
# The config of the current call, because LangChain passes none to the methods of a model.
_call_config: ContextVar[Any] = ContextVar("demur_model_config", default=None)
# The state of a pydantic model.
_STATE = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
_END: Any = object()
# A mixin: fields of a base class would replace those of the guarded one.
_Base: Any = BaseChatModel if TYPE_CHECKING else object


def guard_langchain_model(
    model: _Model,
    enforcer: Enforcer | Gate,
    *,
    context: ContextSource | None = None,
    on_refusal: RefusalMode = "raise",
    recheck_history: bool = False,
    **options: Unpack[AdapterOptions],
) -> _Model:
    """Return a guarded copy of a chat model; the model itself stays as it is.

    A refusal raises `Refused`; with `on_refusal="answer"`, it is an `AIMessage` with words.
    `context` is the call context, or a function of the `RunnableConfig` of a call. With
    `recheck_history`, demur checks all messages of a request, not only the new ones. The other
    options are those of all adapters.

    Raises:
        InputError: An option is invalid, or it is no chat model.
    """
    if not isinstance(model, BaseChatModel):
        raise InputTypeError.wrong_type("model", "a chat model, before anything is bound", model)
    chosen: Any = {"on_refusal": on_refusal, "recheck_history": recheck_history, **options}
    guard = _ModelGuard(
        build_settings(enforcer, FRAMEWORK, is_async=False, **chosen),
        build_settings(enforcer, FRAMEWORK, is_async=True, **chosen),
        check_context(context),
    )
    guarded = model.model_copy()
    object.__setattr__(guarded, "__class__", _make_class(type(model), guard))
    return guarded


class _ModelGuard(NamedTuple):
    """The settings of a guarded model."""

    settings: ModelClientSettings
    async_settings: ModelClientSettings
    context: ContextSource | None

    def call_steps(
        self,
        model: "_GuardedModel",
        request: OutgoingRequest,
        *,
        is_async: bool = False,
    ) -> Steps[Any]:
        """Return the steps of one call."""
        config = _call_config.get() or ensure_config()
        run = config.get("configurable", {}).get("thread_id")
        context = resolve_context(self.context, config, FRAMEWORK, run)
        settings = (self.async_settings if is_async else self.settings)._replace(context=context)
        is_structured = getattr(model, "demur_structured", False)
        if is_structured:
            # A parser cannot parse the words of a refusal.
            settings = settings._replace(on_refusal="raise")
        api_format = LangChainFormat(settings, is_structured=is_structured)
        return call_model(api_format, settings, request)


class _GuardedModel(_Base):
    """A chat model whose requests and answers are checked.

    `demur_kind` is the model's own class. `_alias_model` calls its methods without checks.
    """

    demur_guard: ClassVar[_ModelGuard]
    demur_kind: ClassVar[Any]

    def with_structured_output(self, *args: Any, **kwargs: Any) -> Any:
        """Return the guarded model with structured output, which is shown after its check."""
        model = self.model_copy(update={"disable_streaming": True})
        object.__setattr__(model, "demur_structured", True)
        return super(_GuardedModel, model).with_structured_output(*args, **kwargs)

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 - LangChain's name
        """Return the checked answer."""
        with _use_config(config):
            return super().invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 - LangChain's name
        """Return the checked answer."""
        with _use_config(config):
            return await super().ainvoke(input, config, **kwargs)

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:  # noqa: A002 - LangChain's name
        """Yield the cleared chunks of the answer."""
        chunks = super().stream(input, config, **kwargs)
        # The request is checked before the first chunk.
        with _use_config(config):
            first = next(chunks, _END)
        if first is not _END:
            yield first
            yield from chunks

    async def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: A002 - LangChain's name
        """Yield the cleared chunks of the answer."""
        chunks = super().astream(input, config, **kwargs)
        with _use_config(config):
            first = await anext(chunks, _END)
        if first is not _END:
            yield first
            async for chunk in chunks:
                yield chunk

    def _generate_with_cache(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        if self._streams_answer(run_manager, kwargs, is_async=False):
            return super()._generate_with_cache(messages, stop, run_manager, **kwargs)
        model = self._alias_model()
        request = OutgoingRequest(
            # With a run manager, the model might report unchecked tokens by itself.
            lambda body: model._generate_with_cache(read_messages(body), stop, None, **kwargs),
            self._make_body(messages),
        )
        return _mark_result(drive(self.demur_guard.call_steps(self, request)), run_manager)

    async def _agenerate_with_cache(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        if self._streams_answer(run_manager, kwargs, is_async=True):
            return await super()._agenerate_with_cache(messages, stop, run_manager, **kwargs)
        model = self._alias_model()
        request = OutgoingRequest(
            lambda body: model._agenerate_with_cache(read_messages(body), stop, None, **kwargs),
            self._make_body(messages),
        )
        steps = self.demur_guard.call_steps(self, request, is_async=True)
        return _mark_result(await adrive(steps), run_manager)

    def _streams_answer(
        self, run_manager: Any, settings: Mapping[str, Any], *, is_async: bool
    ) -> bool:
        """Return whether the guarded `_stream` will produce the answer."""
        asked: Any = {"async_api": is_async, "run_manager": run_manager, **settings}
        # A cached answer is not streamed, and may not have been checked.
        return not is_cached(self) and (
            self._should_stream(**asked) or self._should_use_protocol_streaming(**asked)
        )

    def _alias_model(self) -> Any:
        """Return the model as an instance of its own class, with the same state."""
        model = object.__new__(self.demur_kind)
        for name in _STATE:
            object.__setattr__(model, name, getattr(self, name))
        return model

    def _make_body(self, messages: Sequence[BaseMessage]) -> dict[str, Any]:
        name = getattr(self, "model_name", None) or getattr(self, "model", None)
        return {"messages": list_entries(messages), "model": str(name or type(self).__name__)}


class _GuardedStream(_Base):
    """The filtered stream of a model that has one."""

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        del run_manager  # as in `_generate_with_cache`
        model = self._alias_model()
        request = OutgoingRequest(
            lambda body: model._stream(read_messages(body), stop=stop, **kwargs),
            self._make_body(messages),
            wants_stream=True,
        )
        stream = drive(self.demur_guard.call_steps(self, request))
        yield from stream
        yield from list_marks(stream)


class _GuardedAsyncStream(_Base):
    """The filtered async stream of a model that has one."""

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        del run_manager
        model = self._alias_model()
        request = OutgoingRequest(
            lambda body: model._astream(read_messages(body), stop=stop, **kwargs),
            self._make_body(messages),
            wants_stream=True,
        )
        steps = self.demur_guard.call_steps(self, request, is_async=True)
        stream = await adrive(steps)
        async for chunk in stream:
            yield chunk
        for mark in list_marks(stream):
            yield mark


def _make_class(kind: Any, guard: _ModelGuard) -> Any:
    """Return a subclass of a model's class whose calls are guarded."""
    mixins: list[Any] = [_GuardedModel]
    mixins += [_GuardedStream] if kind._stream is not BaseChatModel._stream else []
    mixins += [_GuardedAsyncStream] if kind._astream is not BaseChatModel._astream else []
    bases = (*(one for one in mixins if not issubclass(kind, one)), kind)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    made = type(kind)(kind.__name__, bases, names)
    made.demur_guard, made.demur_kind = guard, kind
    for name in ("_stream_chat_model_events", "_astream_chat_model_events"):
        if getattr(kind, name, None) is not None:
            # The model's own events would bypass `_stream`.
            setattr(made, name, None)
    return made


@contextmanager
def _use_config(config: Any) -> Iterator[None]:
    token = _call_config.set(ensure_config(config))
    try:
        yield
    finally:
        _call_config.reset(token)


def _mark_result(result: ChatResult, run_manager: Any) -> ChatResult:
    """Return the result with ids, and with marks on answers in which the model refused."""
    for place, generation in enumerate(mark_declined_answers(result).generations):
        if run_manager is not None and generation.message.id is None:
            # As LangChain derives it from a run.
            generation.message.id = f"{LC_ID_PREFIX}-{run_manager.run_id}-{place}"
    return result
