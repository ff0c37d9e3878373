"""The service keeps what its own description promises, as schemathesis reads it."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS
from support.gates import refund
from support.service_app import Caller, add_key, open_service

from demur.observe.metrics import Metrics
from demur.service.calls import ApiRoute
from demur.service.routes import ROUTES, build_openapi
from demur.service.settings import ServiceSettings


@schemathesis.serializer("application/x-ndjson")
def serialize_lines(_: Any, value: Any) -> bytes:
    """Return a body of JSON lines; a value that is no text has no such form."""
    assume(isinstance(value, str | bytes))
    return value if isinstance(value, bytes) else value.encode(errors="replace")


DOCUMENT = build_openapi(ROUTES)
for methods in DOCUMENT["paths"].values():
    for operation in methods.values():
        # Keys are sent all the time: what happens without is shown elsewhere, route by route.
        operation["security"] = []
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
JUDGES = [
    CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "negative_data_rejection",
    )
]
# What schemathesis itself builds its calls with; it carries no types.
REQUESTS: Any = import_module("requests")
TAKEN = {"method", "url", "headers", "params", "data", "json", "files", "cookies"}
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@pytest.fixture(scope="module")
def scene() -> Iterator[tuple[Caller, str, str]]:
    """Lend a service with a decision in it, and a key that may do everything."""
    with open_service(ServiceSettings(rate=10**6, burst=10**6), metrics=Metrics()) as call:
        key = add_key(call.store, "")
        made = call("POST", "/v1/decide", {"request": refund(500)}, key=key).json()
        yield call, key, made["decision_id"]


def operation_of(route: ApiRoute) -> Any:
    path = route.path.replace(":path", "")
    return SCHEMA[path][route.method]


def hold(scene: tuple[Caller, str, str], route: ApiRoute, examples: int) -> None:
    """Send what the description allows and what it does not, and judge the answers."""
    call, key, decision_id = scene
    operation = operation_of(route)
    modes = st.sampled_from(
        [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    )

    @settings(max_examples=examples, phases=[Phase.generate], suppress_health_check=QUIET)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=data.draw(modes)))
        if "decision_id" in case.path_parameters and data.draw(st.booleans()):
            case.path_parameters["decision_id"] = decision_id
        wanted = case.as_transport_kwargs(base_url="http://localhost")
        wanted.pop("timeout", None)
        ready = REQUESTS.Request(
            **{name: wanted[name] for name in wanted if name in TAKEN}
        ).prepare()
        body = ready.body.encode() if isinstance(ready.body, str) else ready.body
        answered = call(
            ready.method, ready.path_url, content=body, headers=dict(ready.headers), key=key
        )
        # A list beyond its limit may be a body that is too large: schemathesis expects no 413.
        judges = JUDGES[:-1] if answered.status_code == 413 else JUDGES
        case.validate_response(answered, checks=judges)

    holds()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_keeps_its_description(scene: tuple[Caller, str, str], route: ApiRoute) -> None:
    hold(scene, route, 10)


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_keeps_its_description_for_long(
    scene: tuple[Caller, str, str], route: ApiRoute
) -> None:
    hold(scene, route, 400)
