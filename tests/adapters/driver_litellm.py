"""Scenes played through LiteLLM's SDK, by a host that asks it turn after turn."""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

# Or else it asks the network for prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from adapters.litellm_client_drivers import CLIENT_DRIVERS
from adapters.litellm_fake import MODEL, ScriptedModel, asked_of
from litellm.llms.custom_llm import CustomLLM

from demur.emit.envelope import from_envelope
from demur.enforce.enforcer import Enforcer
from demur.integrations.litellm import GuardrailRefused, LiteLLMGuard
from demur.model.refusal import Refusal
from demur.testing.scenarios import CheckPoint, Scenario, ScenarioResult, ScenarioTools

__all__ = ["DRIVERS", "MODEL", "LiteLLMDriver", "ScriptedModel", "guarded_by", "logged", "orphans"]


def guarded_by(guardrail: LiteLLMGuard, model: CustomLLM) -> None:
    """Let LiteLLM ask this model, past this guardrail."""
    litellm.callbacks = [guardrail]
    asked_of(model)


def logged(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what LiteLLM's log of guardrails has for a request."""
    metadata = data.get("metadata") or {}
    return list(metadata.get("standard_logging_guardrail_information") or ())


def orphans(messages: Sequence[dict[str, Any]]) -> int:
    """Return how many tool calls nothing answers."""
    asked = {call["id"] for one in messages for call in one.get("tool_calls") or ()}
    return len(asked - {one.get("tool_call_id") for one in messages})


class LiteLLMDriver:
    """Runs scenarios as a program does that runs the tools itself, and asks again."""

    name = "litellm"
    # The SDK shows a guardrail nothing of what it streams; the proxy does, and a guarded client.
    points = frozenset(set(CheckPoint) - {CheckPoint.STREAM})
    # A guardrail cannot ask the model again.
    skipped = frozenset({"answer given again"})
    ends_runs = False

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        return asyncio.run(_Run(scenario, enforcer, tools).seen())


DRIVERS = (LiteLLMDriver(), *CLIENT_DRIVERS)


class _Run:
    def __init__(self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools) -> None:
        self._scene = scenario
        self._tools = tools
        self._model = ScriptedModel(scenario.turns)
        self._guardrail = LiteLLMGuard(enforcer, default_on=True)
        self._messages: list[dict[str, Any]] = [{"role": "user", "content": scenario.prompt}]
        self._shown: list[str] = []
        self._refusal: Refusal | None = None

    async def seen(self) -> ScenarioResult:
        """Run a scenario, and return its result."""
        guarded_by(self._guardrail, self._model)
        for _turn in self._scene.turns:
            try:
                await self._turn()
            except GuardrailRefused as refused:
                self._refusal = from_envelope(refused.provider_specific_fields["refusal"])
                if refused.result.is_hard or refused.result.surface != "tool_call":
                    self._shown.append(refused.result.user_text)
                    break
                # Of a response that is refused, nothing is in the history; the model is told.
                told = {"role": "system", "content": refused.result.model_message}
                self._messages = [*self._messages, told]
        asked, heard = len(self._model.heard), json.dumps(self._model.heard[1:])
        return ScenarioResult(
            self._refusal, "".join(self._shown), heard, orphans(self._messages), asked
        )

    async def _turn(self) -> None:
        data = {
            "model": MODEL,
            "messages": self._messages,
            "guardrails": ["demur"],
            "metadata": {"session_id": "session-1"},
        }
        response = await litellm.acompletion(**data)
        message = response.choices[0].message
        said = message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True)
        self._messages = [*self._messages, said]
        self._shown.append(message.content or "")
        for call in message.tool_calls or ():
            returned = self._tools.run(call.function.name, json.loads(call.function.arguments))
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": returned})
        beside = (message.provider_specific_fields or {}).get("refusal")
        self._refusal = from_envelope(beside) or _logged(data) or self._refusal


def _logged(data: Mapping[str, Any]) -> Refusal | None:
    """Return the last refusal that LiteLLM's log of guardrails has for a request."""
    found = [from_envelope(one["guardrail_response"]) for one in logged(data)]
    return next((one for one in reversed(found) if one is not None), None)
