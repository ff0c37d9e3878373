"""Read items of the OpenAI Agents SDK, write guardrail outputs, filter streamed events."""

import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from agents import GuardrailFunctionOutput, RawResponsesStreamEvent, ToolGuardrailFunctionOutput
from openai.types.responses import ResponseTextDeltaEvent

from demur.enforce.describe import extract_texts
from demur.enforce.result import CheckResult
from demur.enforce.streams import AnswerStream


class _PromptMessage(NamedTuple):
    role: Any
    text: str


def read_new_prompt(given: str | list[Any]) -> str:
    """Return the text of all user messages since the last answer."""
    if isinstance(given, str):
        return given
    said = [
        _PromptMessage(get_member(one, "role"), "\n".join(_iter_texts(get_member(one, "content"))))
        for one in given
    ]
    # A trailing assistant message is a prefill for the model, not an answer.
    while said and said[-1].role != "user":
        said.pop()
    answers = [place for place, one in enumerate(said) if one.role == "assistant"]
    last = said[answers[-1] + 1 if answers else 0 :]
    return "\n".join(one.text for one in last if one.role == "user")


def _iter_texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        texts = (get_member(part, "text") for part in content)
        yield from (text for text in texts if isinstance(text, str))


def get_member(item: Any, name: str) -> Any:
    """Return a member of an item, a dictionary or an object; None if it has none."""
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)


def output_text(output: Any) -> str:
    """Return a final output as text; for a typed output, the texts in it."""
    return output if isinstance(output, str) else extract_texts(output)


def parse_arguments(arguments: str) -> Any:
    """Return the parsed JSON arguments of a call; None if they are invalid."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return None


def build_output_info(result: CheckResult) -> dict[str, Any] | None:
    """Return a guardrail's `output_info`: the refusal and its words, or the limits that apply."""
    if result.refusal is not None:
        return {"refusal": result.envelope, "words": result.user_text}
    named = {
        "constraints": list(result.constraints),
        "obligations": [str(duty) for duty in result.obligations],
        "resources": list(result.resources),
    }
    return {name: told for name, told in named.items() if told} or None


def to_output(result: CheckResult) -> GuardrailFunctionOutput:
    """Return the output of an agent guardrail; a refusal triggers the tripwire."""
    return GuardrailFunctionOutput(build_output_info(result), tripwire_triggered=not result.allowed)


def to_tool_output(result: CheckResult) -> ToolGuardrailFunctionOutput:
    """Return the output of a tool guardrail: a soft refusal informs the model, a hard one ends."""
    info = build_output_info(result)
    if result.allowed:
        return ToolGuardrailFunctionOutput.allow(info)
    if result.is_hard:
        return ToolGuardrailFunctionOutput.raise_exception(info)
    return ToolGuardrailFunctionOutput.reject_content(result.model_message, info)


_DELTA: Final = "response.output_text.delta"
_DONE = "response.output_text.done"
_TEXT_PART = "output_text"


class CheckOnce(Protocol):
    """Checks a text unless it was checked before; `cut` means that the text was broken off."""

    async def __call__(
        self, text: str, check: Callable[[], Awaitable[CheckResult]], *, cut: bool = False
    ) -> CheckResult:
        """Return the check result of the text, an earlier one if there is any."""


class StreamChecks(NamedTuple):
    """The checks of streamed texts and of whole texts; `check_once` avoids repeating them."""

    open_stream: Callable[[], AnswerStream]
    check_text: Callable[[str], Awaitable[CheckResult]]
    check_once: CheckOnce


class RefusedEnd(NamedTuple):
    """Marks the end of a stream whose answer was refused."""

    result: CheckResult


class _StreamedText:
    """A text that is being streamed, and the event to copy for its pieces."""

    def __init__(self, stream: AnswerStream, event: Any) -> None:
        self.stream = stream
        self._template = event
        self._shown = 0

    def feed(self, piece: str) -> Any:
        """Return the event to show after a piece, or None."""
        shown = self.stream.feed(piece)
        self._shown += len(shown)
        return self._make_event(shown)

    async def finish(self, check_once: CheckOnce) -> tuple[CheckResult, Any]:
        """Return the check result of the text, and the last event to show, or None."""
        stream = self.stream
        text, cut = stream.text, stream.is_stopped
        ruling = await check_once(text, stream.afinish, cut=cut)
        # Not `open_stream.rest`: it is set only if this stream ran the check.
        said = f"\n\n{ruling.user_text}" if self._shown else ruling.user_text
        return ruling, self._make_event(text[self._shown :] if ruling.allowed else said)

    def _make_event(self, text: str) -> Any:
        if not text:
            return None
        # Token log probabilities would spell the text that is held back.
        data = self._template.data.model_copy(update={"delta": text, "logprobs": []})
        return dataclasses.replace(self._template, data=data)


async def filter_events(events: AsyncIterator[Any], checks: StreamChecks) -> AsyncIterator[Any]:
    """Yield the cleared events; after a refusal the last one is a `RefusedEnd`.

    A text is checked before the first event that holds all of it, whether or not it also came
    in pieces.
    """
    answer: _StreamedText | None = None
    async for event in events:
        piece = _delta_text(event)
        if piece is not None:
            answer = answer or _StreamedText(checks.open_stream(), event)
            shown = answer.feed(piece)
            if shown is not None:
                yield shown
        if answer is not None and (answer.stream.is_stopped or _may_repeat(event)):
            ruling, rest = await answer.finish(checks.check_once)
            answer = None
            if rest is not None:
                yield rest
            if not ruling.allowed:
                yield RefusedEnd(ruling)
                return
        if piece is None:
            refused = await _find_refusal(event, checks)
            if refused is not None:
                yield _make_text_event(refused.user_text)
                yield RefusedEnd(refused)
                return
            yield event


async def _find_refusal(event: Any, checks: StreamChecks) -> CheckResult | None:
    """Return the check result that refuses an event, or None."""
    for text in _whole_texts(event):
        ruling = await checks.check_once(text, partial(checks.check_text, text))
        if not ruling.allowed:
            return ruling
    return None


def _delta_text(event: Any) -> str | None:
    """Return the piece of text in an event, or None."""
    data: Any = getattr(event, "data", None)
    return data.delta if getattr(data, "type", None) == _DELTA else None


def _may_repeat(event: Any) -> bool:
    """Return whether an event may hold text that was streamed before it."""
    kind: str = getattr(getattr(event, "data", None), "type", event.type)
    return not kind.endswith(".delta")


def _whole_texts(event: Any) -> Iterator[str]:
    """Yield the complete texts in an event, one for each part or message."""
    data = get_member(event, "data")
    if get_member(data, "type") == _DONE and data.text:
        yield data.text
    messages = [
        {"content": [get_member(data, "part")]},
        get_member(data, "item"),
        *(get_member(get_member(data, "response"), "output") or ()),
        get_member(get_member(event, "item"), "raw_item"),
    ]
    for message in messages:
        parts = get_member(message, "content")
        texts = [
            get_member(part, "text")
            for part in (parts if isinstance(parts, list) else ())
            if get_member(part, "type") == _TEXT_PART
        ]
        whole = "\n".join(text for text in texts if isinstance(text, str))
        if whole:
            yield whole


def _make_text_event(text: str) -> Any:
    """Return a text event for the words of a refusal when there is none to copy."""
    data = ResponseTextDeltaEvent(
        content_index=0,
        delta=text,
        item_id="demur",
        logprobs=[],
        output_index=0,
        sequence_number=0,
        type=_DELTA,
    )
    return RawResponsesStreamEvent(data=data)
