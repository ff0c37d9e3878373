"""Find the prompt in a JSON body, where chat APIs have it.

The sender writes the whole body: whoever writes the last message may have written those before
it, in anybody's name. So all messages are checked, unless the app says that it knows the history.
A part that cannot be read as text is refused, because a model may read it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from demur.enforce.texts import extract_texts
from demur.errors import InputError

__all__ = ["prompt_text"]

_PROMPT_FIELDS = ("system", "instructions", "prompt", "input", "messages")
_TURN_FIELDS = ("input", "messages")
# The members of messages and parts that hold their content.
_CONTENT_FIELDS = ("content", "text", "parts")
# Messages and parts of any other type hold no text, but for example a picture.
_TEXT_KINDS = (
    *("text", "input_text", "output_text", "refusal", "thinking"),
    *("message", "human", "ai", "system", "tool"),
    *("function", "function_call", "function_call_output", "tool_use", "tool_result"),
)
# Members that identify a message or part, or name its kind: one word each.
_MARK_FIELDS = ("role", "type", "id", "status", "call_id", "tool_call_id", "tool_use_id")
_MARK_PATTERN = re.compile(r"[\w.:-]{0,100}", re.ASCII)
_HELP = "pass `text=`, a function of the body"


def prompt_text(body: Any, *, trusts_history: bool = False) -> str:
    """Return the text of `system`, `instructions`, `prompt`, `input` and `messages` in a JSON body.

    Messages of all roles count. With `trusts_history`, only those since the last answer of the
    assistant do: that is for apps that know the earlier ones themselves.

    Raises:
        InputError: The body has no prompt, or a part of it is no text.
    """
    if not isinstance(body, dict):
        raise InputError("the body is not an object", help=_HELP)
    found: list[str] = []
    for name in _PROMPT_FIELDS:
        said = body.get(name)
        if trusts_history and name in _TURN_FIELDS and isinstance(said, list):
            said = _since_last_answer(said)
        if said is not None:
            found += _part_texts(said)
    if not found:
        raise InputError("the body has no prompt", help=_HELP)
    return "\n".join(found)


def _part_texts(value: Any) -> list[str]:
    """Return the texts of a value; each message and each part must have at least one."""
    if isinstance(value, list):
        found = [text for item in value for text in _part_texts(item)]
    else:
        if isinstance(value, dict) and value.get("type", "text") not in _TEXT_KINDS:
            raise InputError("a part has a type that is not text", help=_HELP)
        found = list(_value_texts(value))
    if not found:
        raise InputError("a part has no text", help=_HELP)
    return found


def _value_texts(value: Any) -> Iterator[str]:
    # INVARIANT: every text of a prompt is checked, except marks of one word.
    if isinstance(value, str):
        yield extract_texts(value)
    elif isinstance(value, list):
        for item in value:
            yield from _value_texts(item)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if not _MARK_PATTERN.fullmatch(name):
                yield extract_texts(name)
            if inner and name in _CONTENT_FIELDS:
                yield from _part_texts(inner)
            elif not _is_mark(name, inner):
                yield from _value_texts(inner)


def _is_mark(name: str, value: Any) -> bool:
    return (
        name in _MARK_FIELDS
        and isinstance(value, str)
        and _MARK_PATTERN.fullmatch(value) is not None
    )


def _since_last_answer(items: Sequence[Any]) -> list[Any]:
    """Return the items after the assistant's last answer; a trailing prefill does not count."""
    answers = [isinstance(one, dict) and one.get("role") == "assistant" for one in items]
    end = len(items)
    while end and answers[end - 1]:
        end -= 1
    return list(items[next((n + 1 for n in range(end - 1, -1, -1) if answers[n]), 0) :])
