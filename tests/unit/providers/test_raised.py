import pytest
from lookalikes import error

from demur.providers.mapping import load_system
from demur.providers.normalize import normalize
from demur.providers.raised import match_exception, drop_missing
from demur.providers.shape import shape_of

MODULES = {
    "guardrails_ai": "guardrails.errors",
    "langchain": "langchain_core.exceptions",
    "litellm": "litellm.exceptions",
    "llm_guard": "llm_guard.exception",
    "microsoft_agents": "semantic_kernel.exceptions",
    "openai_agents": "agents.exceptions",
    "pydantic_ai": "pydantic_ai.exceptions",
}
LISTED = [
    (name, value.value, value.code)
    for name in MODULES
    for value in load_system(name)["exception"].values
    if value.code is not None
]


@pytest.mark.parametrize(("name", "kind", "code"), LISTED)
def test_each_listed_exception_is_a_refusal_even_without_any_field(
    name: str, kind: str, code: str
) -> None:
    refusal = normalize(error(MODULES[name], kind, "stopped"))

    assert refusal is not None
    assert refusal.code == code


def test_an_exception_is_known_by_the_classes_above_it_too() -> None:
    below = error("acme.errors", "AcmeFiltered", "no", base="ContentPolicyViolationError")
    found = match_exception("litellm", shape_of(below))

    assert found is not None
    assert found.kind == "ContentPolicyViolationError"
    assert found.to_signal().native == "ContentPolicyViolationError"


def test_what_is_no_exception_was_not_raised() -> None:
    assert match_exception("litellm", shape_of({"type": "ContentPolicyViolationError"})) is None
    assert match_exception("litellm", shape_of(KeyError("x"))) is None


def test_what_was_not_said_is_left_out() -> None:
    assert drop_missing({"a": None, "b": 0, "c": ""}) == {"b": 0, "c": ""}
