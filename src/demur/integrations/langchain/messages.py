"""Messages of LangChain: what of them is looked at, and how a refusal stands in them.

A person reads the content of an `AIMessage`, a model that of a `ToolMessage`; programs find
the envelope in `response_metadata["refusal"]` and in `artifact["refusal"]`.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langgraph.types import Command

from demur.codes.vocabulary import RefusalClass
from demur.emit.envelope import from_envelope
from demur.enforce.ruling import Ruling

__all__ = [
    "closing",
    "declined",
    "ended_before",
    "is_refused",
    "left_behind",
    "not_run",
    "open_calls",
    "refused_answer",
    "refused_call",
    "returned_text",
    "text_of",
]


def text_of(content: Any) -> str:
    """Return the text of a message's content, one line for each block."""
    return content if isinstance(content, str) else "\n".join(filter(None, _texts(content)))


def refused_answer(ruling: Ruling, instead: AIMessage | None = None) -> AIMessage:
    """Return the refusal as an answer for the user, with the id of the `replaced` message."""
    return AIMessage(
        ruling.words,
        id=None if instead is None else instead.id,
        name=None if instead is None else instead.name,
        **_told(ruling.envelope, ruling.line),
    )


def declined(message: AIMessage, ruling: Ruling) -> AIMessage:
    """Return the message of a model that refused in its own words, with refusal metadata."""
    told = _told(ruling.envelope, ruling.line)
    return message.model_copy(
        update={name: {**getattr(message, name), **more} for name, more in told.items()}
    )


def is_refused(message: BaseMessage) -> bool:
    """Return whether the message is a refused answer."""
    return isinstance(message, AIMessage) and "refusal" in message.response_metadata


def refused_call(ruling: Ruling, call: ToolCall, instead: ToolMessage | None = None) -> ToolMessage:
    """Return the reply to a tool call that was refused, or whose result was."""
    artifact: dict[str, Any] = {"refusal": ruling.envelope}
    if ruling.is_hard:
        # The code that ends the run needs the words for the user.
        artifact["words"] = ruling.words
    return _answer(call, ruling.message, artifact, None if instead is None else instead.id)


def not_run(call: ToolCall, because: Ruling) -> ToolMessage:
    """Return the reply to a call that did not run because the run ended."""
    return _answer(call, f"not run, because the run ended: {because.line}", None)


def left_behind(call: ToolCall) -> ToolMessage:
    """Return the reply to a call whose result was lost when the run was abandoned."""
    return _answer(call, "no result: the run was left while another call waited", None)


def closing(messages: Sequence[BaseMessage]) -> AIMessage | None:
    """Return the final answer if a tool reply is a hard refusal, or None."""
    for message in _answers(messages):
        told = message.artifact if isinstance(message.artifact, dict) else {}
        refusal, words = from_envelope(told.get("refusal")), told.get("words")
        hard = refusal is not None and refusal.refusal_class is RefusalClass.HARD_BLOCK
        if hard and refusal is not None and isinstance(words, str):
            return AIMessage(words, **_told(told["refusal"], refusal.line))
    return None


def ended_before(messages: Sequence[BaseMessage]) -> AIMessage | None:
    """Return the replacement of the model's last turn if the run had ended before it."""
    for place in reversed(range(len(messages))):
        if isinstance(messages[place], AIMessage):
            end = closing(messages[:place])
            return None if end is None else end.model_copy(update={"id": messages[place].id})
    return None


def open_calls(messages: Sequence[BaseMessage]) -> list[ToolCall]:
    """Return the tool calls of the model's last turn that have no reply yet."""
    last = next((one for one in reversed(messages) if isinstance(one, AIMessage)), None)
    answered = {message.tool_call_id for message in _answers(messages)}
    calls = [] if last is None else last.tool_calls
    return [call for call in calls if call["id"] not in answered]


def returned_text(result: Any) -> str:
    """Return the text of a tool's result: a message, a command, or several of them."""
    if isinstance(result, BaseMessage):
        return text_of(result.content)
    if isinstance(result, Command):
        update = result.update
        return returned_text(update.get("messages", ()) if isinstance(update, dict) else update)
    if isinstance(result, list | tuple):
        return "\n".join(filter(None, map(returned_text, result)))
    return result if isinstance(result, str) else ""


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list | tuple):
        for block in content:
            yield from _texts(block)
    elif isinstance(content, dict):
        yield from _texts(content.get("text"))
        yield from _texts(content.get("content"))


def _answers(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return the tool replies since the model's last answer."""
    since = list(takewhile(lambda one: not isinstance(one, AIMessage), reversed(messages)))
    return [one for one in reversed(since) if isinstance(one, ToolMessage)]


def _told(envelope: dict[str, Any], line: str) -> dict[str, dict[str, Any]]:
    """Return the message fields that hold the refusal for programs."""
    return {
        "response_metadata": {"refusal": envelope},
        "additional_kwargs": {"refusal": line},
    }


def _answer(
    call: ToolCall, content: str, artifact: dict[str, Any] | None, id_: str | None = None
) -> ToolMessage:
    return ToolMessage(
        content,
        tool_call_id=call["id"],
        name=call["name"],
        status="error",
        artifact=artifact,
        id=id_,
    )
