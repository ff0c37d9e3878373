import asyncio
from typing import Any

import pytest

from demur.service.body import read_body
from demur.service.problem import ProblemError
from demur.service.routes.api import ROUTES

DECIDE = next(route for route in ROUTES if route.name == "decide")
REPLAY = next(route for route in ROUTES if route.name == "replay decision")
JSON = {"content-type": "application/json; charset=utf-8"}


def read(
    *messages: dict[str, Any],
    headers: dict[str, str] | None = None,
    route: Any = DECIDE,
    wait: bool = False,
) -> bytes:
    left = iter(messages)

    async def receive() -> dict[str, Any]:
        if wait:
            await asyncio.sleep(60)
        return next(left)

    found = JSON if headers is None else headers
    return asyncio.run(read_body(route, found, receive, 10, 0.05))


def refused(*messages: dict[str, Any], **more: Any) -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        read(*messages, **more)
    assert caught.value.headers["connection"] == "close"
    return caught.value


def part(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_is_read_in_one_piece_or_in_many() -> None:
    assert read(part(b"0123456789")) == b"0123456789"
    assert read(part(b"01", more=True), {"type": "http.request"}) == b"01"
    assert read(part(b"01", more=True), part(b"23")) == b"0123"


def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    assert refused(headers={**JSON, "content-length": "11"}).status == 413
    assert refused(headers={**JSON, "content-length": "9" * 400}).status == 413


def test_a_body_that_is_too_large_without_a_word_is_cut_off() -> None:
    assert refused(part(b"0" * 6, more=True), part(b"0" * 6, more=True)).status == 413


@pytest.mark.parametrize("headers", [{}, {"content-type": "text/plain"}, {"content-type": ";"}])
def test_a_body_of_another_type_is_refused(headers: dict[str, str]) -> None:
    assert refused(headers=headers).status == 415


def test_a_route_without_a_body_takes_any_and_ignores_it() -> None:
    assert read(part(b"x"), headers={}, route=REPLAY) == b"x"


def test_a_log_may_be_text_or_bytes() -> None:
    route = DECIDE._replace(log=True)

    assert read(part(b"x"), headers={"content-type": "text/plain"}, route=route) == b"x"
    assert refused(headers={"content-type": "image/png"}, route=route).status == 415


def test_a_slow_body_is_given_up() -> None:
    assert refused(part(b""), wait=True).status == 408


def test_a_body_that_breaks_off_is_refused() -> None:
    assert refused({"type": "http.disconnect"}).status == 400
