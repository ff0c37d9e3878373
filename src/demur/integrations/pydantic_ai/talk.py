"""What people and the model say in a run: each prompt and each answer is judged once."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from demur.enforce.enforcer import Enforcer, Occasion
from demur.integrations.pydantic_ai.messages import content_text, is_data, readings, with_help
from demur.integrations.pydantic_ai.refused import or_end
from demur.integrations.pydantic_ai.words import Clearing

__all__ = ["Talk"]

_Said = tuple[datetime, str]


class Talk:
    """The checked prompts and answers of one run; `prompt` is the last prompt.

    A refusal raises `RunRefused`.
    """

    def __init__(self, enforcer: Enforcer) -> None:
        self._enforcer = enforcer
        self._heard: set[_Said] = set()
        self._added: set[str] = set()
        self._cleared: set[str] = set()
        self.prompt: str | None = None

    def allow(self, text: str) -> None:
        """Note a text that a tool added and that was checked as its result."""
        self._added.add(text)

    def fresh(self, new: Iterable[ModelRequest]) -> list[UserPromptPart]:
        """Return the unchecked prompts in new messages."""
        return [
            part
            for message in new
            for part in message.parts
            if isinstance(part, UserPromptPart) and not self._knows(part)
        ]

    def _knows(self, part: UserPromptPart) -> bool:
        text = content_text(part.content)
        return not text or text in self._added or (part.timestamp, text) in self._heard

    async def ask(self, prompts: Iterable[UserPromptPart], at: Occasion) -> None:
        """Check prompts before a model reads them."""
        words = [(part.timestamp, content_text(part.content)) for part in prompts]
        self._heard.update(words)
        self.prompt = "\n".join(text for _, text in words)
        or_end(await self._enforcer.aprompt(self.prompt, at))

    async def hear(
        self, response: ModelResponse, parameters: ModelRequestParameters, at: Occasion
    ) -> ModelResponse:
        """Check a response; return it with help lines, and the envelope if the model declined."""
        or_end(await self._enforcer.amodel(response, at, prompt=self.prompt))
        calls, names = response.tool_calls, {tool.name for tool in parameters.output_tools}
        for call in calls:
            if call.tool_name in names:
                await self.answer(call.args_as_json_str(), at)
        data = is_data(parameters)
        texts = readings(response, data=data)
        lines = [line for text in texts for line in await self.answer(text, at)]
        shown = response if data else with_help(response, dict.fromkeys(lines))
        if lines:
            self._cleared.update(readings(shown, data=data))
        if calls:
            return shown
        for text in texts:
            ruling = await self._enforcer.amodel(None, at, text=text, prompt=self.prompt)
            if not ruling.allowed:
                beside = {**(shown.metadata or {}), "refusal": ruling.envelope}
                return replace(shown, metadata=beside)
        return shown

    async def answer(self, text: str, at: Occasion) -> tuple[str, ...]:
        """Check a text and return the help lines to show below it."""
        if not text or text in self._cleared:
            return ()
        ruling = or_end(await self._enforcer.aanswer(text, at, prompt=self.prompt))
        self._cleared.add(text)
        return ruling.resources

    def clearing(self, at: Occasion) -> Clearing:
        """Return the checks for a streamed answer."""
        return Clearing(
            lambda: self._enforcer.stream(at, prompt=self.prompt),
            self._cleared.add,
            lambda text: self.answer(text, at),
        )

    async def make(self, call: ToolCallPart, at: Occasion) -> None:
        """Check the call of an output function like a tool call."""
        or_end(await self._enforcer.atool_call(call.tool_name, call.args_as_dict(), at))
