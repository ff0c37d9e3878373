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
from demur.enforce.ruling import CheckResult

__all__ = [
    "find_closing_answer",
    "mark_declined",
    "find_earlier_end",
    "is_refused",
    "answer_abandoned_call",
    "answer_not_run",
    "list_open_calls",
    "build_refusal_answer",
    "build_call_refusal",
    "result_text",
    "content_text",
]


def content_text(content: Any) -> str:
    """Return the text of a message's content, one line for each block."""
    return content if isinstance(content, str) else "\n".join(filter(None, _iter_texts(content)))


def build_refusal_answer(result: CheckResult, replaced: AIMessage | None = None) -> AIMessage:
    """Return the refusal as an answer for the user, with the id of the `replaced` message."""
    return AIMessage(
        result.user_text,
        id=None if replaced is None else replaced.id,
        name=None if replaced is None else replaced.name,
        **_refusal_fields(result.envelope, result.line),
    )


def mark_declined(message: AIMessage, result: CheckResult) -> AIMessage:
    """Return the message of a model that refused in its own words, with refusal metadata."""
    told = _refusal_fields(result.envelope, result.line)
    return message.model_copy(
        update={name: {**getattr(message, name), **more} for name, more in told.items()}
    )


def is_refused(message: BaseMessage) -> bool:
    """Return whether the message is a refused answer."""
    return isinstance(message, AIMessage) and "refusal" in message.response_metadata


def build_call_refusal(
    result: CheckResult, call: ToolCall, replaced: ToolMessage | None = None
) -> ToolMessage:
    """Return the reply to a tool call that was refused, or whose result was."""
    artifact: dict[str, Any] = {"refusal": result.envelope}
    if result.is_hard:
        # The code that ends the run needs the words for the user.
        artifact["words"] = result.user_text
    return _tool_message(
        call, result.model_message, artifact, None if replaced is None else replaced.id
    )


def answer_not_run(call: ToolCall, because: CheckResult) -> ToolMessage:
    """Return the reply to a call that did not run because the run ended."""
    return _tool_message(call, f"not run, because the run ended: {because.line}", None)


def answer_abandoned_call(call: ToolCall) -> ToolMessage:
    """Return the reply to a call whose result was lost when the run was abandoned."""
    return _tool_message(call, "no result: the run was left while another call waited", None)


def find_closing_answer(messages: Sequence[BaseMessage]) -> AIMessage | None:
    """Return the final answer if a tool reply is a hard refusal, or None."""
    for message in _tool_answers(messages):
        told = message.artifact if isinstance(message.artifact, dict) else {}
        refusal, words = from_envelope(told.get("refusal")), told.get("words")
        hard = refusal is not None and refusal.refusal_class is RefusalClass.HARD_BLOCK
        if hard and refusal is not None and isinstance(words, str):
            return AIMessage(words, **_refusal_fields(told["refusal"], refusal.line))
    return None


def find_earlier_end(messages: Sequence[BaseMessage]) -> AIMessage | None:
    """Return the replacement of the model's last turn if the run had ended before it."""
    for place in reversed(range(len(messages))):
        if isinstance(messages[place], AIMessage):
            end = find_closing_answer(messages[:place])
            return None if end is None else end.model_copy(update={"id": messages[place].id})
    return None


def list_open_calls(messages: Sequence[BaseMessage]) -> list[ToolCall]:
    """Return the tool calls of the model's last turn that have no reply yet."""
    last = next((one for one in reversed(messages) if isinstance(one, AIMessage)), None)
    answered = {message.tool_call_id for message in _tool_answers(messages)}
    calls = [] if last is None else last.tool_calls
    return [call for call in calls if call["id"] not in answered]


def result_text(result: Any) -> str:
    """Return the text of a tool's result: a message, a command, or several of them."""
    if isinstance(result, BaseMessage):
        return content_text(result.content)
    if isinstance(result, Command):
        update = result.update
        return result_text(update.get("messages", ()) if isinstance(update, dict) else update)
    if isinstance(result, list | tuple):
        return "\n".join(filter(None, map(result_text, result)))
    return result if isinstance(result, str) else ""


def _iter_texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list | tuple):
        for block in content:
            yield from _iter_texts(block)
    elif isinstance(content, dict):
        yield from _iter_texts(content.get("text"))
        yield from _iter_texts(content.get("content"))


def _tool_answers(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return the tool replies since the model's last answer."""
    since = list(takewhile(lambda one: not isinstance(one, AIMessage), reversed(messages)))
    return [one for one in reversed(since) if isinstance(one, ToolMessage)]


def _refusal_fields(envelope: dict[str, Any], line: str) -> dict[str, dict[str, Any]]:
    """Return the message fields that hold the refusal for programs."""
    return {
        "response_metadata": {"refusal": envelope},
        "additional_kwargs": {"refusal": line},
    }


def _tool_message(
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
