"""What tools returned: each result is judged once, before a model reads it.

Not all of it comes from a tool that ran here. A tool may fail with a text, another capability
may answer for it, it may have run elsewhere, and a history may bring results along. So what
is about to be sent is looked through, and what was not judged yet is judged there.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic_ai.messages import ModelRequest, ModelRequestPart, ToolCallPart

from demur.enforce.ruling import CheckResult
from demur.enforce.texts import extract_texts
from demur.errors import InputError
from demur.integrations.pydantic_ai.messages import to_jsonable
from demur.integrations.pydantic_ai.refused import build_denial

__all__ = ["RunResults", "UncheckedResult"]

# Parts that answer a call, or an invalid output without a tool name.
_RESULT_KINDS = frozenset({"tool-return", "retry-prompt", "retry-feedback"})
_OUTPUT_NAME = "output"


class UncheckedResult(NamedTuple):
    """A result that was not checked and that no model has read, with the id of its call."""

    message: ModelRequest
    position: int
    name: str
    content: Any
    call_id: str


class RunResults:
    """The checked results of one run."""

    def __init__(self) -> None:
        self._checked: set[tuple[str, str | None]] = set()
        self._refused: dict[tuple[str, str], CheckResult] = {}

    def allow_content(self, name: str, content: Any) -> None:
        """Note that a model may read this content from that tool."""
        self._checked.add((name, _content_key(content)))

    def record_refusal(self, call: ToolCallPart, result: CheckResult) -> None:
        """Note the refusal that replaces a result."""
        self.allow_content(call.tool_name, result.model_message)
        self._refused[call.tool_call_id, result.model_message] = result

    def find_unchecked(self, new: Iterable[ModelRequest]) -> list[UncheckedResult]:
        """Return the unchecked results; replace those that were refused before."""
        found = []
        for message in new:
            for place, part in enumerate(message.parts):
                if part.part_kind not in _RESULT_KINDS:
                    continue
                name: str = getattr(part, "tool_name", None) or _OUTPUT_NAME
                content: Any = getattr(part, "content", None)
                one = UncheckedResult(
                    message, place, name, content, getattr(part, "tool_call_id", "")
                )
                told = self._find_refusal(one)
                if told is not None:
                    _replace_content(one, told)
                elif not self._is_checked(one):
                    found.append(one)
        return found

    def apply_result(self, unchecked: UncheckedResult, result: CheckResult) -> None:
        """Note an allowed result, or replace a refused one."""
        if result.allowed:
            self.allow_content(unchecked.name, unchecked.content)
        else:
            self.allow_content(unchecked.name, result.model_message)
            _replace_content(unchecked, result)

    def _find_refusal(self, unchecked: UncheckedResult) -> CheckResult | None:
        """Return the earlier refusal of this result, or None."""
        content = unchecked.content
        return self._refused.get((unchecked.call_id, content)) if isinstance(content, str) else None

    def _is_checked(self, unchecked: UncheckedResult) -> bool:
        text = _content_key(unchecked.content)
        return text is not None and (unchecked.name, text) in self._checked


def _replace_content(unchecked: UncheckedResult, result: CheckResult) -> None:
    """Replace a result by its refusal, in the history too."""
    parts: list[ModelRequestPart] = list(unchecked.message.parts)
    part: Any = parts[unchecked.position]
    if getattr(part, "tool_name", None):
        parts[unchecked.position] = build_denial(result, unchecked.name, unchecked.call_id)
    else:
        parts[unchecked.position] = replace(part, content=result.model_message)
    # The framework holds the message in two lists; a copy would reach only one of them.
    unchecked.message.parts = parts


def _content_key(content: Any) -> str | None:
    """Return the text of a result; None if it cannot be read."""
    if isinstance(content, str):
        return content
    try:
        return extract_texts(to_jsonable(content))
    except InputError:
        return None
