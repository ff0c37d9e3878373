"""Between the forms of the OpenAI Agents SDK and those of a ruling: texts in, outputs out."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from agents import GuardrailFunctionOutput, ToolGuardrailFunctionOutput

from demur.enforce.ruling import Ruling
from demur.enforce.texts import texts_in

__all__ = ["get", "info_of", "parsed", "prompt_of", "text_of", "to_output", "to_tool_output"]


class _Message(NamedTuple):
    role: Any
    text: str


def prompt_of(given: str | list[Any]) -> str:
    """Return the text of all user messages since the last answer."""
    if isinstance(given, str):
        return given
    said = [_Message(get(one, "role"), "\n".join(_parts(get(one, "content")))) for one in given]
    # A trailing assistant message is a prefill for the model, not an answer.
    while said and said[-1].role != "user":
        said.pop()
    answers = [place for place, one in enumerate(said) if one.role == "assistant"]
    last = said[answers[-1] + 1 if answers else 0 :]
    return "\n".join(one.text for one in last if one.role == "user")


def _parts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        texts = (get(part, "text") for part in content)
        yield from (text for text in texts if isinstance(text, str))


def get(item: Any, name: str) -> Any:
    """Return a member of an item, a dictionary or an object; None if it has none."""
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)


def text_of(said: Any) -> str:
    """Return a final output as text; for a typed output, the texts in it."""
    return said if isinstance(said, str) else texts_in(said)


def parsed(arguments: str) -> Any:
    """Return the parsed JSON arguments of a call; None if they are invalid."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return None


def info_of(ruling: Ruling) -> dict[str, Any] | None:
    """Return a guardrail's `output_info`: the refusal and its words, or the limits that apply."""
    if ruling.refusal is not None:
        return {"refusal": ruling.envelope, "words": ruling.words}
    named = {
        "constraints": list(ruling.constraints),
        "obligations": [str(duty) for duty in ruling.obligations],
        "resources": list(ruling.resources),
    }
    return {name: told for name, told in named.items() if told} or None


def to_output(ruling: Ruling) -> GuardrailFunctionOutput:
    """Return the output of an agent guardrail; a refusal triggers the tripwire."""
    return GuardrailFunctionOutput(info_of(ruling), tripwire_triggered=not ruling.allowed)


def to_tool_output(ruling: Ruling) -> ToolGuardrailFunctionOutput:
    """Return the output of a tool guardrail: a soft refusal informs the model, a hard one ends."""
    info = info_of(ruling)
    if ruling.allowed:
        return ToolGuardrailFunctionOutput.allow(info)
    if ruling.is_hard:
        return ToolGuardrailFunctionOutput.raise_exception(info)
    return ToolGuardrailFunctionOutput.reject_content(ruling.message, info)
