"""Stream a model's answer: text is released once no guard can object to it any more.

Where text cannot be checked piece by piece, it is held until the end: if an output guard needs
the whole answer or has a timeout, if rules only warn of what obliges, or if the gate's policy may
differ from the guard.

An answer that grows longer than the output guard accepts ends there: nothing more is read from
the model, and the guard refuses it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing

from demur.enforce.generated import GuardedAnswer
from demur.enforce.generation import output_steps, input_steps
from demur.enforce.live import stream_config_for, max_answer_length
from demur.enforce.model_call import Model, AsyncModelError, acall_model, call_model
from demur.enforce.session import GenerationSession
from demur.enforce.steps import adrive, drive
from demur.errors import InputError
from demur.guards.output.stream import guard_stream, guard_stream_async
from demur.guards.output.stream_flow import StreamConfig

__all__ = ["AsyncSafeStream", "SafeStream"]


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
