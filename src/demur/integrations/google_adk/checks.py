"""The state of an invocation, and the checks of what its agents hear, call, read and say."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.base_tool import BaseTool
from google.genai.types import Content, Part

from demur.codes.vocabulary import Surface
from demur.enforce.context import CallContext
from demur.enforce.describe import extract_texts
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult, append_resources
from demur.enforce.streams import AnswerStream
from demur.guards.tool_manifest import ToolDefinition
from demur.integrations._kit.model_api import list_readings
from demur.integrations.google_adk.contents import (
    ANSWER_TOOLS,
    REQUESTS,
    change_prompt,
    describe_refusal,
    find_attachment,
    find_code,
    find_new,
    is_answer_tool,
    join_texts,
    list_texts,
    prompt_text,
    read_native,
    refusal_words,
    replace_result,
    replace_texts,
    to_jsonable,
    to_key,
)
from demur.model.grant import Grant

_CODE_TOOL = "execute_code"
_MAX_KEPT = 10_000


@dataclass
class ShownStream:
    """A streamed answer, and what was shown of it."""

    stream: AnswerStream
    shown: str = ""


@dataclass
class Invocation:
    """The state of one invocation, by which its agents run.

    `end` is the refusal that ended it. `inputs` are prompts that were checked, `cleared` answers
    and results, `checked` calls that did not run yet, and `denied` the refusals of calls by id.
    """

    prompt: str = ""
    end: CheckResult | None = None
    requests: dict[str, LlmRequest] = field(default_factory=dict)
    inputs: set[str] = field(default_factory=set)
    cleared: set[str] = field(default_factory=set)
    checked: dict[str, list[CheckResult]] = field(default_factory=dict)
    denied: dict[str, CheckResult] = field(default_factory=dict)
    grants: dict[str, tuple[Grant, ...]] = field(default_factory=dict)
    streams: dict[str, ShownStream] = field(default_factory=dict)


class InvocationChecks:
    """Checks by one enforcer. `refusals` are those of agents, by what tools return of them."""

    def __init__(self, enforcer: Enforcer) -> None:
        self._enforcer = enforcer
        self.refusals: dict[str, CheckResult] = {}

    async def check_prompt(
        self, state: Invocation, texts: Sequence[str], context: CallContext
    ) -> CheckResult:
        """Check texts as one prompt."""
        text = "\n".join(texts)
        if not text:
            return CheckResult(Surface.INPUT)
        result = await self._enforcer.acheck_prompt(text, context)
        state.prompt = result.apply_changes(text)
        state.inputs.update(map(result.apply_changes, texts))
        return result

    async def check_response(
        self,
        state: Invocation,
        response: LlmResponse,
        streamed: ShownStream | None,
        context: CallContext,
    ) -> tuple[CheckResult, LlmResponse]:
        """Check a response for a refusal, and its text; return the response as it may be shown."""
        native, prompt = read_native(response), state.prompt
        result = await self._enforcer.aread_refusal(native, context, prompt=prompt)
        parts = list_texts(response.content)
        calls = (one for one in response.get_function_calls() if one.name in ANSWER_TOOLS)
        readings = list_readings([*parts, *(extract_texts(one.args) for one in calls)])
        shown = text = "".join(parts)
        if streamed is not None and streamed.stream.text == text and result.allowed:
            result = await streamed.stream.afinish()
            shown = streamed.shown + streamed.stream.remaining_text
            readings = ()
        for reading in readings:
            if result.allowed:
                result = await self._enforcer.acheck_answer(reading, context, prompt=prompt)
                shown = append_resources(result.apply_changes(text), result.resources)
        if result.allowed and shown != text:
            content = replace_texts(response.content, shown)
            response = response.model_copy(update={"content": content})
        state.cleared.add(join_texts(response.content))
        return result, response

    def filter_partial(
        self, state: Invocation, key: str, response: LlmResponse, context: CallContext
    ) -> LlmResponse:
        """Return a piece of a stream with the text that may be shown now, and without calls."""
        if key not in state.streams:
            stream = self._enforcer.stream_answer(context, prompt=state.prompt)
            state.streams[key] = ShownStream(stream)
        streamed = state.streams[key]
        text = streamed.stream.feed(join_texts(response.content))
        streamed.shown += text
        state.cleared.add(text)
        parts = (response.content and response.content.parts) or ()
        shown = [part for part in parts if part.thought] + ([Part(text=text)] if text else [])
        content = Content(role="model", parts=shown) if shown else None
        return response.model_copy(update={"content": content})

    async def check_calls(
        self,
        state: Invocation,
        response: LlmResponse,
        tools: Mapping[str, BaseTool],
        agent: Any,
        context: CallContext,
    ) -> CheckResult:
        """Check code and tool calls of a response, and return what replaces it, if anything."""
        code = find_code(response, agent)
        if code is not None:
            result = await self._enforcer.acheck_tool_call(_CODE_TOOL, {"code": code}, context)
            if not result.allowed:
                return result
        for call in response.get_function_calls():
            tool, arguments = tools.get(call.name or ""), dict(call.args or {})
            if tool is None or is_answer_tool(tool):
                continue
            result = await self.check_call(tool, arguments, context._replace(call_id=call.id))
            if result.is_hard:
                return result
            state.checked.setdefault(to_key(tool.name, arguments), []).append(result)
        return CheckResult(Surface.TOOL_CALL)

    async def check_call(
        self,
        tool: BaseTool,
        arguments: Mapping[str, Any],
        context: CallContext,
        grants: Iterable[Grant] = (),
    ) -> CheckResult:
        """Check a tool call."""
        definition = ToolDefinition(name=tool.name, description=tool.description or "")
        return await self._enforcer.acheck_tool_call(
            tool.name, to_jsonable(arguments), context, tool=definition, grants=grants
        )

    async def check_request(
        self, state: Invocation, contents: list[Content], context: CallContext
    ) -> None:
        """Check the results in the new part of a request, and what tools of ADK attached to it."""
        first, name = find_new(contents), ""
        for number, content in enumerate(contents[first:], first):
            contents[number] = await self.check_returned(state, content, context)
            responses = [part.function_response for part in content.parts or ()]
            name = next((one.name for one in responses if one is not None and one.name), name)
            attached = find_attachment(content) if name else None
            text = prompt_text(attached)
            if attached is None or not text or text in state.inputs:
                continue
            result = await self._enforcer.acheck_tool_result(name, text, context)
            if result.allowed:
                contents[number] = change_prompt(content, result)
            else:
                state.end = result if result.is_hard else state.end
                contents[number] = Content(role="user", parts=[Part(text=result.model_message)])

    async def check_returned(
        self, state: Invocation, content: Content, context: CallContext
    ) -> Content:
        """Check the results in a content that no tool callback saw."""
        parts: list[Part] = []
        for part in content.parts or ():
            response, executed = part.function_response, part.code_execution_result
            if response is not None and response.name not in REQUESTS:
                name, value = response.name or "tool", to_jsonable(response.response)
                context = context._replace(call_id=response.id)
            elif executed is not None and executed.output:
                name, value = _CODE_TOOL, executed.output
            else:
                parts.append(part)
                continue
            changed, key = value, to_key(value)
            if key not in state.cleared:
                result = await self._enforcer.acheck_tool_result(name, value, context)
                changed = result.apply_changes(value)
                if not result.allowed:
                    denial = self.deny(state, context, result)
                    changed = denial if response is not None else result.model_message
                state.cleared.add(to_key(changed))
            parts.append(part if changed is value else replace_result(part, changed))
        return content if parts == content.parts else content.model_copy(update={"parts": parts})

    async def check_text(
        self, state: Invocation, event: Event, context: CallContext
    ) -> dict[str, Any]:
        """Check a text that came from no model of ADK; return what to change in its event."""
        text = join_texts(event.content)
        result = await self._enforcer.acheck_answer(text, context, prompt=state.prompt)
        if not result.allowed:
            self.note_refusal(state, result)
            return {**describe_refusal(event, result), "content": refusal_words(result)}
        shown = append_resources(result.apply_changes(text), result.resources)
        return {} if shown == text else {"content": replace_texts(event.content, shown)}

    def deny(self, state: Invocation, context: CallContext, result: CheckResult) -> dict[str, Any]:
        """Return the refusal of a call as its result; a hard one ends the run."""
        state.end = result if result.is_hard else state.end
        state.denied[context.call_id or ""] = result
        state.cleared.add(to_key({"error": result.model_message}))
        return {"error": result.model_message}

    def note_refusal(self, state: Invocation, result: CheckResult) -> None:
        """Note that a refusal is said in place of something; a hard one ends the run."""
        state.end = result if result.is_hard else state.end
        state.cleared.add(result.user_text)
        self.refusals.update({result.user_text: result, result.line: result})
        drop_oldest(self.refusals)


def drop_oldest(kept: dict[str, Any]) -> None:
    """Drop the oldest entries above a limit."""
    while len(kept) > _MAX_KEPT:
        del kept[next(iter(kept))]
