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

# What answers a call, or an output that was of no use, without any tool by name.
_KINDS = frozenset({"tool-return", "retry-prompt", "retry-feedback"})
_OUTPUT = "output"


class Unread(NamedTuple):
    """A result that no model has read and nobody has judged, and the id of the call it answers."""

    message: ModelRequest
    place: int
    name: str
    content: Any
    call_id: str


class Results:
    """The results of one run that were judged."""

    def __init__(self) -> None:
        self._judged: set[tuple[str, str | None]] = set()
        self._refused: dict[tuple[str, str], Ruling] = {}

    def allow(self, name: str, content: Any) -> None:
        """Keep in mind that a model may read this from that tool."""
        self._judged.add((name, _text(content)))

    def refuse(self, call: ToolCallPart, ruling: Ruling) -> None:
        """Keep in mind what a model is told in place of a result."""
        self.allow(call.tool_name, ruling.message)
        self._refused[call.tool_call_id, ruling.message] = ruling

    def unread(self, new: Iterable[ModelRequest]) -> list[Unread]:
        """Return the results that are to be judged; those that were refused say so from now on."""
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
        """Put what a model is told in the place of a result, if the ruling refuses it."""
        if ruling.allowed:
            self.allow(one.name, one.content)
        else:
            self.allow(one.name, ruling.message)
            _put(one, ruling)

    def _told(self, one: Unread) -> Ruling | None:
        """Return the ruling that a model is told of in place of this result."""
        content = one.content
        return self._refused.get((one.call_id, content)) if isinstance(content, str) else None

    def _knows(self, one: Unread) -> bool:
        text = _text(one.content)
        return text is not None and (one.name, text) in self._judged


def _put(one: Unread, ruling: Ruling) -> None:
    """Put what the model is told in the place of a result, in the history too."""
    parts: list[ModelRequestPart] = list(one.message.parts)
    part: Any = parts[one.place]
    if getattr(part, "tool_name", None):
        parts[one.place] = denial(ruling, one.name, one.call_id)
    else:
        parts[one.place] = replace(part, content=ruling.message)
    # The framework holds the same message twice; a copy would be in one of both alone.
    one.message.parts = parts


def _text(content: Any) -> str | None:
    """Return the texts that stand for a result; None if nobody can read it."""
    if isinstance(content, str):
        return content
    try:
        return texts_in(plain(content))
    except InputError:
        return None
