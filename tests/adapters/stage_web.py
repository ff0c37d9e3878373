"""Scenes played by a web app: prompts come in a body, and refusals leave as problem details."""

import asyncio
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from demur.emit.problem import MEDIA_TYPE, from_problem
from demur.gate.enforcer import Enforcer, Occasion
from demur.integrations.web import PromptGuard, RefusalMiddleware
from demur.testing.conformance.scene import Ask, Filtered, Point, Scene, Seen, Tools, Turn

__all__ = ["WebStage"]

_AT = Occasion("web", run="run-1")
_FILTERED = {
    "object": "chat.completion",
    "choices": [{"index": 0, "finish_reason": "content_filter", "message": {"content": ""}}],
}


class WebStage:
    """Plays scenes by one request each; what the route finds later is raised as `Refused`."""

    name = "web"
    points = frozenset(Point) - {Point.STREAM}
    ends_runs = True

    def play(self, scene: Scene, enforcer: Enforcer, tools: Tools) -> Seen:
        """Return what was seen."""
        response = asyncio.run(_asked(_app(scene, enforcer, tools), {"prompt": scene.prompt}))
        if response.headers["content-type"] != MEDIA_TYPE:
            return Seen(text=response.text)
        problem = response.json()
        return Seen(from_problem(problem), problem["words"])


def _app(scene: Scene, enforcer: Enforcer, tools: Tools) -> Starlette:
    async def chat(_request: Request) -> PlainTextResponse:
        said = [await _take(turn, scene, enforcer, tools) for turn in scene.turns]
        return PlainTextResponse("".join(said))

    app = Starlette(routes=[Route("/chat", chat, methods=["POST"])])
    app.add_middleware(RefusalMiddleware, PromptGuard(enforcer), paths=["/chat"])
    return app


async def _take(turn: Turn, scene: Scene, enforcer: Enforcer, tools: Tools) -> str:
    if isinstance(turn, Ask):
        for name, given in turn.calls:
            (await enforcer.atool_call(name, given, _AT)).or_raise()
            returned = tools.run(name, given)
            (await enforcer.atool_result(name, returned, _AT, arguments=given)).or_raise()
        return ""
    if isinstance(turn, Filtered):
        (await enforcer.amodel(_FILTERED, _AT)).or_raise()
        return ""
    (await enforcer.amodel(None, _AT, text=turn.text, prompt=scene.prompt)).or_raise()
    (await enforcer.aanswer(turn.text, _AT, prompt=scene.prompt)).or_raise()
    return turn.text


async def _asked(app: Starlette, body: Any) -> httpx.Response:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.post("/chat", json=body)
