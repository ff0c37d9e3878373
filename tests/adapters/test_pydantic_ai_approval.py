"""Calls of a Pydantic AI agent that wait for a person, and what lifts them."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from adapters.driver_pydantic_ai import ScriptedModel, free_tool, orphans
from adapters.pydantic_ai_runs import LARGE, POL, RISKY, SMALL, Conversation, said, told
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability, HandleDeferredToolCalls
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ToolCallPart
from pydantic_ai.tools import (
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    Tool,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
)
from support.gates import grant, opened, rows

from demur.enforce.result import CheckResult
from demur.gate.gate import Gate
from demur.integrations._kit.approval import parse_metadata_grants
from demur.integrations.pydantic_ai import PydanticAIGuard
from demur.model.grant import Grant
from demur.testing.scenarios import AnswerTurn, ToolTurn

pytestmark = pytest.mark.adapters


def deferred(played: Conversation) -> tuple[DeferredToolRequests, list[ModelMessage]]:
    result = played.run()
    assert isinstance(result.output, DeferredToolRequests)
    return result.output, result.all_messages()


def resumed(gate: Gate, metadata: Any = None, **settings: Any) -> tuple[Conversation, Any]:
    """Ask for a large refund, approve it, and go on."""
    requests, messages = deferred(Conversation(gate, ToolTurn((LARGE,))))
    [call] = requests.approvals
    assert requests.metadata[call.tool_call_id]["refusal"]["advice"] == "request_approval"
    results = requests.build_results(
        approve_all=True, metadata=None if metadata is None else {call.tool_call_id: metadata}
    )
    played = Conversation(gate, AnswerTurn(("Fine.",)), **settings)
    return played, played.run(None, message_history=messages, deferred_tool_results=results)


def signed() -> Grant:
    return grant({"action": "refund"}, codes=["REFUND_OVER_ESCALATION_LIMIT"])


@pytest.mark.parametrize(
    "metadata", [None, {}, {"grant": "yes"}, {"grants": [{"kind": "approval"}]}]
)
def test_an_approval_without_a_grant_lifts_nothing(metadata: Any) -> None:
    with opened(POL) as gate:
        played, result = resumed(gate, metadata)

    assert played.ran == []
    assert "'denied'" in said(result.all_messages())
    assert result.output == "Fine."


@pytest.mark.parametrize(
    "form",
    [
        lambda given: {"grant": given},
        lambda given: {"grants": [given]},
        lambda given: {"grant": given.to_json().decode()},
        lambda given: {"grant": json.loads(given.to_json())},
    ],
)
def test_an_approval_with_a_signed_grant_runs_the_call(form: Callable[[Grant], Any]) -> None:
    with opened(POL) as gate:
        played, result = resumed(gate, form(signed()))

        assert rows(gate)[-1].resolved_codes == ("REFUND_OVER_ESCALATION_LIMIT",)
    assert [name for name, _ in played.ran] == ["refund"]
    assert result.output == "Fine."


def test_a_host_may_sign_once_somebody_approved() -> None:
    asked: list[CheckResult] = []

    def sign(ruling: CheckResult, ctx: RunContext[Any]) -> Iterator[Grant]:
        assert ctx.tool_call_approved
        asked.append(ruling)
        yield signed()

    with opened(POL) as gate:
        played, _ = resumed(gate, grant_for=sign)

    assert [one.needs_approval for one in asked] == [True]
    assert len(played.ran) == 1


@pytest.mark.parametrize(
    "given",
    [(), None, [grant({"action": "lookup"})], ["yes"]],
    ids=["none", "nothing", "another", "no grant"],
)
def test_an_approval_for_which_nobody_signs_lifts_nothing(given: Any) -> None:
    with opened(POL) as gate:
        played, result = resumed(gate, grant_for=lambda _ruling, _ctx: given)

    assert played.ran == []
    assert result.output == "Fine."


def test_grants_are_not_requested_before_an_approval() -> None:
    def sign(ruling: CheckResult, _ctx: Any) -> list[Grant]:
        raise AssertionError(ruling)

    with opened(POL) as gate:
        for approval in ("message", "interrupt"):
            asking = Conversation(
                gate, ToolTurn((LARGE,)), AnswerTurn(("I see.",)), approval=approval, grant_for=sign
            )
            asking.run()

            assert asking.ran == []


def test_an_approval_does_not_lift_a_hard_block() -> None:
    def approve(_ctx: Any, requests: DeferredToolRequests) -> DeferredToolResults:
        return requests.build_results(approve_all=True)

    def tool(**given: Any) -> str:
        raise AssertionError(given)

    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    asking = Tool.from_schema(tool, "refund", "Pays back.", schema)
    asking.requires_approval = True
    with opened(POL) as gate:
        played = Conversation(
            gate,
            ToolTurn((RISKY,)),
            tools=[asking],
            capabilities=[HandleDeferredToolCalls(approve)],
        )

        assert played.refused().refusal.code == "CHARGEBACK_RISK_BLOCK"


def test_without_interrupt_mode_the_model_reads_the_refusal() -> None:
    script = ScriptedModel([ToolTurn((LARGE,)), AnswerTurn(("I see.",))])
    with opened(POL) as gate:
        agent: Agent[Any, str] = Agent(
            script.model,
            tools=[free_tool("refund", lambda *given: pytest.fail(str(given)))],
            capabilities=[PydanticAIGuard(gate)],
        )

        result = asyncio.run(agent.run("Hello"))

    assert result.output == "I see."
    [part] = told(result.all_messages())
    assert str(part.content).startswith("REFUSED: REFUND_OVER_ESCALATION_LIMIT: ")
    assert part.metadata is not None
    assert part.metadata["refusal"]["advice"] == "request_approval"


def test_a_tool_that_always_waits_for_a_person_is_lifted_by_a_grant_in_either_way() -> None:
    def approve(_ctx: Any, requests: DeferredToolRequests) -> DeferredToolResults:
        return requests.build_results(approve_all=True)

    with opened(POL) as gate:
        played = Conversation(
            gate,
            ToolTurn((LARGE,)),
            AnswerTurn(("Fine.",)),
            tools=[],
            approval="message",
            grant_for=lambda _ruling, _ctx: [signed()],
            capabilities=[HandleDeferredToolCalls(approve)],
        )
        asking = free_tool("refund", played.run_tool)
        asking.requires_approval = True
        played.agent = Agent(
            played.script.model,
            tools=[asking],
            capabilities=[HandleDeferredToolCalls(approve), played.capability],
        )

        assert played.run().output == "Fine."
    assert [name for name, _ in played.ran] == ["refund"]


def test_a_conversation_that_waits_may_be_kept_as_json_meanwhile() -> None:
    with opened(POL) as gate:
        requests, messages = deferred(Conversation(gate, ToolTurn((LARGE, SMALL))))
        [call] = requests.approvals
        kept = ModelMessagesTypeAdapter.dump_json(messages)
        given = json.loads(signed().to_json())
        results = requests.build_results(
            approve_all=True, metadata={call.tool_call_id: {"grant": given}}
        )
        played = Conversation(gate, AnswerTurn(("Fine.",)))

        played.run(
            None,
            message_history=ModelMessagesTypeAdapter.validate_json(kept),
            deferred_tool_results=results,
        )

    assert [name for name, _ in played.ran] == ["refund"]


def test_arguments_that_a_person_changes_are_judged_as_they_run() -> None:
    with opened(POL) as gate:
        requests, messages = deferred(Conversation(gate, ToolTurn((LARGE,))))
        [call] = requests.approvals
        results = DeferredToolResults(
            approvals={call.tool_call_id: ToolApproved(override_args=dict(RISKY[1]))}
        )
        played = Conversation(gate, AnswerTurn(("Fine.",)))

        error = played.refused(None, message_history=messages, deferred_tool_results=results)

    assert error.refusal.code == "CHARGEBACK_RISK_BLOCK"
    assert played.ran == []


def waiting(name: str, played: Conversation, *, waits: bool = True) -> Tool[Any]:
    """Return a tool that notes that it ran, and may have to wait for a person."""
    tool = free_tool(name, played.run_tool)
    tool.requires_approval = waits
    return tool


def with_tools(gate: Gate, *turns: Any, plain: str = "", **settings: Any) -> Conversation:
    """Return an agent whose tools wait for a person, but for the one named."""
    others = settings.pop("capabilities", ())
    played = Conversation(gate, *turns, **settings)
    played.agent = Agent(
        played.script.model,
        output_type=[str, DeferredToolRequests],
        tools=[waiting(name, played, waits=name != plain) for name in ("lookup", "refund")],
        capabilities=[*others, played.capability],
    )
    return played


@pytest.mark.parametrize("plain", ["", "lookup"], ids=["both wait", "beside one that does not"])
@pytest.mark.parametrize("calls", [(SMALL, RISKY), (RISKY, SMALL), (RISKY,)], ids=str)
def test_a_hard_block_is_not_offered_for_approval_and_stops_all_calls(
    plain: str, calls: Any
) -> None:
    with opened(POL) as gate:
        played = with_tools(gate, ToolTurn(calls), plain=plain)

        assert played.refused().refusal.code == "CHARGEBACK_RISK_BLOCK"
    assert played.ran == []
    assert orphans(played.messages) == 0


def test_a_tool_that_waits_is_judged_once_before_and_once_after() -> None:
    with opened(POL) as gate:
        requests, messages = deferred(with_tools(gate, ToolTurn((SMALL, LARGE)), plain="lookup"))
        [call] = requests.approvals
        results = requests.build_results(
            approve_all=True, metadata={call.tool_call_id: {"grant": signed()}}
        )
        played = with_tools(gate, AnswerTurn(("Fine.",)))
        played.run(None, message_history=messages, deferred_tool_results=results)

        verdicts = [str(one.verdict) for one in rows(gate) if one.action_type == "refund"]
    assert [name for name, _ in played.ran] == ["refund"]
    assert verdicts == ["ESCALATE", "ALLOW"]


@pytest.mark.parametrize("last", [False, True])
def test_arguments_changed_into_a_hard_block_stop_the_other_approved_calls(last: bool) -> None:
    with opened(POL) as gate:
        requests, messages = deferred(Conversation(gate, ToolTurn((LARGE, LARGE))))
        ids = [call.tool_call_id for call in requests.approvals]
        changed = ToolApproved(override_args=dict(RISKY[1]))
        results = DeferredToolResults(
            approvals={one: changed if (one == ids[-1]) is last else ToolApproved() for one in ids},
            metadata={one: {"grant": signed()} for one in ids},
        )
        played = Conversation(gate, AnswerTurn(("Fine.",)))

        with Agent.parallel_tool_call_execution_mode("sequential"):
            error = played.refused(None, message_history=messages, deferred_tool_results=results)

    assert error.refusal.code == "CHARGEBACK_RISK_BLOCK"
    assert played.ran == []
    assert orphans(played.messages) == 0


def test_a_call_approved_at_once_is_checked_before_the_others_run() -> None:
    def approve(_ctx: Any, requests: DeferredToolRequests) -> DeferredToolResults:
        changed: dict[str, bool | ToolApproved | ToolDenied] = {
            call.tool_call_id: ToolApproved(
                override_args=dict(RISKY[1]) if call.tool_name == "refund" else None
            )
            for call in requests.approvals
        }
        return DeferredToolResults(approvals=changed)

    with opened(POL) as gate:
        handles = [HandleDeferredToolCalls(approve)]
        played = with_tools(gate, ToolTurn((SMALL, LARGE)), capabilities=handles)

        assert played.refused().refusal.code == "CHARGEBACK_RISK_BLOCK"
    assert played.ran == []


class Enlarges(AbstractCapability[Any]):
    """Another capability, which changes arguments at the last moment."""

    async def before_tool_execute(
        self, _ctx: Any, *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        """Make it more than somebody approved."""
        assert call.tool_name == tool_def.name
        return {**args, "chargeback_risk": 0.95}


def test_arguments_that_change_after_an_approval_are_judged_as_they_run() -> None:
    with opened(POL) as gate:
        requests, messages = deferred(Conversation(gate, ToolTurn((LARGE,))))
        [call] = requests.approvals
        results = requests.build_results(
            approve_all=True, metadata={call.tool_call_id: {"grant": signed()}}
        )
        played = Conversation(gate, AnswerTurn(("Fine.",)), capabilities=[Enlarges()])

        error = played.refused(None, message_history=messages, deferred_tool_results=results)

    assert error.refusal.code == "CHARGEBACK_RISK_BLOCK"
    assert played.ran == []


def test_malformed_grant_metadata_is_ignored() -> None:
    assert parse_metadata_grants("grant") == parse_metadata_grants({"grants": "all"}) == []
