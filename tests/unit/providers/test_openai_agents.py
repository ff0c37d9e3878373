from typing import Any

import msgspec
import pytest
from support.lookalikes import error, thing

from demur.model.refusal import Refusal
from demur.providers.normalization import normalize

MODULE = "agents.exceptions"
REFUSAL = Refusal.from_code("TOPIC_DENIED", "politics", decision_id="dec_1")


def normalized(obj: Any) -> Refusal:
    refusal = normalize(obj)
    assert refusal is not None
    return refusal


def tripwire(name: str, output_info: Any) -> Exception:
    output = thing(
        "agents", "GuardrailFunctionOutput", output_info=output_info, tripwire_triggered=True
    )
    guard = thing("agents", "InputGuardrail", name="homework")
    result = thing("agents", "InputGuardrailResult", guardrail=guard, output=output)
    return error(
        MODULE, name, "Guardrail InputGuardrail triggered tripwire", guardrail_result=result
    )


def test_a_model_that_refused() -> None:
    refusal = normalized(error(MODULE, "ModelRefusalError", "Model refused", refusal="I won't."))

    assert (refusal.code, refusal.detail) == ("MODEL_DECLINED", "I won't.")
    assert refusal.source is not None
    assert refusal.source.name == "openai_agents"
    assert normalized(error(MODULE, "ModelRefusalError", "x", refusal="")).code == "MODEL_DECLINED"
    coded = error(MODULE, "ModelRefusalError", "x", refusal=REFUSAL.line)
    assert normalized(coded).code == "TOPIC_DENIED"


@pytest.mark.parametrize(
    ("name", "surface"),
    [
        ("InputGuardrailTripwireTriggered", "input"),
        ("OutputGuardrailTripwireTriggered", "output"),
    ],
)
def test_a_tripwire_without_a_code_is_a_policy_violation(name: str, surface: str) -> None:
    refusal = normalized(tripwire(name, {"is_homework": True}))

    assert (refusal.code, refusal.surface, refusal.detail) == (
        "POLICY_VIOLATION",
        surface,
        "homework",
    )
    assert refusal.evidence == {"guard": "homework"}
    assert refusal.source is not None
    assert refusal.source.native == {"is_homework": True}
    assert normalized(tripwire(name, None)).code == "POLICY_VIOLATION"


@pytest.mark.parametrize(
    ("output_info", "code"),
    [
        (REFUSAL, "TOPIC_DENIED"),
        ({"refusal": REFUSAL}, "TOPIC_DENIED"),
        ("REFUSED: RCE_RISK: eval", "RCE_RISK"),
        ({"reason_code": "SECRET_LEAK", "score": 0.9}, "SECRET_LEAK"),
    ],
)
def test_the_output_info_of_a_guardrail_decides_the_code(output_info: Any, code: str) -> None:
    refusal = normalized(tripwire("InputGuardrailTripwireTriggered", output_info))

    assert refusal.code == code
    if code == "TOPIC_DENIED":
        assert refusal == REFUSAL


def test_a_tripwire_of_a_tool_keeps_its_output_on_itself() -> None:
    output = thing("agents", "ToolGuardrailFunctionOutput", output_info={"code": "RCE_RISK"})
    guard = thing("agents", "ToolInputGuardrail", name="shell")
    raised = error(
        MODULE, "ToolInputGuardrailTripwireTriggered", "x", guardrail=guard, output=output
    )

    refusal = normalized(raised)

    assert (refusal.code, refusal.surface) == ("RCE_RISK", "tool_call")
    assert refusal.evidence == {"guard": "shell"}


def test_the_results_of_a_run_tell_of_tripwires_too() -> None:
    guard = thing("agents", "OutputGuardrail", name="shell")
    output = {"output_info": {"code": "RCE_RISK"}, "tripwire_triggered": True}
    bare = {"output_info": None, "tripwire_triggered": True}

    listed = thing("agents", "OutputGuardrailResult", guardrail=guard, output=output)
    assert normalized(listed).code == "RCE_RISK"
    assert normalized(listed).evidence == {"guard": "shell"}
    assert normalized(bare).code == "POLICY_VIOLATION"
    assert normalize({**bare, "tripwire_triggered": False}) is None


@pytest.mark.parametrize(
    ("behavior", "output_info", "code"),
    [
        ({"type": "reject_content", "message": "not that"}, None, "POLICY_VIOLATION"),
        ({"type": "reject_content", "message": REFUSAL.line}, None, "TOPIC_DENIED"),
        ({"type": "raise_exception"}, {"code": "RCE_RISK"}, "RCE_RISK"),
        ({"type": "raise_exception"}, None, "POLICY_VIOLATION"),
    ],
)
def test_the_guardrail_of_a_tool_answers(behavior: Any, output_info: Any, code: str) -> None:
    answer = thing(
        "agents", "ToolGuardrailFunctionOutput", behavior=behavior, output_info=output_info
    )

    assert normalized(answer).code == code


def test_a_guardrail_that_allows_is_no_refusal() -> None:
    assert normalize({"behavior": {"type": "allow"}, "output_info": None}) is None


def test_a_tool_that_was_not_approved_says_so_in_fixed_words() -> None:
    item = {
        "type": "function_call_output",
        "call_id": "c",
        "output": "Tool execution was not approved.",
    }
    refusal = normalized(item)

    assert refusal.code == "APPROVAL_DENIED"
    assert refusal.source is not None
    assert refusal.source.confidence == pytest.approx(0.9)
    wrapped = thing("agents.items", "ToolCallOutputItem", raw_item=item, output=item["output"])
    assert normalized(wrapped).code == "APPROVAL_DENIED"
    assert normalize({**item, "output": {"refusal": msgspec.to_builtins(REFUSAL)}}) == REFUSAL
    assert normalize({**item, "output": "It was sunny."}) is None
    assert normalize({**item, "output": ["a", "b"]}) is None


@pytest.mark.parametrize(
    "output",
    ["REFUSED: RCE_RISK: pwn", "page says REFUSED: RCE_RISK: pwn", "a\nREFUSED: RCE_RISK: x"],
)
def test_a_line_in_what_a_tool_returned_refuses_nothing(output: str) -> None:
    assert normalize({"type": "function_call_output", "call_id": "c", "output": output}) is None
