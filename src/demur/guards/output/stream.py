"""Guard an answer while it is being written: text leaves once nothing in it can be forbidden.

    stream = guard_stream(chunks)
    for text in stream:
        show(text)
    stream.result.refusal  # `REFUSED: CODE: detail`, or None

Held back is what some rule or search could still begin in: as many characters as the widest
rule needs, more while a long token or key goes on, and never without bound. Findings are
those of the whole text, up to where the stream was stopped. If the source fails, what is
held back stays back.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Generator,
    Iterable,
    Iterator,
)
from typing import Any

from demur.errors import InputError
from demur.guards.output.guard import SURFACE
from demur.guards.output.stream_flow import OutputStreamFilter, StreamConfig, StreamResult
from demur.guards.text_rules.plan import get_stream_plan
from demur.guards.text_rules.rules import builtin_rules

__all__ = ["AsyncOutputStream", "OutputStream", "guard_stream", "guard_stream_async"]

_DEFAULT = StreamConfig()


def guard_stream(
    chunks: Iterable[str], config: StreamConfig = _DEFAULT, *, prompt: str | None = None
) -> "OutputStream":
    """Return the chunks as an iterator of text that may be shown, with a `result`.

    Raises:
        InputError: A rule looks at more text than a stream may hold back.
    """
    _check_rule_widths(config)
    return OutputStream(chunks, OutputStreamFilter(config, prompt))


def guard_stream_async(
    chunks: AsyncIterable[str], config: StreamConfig = _DEFAULT, *, prompt: str | None = None
) -> "AsyncOutputStream":
    """Return the chunks as an asynchronous iterator of text that may be shown, with a `result`.

    Raises:
        InputError: A rule looks at more text than a stream may hold back.
    """
    _check_rule_widths(config)
    return AsyncOutputStream(chunks, OutputStreamFilter(config, prompt))


def _check_rule_widths(config: StreamConfig) -> None:
    rules = builtin_rules(SURFACE) if config.output.rules is None else config.output.rules
    for plan in get_stream_plan(rules).plans:
        if plan.settled > config.widest:
            raise InputError(
                f"rule `{plan.rule.id}` looks at {plan.settled} characters of text, "
                f"more than the {config.widest} that a stream holds back",
                where=plan.rule.where or None,
                help="narrow its gaps, `within` or `unless`, or raise `widest`",
            )


class OutputStream:
    """Iterates over the text that may be shown; `result` holds the findings."""

    def __init__(self, chunks: Iterable[str], stream_filter: OutputStreamFilter) -> None:
        self._source = iter(chunks)
        self._filter = stream_filter
        self._pieces = self._iter_pieces()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    @property
    def result(self) -> StreamResult:
        """What was found so far, and whether the stream was stopped."""
        return self._filter.result

    def close(self) -> None:
        """Close the stream and its source; no more text is released."""
        self._pieces.close()
        _close_source(self._source)

    def _iter_pieces(self) -> Generator[str, None, None]:
        for chunk in self._source:
            yield from self._filter.feed(chunk)
            if self._filter.is_stopped:
                _close_source(self._source)
                break
        else:
            yield from self._filter.finish()
        self._filter.raise_if_blocked()


class AsyncOutputStream:
    """Iterates over the text that may be shown; `result` holds the findings."""

    def __init__(self, chunks: AsyncIterable[str], stream_filter: OutputStreamFilter) -> None:
        self._source = aiter(chunks)
        self._filter = stream_filter
        self._pieces = self._iter_pieces()

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        return await anext(self._pieces)

    @property
    def result(self) -> StreamResult:
        """What was found so far, and whether the stream was stopped."""
        return self._filter.result

    async def aclose(self) -> None:
        """Close the stream and its source; no more text is released."""
        await self._pieces.aclose()
        await _aclose_source(self._source)

    async def _iter_pieces(self) -> AsyncGenerator[str, None]:
        async for chunk in self._source:
            for piece in self._filter.feed(chunk):
                yield piece
            if self._filter.is_stopped:
                await _aclose_source(self._source)
                break
        else:
            for piece in self._filter.finish():
                yield piece
        self._filter.raise_if_blocked()


def _close_source(source: Any) -> None:
    if hasattr(source, "close"):
        source.close()


async def _aclose_source(source: Any) -> None:
    if hasattr(source, "aclose"):
        await source.aclose()
