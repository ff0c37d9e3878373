"""What people and the model say in a run: each prompt and each answer is judged once."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from demur.enforce.enforcer import Enforcer, CallContext
from demur.integrations.pydantic_ai.messages import (
    content_text,
    is_structured,
    list_readings,
    add_resources,
)
from demur.integrations.pydantic_ai.refused import require_allowed
from demur.integrations.pydantic_ai.words import TextChecks

__all__ = ["RunConversation"]

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
        self.prompt: str | None = None

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

    async def check_prompts(self, prompts: Iterable[UserPromptPart], context: CallContext) -> None:
        """Check prompts before a model reads them."""
        words = [(part.timestamp, content_text(part.content)) for part in prompts]
        self._checked.update(words)
        self.prompt = "\n".join(text for _, text in words)
        require_allowed(await self._enforcer.acheck_prompt(self.prompt, context))

    async def check_response(
        self, response: ModelResponse, parameters: ModelRequestParameters, context: CallContext
    ) -> ModelResponse:
        """Check a response; return it with help lines, and the envelope if the model declined."""
        require_allowed(await self._enforcer.aread_refusal(response, context, prompt=self.prompt))
        calls, names = response.tool_calls, {tool.name for tool in parameters.output_tools}
        for call in calls:
            if call.tool_name in names:
                await self.check_answer(call.args_as_json_str(), context)
        data = is_structured(parameters)
        texts = list_readings(response, data=data)
        lines = [line for text in texts for line in await self.check_answer(text, context)]
        shown = response if data else add_resources(response, dict.fromkeys(lines))
        if lines:
            self._cleared.update(list_readings(shown, data=data))
        if calls:
            return shown
        for text in texts:
            ruling = await self._enforcer.aread_refusal(
                None, context, text=text, prompt=self.prompt
            )
            if not ruling.allowed:
                beside = {**(shown.metadata or {}), "refusal": ruling.envelope}
                return replace(shown, metadata=beside)
        return shown

    async def check_answer(self, text: str, context: CallContext) -> tuple[str, ...]:
        """Check a text and return the help lines to show below it."""
        if not text or text in self._cleared:
            return ()
        ruling = require_allowed(
            await self._enforcer.acheck_answer(text, context, prompt=self.prompt)
        )
        self._cleared.add(text)
        return ruling.resources

    def stream_checks(self, context: CallContext) -> TextChecks:
        """Return the checks for a streamed answer."""
        return TextChecks(
            lambda: self._enforcer.stream_answer(context, prompt=self.prompt),
            self._cleared.add,
            lambda text: self.check_answer(text, context),
        )

    async def check_output_call(self, call: ToolCallPart, context: CallContext) -> None:
        """Check the call of an output function like a tool call."""
        require_allowed(
            await self._enforcer.acheck_tool_call(call.tool_name, call.args_as_dict(), context)
        )
