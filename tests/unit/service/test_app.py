import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route as StarletteRoute
from support.service_app import Caller, add_key, open_service

from demur.errors import DemurError, InputError, InputTypeError, MissingExtraError, UnknownCodeError
from demur.gate.rate import LimiterUnavailableError
from demur.service.app import Endpoint, _answer_unrouted, build_app
from demur.service.authentication import Role
from demur.service.calls import SECURITY_HEADERS, ApiAnswer, ApiCall, ApiRoute, json_answer
from demur.service.settings import ServiceSettings
from demur.store.backend import StorageError


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/nowhere", 404, None),
        ("GET", "/v1/decisions/../../etc/passwd", 404, None),
        ("GET", "/v1/%2e%2e/%2e%2e/etc/passwd", 404, None),
        ("GET", "/v1/decide", 405, "POST"),
        ("PUT", "/v1/decisions/X/labels", 405, "GET, HEAD, POST"),
        ("OPTIONS", "/v1/decide", 405, "POST"),
        ("TRACE", "/health", 405, "GET, HEAD"),
        ("GET", "/v1/codes/", 404, None),
        ("GET", "/v1/decide/", 404, None),
    ],
)
def test_an_unknown_route_is_a_problem_with_a_code(
    method: str, path: str, status: int, allow: str | None
) -> None:
    with open_service() as call:
        answered = call(method, path)

    assert answered.status_code == status
    assert answered.json()["code"] == "REQUEST_INVALID"
    assert answered.headers["content-type"] == "application/problem+json"
    assert answered.headers.get("allow") == allow


