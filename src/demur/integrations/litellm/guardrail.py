"""The LiteLLM guardrail: each hook of LiteLLM calls the enforcer."""

from collections.abc import AsyncGenerator
from typing import Any, ClassVar, Literal

from litellm.integrations.custom_guardrail import CustomGuardrail, get_session_id_from_request_data
from litellm.types.guardrails import GuardrailEventHooks
from litellm.types.utils import CallTypes, GenericGuardrailAPIInputs

from demur.codes.vocabulary import Surface
from demur.enforce.changes import OnFinding, merge_changes
from demur.enforce.enforcer import EnforceMode, Enforcer, Tools
from demur.enforce.opening import open_enforcer
from demur.errors import DemurError, InputError
from demur.gate.config import CONFIG_NAME, find_config
from demur.gate.gate import Gate
from demur.integrations._kit import (
    ContextSource,
    adapt_enforcer,
    check_context,
    resolve_context,
)
from demur.integrations._kit.model_api import list_readings
from demur.integrations.litellm.output import (
    HookChecks,
    add_resources,
    filter_chunks,
    keep_allowed_calls,
    replace_result,
)
from demur.integrations.litellm.reading import (
    as_json,
    change_request,
    change_value,
    is_free_of,
    join_answer_text,
    merge_contents,
    read_answer_texts,
    read_calls,
    read_function_calls,
    read_request,
    text_field,
)

_FRAMEWORK = "litellm"
_CARRIED = frozenset({Surface.INPUT, Surface.OUTPUT, Surface.TOOL_CALL, Surface.TOOL_RESULT})


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
    return open_enforcer(found)


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

    In a program, pass an `enforcer` or a gate; `context` is the call context, or a function of
    the request, and demur fills in the rest. The proxy passes options from its YAML:
    `demur_config` names the settings file; the default is `DEMUR_CONFIG`, or `demur.toml` in
    the working directory. `on_finding`, `mode` and `tools` are those of all adapters; in YAML,
    `mode` is LiteLLM's own.
    """

    # Native hooks get whole responses; a response that a provider filtered has no text.
    use_native_lifecycle_hooks: ClassVar[bool] = True
    records_own_guardrail_information: ClassVar[bool] = True

    def __init__(
        self,
        enforcer: Enforcer | Gate | None = None,
        *,
        context: ContextSource | None = None,
        on_finding: OnFinding | None = None,
        mode: EnforceMode | None = None,
        tools: Tools | None = None,
        demur_config: str | None = None,
        guardrail_name: str | None = "demur",
        event_hook: Any = None,
        **settings: Any,
    ) -> None:
        self._context = check_context(context)
        if enforcer is not None:
            enforcer = Enforcer.coerce(enforcer, carried=_CARRIED)
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
            opened = open_config_enforcer(demur_config) if enforcer is None else enforcer
            self.enforcer = adapt_enforcer(
                opened, carried=_CARRIED, on_finding=on_finding, mode=mode, tools=tools
            )
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
        data = dict(kwargs)
        unnamed = data.get("guardrails") is None and "proxy_server_request" not in data
        if self.default_on and unnamed:
            data["guardrails"] = [self.guardrail_name]
        if call_type in _CHAT_CALLS and "messages" in data:
            return await super().async_pre_call_deployment_hook(data, call_type)
        if call_type in _CHECKED_CALLS and self._must_check(data):
            await self._check_fixed_request(data, is_chat=call_type in _CHAT_CALLS)
        return data

    def _must_check(self, data: dict[str, Any]) -> bool:
        if not isinstance(data.get("guardrails"), list) or self._pre_call_hook_already_ran(data):
            return False
        return self.should_run_guardrail(data, GuardrailEventHooks.pre_call) is True

    async def _check_fixed_request(self, data: dict[str, Any], *, is_chat: bool) -> None:
        """Check a request that hooks cannot change; its arguments may be positional."""
        content, logged = read_request(data), getattr(data.get(_LOGGING_KEY), "messages", None)
        if logged not in (data.get("input"), data.get("prompt")):
            content = merge_contents(read_request({"messages": logged}), content)
        # For other calls, LiteLLM would send these log entries to the provider.
        noted = data if is_chat else {**data, "metadata": dict(data.get("metadata") or {})}
        checks = self._checks(noted, None, GuardrailEventHooks.pre_call).refuse_changes()
        await checks.check_request(content)

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        """Check a request before it is sent; change its texts, or replace tool outputs."""
        del cache, call_type
        if data.get("mcp_tool_name"):
            event = GuardrailEventHooks.pre_mcp_call
            await self._checks(data, user_api_key_dict, event).check_mcp_call()
            return data
        checks = self._checks(data, user_api_key_dict, GuardrailEventHooks.pre_call)
        content = read_request(data)
        changes = await checks.check_prompt(content.prompt)
        for output, position in content.results:
            result = await checks.check_tool_output(output)
            if result.allowed or result.is_hard or position is None:
                checks.require_allowed(result)
                changes = merge_changes(changes, result.changes)
            else:
                checks.log_result(result)
                data["messages"] = replace_result(data["messages"], position, result)
        if changes is not None and not change_request(data, changes):
            await checks.refuse_changes().check_request(read_request(data))
        return data

    async def async_moderation_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, call_type: str
    ) -> dict[str, Any]:
        """Check a request while the model runs; LiteLLM holds the answer until then."""
        del call_type
        checks = self._checks(data, user_api_key_dict, GuardrailEventHooks.during_call)
        await checks.refuse_changes().check_request(read_request(data))
        return data

    # Responses.

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any
    ) -> Any:
        """Check a response before the caller gets it; remove refused tool calls."""
        checks = self._checks(data, user_api_key_dict, GuardrailEventHooks.post_call)
        checks.prompt = read_request(data).prompt or None
        return await _check_response(checks, response)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Yield the chunks of a response; hold text back until it is cleared."""
        checks = self._checks(request_data, user_api_key_dict, GuardrailEventHooks.post_call)
        checks.prompt = read_request(request_data).prompt or None
        async for chunk in filter_chunks(response, checks):
            yield chunk

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
        user = request_data.get("user_api_key_dict")
        if input_type == "request":
            messages = inputs.get("structured_messages") or inputs.get("texts")
            checks = self._checks(request_data, user, GuardrailEventHooks.pre_call)
            content = read_request({"messages": messages})
            await checks.refuse_changes().check_request(content)
            return inputs
        checks = self._checks(request_data, user, GuardrailEventHooks.post_call).refuse_changes()
        for text in list_readings(inputs.get("texts") or ()):
            await checks.check_answer(text)
        calls = read_calls({"tool_calls": inputs.get("tool_calls")})
        await checks.check_calls(calls, allow_some=False)
        return inputs

    def _checks(self, data: dict[str, Any], user: Any, event: GuardrailEventHooks) -> HookChecks:
        """Return the checks of one hook; the subject is the holder of the proxy's key."""
        run = get_session_id_from_request_data(dict(data))
        given = resolve_context(self._context, data, _FRAMEWORK, run)
        names = (text_field(user, name) for name in ("user_id", "api_key", "token"))
        name = next(filter(None, names), None)
        context = given._replace(
            call_id=given.call_id or text_field(data, "litellm_call_id"),
            subject=given.subject or (name and {"id": name, "type": "user"}) or None,
            tenant=given.tenant or text_field(user, "team_id"),
        )
        return HookChecks(self, self.enforcer, data, context, event)


