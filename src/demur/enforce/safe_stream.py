"""Stream a model's answer: text is released once no guard can object to it any more.

Where text cannot be checked piece by piece, it is held until the end: if an output guard needs
the whole answer or has a timeout, if rules only warn of what obliges, or if the gate's policy may
differ from the guard.

An answer that grows longer than the output guard accepts ends there: nothing more is read from
the model, and the guard refuses it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing

from demur.enforce.generated import Generated
from demur.enforce.generation import after, before
from demur.enforce.live import live, longest
from demur.enforce.model_call import Model, MustBeAwaitedError, aask, ask
from demur.enforce.session import Session
from demur.enforce.steps import atake, take
from demur.errors import InputError
from demur.guards.output.stream import guard_stream, guard_stream_async
from demur.guards.output.stream_flow import StreamConfig

__all__ = ["AsyncSafeStream", "SafeStream"]


class SafeStream:
    """The pieces of an answer that may be shown, or the text to show instead, with all findings.

    `answer` is available once all pieces were read. An answer that is stopped midway ends with
    the text to show instead.
    """

    def __init__(self, session: Session, model: Model) -> None:
        self._session = session
        self._model = model
        self._pieces = self._run()
        self._generated: Generated | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    def close(self) -> None:
        """Abandon the answer; no more text is released."""
        self._pieces.close()

    @property
    def generated(self) -> Generated:
        """The result of the call.

        Raises:
            InputError: Not all pieces were read.
        """
        return _ended(self._generated)

    def _run(self) -> Generator[str, None, None]:
        session = self._session
        self._generated = take(before(session), session)
        if self._generated is None:
            yield from self._answer()
        else:
            yield self._generated.text

    def _answer(self) -> Iterator[str]:
        session, seen = self._session, list[str]()
        config, limit = _shape(session)
        shown = False
        try:
            said = ask(self._model, session.prompt)
            if isinstance(said, str):
                seen.append(said)
            else:
                with closing(said):
                    pieces = _kept(said, seen, limit)
                    for piece in _shown(pieces, config, session.prompt):
                        shown = True
                        yield piece
        except MustBeAwaitedError:
            raise
        except _ModelError as error:
            self._generated = session.failed(error.error)
        except Exception as error:  # noqa: BLE001 - on any error, no more text is released
            guarding = config is not None and seen
            self._generated = session.failed(error, "the output guard" if guarding else "the model")
        else:
            self._generated = take(after(session, "".join(seen)), session)
        yield from _last(self._generated, shown=shown)


class AsyncSafeStream:
    """The pieces of an answer that may be shown, like `SafeStream`, to be awaited."""

    def __init__(self, session: Session, model: Model) -> None:
        self._session = session
        self._model = model
        self._pieces = self._run()
        self._generated: Generated | None = None

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """Abandon the answer; no more text is released."""
        await self._pieces.aclose()

    @property
    def generated(self) -> Generated:
        """The result of the call.

        Raises:
            InputError: Not all pieces were read.
        """
        return _ended(self._generated)

    async def _run(self) -> AsyncGenerator[str, None]:
        session = self._session
        self._generated = await atake(before(session), session)
        if self._generated is None:
            async with aclosing(self._answer()) as pieces:
                async for piece in pieces:
                    yield piece
        else:
            yield self._generated.text

    async def _answer(self) -> AsyncGenerator[str, None]:
        session, seen = self._session, list[str]()
        config, limit = _shape(session)
        shown = False
        try:
            said = await aask(self._model, session.prompt)
            if isinstance(said, str):
                seen.append(said)
            else:
                pieces = _ashown(_akept(said, seen, limit), config, session.prompt)
                async with aclosing(said), aclosing(pieces):
                    async for piece in pieces:
                        shown = True
                        yield piece
        except _ModelError as error:
            self._generated = session.failed(error.error)
        except Exception as error:  # noqa: BLE001 - on any error, no more text is released
            guarding = config is not None and seen
            self._generated = session.failed(error, "the output guard" if guarding else "the model")
        else:
            self._generated = await atake(after(session, "".join(seen)), session)
        for piece in _last(self._generated, shown=shown):
            yield piece


def _shape(session: Session) -> tuple[StreamConfig | None, float]:
    return live(session.pipeline, session.gate, session.registry), longest(
        session.pipeline, session.gate
    )


class _ModelError(Exception):
    """Wraps an error of the model, to distinguish it from an error of the guard."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _shown(pieces: Iterator[str], config: StreamConfig | None, prompt: str) -> Iterator[str]:
    """Yield the text that may be shown while the answer is written; none if it is held."""
    if config is not None:
        yield from guard_stream(pieces, config, prompt=prompt)
        return
    for _ in pieces:
        """The piece is kept, and checked at the end."""


async def _ashown(
    pieces: AsyncIterator[str], config: StreamConfig | None, prompt: str
) -> AsyncGenerator[str, None]:
    if config is not None:
        async for piece in guard_stream_async(pieces, config, prompt=prompt):
            yield piece
        return
    async for _ in pieces:
        """The piece is kept, and checked at the end."""


def _kept(said: Iterator[str], seen: list[str], longest: float) -> Iterator[str]:
    """Yield the pieces and keep them; stop after the one that makes the answer too long."""
    left = longest
    try:
        for piece in said:
            seen.append(piece)
            left -= len(piece)
            if left < 0:
                return
            yield piece
    except Exception as error:
        raise _ModelError(error) from error


async def _akept(said: AsyncIterator[str], seen: list[str], longest: float) -> AsyncIterator[str]:
    left = longest
    try:
        async for piece in said:
            seen.append(piece)
            left -= len(piece)
            if left < 0:
                return
            yield piece
    except Exception as error:
        raise _ModelError(error) from error


def _last(generated: Generated, *, shown: bool) -> Iterator[str]:
    """Yield the text that is still to be shown at the end."""
    if not shown:
        yield generated.text
    elif generated.blocked or generated.error is not None:
        yield f"\n\n{generated.text}"


def _ended(generated: Generated | None) -> Generated:
    if generated is None:
        raise InputError("the answer is not finished", help="read all of its pieces first")
    return generated
