"""The model of the support agent's example, with OpenAI's own client and the agent's own loop."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from adapters.fake_openai import FakeOpenAI, Reply, completion

from demur.enforce.enforcer import Enforcer
from demur.gate.gate import Gate
from demur.policy.loader import load_policy
from demur.store.opening import open_store

pytestmark = pytest.mark.adapters
FOLDER = Path(__file__).parents[2] / "examples/support_agent"


def refund_call(order: str) -> Reply:
    function = {"name": "refund", "arguments": json.dumps({"order": order})}
    return Reply(completion(None, calls=[{"id": "c1", "type": "function", "function": function}]))


def test_a_real_client_asks_waits_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    example, models = import_module("support_agent"), import_module("openai_model")
    provider = FakeOpenAI(
        refund_call("A-1"),
        Reply(completion("Done.")),
        refund_call("A-2"),
        Reply(completion("Wait.")),
    )
    with Gate(load_policy(FOLDER / "policy.yaml"), open_store(tmp_path / "demur.db")) as gate:
        model = models.OpenAIModel(provider.client(), "m1")
        agent = example.SupportAgent(Enforcer(gate), model, example.Desk(tmp_path / "desk.json"))
        assert agent.answer("ada", "A-1 and A-2, please.") == "Done."
        assert agent.answer("ada", "A-2 too.") == "Wait."

    assert agent.desk.refunds == ["A-1"]
    assert [one.call.arguments for one in agent.desk.waiting] == [{"order": "A-2"}]
    sent: list[dict[str, Any]] = provider.heard[-1]["messages"]
    assert [one["role"] for one in sent] == ["system", "user", "assistant", "tool"]
    assert sent[3]["tool_call_id"] == sent[2]["tool_calls"][0]["id"]
    assert sent[3]["content"].startswith("REFUSED: REFUND_OVER_ESCALATION_LIMIT: ")
