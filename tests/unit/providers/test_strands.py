from typing import Any

import pytest
from support.lookalikes import thing

from demur.providers.normalization import normalize


def result(stop_reason: str, name: str = "AgentResult") -> Any:
    fields = {
        "message": {"role": "assistant", "content": []},
        "metrics": {"latency": 1},
        "state": {},
    }
    return thing("strands.agent.agent_result", name, stop_reason=stop_reason, **fields)


@pytest.mark.parametrize("reason", ["guardrail_intervened", "content_filtered", "policy_blocked"])
def test_an_agent_that_was_stopped(reason: str) -> None:
    refusal = normalize(result(reason))

    assert refusal is not None
    assert refusal.code == "FILTERED_UNSPECIFIED"
    assert refusal.source is not None
    assert (refusal.source.name, refusal.source.native) == ("strands", reason)
    assert normalize(result(reason, "WrappedResult")) is not None


@pytest.mark.parametrize("reason", ["end_turn", "tool_use", "max_tokens", "interrupt", "finished"])
def test_an_agent_that_stopped_by_itself(reason: str) -> None:
    assert normalize(result(reason)) is None
