"""Call a model that returns a text or an iterable of pieces, sync or async."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable
from contextlib import closing
from typing import Any, Protocol, cast

from demur.errors import InputTypeError

__all__ = [
    "HasGenerate",
    "Model",
    "MustBeAwaitedError",
    "NoTextError",
    "aask",
    "ask",
    "check_model",
]


class HasGenerate(Protocol):
    """A model as an object."""

    def generate(self, prompt: str, /) -> Any:
        """Return the answer to a prompt."""


# A function of the prompt, or an object with such a method `generate`.
Model = Callable[[str], Any] | HasGenerate


class NoTextError(Exception):
    """The model returned something that is no text."""


class MustBeAwaitedError(InputTypeError):
    """The model is async and was called by a sync function."""


def check_model(model: object) -> None:
    """Check that `model` can be called.

    Raises:
        InputTypeError: It is no model.
    """
    if not callable(model) and not callable(getattr(model, "generate", None)):
        raise InputTypeError.expected("a model", "a function, or have a method `generate`", model)


def ask(model: Model, prompt: str) -> str | Generator[str, None, None]:
    """Return the model's answer: a text, or an iterator of its pieces.

    Raises:
        AsyncModelError: The model is async.
        NotTextError: It is neither.
    """
    said = _function(model)(prompt)
    if inspect.isawaitable(said) or isinstance(said, AsyncIterable):
        if inspect.iscoroutine(said):
            said.close()
        raise MustBeAwaitedError(
            "the model is async", help="use `asafe_generate` or `asafe_stream`"
        )
    return _text_or_pieces(said)


async def aask(model: Model, prompt: str) -> str | AsyncGenerator[str, None]:
    """Return the model's answer: a text, or an iterator of its pieces.

    Raises:
        NotTextError: It is neither.
    """
    said = _function(model)(prompt)
    if inspect.isawaitable(said):
        said = await said
    if isinstance(said, AsyncIterable):
        return _awaited(said)
    answer = _text_or_pieces(said)
    return answer if isinstance(answer, str) else _offered(answer)


def _function(model: Model) -> Callable[[str], Any]:
    generate = getattr(model, "generate", None)
    return cast("Callable[[str], Any]", generate if callable(generate) else model)


def _text_or_pieces(said: Any) -> str | Generator[str, None, None]:
    if isinstance(said, str):
        return said
    if not isinstance(said, Iterable) or isinstance(said, bytes | dict):
        raise NoTextError(type(said).__name__)
    return _checked(said)


def _checked(said: Iterable[Any]) -> Generator[str, None, None]:
    try:
        for part in said:
            yield _text(part)
    finally:
        # Close the source, so that the model stops when the consumer does.
        if hasattr(said, "close"):
            said.close()


async def _awaited(said: AsyncIterable[Any]) -> AsyncGenerator[str, None]:
    try:
        async for part in said:
            yield _text(part)
    finally:
        if hasattr(said, "aclose"):
            await said.aclose()


async def _offered(answer: Generator[str, None, None]) -> AsyncGenerator[str, None]:
    with closing(answer):
        for part in answer:
            yield part


def _text(part: Any) -> str:
    if not isinstance(part, str):
        raise NoTextError(type(part).__name__)
    return part
