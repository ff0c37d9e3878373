"""Scenarios run by chains of a prompt and a guarded chat model, waited for and awaited."""

import asyncio
from typing import TYPE_CHECKING, Any

from adapters.driver_langchain import free_tool, orphans, refusal_in, scripted_model
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.prompts import ChatPromptTemplate

from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.integrations.langchain import guard_langchain_model
from demur.testing.scenarios import (
    CheckPoint,
    FrameworkDriver,
    Scenario,
    ScenarioResult,
    ScenarioTools,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from demur.model.refusal import Refusal

__all__ = ["DRIVERS", "ChainDriver"]


class ChainDriver:
    """A loop around a prompt and a model with tools, which runs the tools itself."""

    points = frozenset(set(CheckPoint) - {CheckPoint.TOOL_CALL})
    ends_runs = False

    def __init__(self, *, awaited: bool = False) -> None:
        self.name = "langchain-model-async" if awaited else "langchain-model"
        self._awaited = awaited

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        model = scripted_model(scenario)
        guarded = guard_langchain_model(
            model,
            enforcer,
            context=CallContext(run="run-1"),
            on_refusal="raise" if self._awaited else "answer",
        )
        free = [free_tool(name, tools.run) for name in tools.names]
        chain = ChatPromptTemplate([("placeholder", "{messages}")]) | guarded.bind_tools(free)
        run = _Run(chain, tools, streams=scenario.point is CheckPoint.STREAM)
        take_turn = run.take_turn_async if self._awaited else run.take_turn
        asyncio.run(run.talk(scenario.prompt, take_turn))
        heard = "\n".join(str(one.content) for sent in model.heard[1:] for one in sent)
        return ScenarioResult(
            run.refusal, "".join(run.shown), heard, orphans(run.history), len(model.heard)
        )


class _Run:
    """One conversation: asks, runs the tools that are asked for, and asks again."""

    def __init__(self, chain: Any, tools: ScenarioTools, *, streams: bool) -> None:
        self._chain = chain
        self._tools = tools
        self._streams = streams
        self.history: list[BaseMessage] = []
        self.shown: list[str] = []
        self.refusal: Any = None

    async def talk(self, prompt: str, take_turn: Any) -> None:
        """Take turns until there is nothing to go on with."""
        self.history.append(HumanMessage(prompt))
        while True:
            try:
                answer = await take_turn({"messages": self.history})
            except Refused as refused:
                answer = AIMessage(refused.result.user_text)
                self.shown.append(answer.text)
                refusal: Refusal | None = refused.refusal
            else:
                refusal = refusal_in([answer])
            self.refusal = self.refusal or refusal
            if refusal is not None and isinstance(self.history[-1], ToolMessage):
                # A result that may not be read is replaced by its refusal.
                self.history[-1] = self.history[-1].model_copy(update={"content": refusal.line})
            elif refusal is not None or not answer.tool_calls:
                return
            else:
                self.history.append(answer)
                self.history += [self._run_tool(call) for call in answer.tool_calls]

    def _run_tool(self, call: Any) -> ToolMessage:
        result = self._tools.run(call["name"], call["args"])
        return ToolMessage(result, tool_call_id=call["id"], name=call["name"])

    async def take_turn(self, given: Any) -> AIMessage:
        """Return the answer of one turn."""
        if self._streams:
            return self._join([self._show(chunk) for chunk in self._chain.stream(given)])
        return self._show(self._chain.invoke(given))

    async def take_turn_async(self, given: Any) -> AIMessage:
        """Return the answer of one turn, awaited."""
        if self._streams:
            chunks: AsyncIterator[Any] = self._chain.astream(given)
            return self._join([self._show(chunk) async for chunk in chunks])
        return self._show(await self._chain.ainvoke(given))

    def _show(self, message: Any) -> Any:
        self.shown.append(message.text)
        return message

    def _join(self, chunks: list[AIMessageChunk]) -> AIMessageChunk:
        return add_ai_message_chunks(*chunks)


DRIVERS: tuple[FrameworkDriver, ...] = (ChainDriver(), ChainDriver(awaited=True))
