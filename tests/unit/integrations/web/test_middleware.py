import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from adapters.stage_web import STAGES
from gates import opened, rows
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import Message, Receive, Scope, Send
from web_talk import CHAT, ORDERS, PROBLEM, app_with, ask, code_of

from demur.enforce.enforcer import Enforcer
from demur.enforce.ruling import Refused
from demur.errors import MissingExtraError
from demur.gate.gate import Gate
from demur.integrations.web import PromptGuard, PromptGuardMiddleware, refusal_response
from demur.testing.conformance.play import ScenarioOutcome, run_scenario
from demur.testing.conformance.scene import Scenario, FrameworkDriver
from demur.testing.conformance.scenes import SCENARIOS


@pytest.fixture
def gate() -> Iterator[Gate]:
    with opened(CHAT) as made:
        yield made


def test_a_clean_prompt_reaches_the_app_whole(gate: Gate) -> None:
    app = app_with(PromptGuard(gate), paths=["/chat"])

    response = ask(app, {"prompt": "hello"})

    assert response.json() == {"body": '{"prompt": "hello"}', "ruled": True}
    assert [record.verdict for record in rows(gate)] == ["ALLOW"]


def test_a_refused_prompt_is_answered_by_problem_details(gate: Gate) -> None:
    response = ask(app_with(PromptGuard(gate)), {"prompt": ORDERS})

    [record] = rows(gate)
    problem = response.json()
    assert (response.status_code, response.headers["content-type"]) == (403, PROBLEM)
    assert problem["decision_id"] == record.decision_id
    assert (code_of(response), problem["advice"]) == ("CONTEXT_INJECTION", "reset_context")
    assert "CONTEXT_INJECTION" not in problem["words"]
    assert "I can't" in problem["words"]


def test_whoever_is_in_danger_reads_where_to_find_help(gate: Gate) -> None:
    response = ask(app_with(PromptGuard(gate)), {"prompt": "I want to kill myself tonight"})

    assert code_of(response) == "CRISIS_ESCALATION"
    assert "emergency" in response.json()["words"]


def test_a_request_without_a_body_passes(gate: Gate) -> None:
    response = ask(app_with(PromptGuard(gate)), method="GET")

    assert response.json() == {"body": "", "ruled": False}
    assert rows(gate) == []


def test_a_body_is_bounded(gate: Gate) -> None:
    app = app_with(PromptGuard(gate, max_bytes=100))

    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"prompt": "'
        while True:
            yield b"a" * 60

    async def called(content: Any) -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post("/chat", content=content)

    known, unknown = asyncio.run(called(b"a" * 101)), asyncio.run(called(pieces()))

    assert (known.status_code, unknown.status_code) == (413, 413)
    assert known.json()["status"] == 413
    assert code_of(known) == code_of(unknown) == "REQUEST_INVALID"


class Connection:
    """One request, as a server hands it to an app, and what the app sent."""

    def __init__(self, *received: Message, kind: str = "http") -> None:
        self.scope: Scope = {"type": kind, "path": "/chat", "method": "POST", "headers": []}
        self._received = iter(received)
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        """Return what the client sent next."""
        return next(self._received)

    async def send(self, message: Message) -> None:
        """Keep what the app sent."""
        self.sent.append(message)


def body(content: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": content, "more_body": more}


def test_a_body_in_pieces_is_one_to_the_app_which_then_hears_of_the_end(gate: Gate) -> None:
    heard: list[Message] = []

    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        heard.extend([await receive(), await receive()])

    end: Message = {"type": "http.disconnect"}
    connection = Connection(body(b'{"prompt":', more=True), body(b'"hi"}'), end)
    middleware = PromptGuardMiddleware(app, PromptGuard(gate))
    asyncio.run(middleware(connection.scope, connection.receive, connection.send))

    assert heard == [body(b'{"prompt":"hi"}'), end]


def test_a_client_that_left_is_not_answered(gate: Gate) -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        pytest.fail("the app ran")

    connection = Connection(body(b'{"prompt":', more=True), {"type": "http.disconnect"})
    middleware = PromptGuardMiddleware(app, PromptGuard(gate))
    asyncio.run(middleware(connection.scope, connection.receive, connection.send))

    assert connection.sent == []


def test_what_is_no_request_passes(gate: Gate) -> None:
    reached: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        reached.append(scope["type"])

    connection = Connection(kind="lifespan")
    middleware = PromptGuardMiddleware(app, PromptGuard(gate))
    asyncio.run(middleware(connection.scope, connection.receive, connection.send))

    assert reached == ["lifespan"]


def test_a_streamed_response_leaves_piece_by_piece(gate: Gate) -> None:
    sent_before: list[int] = []
    connection = Connection(body(b'{"prompt":"hi"}'), {"type": "http.disconnect"})

    async def pieces() -> AsyncIterator[str]:
        for piece in ("one", "two"):
            sent_before.append(len(connection.sent))
            yield piece

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await StreamingResponse(pieces()).stream_response(send)
        assert (await receive())["type"] == "http.request"
        assert scope["path"] == "/chat"

    middleware = PromptGuardMiddleware(app, PromptGuard(gate))
    asyncio.run(middleware(connection.scope, connection.receive, connection.send))

    assert sent_before == [1, 2]
    assert [message.get("body") for message in connection.sent[1:]] == [b"one", b"two", b""]


def refuse(gate: Gate) -> None:
    Enforcer(gate).check_prompt(ORDERS).raise_if_refused()


def test_what_the_app_refuses_is_answered_without_a_guard(gate: Gate) -> None:
    async def endpoint(_request: Request) -> Response:
        refuse(gate)
        pytest.fail("nothing was refused")

    app = Starlette(routes=[Mount("/", routes=[Route("/chat", endpoint, methods=["POST"])])])
    app.add_middleware(PromptGuardMiddleware)

    assert code_of(ask(app, {"any": "thing"})) == "CONTEXT_INJECTION"


def test_a_handler_of_exceptions_answers_refusals(gate: Gate) -> None:
    def endpoint(_request: Request) -> Response:  # runs in a thread
        refuse(gate)
        pytest.fail("nothing was refused")

    app = Starlette(
        routes=[Route("/chat", endpoint, methods=["POST"])],
        exception_handlers={Refused: refusal_response},
    )
    response = ask(app, {"any": "thing"})

    assert (response.status_code, response.headers["content-type"]) == (403, PROBLEM)


def test_a_refusal_after_the_response_began_is_the_server_s_to_handle(gate: Gate) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        refuse(gate)

    connection = Connection()
    with pytest.raises(Refused):
        asyncio.run(
            PromptGuardMiddleware(app)(connection.scope, connection.receive, connection.send)
        )
    assert len(connection.sent) == 1


def test_a_missing_framework_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette.requests", None)
    monkeypatch.delitem(sys.modules, "demur.integrations.web")

    with pytest.raises(MissingExtraError) as caught:
        importlib.import_module("demur.integrations.web")

    assert caught.value.help == "pip install 'demur[web]'"


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
@pytest.mark.parametrize("scene", SCENARIOS, ids=lambda scene: scene.name)
def test_every_scene_holds(scene: Scenario, stage: FrameworkDriver) -> None:
    skipped = scene.point not in stage.points

    assert run_scenario(stage, scene) == ScenarioOutcome(stage.name, scene.name, skipped=skipped)
