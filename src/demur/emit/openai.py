"""A refusal as OpenAI-style clients read one: a message's `refusal`, or a content part.

Their `refusal` is text for people. Words may be given for it; the refusal line always
stands last, where programs find it.
"""

from typing import Any

from demur.codes.registry import Registry
from demur.emit.envelope import check_refuses, from_refusal_line, nested_value
from demur.model.refusal import Refusal

__all__ = ["from_openai", "to_openai", "to_openai_part"]


def to_openai(refusal: Refusal, *, words: str | None = None) -> dict[str, Any]:
    """Return a chat message that refuses, for `choices[].message`.

    Raises:
        InputError: The code allows.
    """
    return {"role": "assistant", "content": None, "refusal": _refusal_text(refusal, words)}


def to_openai_part(refusal: Refusal, *, words: str | None = None) -> dict[str, Any]:
    """Return a content part of a Responses message that refuses, for `output[].content[]`.

    Raises:
        InputError: The code allows.
    """
    return {"type": "refusal", "refusal": _refusal_text(refusal, words)}


def from_openai(data: object, *, registry: Registry | None = None) -> Refusal | None:
    """Return the refusal in a message or part, or None; class and advice are the registry's."""
    text = nested_value(data, "refusal")
    if not isinstance(text, str):
        return None
    return from_refusal_line(text.rpartition("\n")[2], registry=registry)


def _refusal_text(refusal: Refusal, words: str | None) -> str:
    check_refuses(refusal)
    # INVARIANT: a message that refuses keeps code and detail, whatever words stand before.
    return f"{words}\n{refusal.line}" if words else refusal.line
