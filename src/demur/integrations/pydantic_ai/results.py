"""What tools returned: each result is judged once, before a model reads it.

Not all of it comes from a tool that ran here. A tool may fail with a text, another capability
may answer for it, it may have run elsewhere, and a history may bring results along. So what
is about to be sent is looked through, and what was not judged yet is judged there.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
)

from demur.enforce.ruling import Ruling
from demur.enforce.texts import texts_in
from demur.errors import InputError
from demur.integrations.pydantic_ai.messages import plain, unanswered
from demur.integrations.pydantic_ai.refused import denial

__all__ = ["Results", "Unread"]

# What answers a call, or an output that was of no use, without any tool by name.
_KINDS = ("tool-return", "retry-prompt", "retry-feedback")
_OUTPUT = "output"


class Unread(NamedTuple):
    """A result that no model has read and nobody has judged, with the call that it is of."""

    message: ModelRequest
    place: int
    name: str
    content: Any
    call: ToolCallPart | None


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

    async def judge(
        self, messages: list[ModelMessage], by: Callable[[Unread], Awaitable[Ruling]]
    ) -> Ruling | None:
        """Replace results that are refused; return the ruling that ends the run, if one does."""
        hard = None
        for one in list(self._unread(messages)):
            ruling = await by(one)
            if ruling.allowed:
                self.allow(one.name, one.content)
            else:
                self.allow(one.name, ruling.message)
                _put(one, ruling)
                hard = hard or (ruling if ruling.is_hard else None)
        return hard

    def _unread(self, messages: list[ModelMessage]) -> Iterator[Unread]:
        calls = _calls(messages)
        for message in unanswered(messages):
            for place, part in enumerate(message.parts):
                if part.part_kind not in _KINDS:
                    continue
                name: str = getattr(part, "tool_name", None) or _OUTPUT
                content: Any = getattr(part, "content", None)
                call_id = getattr(part, "tool_call_id", "")
                one = Unread(message, place, name, content, calls.get(call_id))
                told = self._refused.get((call_id, content if isinstance(content, str) else ""))
                if told is not None:
                    _put(one, told)
                elif not self._knows(name, content):
                    yield one

    def _knows(self, name: str, content: Any) -> bool:
        text = _text(content)
        return text is not None and (name, text) in self._judged


def _calls(messages: list[ModelMessage]) -> Mapping[str, ToolCallPart]:
    return {
        call.tool_call_id: call
        for message in messages
        if isinstance(message, ModelResponse)
        for call in message.tool_calls
    }


def _put(one: Unread, ruling: Ruling) -> None:
    """Put what the model is told in the place of a result, in the history too."""
    parts: list[ModelRequestPart] = list(one.message.parts)
    part: Any = parts[one.place]
    if isinstance(part, ToolReturnPart) or one.call is not None:
        parts[one.place] = denial(ruling, one.name, part.tool_call_id)
    else:
        parts[one.place] = replace(part, content=ruling.message)
    # The framework holds the same message twice; a copy would be in one of both alone.
    one.message.parts = parts


def _text(content: Any) -> str | None:
    """Return the texts that stand for a result; None if nobody can read it."""
    try:
        return texts_in(plain(content))
    except InputError:
        return None
