import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from adapters.driver_mcp import MCPDriver
from adapters.mcp_samples import ORDER, Desk, SDKDesk, code_of, opened
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

from demur.enforce.context import CallContext
from demur.integrations.mcp import request_context
from demur.integrations.mcp_proxy.addressing import session_run_name
from demur.testing.conformance import ScenarioOutcome, run_scenario
from demur.testing.scenarios import SCENARIOS, Scenario

pytestmark = pytest.mark.adapters


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_scenario_passes(scenario: Scenario) -> None:
    played = run_scenario(MCPDriver(), scenario)

    assert played == ScenarioOutcome(
        "mcp", scenario.name, skipped=scenario.point not in MCPDriver.points
    )


@pytest.fixture
def desk() -> Iterator[Desk]:
    with opened(SDKDesk) as one:
        yield one


def test_a_client_of_the_old_protocol_reads_it_too(desk: Desk) -> None:
    answer = desk.ask(lambda client: client.call_tool("pay", {"amount": 900}), mode="legacy")

    assert code_of(answer) == "SPEND_OVER_APPROVAL_LIMIT"


def test_hostile_data_of_an_error_is_replaced(desk: Desk) -> None:
    desk.text = ORDER

    assert code_of(desk.call("fail", how="told")) == "CONTEXT_INJECTION"


def test_a_failure_of_the_tool_stays_one(desk: Desk) -> None:
    answer = desk.call("fail", how="told")

    assert isinstance(answer, MCPError)
    assert answer.message == "broken"


@pytest.mark.parametrize(
    "params", [None, {}, {"name": 3}, {"name": "pay", "arguments": ["amount"]}]
)
def test_a_malformed_call_is_left_to_the_server(params: Any, desk: Desk) -> None:
    ctx: Any = SimpleNamespace(method="tools/call", params=params)
    passed: list[Any] = []

    async def call_next(ctx: Any) -> None:
        passed.append(ctx)

    assert asyncio.run(desk.guard(ctx, call_next)) is None
    assert passed == [ctx]
    assert desk.records == []


def test_a_question_to_the_client_passes(desk: Desk) -> None:
    asked = {"resultType": "input_required", "inputRequests": {}}
    ctx: Any = SimpleNamespace(
        method="tools/call", params={"name": "pay"}, request=None, request_id=1
    )

    async def call_next(_ctx: Any) -> Any:
        return asked

    assert asyncio.run(desk.guard(ctx, call_next)) is asked


def test_a_result_of_other_middleware_is_read_as_it_leaves(desk: Desk) -> None:
    said = CallToolResult(content=[TextContent(type="text", text="a")], _meta={"x": ORDER})
    ctx: Any = SimpleNamespace(
        method="tools/call",
        params={"name": "pay"},
        request=None,
        request_id=1,
        protocol_version="2025-11-25",
    )
    for result in (said, said.model_dump(by_alias=True)):

        async def call_next(_ctx: Any, result: Any = result) -> Any:
            return result

        answer: Any = asyncio.run(desk.guard(ctx, call_next))
        assert answer["_meta"]["demur/refusal"]["code"] == "CONTEXT_INJECTION"


# In which run, and for whom.


def request(**headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return SimpleNamespace(request=SimpleNamespace(headers=named), request_id=7)


def test_a_session_is_a_run() -> None:
    at = request_context(request(mcp_session_id="s-1"))

    assert at == CallContext("mcp", run=session_run_name("s-1"), call_id="7")


def test_nobody_knows_whose_a_stateless_request_is() -> None:
    assert request_context(request()).run is None


def test_the_signed_in_user_is_the_subject() -> None:
    given = AccessToken(token="t", client_id="app", scopes=["notes"], subject="ann")
    token = auth_context_var.set(AuthenticatedUser(given))
    try:
        at = request_context(request())
    finally:
        auth_context_var.reset(token)

    assert at.subject == {"id": "ann", "type": "user", "roles": ["notes"]}
    assert at.run == "ann"
