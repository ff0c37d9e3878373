"""Refusals in LiteLLM's own types, and the filter for streamed chat chunks.

A chunk keeps its format; uncleared text moves to a later chunk. Tool calls wait for the end,
because their arguments do.
"""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from litellm.exceptions import GuardrailRaisedException
from litellm.types.utils import GuardrailStatus, GuardrailTracingDetail, ModelResponseStream

from demur.emit.envelope import to_problem
from demur.enforce.result import CheckResult, Refused, append_resources
from demur.enforce.streams import AnswerStream
from demur.integrations.litellm.reading import RequestedCall, as_json


class GuardrailRefused(Refused, GuardrailRaisedException):
    """A request or response was refused; `result` and `envelope` say why.

    The proxy turns it into an HTTP error with the status of the reason code, the code as
    `code`, and the envelope in `provider_specific_fields` under `refusal`. `blocked_content` is
    false if a check failed and demur could not judge.
    """

    def __init__(self, result: CheckResult, guardrail_name: str | None = None) -> None:
        super().__init__(result)
        GuardrailRaisedException.__init__(
            self,
            guardrail_name=guardrail_name,
            message=result.line,
            should_wrap_with_default_message=False,
            status_code=to_problem(self.refusal)["status"],
            blocked_content=not result.is_undecided,
        )
        self.code = self.refusal.code
        self.provider_specific_fields = {"refusal": result.envelope}

    def __reduce__(self) -> Any:
        return type(self), (self.result, self.guardrail_name)


def guardrail_status(result: CheckResult) -> GuardrailStatus:
    """Return LiteLLM's status for a check result; a failed check has not intervened."""
    if result.is_undecided:
        return "guardrail_failed_to_respond"
    if not result.allowed:
        return "guardrail_intervened"
    return "guardrail_flagged" if result.findings else "success"


def tracing_detail(result: CheckResult) -> GuardrailTracingDetail:
    """Return codes, class and advice for dashboards, without user text."""
    codes = [] if result.record is None else [*result.record.reason_codes]
    codes += [found.code for found in result.findings]
    detail = GuardrailTracingDetail(
        violation_categories=list(dict.fromkeys(codes)),
        guardrail_action="allow" if result.allowed else "refuse",
    )
    if result.record is not None:
        detail["guardrail_id"] = result.record.decision_id
    if result.refusal is not None:
        shown = ("code", "refusal_class", "advice", "decided")
        detail["classification"] = {name: result.envelope[name] for name in shown}
    return detail


def attach_envelope(holder: Any, result: CheckResult) -> None:
    """Add the envelope to a message or chunk, in `provider_specific_fields`."""
    fields = getattr(holder, "provider_specific_fields", None) or {}
    holder.provider_specific_fields = {**fields, "refusal": result.envelope}


def keep_allowed_calls(holder: Any, calls: Sequence[Any], results: Sequence[CheckResult]) -> None:
    """Keep the allowed tool calls of a message, and attach the first refusal of the others."""
    refused = [one for one in results if not one.allowed]
    if refused:
        attach_envelope(holder, refused[0])
    holder.tool_calls = [
        call for call, ruling in zip(calls, results, strict=True) if ruling.allowed
    ]


def replace_result(messages: list[Any], position: int, result: CheckResult) -> list[Any]:
    """Return the messages with a tool output replaced by its refusal."""
    said = {**as_json(messages[position]), "content": result.model_message}
    return [*messages[:position], said, *messages[position + 1 :]]


def add_resources(response: Any, text: str, resources: Iterable[str]) -> None:
    """Append the help lines to the message with this text."""
    lines = tuple(resources)
    for choice in getattr(response, "choices", ()) if lines else ():
        message = getattr(choice, "message", None)
        if message is not None and message.content == text:
            message.content = append_resources(text, lines)


class AnswerEndChecks(NamedTuple):
    """The checks at the end of an answer; each raises if it refuses.

    `open_stream` begins a text. `check_text` checks a text that was held back and returns the
    rest of it. `check_calls` returns the results of tool calls. `check_model` looks for a
    model's refusal in a finished choice. `check_whole` checks a stream of another format.
    """

    open_stream: Callable[[], AnswerStream]
    check_text: Callable[[AnswerStream], Awaitable[str]]
    check_calls: Callable[[list[RequestedCall]], Awaitable[list[CheckResult]]]
    check_model: Callable[[Any, str], Awaitable[None]]
    check_whole: Callable[[list[Any]], Awaitable[None]]


class _StreamedChoice:
    """One choice of a stream."""

    def __init__(self, text: AnswerStream) -> None:
        self.text = text
        self.calls: list[Any] = []
        self._open: dict[int, Any] = {}
        self.function_call: Any = None
        self.refusal_stream: AnswerStream | None = None
        self.is_cleared = False
        self.has_ended = False

    def show_piece(self, piece: str) -> str:
        """Return the text that is cleared after this piece."""
        return piece if self.is_cleared else self.text.feed(piece)

    def add_function_call(self, piece: Any) -> None:
        """Hold a piece of a call in the older `function_call` format."""
        if self.function_call is None:
            self.function_call = piece.model_copy()
        else:
            self.function_call.arguments = (self.function_call.arguments or "") + (
                piece.arguments or ""
            )

    def add_refusal(self, piece: str, checks: AnswerEndChecks) -> None:
        """Hold a piece of the model's refusal text."""
        if self.refusal_stream is None:
            self.refusal_stream = checks.open_stream()
        self.refusal_stream.feed(piece)

    async def finish_text(self, checks: AnswerEndChecks) -> str:
        """Check a finished text and return the part that was held back."""
        rest = "" if self.is_cleared else await checks.check_text(self.text)
        self.is_cleared = True
        return rest

    def add_calls(self, calls: Any) -> None:
        """Hold pieces of tool calls, joined by index."""
        for place, piece in enumerate(calls or ()):
            index = place if piece.index is None else piece.index
            whole = self._open.get(index)
            # Some providers use one index for all calls.
            if whole is None or (piece.id and whole.id and piece.id != whole.id):
                whole = self._open[index] = piece.model_copy(deep=True)
                self.calls.append(whole)
            elif piece.function is not None and piece.function.arguments:
                before = whole.function.arguments or ""
                whole.function.arguments = before + piece.function.arguments


