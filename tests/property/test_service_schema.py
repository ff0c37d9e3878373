"""The service keeps what its own description promises, as schemathesis reads it."""

from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from typing import Any, NamedTuple

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS
from support.gates import refund
from support.people import add_person
from support.service_app import Caller, add_key, open_service

from demur.observe.metrics import Metrics
from demur.service.authentication import Role, person_principal
from demur.service.calls import ApiRoute
from demur.service.cookies import SESSION_COOKIE
from demur.service.routes import ROUTES, build_openapi
from demur.service.settings import ServiceSettings
from demur.store.rows import ApprovalVote


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


class SchemaScene(NamedTuple):
    """A service with decisions, a key that may do everything, and the session of an approver.

    Nobody waits for `decided` any more; `waiting` is a request for approval.
    """

    call: Caller
    key: str
    session: str
    decided: str
    waiting: str

    def decision_for(self, route: ApiRoute) -> str:
        """Return the decision that a route is asked about."""
        return self.waiting if route.path.startswith("/v1/approvals") else self.decided

    def caller_headers(self, route: ApiRoute) -> dict[str, str]:
        """Return who calls: a person where no key may."""
        if route.role is Role.APPROVE:
            return {"cookie": f"{SESSION_COOKIE}={self.session}"}
        return {"authorization": f"Bearer {self.key}"}


@pytest.fixture(scope="module")
def scene() -> Iterator[SchemaScene]:
    """Lend a service with decisions in it."""
    with open_service(ServiceSettings(rate=10**6, burst=10**6), metrics=Metrics()) as call:
        key, person = add_key(call.store, ""), add_person(call.store, "amy", tenant="")
        door = call.service.authenticator
        session = door.open_session(
            person_principal(person), timedelta(days=1), generation=person.generation
        )
        decided, waiting = (
            call("POST", "/v1/decide", {"request": refund(500)}, key=key).json()["decision_id"]
            for _ in range(2)
        )
        now = "2026-11-15T12:00:01.000Z"
        vote = ApprovalVote(decided, "default", "person:amy", "decline", "no", {}, (), now)
        assert call.store.add_vote(vote).problem is None
        yield SchemaScene(call, key, session, decided, waiting)


def operation_of(route: ApiRoute) -> Any:
    path = route.path.replace(":path", "")
    return SCHEMA[path][route.method]


def hold(scene: SchemaScene, route: ApiRoute, examples: int) -> None:
    """Send what the description allows and what it does not, and judge the answers."""
    operation = operation_of(route)
    modes = st.sampled_from(
        [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    )

    @settings(max_examples=examples, phases=[Phase.generate], suppress_health_check=QUIET)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=data.draw(modes)))
        if "decision_id" in case.path_parameters and data.draw(st.booleans()):
            case.path_parameters["decision_id"] = scene.decision_for(route)
        wanted = case.as_transport_kwargs(base_url="http://localhost")
        wanted.pop("timeout", None)
        ready = REQUESTS.Request(
            **{name: wanted[name] for name in wanted if name in TAKEN}
        ).prepare()
        body = ready.body.encode() if isinstance(ready.body, str) else ready.body
        headers = {**dict(ready.headers), **scene.caller_headers(route)}
        answered = scene.call(ready.method, ready.path_url, content=body, headers=headers)
        # A list beyond its limit may be a body that is too large: schemathesis expects no 413.
        judges = JUDGES[:-1] if answered.status_code == 413 else JUDGES
        case.validate_response(answered, checks=judges)

    holds()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_keeps_its_description(scene: SchemaScene, route: ApiRoute) -> None:
    hold(scene, route, 10)


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_keeps_its_description_for_long(scene: SchemaScene, route: ApiRoute) -> None:
    hold(scene, route, 400)
