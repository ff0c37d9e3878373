"""The checks of a hook, refusals in LiteLLM's own types, and the filter for streamed chunks.

A chunk keeps its format; uncleared text moves to a later chunk. Tool calls wait for the end,
because their arguments do.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import Any, Self

from litellm.exceptions import GuardrailRaisedException
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.types.guardrails import GuardrailEventHooks
from litellm.types.utils import GuardrailStatus, GuardrailTracingDetail, ModelResponseStream

from demur.emit.envelope import to_problem
from demur.enforce.changes import TextChanges, merge_changes
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult, Refused, append_resources
from demur.enforce.streams import AnswerStream
from demur.guards.tool_manifest import ToolDefinition
from demur.integrations._kit.conversation import ToolOutput
from demur.integrations.litellm.reading import (
    RequestContent,
    RequestedCall,
    as_json,
    assemble_responses,
    change_arguments,
    read_answer_texts,
    read_calls,
    read_function_calls,
)

_PROVIDER = "demur"


class GuardrailRefused(Refused, GuardrailRaisedException):
    """demur refused a request or response; `result` and `envelope` say why.

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
            blocked_content=not result.could_not_judge,
        )
        self.code = self.refusal.code
        self.provider_specific_fields = {"refusal": result.envelope}

    def __reduce__(self) -> Any:
        return type(self), (self.result, self.guardrail_name)


def guardrail_status(result: CheckResult) -> GuardrailStatus:
    """Return LiteLLM's status for a check result; a failed check has not intervened."""
    if result.could_not_judge:
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
        call for call, result in zip(calls, results, strict=True) if result.allowed
    ]


def replace_result(messages: list[Any], position: int, result: CheckResult) -> list[Any]:
    """Return the messages with a tool output replaced by its refusal."""
    message = {**as_json(messages[position]), "content": result.model_message}
    return [*messages[:position], message, *messages[position + 1 :]]


def add_resources(response: Any, text: str, resources: Iterable[str]) -> None:
    """Append the help lines to the message with this text."""
    lines = tuple(resources)
    for choice in getattr(response, "choices", ()) if lines else ():
        message = getattr(choice, "message", None)
        if message is not None and message.content == text:
            message.content = append_resources(text, lines)