async def _check_response(checks: HookChecks, response: Any) -> Any:
    """Return a checked response with changed texts and without refused tool calls."""
    # Plain values are read in half the time.
    body = as_json(response)
    texts, calls, older = read_answer_texts(body), read_calls(body), read_function_calls(body)
    await checks.check_model_refusal(body)
    changes, call_changes = None, None
    for text in texts:
        result = await checks.check_answer(text)
        add_resources(response, text, result.resources)
        changes = merge_changes(changes, result.changes)
    older_results = await checks.check_calls(older, allow_some=False)
    holds_calls = bool(_list_holders(response))
    results = await checks.check_calls(calls, allow_some=holds_calls)
    for result in (*older_results, *results):
        call_changes = merge_changes(call_changes, result.changes)
    if changes is not None or call_changes is not None:
        response = change_value(response, changes, call_changes)
        body = as_json(response)
        changed_calls = [one.arguments for one in (*read_calls(body), *read_function_calls(body))]
        is_free = is_free_of(changes, read_answer_texts(body))
        if not (is_free and is_free_of(call_changes, changed_calls)):
            return await _check_response(checks.refuse_changes(), response)
    for holder in _list_holders(response):
        mine, results = results[: len(holder.tool_calls)], results[len(holder.tool_calls) :]
        keep_allowed_calls(holder, holder.tool_calls, mine)
    if texts and not calls and not older:
        await checks.mark_declined(join_answer_text(body), *_list_messages(response))
    return response


def _list_messages(response: Any) -> list[Any]:
    return [getattr(choice, "message", None) for choice in getattr(response, "choices", ())]


def _list_holders(response: Any) -> list[Any]:
    """Return the messages of a chat with tool calls."""
    return [one for one in _list_messages(response) if getattr(one, "tool_calls", None)]
