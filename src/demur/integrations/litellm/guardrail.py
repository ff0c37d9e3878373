"""The LiteLLM guardrail: each hook of LiteLLM calls the enforcer."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal

from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.types.guardrails import GuardrailEventHooks
from litellm.types.utils import CallTypes, GenericGuardrailAPIInputs, GuardrailStatus

from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.enforce.streams import AnswerStream
from demur.errors import DemurError, InputError, InputTypeError
from demur.gate.config import CONFIG_NAME, find_config, load_config, open_gate
from demur.gate.gate import Gate
from demur.guards.tool_manifest import ToolDefinition
from demur.integrations.litellm.output import (
    AnswerEndChecks,
    GuardrailRefused,
    add_resources,
    attach_envelope,
    filter_chunks,
    guardrail_status,
    keep_allowed_calls,
    replace_result,
    tracing_detail,
)
from demur.integrations.litellm.reading import (
    LiteLLMToolOutput,
    RequestContent,
    RequestedCall,
    as_json,
    assemble_responses,
    build_context,
    join_answer_text,
    list_readings,
    merge_contents,
    read_answer_texts,
    read_calls,
    read_function_calls,
    read_request,
)


class GuardrailSettingsError(DemurError):
    """The guardrail cannot be set up, so the proxy must not start.

    It is no `ValueError`, because LiteLLM logs those and serves without the guardrail.
    """


def open_config_enforcer(path: str | None) -> Enforcer:
    """Return the enforcer of a settings file: the given one, or else the default one.

    Raises:
        InputError: There is no settings file, or it is invalid.
    """
    found = find_config() if path is None else path
    if found is None:
        raise InputError(
            "no settings file for the guardrail",
            help=f"set `demur_config` in its `litellm_params`, or add a `{CONFIG_NAME}`",
        )
    return Enforcer(open_gate(load_config(found)))


_PROVIDER = "demur"
_NO_CONTEXT = CallContext()
_DEFAULT_HOOKS = (GuardrailEventHooks.pre_call, GuardrailEventHooks.post_call)
_CHAT_CALLS = (CallTypes.completion, CallTypes.acompletion)
# Call types for which LiteLLM calls the deployment hook; its own class handles only chats.
_CHECKED_CALLS = (
    *_CHAT_CALLS,
    CallTypes.aresponses,
    CallTypes.atext_completion,
    CallTypes.anthropic_messages,
)
_LOGGING_KEY = "litellm_logging_obj"
# Not `during_mcp_call`: the tool would run during the check.
_SUPPORTED_HOOKS = (
    *_DEFAULT_HOOKS,
    GuardrailEventHooks.during_call,
    GuardrailEventHooks.pre_mcp_call,
)


class LiteLLMGuard(CustomGuardrail):
    """Guards requests and responses, streamed ones included.

    In a program, pass an `enforcer` or a gate; `context` returns the call context for a request,
    and demur fills in the rest. The proxy passes options from its YAML: `demur_config` names the
    settings file; the default is `DEMUR_CONFIG`, or `demur.toml` in the working directory.
    """

    # Native hooks get whole responses; a response that a provider filtered has no text.
    use_native_lifecycle_hooks: ClassVar[bool] = True
    records_own_guardrail_information: ClassVar[bool] = True

    def __init__(
        self,
        enforcer: Enforcer | Gate | None = None,
        *,
        context: Callable[[Mapping[str, Any]], CallContext] | None = None,
        demur_config: str | None = None,
        guardrail_name: str | None = "demur",
        event_hook: Any = None,
        **settings: Any,
    ) -> None:
        given = None if enforcer is None else Enforcer.from_gate(enforcer)
        if context is not None and not callable(context):
            raise InputTypeError.wrong_type("context", "a function of the request", context)
        self._context = context
        if given is not None:
            # In a program, guard all requests; a proxy names its guardrails.
            settings.setdefault("default_on", True)
        try:
            super().__init__(
                guardrail_name=guardrail_name,
                # Without a mode, LiteLLM would also run the guardrail on logged calls.
                event_hook=event_hook or list(_DEFAULT_HOOKS),
                supported_event_hooks=list(_SUPPORTED_HOOKS),
                **settings,
            )
            self.enforcer = open_config_enforcer(demur_config) if given is None else given
        except DemurError as error:
            raise GuardrailSettingsError(
                error.problem, where=error.where, help=error.help
            ) from error
        except (ValueError, TypeError) as error:
            raise GuardrailSettingsError(str(error), where=guardrail_name) from error

    # Requests: the proxy calls its own hooks; in a program, LiteLLM calls the deployment hook.

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: CallTypes | None
    ) -> dict[str, Any] | None:
        """Check a request of a program, whether or not it names its guardrails."""
        asked = dict(kwargs)
        unnamed = asked.get("guardrails") is None and "proxy_server_request" not in asked
        if self.default_on and unnamed:
            asked["guardrails"] = [self.guardrail_name]
        if call_type in _CHAT_CALLS and "messages" in asked:
            return await super().async_pre_call_deployment_hook(asked, call_type)
        if call_type in _CHECKED_CALLS and self._must_check(asked):
            await self._check_fixed_request(asked, chat=call_type in _CHAT_CALLS)
        return asked

    def _must_check(self, asked: dict[str, Any]) -> bool:
        if not isinstance(asked.get("guardrails"), list) or self._pre_call_hook_already_ran(asked):
            return False
        return self.should_run_guardrail(asked, GuardrailEventHooks.pre_call) is True

    async def _check_fixed_request(self, asked: dict[str, Any], *, chat: bool) -> None:
        """Check a request that hooks cannot change; its arguments may be positional."""
        given, logged = read_request(asked), getattr(asked.get(_LOGGING_KEY), "messages", None)
        if logged not in (asked.get("input"), asked.get("prompt")):
            given = merge_contents(read_request({"messages": logged}), given)
        # For other calls, LiteLLM would send these log entries to the provider.
        noted = asked if chat else {**asked, "metadata": dict(asked.get("metadata") or {})}
        await self._check_request(
            given, noted, self._context_for(asked, None), GuardrailEventHooks.pre_call
        )

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        """Check a request before it is sent; replace refused tool outputs by the refusal."""
        del cache, call_type
        at = self._context_for(data, user_api_key_dict)
        if data.get("mcp_tool_name"):
            await self._check_mcp_call(data, at)
            return data
        event, asked = GuardrailEventHooks.pre_call, read_request(data)
        await self._check_prompt(asked.prompt, data, at, event)
        for result in asked.results:
            ruling = await self._check_tool_output(result, at)
            if ruling.allowed or ruling.is_hard or not result.replaceable:
                self._require_allowed(ruling, data, event)
            else:
                self._log_result(ruling, data, event)
                data["messages"] = replace_result(data["messages"], result.position, ruling)
        return data

    async def async_moderation_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, call_type: str
    ) -> dict[str, Any]:
        """Check a request while the model runs; LiteLLM holds the answer until then."""
        del call_type
        at = self._context_for(data, user_api_key_dict)
        await self._check_request(read_request(data), data, at, GuardrailEventHooks.during_call)
        return data

    async def _check_request(
        self,
        asked: RequestContent,
        data: dict[str, Any],
        context: CallContext,
        event: GuardrailEventHooks,
    ) -> None:
        await self._check_prompt(asked.prompt, data, context, event)
        for result in asked.results:
            self._require_allowed(await self._check_tool_output(result, context), data, event)

    async def _check_prompt(
        self, text: str, data: dict[str, Any], context: CallContext, event: GuardrailEventHooks
    ) -> None:
        if text:
            self._require_allowed(await self.enforcer.acheck_prompt(text, context), data, event)

    async def _check_tool_output(
        self, result: LiteLLMToolOutput, context: CallContext
    ) -> CheckResult:
        called = context._replace(call_id=result.call_id)
        return await self.enforcer.acheck_tool_result(
            result.name, result.content, called, arguments=result.arguments
        )

    async def _check_mcp_call(self, data: dict[str, Any], context: CallContext) -> None:
        name, arguments = data["mcp_tool_name"], data.get("mcp_arguments") or {}
        description, schema = data.get("mcp_tool_description"), data.get("mcp_input_schema")
        tool = (
            ToolDefinition(name=name, description=description or "", schema=schema)
            if isinstance(schema, dict)
            else None
        )
        source = data.get("mcp_server_name") or ""
        ruling = await self.enforcer.acheck_tool_call(
            name, arguments, context, tool=tool, source=source
        )
        self._require_allowed(ruling, data, GuardrailEventHooks.pre_mcp_call)

    # Responses.

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any
    ) -> Any:
        """Check a response before the caller gets it; remove refused tool calls."""
        at, event = self._context_for(data, user_api_key_dict), GuardrailEventHooks.post_call
        prompt = read_request(data).prompt or None
        # Plain values are read in half the time.
        body = as_json(response)
        said, calls, older = read_answer_texts(body), read_calls(body), read_function_calls(body)
        await self._check_model_refusal(body, at, prompt, data)
        for text in said:
            ruling = await self.enforcer.acheck_answer(text, at, prompt=prompt)
            self._require_allowed(ruling, data, event)
            add_resources(response, text, ruling.resources)
        await self._check_calls(older, at, data, allow_some=False)
        await self._check_chat_calls(response, calls, at, data)
        if said and not calls and not older:
            ruling = await self.enforcer.aread_refusal(
                None, at, text=join_answer_text(body), prompt=prompt
            )
            for choice in getattr(response, "choices", ()):
                self._mark_declined(ruling, data, getattr(choice, "message", None))
        return response

    async def _check_chat_calls(
        self, response: Any, calls: list[RequestedCall], context: CallContext, data: dict[str, Any]
    ) -> None:
        """Check tool calls; remove refused ones from a chat response."""
        messages = [getattr(choice, "message", None) for choice in getattr(response, "choices", ())]
        holders: list[Any] = [one for one in messages if getattr(one, "tool_calls", None)]
        rulings = await self._check_calls(calls, context, data, allow_some=bool(holders))
        for holder in holders:
            mine, rulings = rulings[: len(holder.tool_calls)], rulings[len(holder.tool_calls) :]
            keep_allowed_calls(holder, holder.tool_calls, mine)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Yield the chunks of a response; hold text back until it is cleared."""
        at, event = (
            self._context_for(request_data, user_api_key_dict),
            GuardrailEventHooks.post_call,
        )
        prompt = read_request(request_data).prompt or None

        async def text(stream: AnswerStream) -> str:
            self._require_allowed(await stream.afinish(), request_data, event)
            return stream.remaining_text

        async def model(choice: Any, said: str) -> None:
            ended = {**choice.model_dump(), "message": {}}
            form = {"object": "chat.completion", "choices": [ended]}
            await self._check_model_refusal(form, at, prompt, request_data)
            ruling = await self.enforcer.aread_refusal(None, at, text=said, prompt=prompt)
            self._mark_declined(ruling, request_data, choice.delta)

        async def whole(chunks: list[Any]) -> None:
            await self._check_bodies(assemble_responses(chunks), at, prompt, request_data)

        judging = AnswerEndChecks(
            lambda: self.enforcer.stream_answer(at, prompt=prompt),
            text,
            lambda calls: self._check_calls(calls, at, request_data, allow_some=True),
            model,
            whole,
        )
        async for chunk in filter_chunks(response, judging):
            yield chunk

    async def _check_bodies(
        self,
        bodies: list[dict[str, Any]],
        context: CallContext,
        prompt: str | None,
        data: dict[str, Any],
    ) -> None:
        """Check responses that cannot be edited; repeated texts and calls are checked once."""
        texts = dict.fromkeys(text for body in bodies for text in read_answer_texts(body))
        calls = [
            call for body in bodies for call in (*read_calls(body), *read_function_calls(body))
        ]
        for body in bodies:
            await self._check_model_refusal(body, context, prompt, data)
        for text in texts:
            ruling = await self.enforcer.acheck_answer(text, context, prompt=prompt)
            self._require_allowed(ruling, data, GuardrailEventHooks.post_call)
        await self._check_calls(
            {repr(one): one for one in calls}.values(), context, data, allow_some=False
        )

    async def _check_model_refusal(
        self, response: Any, context: CallContext, prompt: str | None, data: dict[str, Any]
    ) -> None:
        ruling = await self.enforcer.aread_refusal(response, context, prompt=prompt)
        if not ruling.allowed:
            self._require_allowed(ruling, data, GuardrailEventHooks.post_call)

    async def _check_calls(
        self,
        calls: Iterable[RequestedCall],
        context: CallContext,
        data: dict[str, Any],
        *,
        allow_some: bool,
    ) -> list[CheckResult]:
        """Check calls; unless `allow_some`, one refused call refuses the response."""
        event = GuardrailEventHooks.post_call
        rulings = [
            await self.enforcer.acheck_tool_call(
                call.name, call.arguments, context._replace(call_id=call.call_id)
            )
            for call in calls
        ]
        refused = [one for one in rulings if not one.allowed]
        hard = [one for one in refused if one.is_hard]
        if hard or (refused and (not allow_some or len(refused) == len(rulings))):
            self._require_allowed((hard or refused)[0], data, event)
        for ruling in rulings:
            self._log_result(ruling, data, event)
        return rulings

    # The generic guardrail API: for an endpoint, and for batches.

    async def apply_guardrail(
        self,
        inputs: GenericGuardrailAPIInputs,
        request_data: dict[str, Any],
        input_type: Literal["request", "response"],
        logging_obj: Any = None,
    ) -> GenericGuardrailAPIInputs:
        """Check texts and calls, and return the inputs unchanged."""
        del logging_obj
        at = self._context_for(request_data, request_data.get("user_api_key_dict"))
        if input_type == "request":
            asked = read_request(
                {"messages": inputs.get("structured_messages") or inputs.get("texts")}
            )
            await self._check_request(asked, request_data, at, GuardrailEventHooks.pre_call)
            return inputs
        for text in list_readings(inputs.get("texts") or ()):
            ruling = await self.enforcer.acheck_answer(text, at)
            self._require_allowed(ruling, request_data, GuardrailEventHooks.post_call)
        calls = read_calls({"tool_calls": inputs.get("tool_calls")})
        await self._check_calls(calls, at, request_data, allow_some=False)
        return inputs

    def _context_for(self, data: Mapping[str, Any], user: Any) -> CallContext:
        return build_context(
            data, user, _NO_CONTEXT if self._context is None else self._context(data)
        )

    def _require_allowed(
        self, result: CheckResult, data: dict[str, Any], event: GuardrailEventHooks
    ) -> None:
        self._log_result(result, data, event)
        if not result.allowed:
            raise GuardrailRefused(result, self.guardrail_name)

    def _mark_declined(self, result: CheckResult, data: dict[str, Any], holder: Any) -> None:
        """Log that a model declined, and attach the envelope to its message."""
        if not result.allowed and holder is not None:
            self._log_result(
                result, data, GuardrailEventHooks.post_call, status="guardrail_flagged"
            )
            attach_envelope(holder, result)

    def _log_result(
        self,
        result: CheckResult,
        data: dict[str, Any],
        event: GuardrailEventHooks,
        status: GuardrailStatus | None = None,
    ) -> None:
        self.add_standard_logging_guardrail_information_to_request_data(
            guardrail_json_response=result.envelope or "allow",
            request_data=data,
            guardrail_status=status or guardrail_status(result),
            guardrail_provider=_PROVIDER,
            event_type=event,
            tracing_detail=tracing_detail(result),
        )