def test_extra_pages_are_served_next_to_the_api() -> None:
    async def page(_: Request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    with open_service() as call:
        call.app = build_app(call.service, [StarletteRoute("/", page)])

        assert call("GET", "/").text == "hello"
        assert call("GET", "/health").status_code == 200
        assert isinstance(call.app, Starlette)


def test_any_other_http_status_is_kept() -> None:
    with open_service() as call:
        answered = call.run(_answer_unrouted(Request({"type": "http"}), HTTPException(418)))

    assert answered.status_code == 418


SECRET = "hunter2-secret"


def raising(error: BaseException) -> ApiRoute:
    async def handler(_: ApiCall) -> ApiAnswer:
        raise error

    return ApiRoute("GET", "/v1/test", "test", "Test", handler, Role.READ)


def asked(call: Caller, route: ApiRoute, **more: Any) -> Any:
    """Return the answer of one route on its own."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": route.method,
        "path": route.path,
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        **more,
    }
    call.run(Endpoint(route, call.service)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"], dict(sent[0]["headers"])


@pytest.fixture
def call() -> Iterator[Caller]:
    with open_service(ServiceSettings(timeout_s=0.05)) as caller:
        yield caller


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InputError("bad", where="a.b"), 422, b"REQUEST_INVALID"),
        (InputTypeError("bad"), 422, b"REQUEST_INVALID"),
        (UnknownCodeError("bad"), 422, b"REQUEST_INVALID"),
        (StorageError("gone"), 503, b"STORAGE_UNAVAILABLE"),
        (LimiterUnavailableError("gone"), 503, b"STORAGE_UNAVAILABLE"),
        (MissingExtraError("needs x", help="pip"), 501, b"GUARDRAIL_UNAVAILABLE"),
        (DemurError(SECRET), 500, b"INTERNAL_ERROR"),
        (RuntimeError(SECRET), 500, b"INTERNAL_ERROR"),
        (KeyError(SECRET), 500, b"INTERNAL_ERROR"),
        (TimeoutError(), 503, b"INTERNAL_ERROR"),
    ],
)
def test_whatever_is_raised_is_a_problem_with_a_code(
    call: Caller,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
    status: int,
    code: bytes,
) -> None:
    with caplog.at_level(logging.DEBUG):
        found, body, headers = asked(call, raising(error))

    assert (found, code in body) == (status, True)
    assert headers[b"content-type"] == b"application/problem+json"
    assert SECRET.encode() not in body
    assert SECRET not in caplog.text


def test_a_handler_that_takes_too_long_times_out(call: Caller) -> None:
    async def sleepy(_: ApiCall) -> ApiAnswer:
        await asyncio.sleep(60)
        raise AssertionError

    status, body, headers = asked(call, raising(KeyError())._replace(handler=sleepy))

    assert status == 503
    assert b"timed out" in body
    assert headers[b"retry-after"] == b"1"


def test_every_answer_has_the_headers_that_guard_browsers(call: Caller) -> None:
    for answered in (call("GET", "/health"), call("GET", "/nowhere"), call("GET", "/v1/codes/NO")):
        for name, value in SECURITY_HEADERS:
            assert answered.headers[name.decode()] == value.decode()
        assert "server" not in answered.headers


def test_head_says_how_long_the_body_would_be(call: Caller) -> None:
    whole, head = call("GET", "/health"), call("HEAD", "/health")

    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == str(len(whole.content))


def test_an_answer_may_carry_headers_of_its_own(call: Caller) -> None:
    async def handler(_: ApiCall) -> ApiAnswer:
        return json_answer({}, x_own="a\r\nb: c")

    _, _, headers = asked(call, raising(KeyError())._replace(handler=handler))

    assert headers[b"x-own"] == b"ab: c"
    assert b"b" not in headers


def test_two_hosts_are_one_too_many(call: Caller) -> None:
    twice = [(b"host", b"localhost"), (b"host", b"evil")]

    assert asked(call, raising(KeyError()), headers=twice)[0] == 400


@pytest.mark.parametrize("path", ["/health", "/v1/codes", "/v1/decisions"])
def test_a_name_that_is_not_the_services_is_refused_everywhere(call: Caller, path: str) -> None:
    assert call("GET", path, headers={"host": "evil.example"}).status_code == 421


def test_a_page_of_another_site_cannot_decide(call: Caller) -> None:
    body = {"request": {"action": {"type": "refund"}}}

    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert call("POST", "/v1/decide", body, headers=headers).status_code == 403
    assert call("POST", "/v1/decide", body).status_code == 200


@pytest.mark.parametrize(
    ("headers", "client"),
    [
        ({}, ("10.0.0.9", 1)),
        ({"x-forwarded-for": "10.0.0.9"}, ("127.0.0.1", 1)),
        ({"forwarded": "for=10.0.0.9"}, ("127.0.0.1", 1)),
    ],
)
def test_an_open_door_is_open_to_this_machine_alone(
    call: Caller, headers: dict[str, str], client: tuple[str, int]
) -> None:
    assert call("GET", "/v1/codes").status_code == 200
    assert call("GET", "/v1/codes", headers=headers, client=client).status_code == 401
    assert call("GET", "/health", headers=headers, client=client).status_code == 200


def test_a_caller_without_an_address_is_not_here(call: Caller) -> None:
    assert asked(call, raising(KeyError()), client=None)[0] == 401


def test_keys_roles_and_tenants_are_enforced(call: Caller) -> None:
    reader = add_key(call.store, "acme", "read")
    with open_service() as other:
        assert other.service.authenticator.allow_local
    call.service.authenticator.allow_local = False

    assert call("GET", "/v1/codes").status_code == 401
    assert call("GET", "/v1/codes", key="demur_x_y").status_code == 401
    assert call("GET", "/v1/codes", key=reader).status_code == 200
    # A key is no cookie: logins of earlier versions end.
    for name in ("demur_key", "demur_session", "__Host-demur_session"):
        cookie = {"cookie": f"{name}={reader}"}
        assert call("GET", "/v1/codes", headers=cookie).status_code == 401
    assert call("POST", "/v1/decide", {"request": {}}, key=reader).status_code == 403
    assert call("GET", "/metrics", key=reader).status_code == 403
    assert call("GET", "/health", key="demur_x_y").status_code == 200
    assert call("GET", "/health", key=reader).status_code == 200


def test_a_rate_limited_key_gets_a_retry_after_header() -> None:
    with open_service(ServiceSettings(rate=1, burst=1)) as call:
        key = add_key(call.store)
        answers = [call("GET", "/v1/codes/RCE_RISK", key=key) for _ in range(3)]
        assert call("GET", "/health", key=key).status_code == 200

    assert answers[-1].status_code == 429
    assert answers[-1].json()["code"] == "RATE_LIMIT"
    assert answers[-1].headers["retry-after"] == "1"


def test_the_application_closes_the_service(call: Caller) -> None:
    app = build_app(call.service)

    async def live() -> None:
        async with app.router.lifespan_context(app):
            assert not call.service.closing

    asyncio.run(live())
    assert call.service.closing
