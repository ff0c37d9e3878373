"""What tools returned: each result is judged once, before a model reads it.

Not all of it comes from a tool that ran here. A tool may fail with a text, another capability
may answer for it, it may have run elsewhere, and a history may bring results along. So what
is about to be sent is looked through, and what was not judged yet is judged there.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic_ai.messages import ModelRequest, ModelRequestPart, ToolCallPart

from demur.enforce.ruling import Ruling
from demur.enforce.texts import texts_in
from demur.errors import InputError
from demur.integrations.pydantic_ai.messages import plain
from demur.integrations.pydantic_ai.refused import denial

__all__ = ["Results", "Unread"]

# Parts that answer a call, or an invalid output without a tool name.
_KINDS = frozenset({"tool-return", "retry-prompt", "retry-feedback"})
_OUTPUT = "output"


class Unread(NamedTuple):
    """A result that was not checked and that no model has read, with the id of its call."""

    message: ModelRequest
    place: int
    name: str
    content: Any
    call_id: str


class Results:
    """The checked results of one run."""

    def __init__(self) -> None:
        self._judged: set[tuple[str, str | None]] = set()
        self._refused: dict[tuple[str, str], Ruling] = {}

    def allow(self, name: str, content: Any) -> None:
        """Note that a model may read this content from that tool."""
        self._judged.add((name, _text(content)))

    def refuse(self, call: ToolCallPart, ruling: Ruling) -> None:
        """Note the refusal that replaces a result."""
        self.allow(call.tool_name, ruling.message)
        self._refused[call.tool_call_id, ruling.message] = ruling

    def unread(self, new: Iterable[ModelRequest]) -> list[Unread]:
        """Return the unchecked results; replace those that were refused before."""
        found = []
        for message in new:
            for place, part in enumerate(message.parts):
                if part.part_kind not in _KINDS:
                    continue
                name: str = getattr(part, "tool_name", None) or _OUTPUT
                content: Any = getattr(part, "content", None)
                one = Unread(message, place, name, content, getattr(part, "tool_call_id", ""))
                told = self._told(one)
                if told is not None:
                    _put(one, told)
                elif not self._knows(one):
                    found.append(one)
        return found

    def settle(self, one: Unread, ruling: Ruling) -> None:
        """Note an allowed result, or replace a refused one."""
        if ruling.allowed:
            self.allow(one.name, one.content)
        else:
            self.allow(one.name, ruling.message)
            _put(one, ruling)

    def _told(self, one: Unread) -> Ruling | None:
        """Return the earlier refusal of this result, or None."""
        content = one.content
        return self._refused.get((one.call_id, content)) if isinstance(content, str) else None

    def _knows(self, one: Unread) -> bool:
        text = _text(one.content)
        return text is not None and (one.name, text) in self._judged


def _put(one: Unread, ruling: Ruling) -> None:
    """Replace a result by its refusal, in the history too."""
    parts: list[ModelRequestPart] = list(one.message.parts)
    part: Any = parts[one.place]
    if getattr(part, "tool_name", None):
        parts[one.place] = denial(ruling, one.name, one.call_id)
    else:
        parts[one.place] = replace(part, content=ruling.message)
    # The framework holds the message in two lists; a copy would reach only one of them.
    one.message.parts = parts


def _text(content: Any) -> str | None:
    """Return the text of a result; None if it cannot be read."""
    if isinstance(content, str):
        return content
    try:
        return texts_in(plain(content))
    except InputError:
        return None