async def filter_chunks(stream: AsyncIterable[Any], checks: AnswerEndChecks) -> AsyncIterator[Any]:
    """Yield the chunks of a stream with cleared text only."""
    choices: dict[int, _StreamedChoice] = {}
    others: list[Any] = []
    last: ModelResponseStream | None = None
    async for chunk in stream:
        if others or not isinstance(chunk, ModelResponseStream):
            others.append(chunk)
        elif not chunk.choices:
            yield chunk
        else:
            first, last = last is None, chunk.model_copy(deep=True)
            if await _filter_chunk(last, choices, checks) or first:
                yield last
            async for out in _end_stopped(stream, last, choices, checks):
                yield out
    if last is not None:
        async for out in _end_unfinished(last, choices, checks):
            yield out
    await checks.check_whole(others)
    for chunk in others:
        yield chunk


async def _end_unfinished(
    last: ModelResponseStream, choices: dict[int, _StreamedChoice], checks: AnswerEndChecks
) -> AsyncIterator[ModelResponseStream]:
    """Yield the rest of choices without a finish reason, after their checks."""
    for index, choice in choices.items():
        if not choice.has_ended:
            chunk, part = _single_choice_chunk(last, index)
            await _end_choice(part, choice, checks)
            yield chunk


async def _end_stopped(
    stream: Any,
    last: ModelResponseStream,
    choices: dict[int, _StreamedChoice],
    checks: AnswerEndChecks,
) -> AsyncIterator[ModelResponseStream]:
    """Yield the rest of choices that the guards stopped, if they are allowed."""
    for index, choice in choices.items():
        if choice.text.is_stopped and not choice.is_cleared:
            chunk, part = _single_choice_chunk(last, index)
            try:
                part.delta.content = await choice.finish_text(checks)
            except GuardrailRefused:
                # Some streams cannot be closed; their text is dropped anyway.
                with suppress(Exception):
                    await stream.aclose()
                raise
            yield chunk


def _single_choice_chunk(last: ModelResponseStream, index: int) -> tuple[ModelResponseStream, Any]:
    """Return a copy of the last chunk with one empty choice."""
    chunk = last.model_copy(deep=True)
    part: Any = chunk.choices[0]
    part.index, part.finish_reason = index, None
    part.delta.content, part.delta.tool_calls = "", None
    chunk.choices = [part]
    return chunk, part


async def _filter_chunk(
    chunk: ModelResponseStream, choices: dict[int, _StreamedChoice], checks: AnswerEndChecks
) -> bool:
    """Reduce a chunk to its cleared content; return whether any content is left."""
    left = False
    for part in chunk.choices:
        choice = choices.get(part.index)
        if choice is None:
            choice = choices[part.index] = _StreamedChoice(checks.open_stream())
        delta: Any = part.delta
        piece, calls = getattr(delta, "content", None), getattr(delta, "tool_calls", None)
        choice.add_calls(calls)
        older = getattr(delta, "function_call", None)
        if older is not None:
            choice.add_function_call(older)
            delta.function_call = None
        refusing = getattr(delta, "refusal", None)
        if refusing:
            choice.add_refusal(refusing, checks)
            delta.refusal = None
        shown = choice.show_piece(piece) if piece else ""
        delta.content, delta.tool_calls = shown if piece else piece, None
        if part.finish_reason is not None:
            await _end_choice(part, choice, checks)
        held = (piece or calls or older or refusing) and not shown and part.finish_reason is None
        left = left or not held or bool(getattr(delta, "reasoning_content", None))
    return left


async def _end_choice(part: Any, choice: _StreamedChoice, checks: AnswerEndChecks) -> None:
    choice.has_ended = True
    rest = await choice.finish_text(checks)
    await checks.check_model(part, "" if choice.calls else choice.text.text)
    if choice.refusal_stream is not None:
        await checks.check_text(choice.refusal_stream)
        part.delta.refusal = choice.refusal_stream.text
    if rest:
        part.delta.content = (part.delta.content or "") + rest
    if choice.function_call is not None:
        await checks.check_calls(
            [
                RequestedCall(
                    str(choice.function_call.name), choice.function_call.arguments or "", None
                )
            ]
        )
        part.delta.function_call = choice.function_call
    if choice.calls:
        rulings = await checks.check_calls([_to_requested_call(call) for call in choice.calls])
        keep_allowed_calls(part.delta, choice.calls, rulings)


def _to_requested_call(call: Any) -> RequestedCall:
    function = call.function
    return RequestedCall(str(function.name), function.arguments or "", call.id)
