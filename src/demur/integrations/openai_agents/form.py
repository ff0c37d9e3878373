"""Between the forms of the OpenAI Agents SDK and those of a ruling: texts in, outputs out."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from agents import GuardrailFunctionOutput, ToolGuardrailFunctionOutput

from demur.enforce.ruling import CheckResult
from demur.enforce.texts import extract_texts

__all__ = [
    "get_member",
    "build_output_info",
    "parse_arguments",
    "read_new_prompt",
    "output_text",
    "to_output",
    "to_tool_output",
]


class _PromptMessage(NamedTuple):
    role: Any
    text: str


def read_new_prompt(given: str | list[Any]) -> str:
    """Return the text of all user messages since the last answer."""
    if isinstance(given, str):
        return given
    said = [
        _PromptMessage(get_member(one, "role"), "\n".join(_iter_texts(get_member(one, "content"))))
        for one in given
    ]
    # A trailing assistant message is a prefill for the model, not an answer.
    while said and said[-1].role != "user":
        said.pop()
    answers = [place for place, one in enumerate(said) if one.role == "assistant"]
    last = said[answers[-1] + 1 if answers else 0 :]
    return "\n".join(one.text for one in last if one.role == "user")


def _iter_texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        texts = (get_member(part, "text") for part in content)
        yield from (text for text in texts if isinstance(text, str))


def get_member(item: Any, name: str) -> Any:
    """Return a member of an item, a dictionary or an object; None if it has none."""
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)


def output_text(output: Any) -> str:
    """Return a final output as text; for a typed output, the texts in it."""
    return output if isinstance(output, str) else extract_texts(output)


def parse_arguments(arguments: str) -> Any:
    """Return the parsed JSON arguments of a call; None if they are invalid."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return None


def build_output_info(result: CheckResult) -> dict[str, Any] | None:
    """Return a guardrail's `output_info`: the refusal and its words, or the limits that apply."""
    if result.refusal is not None:
        return {"refusal": result.envelope, "words": result.user_text}
    named = {
        "constraints": list(result.constraints),
        "obligations": [str(duty) for duty in result.obligations],
        "resources": list(result.resources),
    }
    return {name: told for name, told in named.items() if told} or None


def to_output(result: CheckResult) -> GuardrailFunctionOutput:
    """Return the output of an agent guardrail; a refusal triggers the tripwire."""
    return GuardrailFunctionOutput(build_output_info(result), tripwire_triggered=not result.allowed)


def to_tool_output(result: CheckResult) -> ToolGuardrailFunctionOutput:
    """Return the output of a tool guardrail: a soft refusal informs the model, a hard one ends."""
    info = build_output_info(result)
    if result.allowed:
        return ToolGuardrailFunctionOutput.allow(info)
    if result.is_hard:
        return ToolGuardrailFunctionOutput.raise_exception(info)
    return ToolGuardrailFunctionOutput.reject_content(result.model_message, info)
