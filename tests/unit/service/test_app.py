import pytest
from served import served
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route as StarletteRoute

from demur.service.app import _answer_unrouted, build_app


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
def test_what_is_not_there_is_a_problem_with_a_code(
    method: str, path: str, status: int, allow: str | None
) -> None:
    with served() as call:
        answered = call(method, path)

    assert answered.status_code == status
    assert answered.json()["code"] == "REQUEST_INVALID"
    assert answered.headers["content-type"] == "application/problem+json"
    assert answered.headers.get("allow") == allow


def test_pages_stand_beside_the_routes() -> None:
    async def page(_: Request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    with served() as call:
        call.app = build_app(call.service, [StarletteRoute("/", page)])

        assert call("GET", "/").text == "hello"
        assert call("GET", "/health").status_code == 200
        assert isinstance(call.app, Starlette)


def test_any_other_status_is_told_as_well() -> None:
    with served() as call:
        answered = call.run(_answer_unrouted(Request({"type": "http"}), HTTPException(418)))

    assert answered.status_code == 418
