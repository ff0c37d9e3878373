"""Requests, responses and streams that the LiteLLM guardrail changes instead of refusing them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from adapters.test_litellm import (
    after,
    answer,
    as_the_proxy_builds_it,
    asking,
    before,
    chunk,
    shown,
    streamed,
)
from litellm.types.utils import Message, ModelResponse
from support.gates import opened, stored

from demur.codes.vocabulary import DecisionOutput
from demur.enforce.opening import read_agent_policy
from demur.gate.gate import Gate
from demur.integrations.litellm import GuardrailRefused, LiteLLMGuard
from demur.integrations.litellm.guardrail import GuardrailSettingsError
from demur.integrations.litellm.reading import read_answer_texts, read_calls
from demur.policy.loader import parse_policy

pytestmark = [
    pytest.mark.litellm,
    pytest.mark.filterwarnings("ignore:Item .* is using the `ReadOnly` qualifier:UserWarning"),
]

KEY = "AKIAQ3EGRIFLV7XY2ABC"


@pytest.fixture
def gate() -> Iterator[Gate]:
    with opened(parse_policy(read_agent_policy())) as one:
        yield one


@pytest.fixture
def guardrail(gate: Gate) -> LiteLLMGuard:
    return LiteLLMGuard(gate, on_finding="redact")


def test_a_provider_gets_the_changed_request(guardrail: LiteLLMGuard, gate: Gate) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages: list[Any] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": f"Found {KEY}."},
        {"role": "user", "content": [{"type": "text", "text": f"And {KEY}."}]},
        Message(role="user", content=f"Or {KEY}."),
    ]
    data = {**asking(), "messages": messages, "extra_body": {"messages": [f"Also {KEY}."]}}
    sent = before(guardrail, data)

    assert KEY not in str(sent)
    assert str(sent).count("[removed]") == 4
    assert isinstance(sent["messages"][3], Message)
    assert KEY in messages[1]["content"]
    assert KEY in str(messages[3].content)
    outputs = [one.decision_output for one in stored(gate).find_records()]
    assert DecisionOutput.ALLOW_CONSTRAINED in outputs


def test_all_choices_of_a_response_are_changed(guardrail: LiteLLMGuard) -> None:
    response = ModelResponse(
        choices=[
            {"index": at, "message": {"role": "assistant", "content": f"{at} {KEY}."}}
            for at in range(2)
        ]
    )
    response._hidden_params["model_id"] = "m"
    changed = after(guardrail, response)

    assert read_answer_texts(changed)[:2] == ["0 [removed].", "1 [removed]."]
    assert changed._hidden_params["model_id"] == "m"


@pytest.mark.parametrize("quote", ["", '"'])
def test_arguments_of_a_call_are_changed_as_values(guardrail: LiteLLMGuard, quote: str) -> None:
    note = f"{quote}{KEY}{quote}"
    changed = after(guardrail, answer(None, ("lookup", {"note": note}), ("look", {"id": 1})))

    values = [json.loads(one.arguments) for one in read_calls(changed)]
    assert values == [{"note": f"{quote}[removed]{quote}"}, {"id": 1}]


def test_an_answer_changes_no_arguments(gate: Gate) -> None:
    guardrail = LiteLLMGuard(gate, on_finding={"output": "redact"})
    with pytest.raises(GuardrailRefused, match="SECRET_LEAK"):
        after(guardrail, answer(f"It is {KEY}.", ("lookup", {"api_key": KEY})))


@pytest.mark.parametrize(
    "response",
    [
        {"content": [{"type": "text", "text": f"It is {KEY}."}]},
        {"output": [{"type": "message", "content": [{"type": "output_text", "text": KEY}]}]},
        {"choices": [{"text": f"It is {KEY}."}]},
        {"content": [{"type": "tool_use", "id": "c", "name": "look", "input": {"note": KEY}}]},
        {"output": [{"type": "custom_tool_call", "name": "look", "input": f"Take {KEY}."}]},
    ],
    ids=["messages", "responses", "text", "tool_use", "custom"],
)
def test_responses_in_other_forms_are_changed(
    guardrail: LiteLLMGuard, response: dict[str, Any]
) -> None:
    changed = after(guardrail, response)

    assert KEY not in str(changed)
    assert "[removed]" in str(changed)


def test_a_secret_in_several_blocks_is_refused(guardrail: LiteLLMGuard) -> None:
    blocks = [{"type": "text", "text": one} for one in (KEY[:9], KEY[9:])]
    with pytest.raises(GuardrailRefused, match="SECRET_LEAK"):
        after(guardrail, {"content": blocks})


def test_an_answer_is_not_asked_for_again(gate: Gate) -> None:
    guardrail = LiteLLMGuard(gate, on_finding={"output": "reask"})
    with pytest.raises(GuardrailRefused, match="SECRET_LEAK"):
        after(guardrail, answer(f"It is {KEY}."))


def test_a_stream_is_changed(guardrail: LiteLLMGuard) -> None:
    texts = "The key ", f"is {KEY[:9]}", f"{KEY[9:]}", " indeed."
    left = streamed(guardrail, *map(chunk, texts), chunk(reason="stop"))

    assert shown(left) == "The key is [removed] indeed."
    assert KEY[9:] not in str(left)


def test_calls_and_refusals_of_a_stream_are_changed(guardrail: LiteLLMGuard) -> None:
    head = {"index": 0, "id": "c", "type": "function"}
    pieces = [
        chunk(
            tool_calls=[{**head, "function": {"name": "look", "arguments": f'{{"note": "{KEY}'}}]
        ),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": '"}'}}]),
        chunk(function_call={"name": "look", "arguments": json.dumps({"note": KEY})}),
        chunk(refusal=f"Not {KEY}."),
        chunk(reason="tool_calls"),
    ]
    left = streamed(guardrail, *pieces)
    delta = left[-1].choices[0].delta

    assert delta.tool_calls[0].function.arguments == '{"note": "[removed]"}'
    assert delta.function_call.arguments == '{"note": "[removed]"}'
    assert delta.refusal == "Not [removed]."
    assert KEY not in str(left)


def test_a_stream_in_another_form_is_refused_instead(guardrail: LiteLLMGuard) -> None:
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}}
    event["delta"] = {"type": "text_delta", "text": f"It is {KEY}."}
    [refused] = streamed(guardrail, f"data: {json.dumps(event)}\n\n".encode())

    assert isinstance(refused, GuardrailRefused)
    assert refused.code == "SECRET_LEAK"


def test_the_proxy_calls_an_mcp_tool_with_changed_arguments(guardrail: LiteLLMGuard) -> None:
    call = {**asking(), "mcp_tool_name": "look", "mcp_arguments": {"note": f"By {KEY}."}}

    assert before(guardrail, call)["modified_arguments"] == {"note": "By [removed]."}


@pytest.mark.parametrize("where", ["yaml", "file"])
def test_the_proxy_takes_the_options_from_its_yaml_or_the_settings_file(
    tmp_path: Path, where: str
) -> None:
    settings = tmp_path / "demur.toml"
    more: dict[str, Any] = {"on_finding": {"output": "mask"}, "tools": {"drop": {"deny": True}}}
    lines = ['store = ":memory:"']
    if where == "file":
        lines += ["[guards.on_finding]", 'output = "mask"', "[guards.tools.drop]", "deny = true"]
    (tmp_path / "policy.yaml").write_text(read_agent_policy())
    settings.write_text("\n".join(['policy = "policy.yaml"', *lines]))
    given = more if where == "yaml" else {}
    guardrail: Any = as_the_proxy_builds_it(demur_config=str(settings), **given)
    with guardrail.enforcer:
        changed = after(guardrail, answer(f"It is {KEY}."))
        assert read_answer_texts(changed)[0] == f"It is {'*' * 20}."
        with pytest.raises(GuardrailRefused, match="TOOL_NOT_ALLOWED"):
            after(guardrail, answer(None, ("drop", {})))


def test_shadow_mode_refuses_and_changes_nothing(gate: Gate) -> None:
    guardrail = LiteLLMGuard(gate, mode="shadow", on_finding="redact")

    assert read_answer_texts(after(guardrail, answer(f"It is {KEY}.")))[0] == f"It is {KEY}."


@pytest.mark.parametrize("on_finding", [{"RCE_RISK": "redact"}, {"retrieval": "redact"}])
def test_options_that_cannot_be_used_are_errors(gate: Gate, on_finding: Any) -> None:
    with pytest.raises(GuardrailSettingsError):
        LiteLLMGuard(gate, on_finding=on_finding)