class HookChecks:
    """The checks of one hook; a refusal raises `GuardrailRefused`."""

    def __init__(
        self,
        guardrail: CustomGuardrail,
        enforcer: Enforcer,
        data: dict[str, Any],
        context: CallContext,
        event: GuardrailEventHooks,
    ) -> None:
        self._guardrail = guardrail
        self._enforcer = enforcer
        self._data = data
        self._context = context
        self._event = event
        self.prompt: str | None = None

    def refuse_changes(self) -> Self:
        """Return the checks, which from now on refuse a text that would be changed."""
        self._enforcer = self._enforcer.refuse_changes()
        return self

    async def check_request(self, content: RequestContent) -> TextChanges | None:
        """Check the new part of a request, and return its changes."""
        changes = await self.check_prompt(content.prompt)
        for output, _ in content.results:
            result = await self.check_tool_output(output)
            self.require_allowed(result)
            changes = merge_changes(changes, result.changes)
        return changes

    async def check_prompt(self, text: str) -> TextChanges | None:
        """Check a prompt, if there is one, and return its changes."""
        if not text:
            return None
        result = await self._enforcer.acheck_prompt(text, self._context)
        self.require_allowed(result)
        return result.changes

    async def check_tool_output(self, output: ToolOutput) -> CheckResult:
        """Return the check result of a tool output."""
        context = self._context._replace(call_id=output.call_id)
        return await self._enforcer.acheck_tool_result(
            output.name, output.result, context, arguments=output.arguments
        )

    async def check_mcp_call(self) -> None:
        """Check the MCP tool call that the request is."""
        data = self._data
        name, schema = data["mcp_tool_name"], data.get("mcp_input_schema")
        tool = None
        if isinstance(schema, dict):
            description = data.get("mcp_tool_description") or ""
            tool = ToolDefinition(name=name, description=description, schema=schema)
        arguments, source = data.get("mcp_arguments") or {}, data.get("mcp_server_name") or ""
        result = await self._enforcer.acheck_tool_call(
            name, arguments, self._context, tool=tool, source=source
        )
        self.require_allowed(result)
        if result.changes is not None:
            # The proxy runs the tool with these.
            data["mcp_arguments"] = data["modified_arguments"] = result.apply_changes(arguments)

    async def check_answer(self, text: str) -> CheckResult:
        """Return the check result of an allowed text, with the help lines to show below it."""
        result = await self._enforcer.acheck_answer(text, self._context, prompt=self.prompt)
        self.require_allowed(result)
        return result

    async def check_model_refusal(self, body: Any) -> None:
        """Raise if a provider refused in a response."""
        result = await self._enforcer.aread_refusal(body, self._context, prompt=self.prompt)
        if not result.allowed:
            self.require_allowed(result)

    async def mark_declined(self, text: str, *holders: Any) -> None:
        """If a model declined in its own words, log that and attach the envelope to its message."""
        result = await self._enforcer.aread_refusal(
            None, self._context, text=text, prompt=self.prompt
        )
        for holder in holders:
            if not result.allowed and holder is not None:
                self.log_result(result, status="guardrail_flagged")
                attach_envelope(holder, result)

    async def check_calls(
        self, calls: Iterable[RequestedCall], *, allow_some: bool
    ) -> list[CheckResult]:
        """Check calls; unless `allow_some`, one refused call refuses the response."""
        results = [
            await self._enforcer.acheck_tool_call(
                call.name, call.arguments, self._context._replace(call_id=call.call_id)
            )
            for call in calls
        ]
        refused = [one for one in results if not one.allowed]
        hard = [one for one in refused if one.is_hard]
        if hard or (refused and (not allow_some or len(refused) == len(results))):
            self.require_allowed((hard or refused)[0])
        for result in results:
            self.log_result(result)
        return results

    # The checks of a streamed answer.

    def open_stream(self) -> AnswerStream:
        """Begin a text."""
        return self._enforcer.stream_answer(self._context, prompt=self.prompt)

    async def check_text(self, stream: AnswerStream) -> CheckResult:
        """Return the check result of an allowed text that was held back."""
        result = await stream.afinish()
        self.require_allowed(result)
        return result

    async def check_choice(self, choice: Any, text: str) -> None:
        """Look for a model's refusal in a finished choice."""
        ended = {**choice.model_dump(), "message": {}}
        await self.check_model_refusal({"object": "chat.completion", "choices": [ended]})
        await self.mark_declined(text, choice.delta)

    async def check_chunks(self, chunks: list[Any]) -> None:
        """Check a stream of another format; repeated texts and calls are checked once.

        Its chunks are not changed.
        """
        self.refuse_changes()
        bodies = assemble_responses(chunks)
        for body in bodies:
            await self.check_model_refusal(body)
        for text in dict.fromkeys(text for body in bodies for text in read_answer_texts(body)):
            await self.check_answer(text)
        calls = [one for body in bodies for one in (*read_calls(body), *read_function_calls(body))]
        await self.check_calls({repr(one): one for one in calls}.values(), allow_some=False)

    def require_allowed(self, result: CheckResult) -> None:
        """Log a check result, and raise if it refuses."""
        self.log_result(result)
        if not result.allowed:
            raise GuardrailRefused(result, self._guardrail.guardrail_name)

    def log_result(self, result: CheckResult, status: GuardrailStatus | None = None) -> None:
        """Add a check result to LiteLLM's log of guardrails."""
        self._guardrail.add_standard_logging_guardrail_information_to_request_data(
            guardrail_json_response=result.envelope or "allow",
            request_data=self._data,
            guardrail_status=status or guardrail_status(result),
            guardrail_provider=_PROVIDER,
            event_type=self._event,
            tracing_detail=tracing_detail(result),
        )


