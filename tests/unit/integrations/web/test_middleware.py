import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from adapters.driver_web import DRIVERS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route, compile_path
from starlette.types import Message, Receive, Scope, Send
from support.gates import opened, rows
from support.http_exchange import CHAT, ORDERS, PROBLEM, app_with, ask, code_of

from demur.enforce.enforcer import Enforcer
from demur.enforce.result import Refused
from demur.errors import InputError, InputTypeError, MissingExtraError
from demur.gate.gate import Gate
from demur.integrations.web import PromptGuard, PromptGuardMiddleware, refusal_response
from demur.integrations.web.middleware import PathPatterns
from demur.testing.conformance import ScenarioOutcome, run_scenario
from demur.testing.scenarios import SCENARIOS, FrameworkDriver, Scenario


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


def test_a_user_in_danger_gets_emergency_information(gate: Gate) -> None:
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


def test_non_http_scopes_pass(gate: Gate) -> None:
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


def test_a_refusal_raised_by_the_app_is_answered_without_a_guard(gate: Gate) -> None:
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


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_scenario_passes(scenario: Scenario, driver: FrameworkDriver) -> None:
    skipped = scenario.point not in driver.points or scenario.name in getattr(driver, "skipped", ())

    assert run_scenario(driver, scenario) == ScenarioOutcome(
        driver.name, scenario.name, skipped=skipped
    )


GUARD = PromptGuard(Enforcer())


def held(path: str, *patterns: str, **scope: Any) -> bool:
    """Return whether a request to a path is looked at."""
    return PathPatterns(patterns).match_request({"type": "http", "path": path, **scope})


@pytest.mark.parametrize(
    ("path", "looked"),
    [
        ("/chat", True),
        ("/chat/", True),
        ("/chat//", True),
        ("/v1/deep/chat", True),
        ("/v1/", True),
        ("/chats/7", True),
        ("/chats/7/", True),
        ("/chats/", False),
        ("/chats/7/more", False),
        ("/files/a/b", True),
        ("/files/a/b/raw", False),
        ("/chat/other", False),
        ("/chatter", False),
        ("/other", False),
    ],
)
def test_only_selected_paths_are_checked(path: str, looked: bool) -> None:
    patterns = ["/chat", "/v1/*", "/chats/{id}", "/files/{name:path}/b"]

    status = ask(app_with(GUARD, paths=patterns), {"prompt": ORDERS}, path).status_code

    assert status == (403 if looked else 200)


@pytest.mark.parametrize(
    ("route", "path"),
    [
        ("/chat", "/chat%0A"),
        ("/chat/", "/chat/%0A"),
        ("/c/{id}", "/c/7%0A"),
        ("/c/{id}", "/c/%0A"),
        ("/c/{id:int}", "/c/7%0A"),
        ("/c/{id}/say", "/c/a%0Ab/say%0A"),
        ("/{rest:path}", "/a%0A"),
    ],
)
def test_no_line_break_leads_around_the_guard(route: str, path: str) -> None:
    app = app_with(GUARD, route, paths=[route])

    assert ask(app, {"prompt": "hello"}, path).status_code == 200  # the route takes it
    assert ask(app, {"prompt": ORDERS}, path).status_code == 403


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\0", " ", "/", "/\n", "\n/", "\x7f"])
def test_path_matching_ignores_trailing_characters(end: str) -> None:
    assert held(f"/chat{end}", "/chat")
    assert held(f"/c/7{end}", "/c/{id}")


@pytest.mark.parametrize("path", ["//c/d", "/c//d", "///c//d/", "//c//d\n"])
def test_how_many_slashes_there_are_does_not_matter(path: str) -> None:
    assert held(path, "/c/d")


@pytest.mark.parametrize(
    "route", ["/chat", "/c/{id}", "/c/{id:uuid}/x", "/{a}-{b}", "/f/{p:path}", "/f/{p:path}/x"]
)
@pytest.mark.parametrize("value", ["7", "a\nb", "a/b", "0f8fad5b-d9cb-469f-a165-70867728950e"])
def test_every_path_that_a_route_matches_is_matched_by_its_pattern(route: str, value: str) -> None:
    regex, format_, names = compile_path(route)
    path = format_.format(**dict.fromkeys(names, value))

    assert held(path, route) or not regex.match(path)
    assert held(f"{path}\n", route) or not regex.match(f"{path}\n")


@pytest.mark.parametrize("path", ["/api/chat", "/chat"])
def test_a_path_is_the_app_s_own_behind_a_proxy(path: str) -> None:
    app = app_with(GUARD, paths=["/chat"])

    assert ask(app, {"prompt": ORDERS}, path, root_path="/api").status_code == 403


def test_a_path_pattern_may_include_the_root_path() -> None:
    assert held("/api/chat", "/api/chat", root_path="/api")
    assert held("/chat", "/", root_path="/chat")
    assert not held("/apichat", "/chat", root_path="/api")


@pytest.mark.parametrize("pattern", ["/c/{id", "/c/id}", "/c/{}", "/c/[id]", "/chat?x=1"])
def test_a_pattern_that_cannot_match_is_an_error(pattern: str) -> None:
    with pytest.raises(InputError, match="cannot be matched"):
        PathPatterns([pattern])


@pytest.mark.parametrize("pattern", ["", "chat", "https://example.com/chat"])
def test_a_pattern_is_a_path(pattern: str) -> None:
    with pytest.raises(InputError, match="is not a path"):
        PathPatterns([pattern])


def test_paths_are_a_list() -> None:
    with pytest.raises(InputTypeError, match="a list of patterns"):
        PathPatterns("/chat")
    with pytest.raises(InputError, match="there is nothing to check"):
        PathPatterns([])


def test_the_app_gets_a_changed_body(gate: Gate) -> None:
    secret = "AKIAQ3EGRIFLV7XY2ABC"
    app = app_with(PromptGuard(gate, on_finding="redact"), paths=["/chat"])
    response = ask(app, {"prompt": f"Keep {secret}.", "n": [1, None]})

    assert response.json()["body"] == '{"prompt": "Keep [removed].", "n": [1, null]}'
    assert rows(gate)[0].constraints == ("redact:SECRET_LEAK",)


def test_a_prompt_that_cannot_be_changed_is_refused(gate: Gate) -> None:
    guard = PromptGuard(gate, on_finding="redact", text=lambda body: "AKIA" + body["prompt"])
    response = ask(app_with(guard, paths=["/chat"]), {"prompt": "Q3EGRIFLV7XY2ABC"})

    assert code_of(response) == "SECRET_LEAK"
