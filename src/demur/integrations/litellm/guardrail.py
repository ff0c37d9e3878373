"""The guardrail: LiteLLM's hooks, each one a question to the enforcer."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal

from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.types.guardrails import GuardrailEventHooks
from litellm.types.utils import CallTypes, GenericGuardrailAPIInputs, GuardrailStatus

from demur.enforce.answer_stream import AnswerStream
from demur.enforce.enforcer import Enforcer, Occasion
from demur.enforce.ruling import Ruling
from demur.errors import DemurError, InputTypeError
from demur.gate.gate import Gate
from demur.guards.tool_call.manifest import ToolDefinition
from demur.integrations.litellm.events import assembled
from demur.integrations.litellm.reading import (
    Called,
    Question,
    Returned,
    as_json,
    called_in,
    occasion,
    older_calls_in,
    question_in,
    readings_of,
    said_in,
    together,
    words_in,
)
from demur.integrations.litellm.refused import (
    GuardrailRefused,
    add_help,
    beside,
    keep,
    status_of,
    told,
    traced,
)
from demur.integrations.litellm.settings import GuardrailSettingsError, enforcer_of
from demur.integrations.litellm.stream import Ended, held_back

__all__ = ["RefusalGuardrail"]

_PROVIDER = "demur"
_NOBODY = Occasion()
_USUAL = (GuardrailEventHooks.pre_call, GuardrailEventHooks.post_call)
_CHATS = (CallTypes.completion, CallTypes.acompletion)
# Call types for which LiteLLM calls the deployment hook; its own class handles only chats.
_ASKING = (*_CHATS, CallTypes.aresponses, CallTypes.atext_completion, CallTypes.anthropic_messages)
_LOGGED = "litellm_logging_obj"
# Not `during_mcp_call`: the tool would run during the check.
_HOOKS = (*_USUAL, GuardrailEventHooks.during_call, GuardrailEventHooks.pre_mcp_call)


class RefusalGuardrail(CustomGuardrail):
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
        occasion: Callable[[Mapping[str, Any]], Occasion] | None = None,
        demur_config: str | None = None,
        guardrail_name: str | None = "demur",
        event_hook: Any = None,
        **settings: Any,
    ) -> None:
        given = None if enforcer is None else Enforcer.of(enforcer)
        if occasion is not None and not callable(occasion):
            raise InputTypeError.expected("occasion", "a function of the request", occasion)
        self._asked = occasion
        if given is not None:
            # In a program, guard all requests; a proxy names its guardrails.
            settings.setdefault("default_on", True)
        try:
            super().__init__(
                guardrail_name=guardrail_name,
                # Without a mode, LiteLLM would also run the guardrail on logged calls.
                event_hook=event_hook or list(_USUAL),
                supported_event_hooks=list(_HOOKS),
                **settings,
            )
            self.enforcer = enforcer_of(demur_config) if given is None else given
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
        if call_type in _CHATS and "messages" in asked:
            return await super().async_pre_call_deployment_hook(asked, call_type)
        if call_type in _ASKING and self._is_to_judge(asked):
            await self._unchanged(asked, chat=call_type in _CHATS)
        return asked

    def _is_to_judge(self, asked: dict[str, Any]) -> bool:
        if not isinstance(asked.get("guardrails"), list) or self._pre_call_hook_already_ran(asked):
            return False
        return self.should_run_guardrail(asked, GuardrailEventHooks.pre_call) is True

    async def _unchanged(self, asked: dict[str, Any], *, chat: bool) -> None:
        """Check a request that hooks cannot change; its arguments may be positional."""
        given, logged = question_in(asked), getattr(asked.get(_LOGGED), "messages", None)
        if logged not in (asked.get("input"), asked.get("prompt")):
            given = together(question_in({"messages": logged}), given)
        # For other calls, LiteLLM would send these log entries to the provider.
        noted = asked if chat else {**asked, "metadata": dict(asked.get("metadata") or {})}
        await self._request(given, noted, self._at(asked, None), GuardrailEventHooks.pre_call)

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        """Check a request before it is sent; replace refused tool outputs by the refusal."""
        del cache, call_type
        at = self._at(data, user_api_key_dict)
        if data.get("mcp_tool_name"):
            await self._tool(data, at)
            return data
        event, asked = GuardrailEventHooks.pre_call, question_in(data)
        await self._prompt(asked.prompt, data, at, event)
        for result in asked.results:
            ruling = await self._returned(result, at)
            if ruling.allowed or ruling.is_hard or not result.replaceable:
                self._pass(ruling, data, event)
            else:
                self._note(ruling, data, event)
                data["messages"] = told(data["messages"], result.place, ruling)
        return data

    async def async_moderation_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, call_type: str
    ) -> dict[str, Any]:
        """Check a request while the model runs; LiteLLM holds the answer until then."""
        del call_type
        at = self._at(data, user_api_key_dict)
        await self._request(question_in(data), data, at, GuardrailEventHooks.during_call)
        return data

    async def _request(
        self, asked: Question, data: dict[str, Any], at: Occasion, event: GuardrailEventHooks
    ) -> None:
        await self._prompt(asked.prompt, data, at, event)
        for result in asked.results:
            self._pass(await self._returned(result, at), data, event)

    async def _prompt(
        self, text: str, data: dict[str, Any], at: Occasion, event: GuardrailEventHooks
    ) -> None:
        if text:
            self._pass(await self.enforcer.aprompt(text, at), data, event)

    async def _returned(self, result: Returned, at: Occasion) -> Ruling:
        called = at._replace(call_id=result.call_id)
        return await self.enforcer.atool_result(
            result.name, result.content, called, arguments=result.arguments
        )

    async def _tool(self, data: dict[str, Any], at: Occasion) -> None:
        name, arguments = data["mcp_tool_name"], data.get("mcp_arguments") or {}
        description, schema = data.get("mcp_tool_description"), data.get("mcp_input_schema")
        tool = (
            ToolDefinition(name=name, description=description or "", schema=schema)
            if isinstance(schema, dict)
            else None
        )
        source = data.get("mcp_server_name") or ""
        ruling = await self.enforcer.atool_call(name, arguments, at, tool=tool, source=source)
        self._pass(ruling, data, GuardrailEventHooks.pre_mcp_call)

    # Responses.

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any
    ) -> Any:
        """Check a response before the caller gets it; remove refused tool calls."""
        at, event = self._at(data, user_api_key_dict), GuardrailEventHooks.post_call
        prompt = question_in(data).prompt or None
        # Plain values are read in half the time.
        body = as_json(response)
        said, calls, older = said_in(body), called_in(body), older_calls_in(body)
        await self._model(body, at, prompt, data)
        for text in said:
            ruling = await self.enforcer.aanswer(text, at, prompt=prompt)
            self._pass(ruling, data, event)
            add_help(response, text, ruling.resources)
        await self._calls(older, at, data, some=False)
        await self._made(response, calls, at, data)
        if said and not calls and not older:
            ruling = await self.enforcer.amodel(None, at, text=words_in(body), prompt=prompt)
            for choice in getattr(response, "choices", ()):
                self._declined(ruling, data, getattr(choice, "message", None))
        return response

    async def _made(
        self, response: Any, calls: list[Called], at: Occasion, data: dict[str, Any]
    ) -> None:
        """Check tool calls; remove refused ones from a chat response."""
        messages = [getattr(choice, "message", None) for choice in getattr(response, "choices", ())]
        holders: list[Any] = [one for one in messages if getattr(one, "tool_calls", None)]
        rulings = await self._calls(calls, at, data, some=bool(holders))
        for holder in holders:
            mine, rulings = rulings[: len(holder.tool_calls)], rulings[len(holder.tool_calls) :]
            keep(holder, holder.tool_calls, mine)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Yield the chunks of a response; hold text back until it is cleared."""
        at, event = self._at(request_data, user_api_key_dict), GuardrailEventHooks.post_call
        prompt = question_in(request_data).prompt or None

        async def text(stream: AnswerStream) -> str:
            self._pass(await stream.aend(), request_data, event)
            return stream.rest

        async def model(choice: Any, said: str) -> None:
            ended = {**choice.model_dump(), "message": {}}
            form = {"object": "chat.completion", "choices": [ended]}
            await self._model(form, at, prompt, request_data)
            ruling = await self.enforcer.amodel(None, at, text=said, prompt=prompt)
            self._declined(ruling, request_data, choice.delta)

        async def whole(chunks: list[Any]) -> None:
            await self._whole(assembled(chunks), at, prompt, request_data)

        judging = Ended(
            lambda: self.enforcer.stream(at, prompt=prompt),
            text,
            lambda calls: self._calls(calls, at, request_data, some=True),
            model,
            whole,
        )
        async for chunk in held_back(response, judging):
            yield chunk

    async def _whole(
        self, bodies: list[dict[str, Any]], at: Occasion, prompt: str | None, data: dict[str, Any]
    ) -> None:
        """Check responses that cannot be edited; repeated texts and calls are checked once."""
        texts = dict.fromkeys(text for body in bodies for text in said_in(body))
        calls = [call for body in bodies for call in (*called_in(body), *older_calls_in(body))]
        for body in bodies:
            await self._model(body, at, prompt, data)
        for text in texts:
            ruling = await self.enforcer.aanswer(text, at, prompt=prompt)
            self._pass(ruling, data, GuardrailEventHooks.post_call)
        await self._calls({repr(one): one for one in calls}.values(), at, data, some=False)

    async def _model(
        self, response: Any, at: Occasion, prompt: str | None, data: dict[str, Any]
    ) -> None:
        ruling = await self.enforcer.amodel(response, at, prompt=prompt)
        if not ruling.allowed:
            self._pass(ruling, data, GuardrailEventHooks.post_call)

    async def _calls(
        self, calls: Iterable[Called], at: Occasion, data: dict[str, Any], *, some: bool
    ) -> list[Ruling]:
        """Check calls; unless `allow_some`, one refused call refuses the response."""
        event = GuardrailEventHooks.post_call
        rulings = [
            await self.enforcer.atool_call(
                call.name, call.arguments, at._replace(call_id=call.call_id)
            )
            for call in calls
        ]
        refused = [one for one in rulings if not one.allowed]
        hard = [one for one in refused if one.is_hard]
        if hard or (refused and (not some or len(refused) == len(rulings))):
            self._pass((hard or refused)[0], data, event)
        for ruling in rulings:
            self._note(ruling, data, event)
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
        at = self._at(request_data, request_data.get("user_api_key_dict"))
        if input_type == "request":
            asked = question_in(
                {"messages": inputs.get("structured_messages") or inputs.get("texts")}
            )
            await self._request(asked, request_data, at, GuardrailEventHooks.pre_call)
            return inputs
        for text in readings_of(inputs.get("texts") or ()):
            ruling = await self.enforcer.aanswer(text, at)
            self._pass(ruling, request_data, GuardrailEventHooks.post_call)
        calls = called_in({"tool_calls": inputs.get("tool_calls")})
        await self._calls(calls, at, request_data, some=False)
        return inputs

    def _at(self, data: Mapping[str, Any], who: Any) -> Occasion:
        return occasion(data, who, _NOBODY if self._asked is None else self._asked(data))

    def _pass(self, ruling: Ruling, data: dict[str, Any], event: GuardrailEventHooks) -> None:
        self._note(ruling, data, event)
        if not ruling.allowed:
            raise GuardrailRefused(ruling, self.guardrail_name)

    def _declined(self, ruling: Ruling, data: dict[str, Any], holder: Any) -> None:
        """Log that a model declined, and attach the envelope to its message."""
        if not ruling.allowed and holder is not None:
            self._note(ruling, data, GuardrailEventHooks.post_call, status="guardrail_flagged")
            beside(holder, ruling)

    def _note(
        self,
        ruling: Ruling,
        data: dict[str, Any],
        event: GuardrailEventHooks,
        status: GuardrailStatus | None = None,
    ) -> None:
        self.add_standard_logging_guardrail_information_to_request_data(
            guardrail_json_response=ruling.envelope or "allow",
            request_data=data,
            guardrail_status=status or status_of(ruling),
            guardrail_provider=_PROVIDER,
            event_type=event,
            tracing_detail=traced(ruling),
        )
