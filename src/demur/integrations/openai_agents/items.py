"""Read items of the OpenAI Agents SDK, write guardrail outputs, filter streamed events."""

import dataclasses
import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from agents import GuardrailFunctionOutput, RawResponsesStreamEvent, ToolGuardrailFunctionOutput
from openai.types.responses import ResponseTextDeltaEvent

from demur.enforce.context import CallContext
from demur.enforce.describe import extract_texts
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.enforce.streams import AnswerStream
from demur.integrations._kit.conversation import find_new_start, get_field, join_texts
from demur.integrations.openai_agents.run import AgentRunState

_DELTA: Final = "response.output_text.delta"
_DONE = "response.output_text.done"
_TEXT_PART = "output_text"


def read_new_prompt(run_input: str | list[Any]) -> str:
    """Return the text of all user messages since the last answer."""
    if isinstance(run_input, str):
        return run_input
    roles = [get_field(item, "role") for item in run_input]
    # A trailing assistant message is a prefill for the model, not an answer.
    while roles and roles[-1] != "user":
        roles.pop()
    start = find_new_start(roles, lambda role: role == "assistant")
    new = zip(roles[start:], run_input[start:], strict=False)
    texts = [join_texts(get_field(item, "content")) for role, item in new if role == "user"]
    return "\n".join(texts)


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
    limits = {
        "constraints": list(result.constraints),
        "obligations": [str(one) for one in result.obligations],
        "resources": list(result.resources),
    }
    return {name: values for name, values in limits.items() if values} or None


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

    async def finish(self, run: AgentRunState) -> tuple[CheckResult, Any]:
        """Return the check result of the text, and the last event to show, or None."""
        text, cut = self.stream.text, self.stream.is_stopped
        result = await run.check_once(text, self.stream.afinish, cut=cut)
        # Not `stream.remaining_text`: it is set only if this stream ran the check.
        words = f"\n\n{result.user_text}" if self._shown else result.user_text
        return result, self._make_event(text[self._shown :] if result.allowed else words)

    def _make_event(self, text: str) -> Any:
        if not text:
            return None
        # Token log probabilities would spell the text that is held back.
        data = self._template.data.model_copy(update={"delta": text, "logprobs": []})
        return dataclasses.replace(self._template, data=data)


async def filter_events(
    events: AsyncIterator[Any], run: AgentRunState, enforcer: Enforcer, context: CallContext
) -> AsyncIterator[Any]:
    """Yield the cleared events; after a refusal the last one is a `RefusedEnd`.

    A text is checked before the first event that holds all of it, whether or not it also came
    in pieces. Texts that were checked in this run are not checked again.
    """
    answer: _StreamedText | None = None
    async for event in events:
        data: Any = getattr(event, "data", None)
        kind: str = getattr(data, "type", event.type)
        if kind == _DELTA:
            if answer is None:
                stream = enforcer.stream_answer(context, prompt=run.prompt)
                answer = _StreamedText(stream, event)
            shown = answer.feed(data.delta)
            if shown is not None:
                yield shown
        # Other events may repeat text that was streamed before.
        if answer is not None and (answer.stream.is_stopped or not kind.endswith(".delta")):
            result, rest = await answer.finish(run)
            answer = None
            if rest is not None:
                yield rest
            if not result.allowed:
                yield RefusedEnd(result)
                return
        if kind == _DELTA:
            continue
        refused = await _find_refusal(event, run, enforcer, context)
        if refused is not None:
            yield _make_text_event(refused.user_text)
            yield RefusedEnd(refused)
            return
        yield event


async def _find_refusal(
    event: Any, run: AgentRunState, enforcer: Enforcer, context: CallContext
) -> CheckResult | None:
    """Check the complete texts in an event; return the result that refuses one, or None."""
    for text in _whole_texts(event):
        check = partial(enforcer.acheck_answer, text, context, prompt=run.prompt)
        result = await run.check_once(text, check)
        if not result.allowed:
            return result
    return None


def _whole_texts(event: Any) -> Iterator[str]:
    """Yield the complete texts in an event, one for each part or message."""
    data = get_field(event, "data")
    if get_field(data, "type") == _DONE and data.text:
        yield data.text
    messages = [
        {"content": [get_field(data, "part")]},
        get_field(data, "item"),
        *(get_field(get_field(data, "response"), "output") or ()),
        get_field(get_field(event, "item"), "raw_item"),
    ]
    for message in messages:
        parts = get_field(message, "content")
        texts = [
            get_field(part, "text")
            for part in (parts if isinstance(parts, list) else ())
            if get_field(part, "type") == _TEXT_PART
        ]
        joined = "\n".join(text for text in texts if isinstance(text, str))
        if joined:
            yield joined


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
