import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from adapters.driver_fastmcp import FastMCPDriver
from adapters.mcp_samples import ORDER, Desk, FastDesk, code_of, opened
from fastmcp.exceptions import ToolError
from fastmcp.server import dependencies
from fastmcp.server.auth import AccessToken
from fastmcp.server.middleware import MiddlewareContext
from fastmcp.tools.base import InputRequiredToolResult
from mcp_types import InputRequiredResult

from demur.enforce.context import CallContext
from demur.integrations.fastmcp import request_context
from demur.integrations.mcp_proxy.addressing import session_run_name
from demur.testing.conformance import ScenarioOutcome, run_scenario
from demur.testing.scenarios import SCENARIOS, Scenario

pytestmark = pytest.mark.adapters


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_scenario_passes(scenario: Scenario) -> None:
    played = run_scenario(FastMCPDriver(), scenario)

    assert played == ScenarioOutcome(
        "fastmcp", scenario.name, skipped=scenario.point not in FastMCPDriver.points
    )


@pytest.fixture
def desk() -> Iterator[Desk]:
    with opened(FastDesk) as one:
        yield one


def test_a_client_that_reads_data_has_it(desk: Desk) -> None:
    answer = desk.ask(lambda client: client.call_tool("pay", {"amount": 9}))

    assert answer.data == 9


def test_a_client_that_raises_on_errors_still_has_the_line(desk: Desk) -> None:
    with pytest.raises(ToolError, match="REFUSED: SPEND_OVER_APPROVAL_LIMIT"):
        desk.ask(lambda client: client.call_tool("pay", {"amount": 900}))


def test_a_failure_of_the_tool_stays_one(desk: Desk) -> None:
    answer = desk.call("fail", how="said")

    assert answer.is_error
    assert answer.content[0].text == desk.text


def test_a_hostile_exception_is_replaced(desk: Desk) -> None:
    desk.text = ORDER

    assert code_of(desk.call("fail", how="raised")) == "CONTEXT_INJECTION"


@pytest.mark.parametrize(
    "result",
    [
        InputRequiredToolResult(input_required=InputRequiredResult(request_state="s")),
        SimpleNamespace(task_id="t-1"),
    ],
    ids=["question", "task"],
)
def test_an_unfinished_result_passes(result: Any, desk: Desk) -> None:
    message = SimpleNamespace(name="pay", arguments=None)

    async def call_next(context: Any) -> Any:
        del context
        return result

    context: MiddlewareContext[Any] = MiddlewareContext(message=message)
    assert asyncio.run(desk.guard.on_call_tool(context, call_next)) is result


# In which run, and for whom.

CONTEXT: MiddlewareContext[Any] = MiddlewareContext(message=None)


def test_outside_of_a_request_there_is_no_call() -> None:
    assert request_context(CONTEXT) == CallContext("fastmcp", run="local")


class Http:
    """Stands in for the context variable in which FastMCP keeps a request."""

    def __init__(self, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.request = SimpleNamespace(headers=named, scope={})

    def get(self) -> Any:
        """Return the request."""
        return self.request


def test_a_session_is_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "_current_http_request", Http(mcp_session_id="s-1"))

    assert request_context(CONTEXT).run == session_run_name("s-1")


def test_nobody_knows_whose_a_stateless_request_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "_current_http_request", Http())

    assert request_context(CONTEXT).run is None


def test_the_signed_in_user_is_the_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    token = AccessToken(token="t", client_id="app", scopes=["notes"], subject="ann")
    monkeypatch.setattr(dependencies, "_current_http_request", Http())
    monkeypatch.setattr("demur.integrations.fastmcp.get_access_token", lambda: token)

    at = request_context(CONTEXT)

    assert at.subject == {"id": "ann", "type": "user", "roles": ["notes"]}
    assert at.run == "ann"
