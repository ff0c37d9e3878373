"""Scenes played by a web app: prompts come in a body, and refusals leave as problem details."""

import asyncio
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from demur.emit.envelope import PROBLEM_MEDIA_TYPE, from_problem
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.integrations.web import PromptGuard, PromptGuardMiddleware, refusal_response
from demur.testing.scenarios import (
    AnswerTurn,
    CheckPoint,
    FrameworkDriver,
    Scenario,
    ScenarioResult,
    ScenarioTools,
)

__all__ = ["DRIVERS", "WebDriver"]


class WebDriver:
    """Runs scenarios of prompts by one request each; the route is where a model would be asked."""

    points = frozenset({CheckPoint.PROMPT})
    ends_runs = False

    def __init__(self, *, in_route: bool = False) -> None:
        self.name = "web, in the route" if in_route else "web"
        # A route has its body already.
        self.skipped = frozenset({"secret in a prompt"} if in_route else ())
        self._in_route = in_route

    def run_scenario(
        self,
        scenario: Scenario,
        enforcer: Enforcer,
        tools: ScenarioTools,  # noqa: ARG002 - no tool takes part
    ) -> ScenarioResult:
        """Run a scenario, and return its result."""
        model = _Model(scenario)
        app = _app_with_dependency if self._in_route else _app_with_middleware
        response = asyncio.run(
            _asked(app(model, PromptGuard(enforcer)), {"prompt": scenario.prompt})
        )
        if response.headers["content-type"] != PROBLEM_MEDIA_TYPE:
            return ScenarioResult(text=response.text, model_calls=model.asked)
        problem = response.json()
        return ScenarioResult(from_problem(problem), problem["words"], model_calls=model.asked)


class _Model:
    def __init__(self, scenario: Scenario) -> None:
        self._said = "".join(turn.text for turn in scenario.turns if isinstance(turn, AnswerTurn))
        self.asked = 0

    def answer(self) -> PlainTextResponse:
        self.asked += 1
        return PlainTextResponse(self._said)


def _app_with_middleware(model: _Model, guard: PromptGuard) -> Starlette:
    async def chat(_request: Request) -> PlainTextResponse:
        return model.answer()

    app = Starlette(routes=[Route("/chat", chat, methods=["POST"])])
    app.add_middleware(PromptGuardMiddleware, guard, paths=["/chat"])
    return app


def _app_with_dependency(model: _Model, guard: PromptGuard) -> Starlette:
    async def chat(request: Request) -> PlainTextResponse:
        await guard(request)
        return model.answer()

    return Starlette(
        routes=[Route("/chat", chat, methods=["POST"])],
        exception_handlers={Refused: refusal_response},
    )


async def _asked(app: Starlette, body: Any) -> httpx.Response:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.post("/chat", json=body)


DRIVERS: tuple[FrameworkDriver, ...] = (WebDriver(), WebDriver(in_route=True))
