"""The service answers any bytes in its own words, with a code on every error."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.gates import refund
from support.property_runs import examples
from support.service_app import Caller, open_service

from demur.codes.loading import default_registry
from demur.service.authentication import Role
from demur.service.calls import ApiRoute
from demur.service.routes import ROUTES
from demur.service.settings import ServiceSettings

JSON = "application/json"
POSTS = [route for route in ROUTES if route.takes is not None]
# A caller without a key or a name has neither.
NOT_LOCAL = {Role.ADMIN, Role.APPROVE}
WHATEVER = settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def call() -> Iterator[Caller]:
    with open_service(ServiceSettings(largest_body=4096, largest_log=4096)) as caller:
        caller("POST", "/v1/decide", {"request": refund(500)})
        yield caller


def judged(answered: Any) -> None:
    """Hold an answer to what every answer promises."""
    assert answered.status_code < 500, answered.text
    if answered.status_code >= 400:
        problem = answered.json()
        assert answered.headers["content-type"] == "application/problem+json"
        assert problem["status"] == answered.status_code
        assert problem["code"] in default_registry()
        assert "\n" not in problem["detail"]
    assert answered.headers["x-content-type-options"] == "nosniff"


def placed(route: ApiRoute) -> str:
    path = route.path.replace("{surface}", "input").replace("{code:path}", "RCE_RISK")
    return path.replace("{decision_id}", "X").replace("{key_id}", "X")


@pytest.mark.parametrize("route", POSTS, ids=lambda route: route.name)
@given(body=st.binary(max_size=200) | VALUES)
@example(body=b"\xff\xfe")
@example(body=b"[" * 2000)
@example(body=b'{"request":' * 300)
@example(body=b"x" * 5000)
@example(body=b'{"request": {"action": {"type": "\\ud800"}}}')
@example(body=b'{"request": {"action": {"type": "a\\u0000b"}}}')
@example(body=b'{"request": {"action": {"type": "a", "amount": {"value": 1e400}}}}')
@example(body=b"1" * 4000)
@WHATEVER
def test_any_body_gets_a_clear_answer(call: Caller, route: ApiRoute, body: Any) -> None:
    if isinstance(body, bytes):
        kind = "text/plain" if route.log else "application/json"
        judged(call("POST", placed(route), content=body, headers={"content-type": kind}))
    else:
        judged(call("POST", placed(route), body))


@pytest.mark.parametrize(
    "route",
    [one for one in POSTS if isinstance(one.example, dict) and one.role not in NOT_LOCAL],
    ids=lambda route: route.name,
)
def test_no_route_takes_a_key_twice(call: Caller, route: ApiRoute) -> None:
    name = next(iter(route.example))
    whole = json.dumps(route.example)
    twice = f'{{"{name}": {json.dumps(route.example[name])}, {whole[1:]}'.encode()

    answered = call("POST", placed(route), content=twice, headers={"content-type": JSON})

    judged(answered)
    assert (answered.status_code, answered.json()["where"]) == (422, name)


def test_no_line_of_a_stream_takes_a_key_twice(call: Caller) -> None:
    kind = {"content-type": "application/x-ndjson"}
    place = "/v1/enforce/answer/stream"

    first = call("POST", place, content=b'{"text": "a", "text": "b"}', headers=kind)
    later = call("POST", place, content=b'{}\n{"text": "a", "text": "b"}', headers=kind)

    assert (first.status_code, first.json()["where"]) == (422, "text")
    assert "event: problem" in later.text
    assert "duplicate key" in later.text


@given(
    request=st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("action", "subject", "evidence", "tenant", "request_id", "continues"), VALUES
        ),
    ),
    beside=st.dictionaries(
        st.sampled_from(["findings", "grants", "accepted", "signals"]), VALUES, max_size=2
    ),
)
@WHATEVER
def test_any_request_is_decided_or_refused(call: Caller, request: Any, beside: Any) -> None:
    judged(call("POST", "/v1/decide", {"request": request, **beside}))


@given(
    path=st.text(st.characters(codec="utf-8"), max_size=30),
    query=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40),
)
@WHATEVER
def test_any_address_gets_a_clear_answer(call: Caller, path: str, query: str) -> None:
    for place in ("/v1/decisions/", "/v1/codes/", "/v1/guard/", "/"):
        judged(_raw(call, f"{place}{path}", query.encode()))


@given(
    headers=st.lists(
        st.tuples(
            st.sampled_from(
                [b"host", b"authorization", b"cookie", b"origin", b"content-length", b"x-any"]
            ),
            st.binary(max_size=40),
        ),
        max_size=4,
    )
)
@WHATEVER
def test_any_headers_get_a_clear_answer(call: Caller, headers: list[tuple[bytes, bytes]]) -> None:
    judged(_raw(call, "/v1/codes/RCE_RISK", b"", headers))


class _Answered:
    """An answer as a client of HTTP would see it."""

    def __init__(self, start: Any, body: bytes) -> None:
        self.status_code: int = start["status"]
        self.text = body.decode("utf-8", "replace")
        self.headers = httpx.Headers(start["headers"])
        self._body = body

    def json(self) -> Any:
        return json.loads(self._body)


def _raw(
    call: Caller, path: str, query: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> _Answered:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query,
        "headers": [(b"host", b"localhost")] if headers is None else headers,
        "client": ("127.0.0.1", 1),
    }
    call.run(call.app(scope, receive, send))
    return _Answered(sent[0], sent[1]["body"])