class _StreamedChoice:
    """One choice of a stream."""

    def __init__(self, checks: HookChecks) -> None:
        self._checks = checks
        self._open_calls: dict[int, Any] = {}
        self._calls: list[Any] = []
        self._function_call: Any = None
        self._refusal: AnswerStream | None = None
        self._is_cleared = False
        self.text = checks.open_stream()
        self.has_ended = False

    @property
    def must_end(self) -> bool:
        """Whether the guards stopped the text and nobody has checked it yet."""
        return self.text.is_stopped and not self._is_cleared

    def filter_delta(self, delta: Any) -> bool:
        """Reduce a delta to its cleared text; return whether anything is held back."""
        piece, calls = getattr(delta, "content", None), getattr(delta, "tool_calls", None)
        self._add_calls(calls)
        function_call = getattr(delta, "function_call", None)
        if function_call is not None:
            if self._function_call is None:
                self._function_call = function_call.model_copy()
            else:
                before = self._function_call.arguments or ""
                self._function_call.arguments = before + (function_call.arguments or "")
            delta.function_call = None
        refusal = getattr(delta, "refusal", None)
        if refusal:
            self._refusal = self._refusal or self._checks.open_stream()
            self._refusal.feed(refusal)
            delta.refusal = None
        shown = ""
        if piece:
            shown = piece if self._is_cleared else self.text.feed(piece)
        delta.content, delta.tool_calls = shown if piece else piece, None
        return bool(piece or calls or function_call or refusal) and not shown

    async def finish_text(self) -> str:
        """Check a finished text and return the part that was held back."""
        if self._is_cleared:
            return ""
        await self._checks.check_text(self.text)
        self._is_cleared = True
        return self.text.remaining_text

    async def finish(self, part: Any) -> None:
        """Check the finished choice, and put what was held back into `part`."""
        self.has_ended = True
        rest, checks = await self.finish_text(), self._checks
        await checks.check_choice(part, "" if self._calls else self.text.text)
        if self._refusal is not None:
            checked = await checks.check_text(self._refusal)
            part.delta.refusal = checked.apply_changes(self._refusal.text)
        if rest:
            part.delta.content = (part.delta.content or "") + rest
        call = self._function_call
        if call is not None:
            requested = RequestedCall(str(call.name), call.arguments or "", None)
            [result] = await checks.check_calls([requested], allow_some=True)
            call.arguments = change_arguments(call.arguments, result.changes)
            part.delta.function_call = call
        if self._calls:
            requests = [
                RequestedCall(str(one.function.name), one.function.arguments or "", one.id)
                for one in self._calls
            ]
            results = await checks.check_calls(requests, allow_some=True)
            for one, result in zip(self._calls, results, strict=True):
                one.function.arguments = change_arguments(one.function.arguments, result.changes)
            keep_allowed_calls(part.delta, self._calls, results)

    def _add_calls(self, calls: Any) -> None:
        """Hold pieces of tool calls, joined by index."""
        for position, piece in enumerate(calls or ()):
            index = position if piece.index is None else piece.index
            whole = self._open_calls.get(index)
            # Some providers use one index for all calls.
            if whole is None or (piece.id and whole.id and piece.id != whole.id):
                whole = self._open_calls[index] = piece.model_copy(deep=True)
                self._calls.append(whole)
            elif piece.function is not None and piece.function.arguments:
                before = whole.function.arguments or ""
                whole.function.arguments = before + piece.function.arguments


async def filter_chunks(stream: Any, checks: HookChecks) -> AsyncIterator[Any]:
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
            is_first, last = last is None, chunk.model_copy(deep=True)
            if await _filter_chunk(last, choices, checks) or is_first:
                yield last
            for index, choice in choices.items():
                if choice.must_end:
                    yield await _end_stopped(stream, _single_choice_chunk(last, index), choice)
    for index, choice in choices.items():
        if last is not None and not choice.has_ended:
            chunk = _single_choice_chunk(last, index)
            await choice.finish(chunk.choices[0])
            yield chunk
    await checks.check_chunks(others)
    for chunk in others:
        yield chunk


async def _end_stopped(stream: Any, chunk: Any, choice: _StreamedChoice) -> Any:
    """Return the rest of a choice that the guards stopped, if it is allowed."""
    try:
        chunk.choices[0].delta.content = await choice.finish_text()
    except GuardrailRefused:
        # Some streams cannot be closed; their text is dropped anyway.
        with suppress(Exception):
            await stream.aclose()
        raise
    return chunk


def _single_choice_chunk(last: ModelResponseStream, index: int) -> ModelResponseStream:
    """Return a copy of the last chunk with one empty choice."""
    chunk = last.model_copy(deep=True)
    part: Any = chunk.choices[0]
    part.index, part.finish_reason = index, None
    part.delta.content, part.delta.tool_calls = "", None
    chunk.choices = [part]
    return chunk


async def _filter_chunk(
    chunk: ModelResponseStream, choices: dict[int, _StreamedChoice], checks: HookChecks
) -> bool:
    """Reduce a chunk to its cleared content; return whether any content is left."""
    is_left = False
    for part in chunk.choices:
        choice = choices.get(part.index) or _StreamedChoice(checks)
        choices[part.index] = choice
        is_held = choice.filter_delta(part.delta)
        if part.finish_reason is not None:
            await choice.finish(part)
            is_held = False
        is_left = is_left or not is_held or bool(getattr(part.delta, "reasoning_content", None))
    return is_left
