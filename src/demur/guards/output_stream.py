"""Guard an answer while it is being written: text leaves once nothing in it can be forbidden.

    stream = guard_stream(chunks)
    for text in stream:
        show(text)
    stream.result.refusal  # `REFUSED: CODE: detail`, or None

The stream holds back the text in which a match of some rule or search could have begun: at most as
many characters as the widest rule needs, more while a long token or key goes on, and never
without bound. Findings are those of the whole text, up to where the stream was stopped. If the
source fails, held-back text is not released.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from demur.codes.refusal_line import format_refusal
from demur.errors import DemurError, InputError, InputTypeError
from demur.guards.output import SURFACE, OutputConfig, make_scanner
from demur.guards.rule_streaming import get_stream_plan
from demur.guards.text_rules import builtin_rules
from demur.model.finding import Action, Finding

_REPLACEMENT = (
    "I have to stop this answer here: it was about to include something I can't share. "
    "I can go on without that part, or help in another way. Which would you like?"
)
# Streamed text cannot be taken back, so text that a person should review first is held too.
_STOPS = frozenset({Action.BLOCK, Action.ESCALATE})


class OnBlock(StrEnum):
    """How a stream handles a finding that stops it.

    `replace`: end with the replacement text. `end`: end without one. `raise`: raise
    `OutputBlockedError`. `redact`: put the mask in place of the text and go on. `record`: only
    record the finding, for trying rules out.
    """

    REPLACE = "replace"
    END = "end"
    RAISE = "raise"
    REDACT = "redact"
    RECORD = "record"


class OutputBlockedError(DemurError):
    """The guard stopped an answer by `finding`; `refusal` is the refusal line."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"the answer was stopped: {finding.code}: {finding.detail}")
        self.finding = finding
        self.refusal = format_refusal(finding.code, finding.detail)


class StreamConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream is guarded.

    `output`: settings of the output guard. `stops`: the actions that stop text from leaving.
    `on_finding` gets every finding, including warnings. `widest`: how many
    characters the rules may hold back. `changes` are functions by code: what one returns for a
    found text takes its place, and the stream goes on.
    """

    output: OutputConfig = OutputConfig()
    on_block: OnBlock = OnBlock.REPLACE
    stops: frozenset[Action] = _STOPS
    replacement: str = _REPLACEMENT
    mask: str = "[removed]"
    on_finding: Callable[[Finding], None] | None = None
    widest: int = 1_000
    changes: Mapping[str, Callable[[str], str]] = {}


class StreamResult(NamedTuple):
    """The findings of a stream, the one that stopped it, and how many characters left."""

    findings: tuple[Finding, ...]
    blocked: Finding | None
    refusal: str | None
    released: int
    complete: bool


class OutputStreamFilter:
    """Filters one stream of text. Not to be shared between streams."""

    def __init__(self, config: StreamConfig, prompt: str | None) -> None:
        self._config = config
        self._scanner = make_scanner(config.output, prompt=prompt)
        self._findings: list[Finding] = []
        self._blocked: Finding | None = None
        self._held = ""
        self._out = 0
        self._released = 0
        self._ended = False

    @property
    def is_stopped(self) -> bool:
        """Whether a finding stopped the stream."""
        return self._blocked is not None

    @property
    def result(self) -> StreamResult:
        """The result of the stream so far."""
        blocked = self._blocked
        refusal = format_refusal(blocked.code, blocked.detail) if blocked else None
        return StreamResult(tuple(self._findings), blocked, refusal, self._released, self._ended)

    def feed(self, chunk: str) -> Iterator[str]:
        """Yield the text that may leave after this chunk."""
        if not isinstance(chunk, str):
            raise InputTypeError.wrong_type("a chunk", "a text", chunk)
        return self._feed_scanner(chunk, final=False)

    def finish(self) -> Iterator[str]:
        """Yield the remaining text that may leave after the last chunk."""
        yield from self._feed_scanner("", final=True)
        self._ended = not self.is_stopped

    def raise_if_blocked(self) -> None:
        """Raise `OutputBlockedError` if the stream was stopped and is configured so."""
        if self._blocked and self._config.on_block is OnBlock.RAISE:
            raise OutputBlockedError(self._blocked)

    def _feed_scanner(self, chunk: str, *, final: bool) -> Iterator[str]:
        # INVARIANT: no character of a span that stops a stream ever leaves.
        # INVARIANT: what is not kept back leaves in order and exactly once.
        self._held += chunk
        for finding in self._scanner.feed(chunk, final=final):
            self._findings.append(finding)
            if self._config.on_finding:
                self._config.on_finding(finding)
            if finding.action in self._config.stops:
                yield from self._keep_back(finding)
            if self.is_stopped:
                return
        yield from self._release_until(self._scanner.decided_until)

    def _keep_back(self, finding: Finding) -> Iterator[str]:
        if self._config.on_block is OnBlock.RECORD:
            return
        span = finding.span
        assert span is not None
        # Of overlapping findings, the earlier one is already masked.
        overlapping = span.start < self._out
        yield from self._release_until(span.start)
        change = self._config.changes.get(finding.code)
        if change is not None or self._config.on_block is OnBlock.REDACT:
            found = self._held[: max(0, span.end - self._out)]
            if change is not None:
                yield change(found) if found else ""
            elif not overlapping:
                yield self._config.mask
            if span.end > self._out:
                self._held = self._held[span.end - self._out :]
                self._out = span.end
            return
        self._blocked = finding
        self._held = ""
        if self._config.on_block is OnBlock.REPLACE:
            yield self._config.replacement

    def _release_until(self, place: int) -> Iterator[str]:
        """Yield the text up to a place, if it has not left yet."""
        if place > self._out:
            text, self._held = self._held[: place - self._out], self._held[place - self._out :]
            self._out = place
            self._released += len(text)
            yield text


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
            size = f"looks at {plan.settled} characters of text"
            limit = f"more than the {config.widest} that a stream holds back"
            help_text = "narrow its gaps, `within` or `unless`, or raise `widest`"
            problem, where = f"rule `{plan.rule.id}` {size}, {limit}", plan.rule.where or None
            raise InputError(problem, where=where, help=help_text)


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
        """The findings so far, and whether the stream was stopped."""
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
        """The findings so far, and whether the stream was stopped."""
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
