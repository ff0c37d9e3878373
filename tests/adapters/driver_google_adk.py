"""Scenes played by agents of Google ADK: waited for, and streamed."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from google.adk.agents import LlmAgent, RunConfig
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.base_tool import BaseTool
from google.genai.types import (
    Content,
    FinishReason,
    FunctionCall,
    FunctionDeclaration,
    GenerateContentResponseUsageMetadata,
    Part,
)
from pydantic import PrivateAttr

from demur.emit.envelope import from_envelope
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Approval
from demur.integrations.google_adk import GoogleADKGuard
from demur.testing.scenarios import (
    AnswerTurn,
    CheckPoint,
    FilteredTurn,
    ModelTurn,
    Scenario,
    ScenarioResult,
    ScenarioTools,
)

__all__ = [
    "DRIVERS",
    "FreeTool",
    "GoogleADKDriver",
    "MessageDriver",
    "ScriptedModel",
    "find_orphans",
    "play",
    "words_of",
]

# ADK warns about models that count nothing.
_USAGE = GenerateContentResponseUsageMetadata(prompt_token_count=1, total_token_count=1)
_CONFIRMATION = "adk_request_confirmation"


class ScriptedModel(BaseLlm):
    """Says what it was told to, turn by turn; `heard` keeps what it was sent, call by call."""

    _turns: list[Any] = PrivateAttr()
    _heard: list[str] = PrivateAttr(default_factory=list)

    def __init__(self, turns: Sequence[ModelTurn | LlmResponse | Exception]) -> None:
        super().__init__(model="scripted")
        self._turns = list(turns)

    @property
    def heard(self) -> list[str]:
        """What it was sent."""
        return self._heard

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT002 - as the framework calls it
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the next turn: as pieces and a whole if it is streamed, or else as a whole."""
        turn = self._turns[len(self._heard)]
        self._heard.append(str(llm_request.contents))
        if isinstance(turn, Exception):
            raise turn
        if stream and isinstance(turn, AnswerTurn):
            for piece in turn.pieces:
                yield _say(piece, partial=True)
        response = turn if isinstance(turn, LlmResponse) else _respond(turn)
        yield response.model_copy(update={"usage_metadata": _USAGE})


def _say(text: str, **more: Any) -> LlmResponse:
    return LlmResponse(content=Content(role="model", parts=[Part(text=text)]), **more)


def _respond(turn: ModelTurn) -> LlmResponse:
    if isinstance(turn, AnswerTurn):
        return _say(turn.text)
    if isinstance(turn, FilteredTurn):
        return LlmResponse(error_code="OTHER", finish_reason=FinishReason.OTHER)
    calls = [Part(function_call=FunctionCall(name=name, args=dict(it))) for name, it in turn.calls]
    return LlmResponse(content=Content(role="model", parts=calls))


class FreeTool(BaseTool):
    """A tool that takes any arguments."""

    def __init__(self, name: str, run: Callable[[str, Mapping[str, Any]], Any]) -> None:
        super().__init__(name=name, description=f"Does {name}.")
        self._run = run

    def _get_declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(name=self.name, description=self.description)

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        """Run it."""
        del tool_context
        return self._run(self.name, args)


async def play(runner: InMemoryRunner, message: Any, *, streams: bool = False) -> list[Event]:
    """Return the events of one run in the only session of a runner."""
    where: dict[str, Any] = {"app_name": runner.app_name, "user_id": "u-1", "session_id": "s-1"}
    sessions = runner.session_service
    if await sessions.get_session(**where) is None:
        await sessions.create_session(**where)
    mode: Any = "sse" if streams else None
    parts = [Part(text=message)] if isinstance(message, str) else message
    run = runner.run_async(
        user_id="u-1",
        session_id="s-1",
        new_message=Content(role="user", parts=parts),
        run_config=RunConfig(streaming_mode=mode),
    )
    return [event async for event in run]


def words_of(events: Sequence[Event]) -> str:
    """Return what a person was shown: pieces as they came, and what the whole adds to them."""
    shown = pieces = ""
    for event in events:
        parts = (event.content and event.content.parts) or ()
        text = "".join(part.text for part in parts if part.text and not part.thought)
        if event.partial:
            pieces += text
        elif text:
            shown += text if text.startswith(pieces) else pieces + text
            pieces = ""
    return shown + pieces


def find_orphans(events: Sequence[Event]) -> set[str | None]:
    """Return the ids of the calls that nothing answers."""
    asked = {one.id for event in events for one in event.get_function_calls()}
    framework = {
        one.id
        for event in events
        for one in event.get_function_calls()
        if one.name == _CONFIRMATION
    }
    return (
        asked - framework - {one.id for event in events for one in event.get_function_responses()}
    )


class GoogleADKDriver:
    """Runs scenarios by `run_async`, and those of streaming in the mode of server-sent events."""

    name = "google-adk"
    points = frozenset(CheckPoint)
    ends_runs = True
    approval: Approval = "interrupt"

    def run_scenario(
        self, scenario: Scenario, enforcer: Enforcer, tools: ScenarioTools
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        model = ScriptedModel(scenario.turns)
        free: list[Any] = [FreeTool(name, tools.run) for name in tools.names]
        agent = LlmAgent(name="agent", model=model, tools=free)
        guard = GoogleADKGuard(enforcer, approval=self.approval)
        runner = InMemoryRunner(app=App(name="scenes", root_agent=agent, plugins=[guard]))
        streams = scenario.point is CheckPoint.STREAM
        events = asyncio.run(play(runner, scenario.prompt, streams=streams))
        found = [(event.custom_metadata or {}).get("refusal") for event in events]
        refusals = [from_envelope(one) for one in found if one is not None]
        return ScenarioResult(
            refusals[0] if refusals else None,
            words_of(events),
            "\n".join(model.heard[1:]),
            len(find_orphans(events)),
            len(model.heard),
        )


class MessageDriver(GoogleADKDriver):
    """Runs scenarios in which the model is told that a call waits."""

    name = "google-adk-message"
    approval = "message"


DRIVERS = (GoogleADKDriver(), MessageDriver())
