"""Call a model that returns a text or an iterable of pieces, sync or async."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable
from contextlib import closing
from typing import Any, Protocol, cast

from demur.errors import InputTypeError

__all__ = [
    "HasGenerate",
    "Model",
    "AsyncModelError",
    "NotTextError",
    "acall_model",
    "call_model",
    "check_model",
]


class HasGenerate(Protocol):
    """A model as an object."""

    def generate(self, prompt: str, /) -> Any:
        """Return the answer to a prompt."""


# A function of the prompt, or an object with such a method `generate`.
Model = Callable[[str], Any] | HasGenerate


class NotTextError(Exception):
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
        NotTextError: It is neither.
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
        NotTextError: It is neither.
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
        raise NotTextError(type(answer).__name__)
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
        raise NotTextError(type(part).__name__)
    return part
