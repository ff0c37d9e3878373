"""Scenes played through the guarded functions of LiteLLM and of a router."""

import asyncio
import inspect
import json
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

# Or else it asks the network for prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from adapters.litellm_fake import MODEL, ScriptedModel, asked_of
from litellm.router import Router

from demur.emit.envelope import from_envelope
from demur.emit.hosts import from_openai
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.integrations._kit.model_api import RefusalMode, read_check_result
from demur.integrations.litellm import guard_litellm
from demur.testing.scenarios import CheckPoint, Scenario, ScenarioResult, ScenarioTools

if TYPE_CHECKING:
    from demur.model.refusal import Refusal

__all__ = ["CLIENT_DRIVERS", "ClientDriver"]


class ClientDriver:
    """A loop around one of the guarded functions, in streams where a scenario is of those."""

    # The model's calls are judged by whoever runs them.
    points = frozenset(set(CheckPoint) - {CheckPoint.TOOL_CALL})
    ends_runs = False

    def __init__(self, function: str, on_refusal: RefusalMode, *, routed: bool = False) -> None:
        self._function = function
        self._on_refusal = on_refusal
        self._routed = routed
        self.name = f"litellm-{'router-' if routed else ''}{function}"

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        model = ScriptedModel(scenario.turns)
        litellm.callbacks = []
        asked_of(model)
        guarded = guard_litellm(
            enforcer,
            _router() if self._routed else litellm,
            context=CallContext(run="run-1"),
            on_refusal=self._on_refusal,
        )
        kind = _Responses if self._function.endswith("responses") else _Chat
        run = kind(
            getattr(guarded, self._function), tools, streams=scenario.point is CheckPoint.STREAM
        )
        seen = asyncio.run(run.seen(scenario.prompt))
        return seen._replace(model_input=json.dumps(model.heard[1:]), model_calls=len(model.heard))


def _router() -> Router:
    deployment = {"model_name": MODEL, "litellm_params": {"model": MODEL, "api_key": "none"}}
    return Router(model_list=[deployment], num_retries=0)


CLIENT_DRIVERS = (
    ClientDriver("completion", "answer"),
    ClientDriver("acompletion", "raise"),
    ClientDriver("responses", "raise"),
    ClientDriver("aresponses", "answer"),
    ClientDriver("completion", "raise", routed=True),
    ClientDriver("acompletion", "answer", routed=True),
)


async def _had(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _events(stream: Any) -> AsyncIterator[Any]:
    # LiteLLM's streams can be read both ways; ours by the way they were asked for.
    if hasattr(type(stream), "__aiter__"):
        async for event in stream:
            yield event
    else:
        for event in stream:
            yield event


class _Run:
    """One conversation: asks, runs the tools that are asked for, and asks again.

    What a tool returned and may not be read is replaced by its refusal, for the model to hear.
    """

    answered, result = "", ""

    def __init__(self, ask: Any, tools: ScenarioTools, *, streams: bool) -> None:
        self._ask = ask
        self._tools = tools
        self._streams = streams
        self._history: list[dict[str, Any]] = []
        self._results: list[dict[str, Any]] = []
        self._calls: set[str] = set()
        self._refusal: Refusal | None = None
        self._shown: list[str] = []

    async def seen(self, prompt: str) -> ScenarioResult:
        """Return what was seen of a conversation that begins with `prompt`."""
        self._history.append({"role": "user", "content": prompt})
        while await self._went_on():
            """There are tools to go on with."""
        answered = {one.get(self.answered) for one in self._history}
        return ScenarioResult(
            self._refusal, "".join(self._shown), orphans=len(self._calls - answered)
        )

    async def _went_on(self) -> bool:
        try:
            return await self._turn()
        except Refused as refused:
            return self._stopped(refused.refusal, refused.result.user_text)

    async def _turn(self) -> bool:
        raise NotImplementedError

    def _stopped(self, refusal: "Refusal | None", words: str) -> bool:
        """Note a refusal, and return whether there is anything to go on with."""
        self._refusal = self._refusal or refusal
        results, self._results = self._results, []
        if refusal is None or not results:
            self._shown.append(words)
            return False
        for result in results:
            result[self.result] = refusal.line
        return True

    def _ran(self, call_id: str, name: str, arguments: str, **more: Any) -> None:
        done = {
            **more,
            self.answered: call_id,
            self.result: self._tools.run(name, json.loads(arguments)),
        }
        self._calls.add(call_id)
        self._results.append(done)
        self._history.append(done)


class _Chat(_Run):
    answered, result = "tool_call_id", "content"

    async def _turn(self) -> bool:
        asked = self._ask(model=MODEL, messages=list(self._history), stream=self._streams)
        answer = await _had(asked)
        if self._streams:
            said, beside = "", None
            async for chunk in _events(answer):
                delta = chunk.choices[0].delta
                self._shown.append(delta.content or "")
                said += getattr(delta, "refusal", None) or ""
                beside = beside or getattr(delta, "provider_specific_fields", None)
            return self._read(said, beside, answer)
        message = answer.choices[0].message
        self._shown.append(message.content or "")
        refusal = getattr(message, "refusal", None)
        if refusal or not message.tool_calls:
            return self._read(refusal, message.provider_specific_fields, answer)
        self._results = []
        self._history.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            self._ran(call.id, call.function.name, call.function.arguments, role="tool")
        return True

    def _read(self, refusal: str | None, beside: Any, answer: Any) -> bool:
        read = from_openai({"refusal": refusal or None})
        envelope = from_envelope((beside or {}).get("refusal"))
        assert (read and read.line) == (envelope and envelope.line)
        words = (refusal or "").rpartition("\n")[0]
        return self._stopped(read or _ruled(answer), words)


class _Responses(_Run):
    answered, result = "call_id", "output"

    async def _turn(self) -> bool:
        asked = self._ask(input=list(self._history), model=MODEL, stream=self._streams)
        answer = await _had(asked)
        whole = await self._listened(answer) if self._streams else answer
        items = [one if isinstance(one, dict) else one.model_dump() for one in whole.output]
        parts = [part for item in items for part in item.get("content") or ()]
        if not self._streams:
            self._shown += [part.get("text") or "" for part in parts]
        refusal = "".join(part.get("refusal") or "" for part in parts)
        calls = [item for item in items if item["type"] == "function_call"]
        if refusal or not calls:
            read = from_openai({"refusal": refusal or None}) or _ruled(answer)
            return self._stopped(read, refusal.rpartition("\n")[0])
        self._results = []
        self._history += calls
        for call in calls:
            kind = "function_call_output"
            self._ran(call["call_id"], call["name"], call["arguments"], type=kind)
        return True

    async def _listened(self, stream: Any) -> Any:
        last: Any = None
        async for event in _events(stream):
            last = event
            if event.type == "response.output_text.delta":
                self._shown.append(event.delta)
        return last.response


def _ruled(answer: Any) -> "Refusal | None":
    """Return a refusal that a model says in words, or its provider, and only a ruling tells."""
    ruling = read_check_result(answer)
    return None if ruling is None else ruling.refusal
