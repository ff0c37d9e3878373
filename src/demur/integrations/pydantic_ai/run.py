"""The state of one run: which prompts, answers, calls and results were checked.

Results also come from failed tools, other capabilities, deferred tools and message history, so
each request to the model is searched for unchecked results.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple, Self

from pydantic_ai import RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from demur.codes.vocabulary import Surface
from demur.enforce.context import CallContext
from demur.enforce.describe import extract_texts
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult, GrantFor, acollect_grants
from demur.errors import InputError
from demur.integrations._kit import is_changed_fully
from demur.integrations._kit.approval import parse_metadata_grants
from demur.integrations.pydantic_ai.messages import (
    RunRefused,
    add_resources,
    build_denial,
    change_content,
    change_response,
    content_text,
    convert_definition,
    find_response_of,
    is_structured,
    list_readings,
    require_allowed,
    to_jsonable,
)
from demur.integrations.pydantic_ai.stream_filter import TextChecks
from demur.model.grant import Grant

# Kinds of tools that run here, elsewhere, or after an approval; all are checked up front.
_CHECKED_KINDS = ("function", "external", "unapproved")


class RequestedToolCall(NamedTuple):
    """A tool call of a model, with validated arguments."""

    call: ToolCallPart
    tool: ToolDefinition
    arguments: Mapping[str, Any]


class _CheckedRequest(NamedTuple):
    request: RequestedToolCall
    result: CheckResult

    def is_same_call(self, request: RequestedToolCall) -> bool:
        """Return whether this is the same call, with the same arguments."""
        mine = self.request
        return (mine.tool.name, mine.arguments) == (request.tool.name, request.arguments)


class RunCalls:
    """The checked calls of one run; `grants` holds the grants of each call, by id."""

    def __init__(self, enforcer: Enforcer, grant_for: GrantFor | None) -> None:
        self._enforcer = enforcer
        self._grant_for = grant_for
        self._lock = asyncio.Lock()
        self._response: ModelResponse | None = None
        self._checked: dict[str, _CheckedRequest] = {}
        self._lifted: dict[str, _CheckedRequest] = {}
        self._hard: CheckResult | None = None
        self.grants: dict[str, tuple[Grant, ...]] = {}

    async def check_call(
        self, request: RequestedToolCall, ctx: RunContext[Any], context: CallContext
    ) -> CheckResult:
        """Check a call that is about to run.

        Raises:
            RunRefused: A hard refusal of this call, or of another in its response.
        """
        async with self._lock:
            result = await self._check_once(request, ctx, context)
        if self._hard is not None:
            raise RunRefused(self._hard)
        return result

    async def check_unchanged(
        self, request: RequestedToolCall, context: CallContext
    ) -> CheckResult:
        """Check a call again whose arguments cannot be changed."""
        return await self._run_check(request, context, enforcer=self._enforcer.refuse_changes())

    async def prepare_approved(
        self, request: RequestedToolCall, ctx: RunContext[Any], context: CallContext
    ) -> None:
        """Check an approved call before any approved call of its response runs.

        Raises:
            RunRefused: A hard refusal of this call, or of another in its response.
        """
        async with self._lock:
            result = await self._check_approved(request, ctx, context)
            self._lifted[request.call.tool_call_id] = _CheckedRequest(request, result)
        if self._hard is not None:
            raise RunRefused(self._hard)

    async def _check_once(
        self, request: RequestedToolCall, ctx: RunContext[Any], context: CallContext
    ) -> CheckResult:
        # Use each result once: some models reuse call ids.
        if ctx.tool_call_approved:
            kept = self._lifted.pop(request.call.tool_call_id, None)
            if kept is not None and kept.is_same_call(request):
                return kept.result
            return await self._check_approved(request, ctx, context)
        response = find_response_of(ctx.messages, request.call)
        if response is not None and response is not self._response:
            self._response = response
            self._checked.clear()
            for one in _list_sibling_calls(response, ctx):
                result = await self._run_check(one, context)
                self._checked[one.call.tool_call_id] = _CheckedRequest(one, result)
        kept = self._checked.pop(request.call.tool_call_id, None)
        if kept is not None and kept.is_same_call(request):
            return kept.result
        # A single call, or one that another capability or the program changed.
        return await self._run_check(request, context)

    async def _check_approved(
        self, request: RequestedToolCall, ctx: RunContext[Any], context: CallContext
    ) -> CheckResult:
        """Check a call that a person approved, with its grants."""
        grants = parse_metadata_grants(ctx.tool_call_metadata)
        result = await self._run_check(request, context, grants)
        if result.needs_approval:
            more = await acollect_grants(self._grant_for, result, ctx)
            if more:
                result = await self._run_check(request, context, (*grants, *more))
        return result

    async def _run_check(
        self,
        request: RequestedToolCall,
        context: CallContext,
        grants: Sequence[Grant] = (),
        enforcer: Enforcer | None = None,
    ) -> CheckResult:
        call, tool, arguments = request
        result = await (enforcer or self._enforcer).acheck_tool_call(
            call.tool_name,
            arguments,
            context._replace(call_id=call.tool_call_id),
            tool=convert_definition(tool),
            grants=grants,
        )
        if result.is_hard:
            self._hard = result
        self.grants[call.tool_call_id] = tuple(grants)
        return result


def _list_sibling_calls(response: ModelResponse, ctx: RunContext[Any]) -> list[RequestedToolCall]:
    """Return all calls of a response that will run, if there are several."""
    calls = response.tool_calls
    if len(calls) < 2:
        return []
    tools = (ctx.tool_manager.tools if ctx.tool_manager is not None else None) or {}
    found = []
    for call in calls:
        tool = tools.get(call.tool_name)
        if tool is not None and tool.tool_def.kind in _CHECKED_KINDS:
            # Skip calls with invalid arguments: the framework asks the model again.
            with suppress(ValueError):
                given = tool.args_validator.validate_python(call.args_as_dict())
                found.append(RequestedToolCall(call, tool.tool_def, to_jsonable(given)))
    return found


# Parts that answer a call, or an invalid output without a tool name.
_RESULT_KINDS = frozenset({"tool-return", "retry-prompt", "retry-feedback"})
_OUTPUT_NAME = "output"


class UncheckedResult(NamedTuple):
    """A result that was not checked and that no model has read, with the id of its call."""

    message: ModelRequest
    position: int
    name: str
    content: Any
    call_id: str


class RunResults:
    """The checked results of one run."""

    def __init__(self) -> None:
        self._checked: set[tuple[str, str | None]] = set()
        self._refused: dict[tuple[str, str], CheckResult] = {}

    def allow_content(self, name: str, content: Any) -> None:
        """Note that a model may read this content from that tool."""
        self._checked.add((name, _content_key(content)))

    def record_refusal(self, call: ToolCallPart, result: CheckResult) -> None:
        """Note the refusal that replaces a result."""
        self.allow_content(call.tool_name, result.model_message)
        self._refused[call.tool_call_id, result.model_message] = result

    def find_unchecked(self, new: Iterable[ModelRequest]) -> list[UncheckedResult]:
        """Return the unchecked results; replace those that were refused before."""
        found = []
        for message in new:
            for position, part in enumerate(message.parts):
                if part.part_kind not in _RESULT_KINDS:
                    continue
                name: str = getattr(part, "tool_name", None) or _OUTPUT_NAME
                content: Any = getattr(part, "content", None)
                call_id: str = getattr(part, "tool_call_id", "")
                one = UncheckedResult(message, position, name, content, call_id)
                key = _content_key(content)
                earlier = self._refused.get((call_id, key)) if key is content and key else None
                if earlier is not None:
                    _replace_content(one, earlier)
                elif key is None or (name, key) not in self._checked:
                    found.append(one)
        return found

    def apply_result(self, unchecked: UncheckedResult, result: CheckResult, content: Any) -> None:
        """Note an allowed result with its content, or replace a refused one."""
        if result.allowed:
            self.allow_content(unchecked.name, content)
            if result.changes is not None:
                _set_part(unchecked, replace(_part_of(unchecked), content=content))
        else:
            self.allow_content(unchecked.name, result.model_message)
            _replace_content(unchecked, result)


def _replace_content(unchecked: UncheckedResult, result: CheckResult) -> None:
    """Replace a result by its refusal, in the history too."""
    part = _part_of(unchecked)
    if getattr(part, "tool_name", None):
        _set_part(unchecked, build_denial(result, unchecked.name, unchecked.call_id))
    else:
        _set_part(unchecked, replace(part, content=result.model_message))


def _part_of(unchecked: UncheckedResult) -> Any:
    return unchecked.message.parts[unchecked.position]


def _set_part(unchecked: UncheckedResult, part: ModelRequestPart) -> None:
    parts: list[ModelRequestPart] = list(unchecked.message.parts)
    parts[unchecked.position] = part
    # The framework holds the message in two lists; a copy would reach only one of them.
    unchecked.message.parts = parts


def _content_key(content: Any) -> str | None:
    """Return the text of a result; None if it cannot be read."""
    if isinstance(content, str):
        return content
    try:
        return extract_texts(to_jsonable(content))
    except InputError:
        return None


_PromptKey = tuple[datetime, str]


class RunConversation:
    """The checked prompts and answers of one run; `prompt` is the last prompt.

    A refusal raises `RunRefused`.
    """

    def __init__(self, enforcer: Enforcer) -> None:
        self._enforcer = enforcer
        self._checked: set[_PromptKey] = set()
        self._added: set[str] = set()
        self._cleared: set[str] = set()
        self._plain = enforcer.refuse_changes()
        self.prompt: str | None = None
        self.reask: str | None = None

    def allow_text(self, text: str) -> None:
        """Note a text that a tool added and that was checked as its result."""
        self._added.add(text)

    def find_new_prompts(self, new: Iterable[ModelRequest]) -> list[UserPromptPart]:
        """Return the unchecked prompts in new messages."""
        return [
            part
            for message in new
            for part in message.parts
            if isinstance(part, UserPromptPart) and not self._is_checked(part)
        ]

    def _is_checked(self, part: UserPromptPart) -> bool:
        text = content_text(part.content)
        return not text or text in self._added or (part.timestamp, text) in self._checked

    async def check_prompts(self, prompts: Sequence[UserPromptPart], context: CallContext) -> None:
        """Check prompts before a model reads them, and change them if settings say so."""
        self.prompt = "\n".join(content_text(part.content) for part in prompts)
        result = await self._enforcer.acheck_prompt(self.prompt, context)
        changed = [change_content(part.content, result) for part in prompts]
        if not is_changed_fully(result, list(map(content_text, changed))):
            result = await self._plain.acheck_prompt(self.prompt, context)
        if result.changes is not None:
            for part, content in zip(prompts, changed, strict=True):
                part.content = content
            self.prompt = "\n".join(map(content_text, changed))
        self._checked.update((part.timestamp, content_text(part.content)) for part in prompts)
        require_allowed(result)

    async def check_response(
        self, response: ModelResponse, parameters: ModelRequestParameters, context: CallContext
    ) -> ModelResponse:
        """Check a response.

        Return it with changed texts, help lines, and the envelope if the model declined.
        """
        require_allowed(await self._enforcer.aread_refusal(response, context, prompt=self.prompt))
        calls, names = response.tool_calls, {tool.name for tool in parameters.output_tools}
        data = is_structured(parameters)
        shown, lines = response, dict[str, None]()
        for text in _list_answers(response, names, data=data):
            result = await self._check_text(text, context)
            shown = change_response(shown, result, names)
            lines.update(dict.fromkeys(result.resources))
            if result.changes is None:
                continue
            left = _list_answers(shown, names, data=data)
            if not is_changed_fully(result, left):
                require_allowed(await self._plain.acheck_answer(text, context, prompt=self.prompt))
            self._cleared.update(left)
        texts = list_readings(shown, data=data)
        shown = shown if data else add_resources(shown, lines)
        if lines:
            self._cleared.update(list_readings(shown, data=data))
        if calls:
            return shown
        for text in texts:
            result = await self._enforcer.aread_refusal(
                None, context, text=text, prompt=self.prompt
            )
            if not result.allowed:
                metadata = {**(shown.metadata or {}), "refusal": result.envelope}
                return replace(shown, metadata=metadata)
        return shown

    async def check_output(self, output: Any, context: CallContext) -> Any:
        """Check the final output, and return it with changed texts."""
        text = output if isinstance(output, str) else extract_texts(to_jsonable(output))
        result = await self._check_text(text, context)
        changed = result.apply_changes(output)
        if not is_changed_fully(result, to_jsonable(changed)):
            await self.check_answer(text, context)
        return changed

    async def check_answer(self, text: str, context: CallContext) -> None:
        """Check a text that cannot be changed."""
        await self._check_text(text, context, self._plain)

    async def _check_text(
        self, text: str, context: CallContext, enforcer: Enforcer | None = None
    ) -> CheckResult:
        if not text or text in self._cleared:
            return CheckResult(Surface.OUTPUT)
        chosen = enforcer or self._enforcer
        result = require_allowed(await chosen.acheck_answer(text, context, prompt=self.prompt))
        if result.changes is None:
            self._cleared.add(text)
        return result

    def stream_checks(self, context: CallContext) -> TextChecks:
        """Return the checks for a streamed answer."""
        return TextChecks(
            lambda: self._enforcer.stream_answer(context, prompt=self.prompt, hold_changes=True),
            self._cleared.add,
            lambda text: self.check_answer(text, context),
        )

    async def check_output_call(self, call: ToolCallPart, context: CallContext) -> None:
        """Check the call of an output function like a tool call."""
        arguments = call.args_as_dict()
        require_allowed(await self._enforcer.acheck_tool_call(call.tool_name, arguments, context))


def _list_answers(
    response: ModelResponse, outputs: Collection[str], *, data: bool
) -> tuple[str, ...]:
    """Return the arguments of output tools in a response, and the readings of its text."""
    calls = (one.args_as_json_str() for one in response.tool_calls if one.tool_name in outputs)
    return (*calls, *list_readings(response, data=data))


@dataclass
class PydanticRunState:
    """The checked conversation, calls and results of one run; `messages` is its history."""

    conversation: RunConversation
    calls: RunCalls
    results: RunResults = field(default_factory=RunResults)
    messages: list[ModelMessage] = field(default_factory=list)

    @classmethod
    def begin(cls, enforcer: Enforcer, grant_for: GrantFor | None) -> Self:
        """Return the state of a new run."""
        return cls(RunConversation(enforcer), RunCalls(enforcer, grant_for))
