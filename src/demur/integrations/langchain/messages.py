"""LangChain messages: read their text, check new ones, write refusals into them.

A person reads the content of an `AIMessage`, a model that of a `ToolMessage`. Programs find the
envelope in `response_metadata["refusal"]` and in `artifact["refusal"]`. Clients choose message
ids, may replace messages of a thread and may add answers in the model's name, so checked
messages are recognised by content.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple, TypeVar

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
)
from langgraph.types import Command

from demur.codes.vocabulary import RefusalClass
from demur.emit.envelope import from_envelope
from demur.enforce.context import Steps
from demur.enforce.result import CheckResult
from demur.integrations._kit import is_changed_fully
from demur.integrations._kit.conversation import find_new_start
from demur.integrations.langchain.context import HookContext, Seal


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
    fields = _refusal_fields(result.envelope, result.line)
    return message.model_copy(
        update={name: {**getattr(message, name), **more} for name, more in fields.items()}
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


def answer_ended_agent(call: ToolCall, end: AIMessage) -> ToolMessage:
    """Return the reply to a call in which an agent ran, whose run a hard refusal ended."""
    artifact = {"refusal": end.response_metadata["refusal"], "words": end.content}
    return _tool_message(call, end.additional_kwargs["refusal"], artifact)


def answer_abandoned_call(call: ToolCall) -> ToolMessage:
    """Return the reply to a call whose result was lost when the run was abandoned."""
    return _tool_message(call, "no result: the run was left while another call waited", None)


def find_closing_answer(messages: Sequence[BaseMessage]) -> AIMessage | None:
    """Return the final answer if a tool reply is a hard refusal, or None."""
    for message in _tool_answers(messages):
        artifact = message.artifact if isinstance(message.artifact, dict) else {}
        refusal, words = from_envelope(artifact.get("refusal")), artifact.get("words")
        if refusal is None or not isinstance(words, str):
            continue
        if refusal.refusal_class is RefusalClass.HARD_BLOCK:
            return AIMessage(words, **_refusal_fields(artifact["refusal"], refusal.line))
    return None


def find_earlier_end(messages: Sequence[BaseMessage]) -> AIMessage | None:
    """Return the replacement of the model's last turn if the run had ended before it."""
    for index in reversed(range(len(messages))):
        if isinstance(messages[index], AIMessage):
            end = find_closing_answer(messages[:index])
            return None if end is None else end.model_copy(update={"id": messages[index].id})
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
    return {"response_metadata": {"refusal": envelope}, "additional_kwargs": {"refusal": line}}


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


M = TypeVar("M", bound=BaseMessage)
_as_json = json.JSONEncoder(sort_keys=True, default=str).encode


class CheckedMessages(NamedTuple):
    """User messages after a check.

    The digests identify checked messages. `replaced` are those of the thread that a model must
    not read: with changed texts, or after a refusal placeholders, with `answer` as the reply.
    `result` is that of the check.
    """

    digests: list[str]
    replaced: list[BaseMessage]
    answer: AIMessage | None = None
    result: CheckResult | None = None


def check_new_messages(
    messages: Sequence[BaseMessage],
    checked: Collection[str],
    hook: HookContext,
    others: Sequence[BaseMessage] = (),
) -> Steps[CheckedMessages | None]:
    """Check user messages except those already `checked`; None if there are no others.

    Several user messages in a row are read as one turn, so all since the last answer are
    checked together. `others` are messages that a model reads beside the thread; they are
    checked, too. If nothing in the thread is new, nothing in it is withheld.
    """
    seal, known = hook.seal, frozenset(checked)
    digests = _digest_messages(messages, seal)
    added = {digest_message(one, seal): one for one in others}
    for digest in digests.values():
        added.pop(digest, None)
    read = digests | dict(enumerate(added, start=len(messages))) if added else digests
    if known.issuperset(read.values()):
        return None
    start = find_new_start(messages, lambda one: isinstance(one, AIMessage))
    new = [at for at, digest in read.items() if at >= start or digest not in known]
    every = [*messages, *added.values()]
    text = "\n".join(content_text(every[at].content) for at in new)
    result = yield from hook.enforcer.prompt_steps(text, hook.context)
    changed = {at: change_message(every[at], result) for at in new}
    left = "\n".join(content_text(one.content) for one in changed.values())
    if not is_changed_fully(result, left):
        result = yield from hook.enforcer.refuse_changes().prompt_steps(text, hook.context)
    if result.allowed:
        read |= {at: digest_message(one, seal) for at, one in changed.items()}
        placed_changes = [one for at, one in changed.items() if at < len(messages)]
        replaced = [] if result.changes is None else placed_changes
        return CheckedMessages(list(read.values()), replaced, result=result)
    withheld: dict[int, HumanMessage] = {}
    if not known.issuperset(digests.values()):
        placed = (at for at in new if at < len(messages))
        withheld = {at: _withhold_message(messages[at], result) for at in placed}
    remaining = [withheld.get(at, one) for at, one in enumerate(messages)]
    kept = list(_digest_messages(remaining, seal).values())
    return CheckedMessages(kept, [*withheld.values()], build_refusal_answer(result), result)


def change_message(message: M, result: CheckResult) -> M:
    """Return a message with changed texts; the same one if nothing changes."""
    content = result.apply_changes(message.content)
    unchanged = content is message.content
    return message if unchanged else message.model_copy(update={"content": content})


def change_output(output: Any, result: CheckResult) -> Any:
    """Return what a tool returned with changed texts: a message, a command or several of them."""
    if isinstance(output, BaseMessage):
        return change_message(output, result)
    if isinstance(output, Command):
        return replace(output, update=change_output(output.update, result))
    if isinstance(output, dict):
        return {name: change_output(item, result) for name, item in output.items()}
    if isinstance(output, list | tuple):
        return type(output)(change_output(item, result) for item in output)
    return result.apply_changes(output)


def read_added_messages(
    messages: Sequence[Any], stored: Sequence[BaseMessage]
) -> list[BaseMessage]:
    """Return the user messages of a model request that are not in the state.

    Another middleware may have added them, in any format that a model takes.
    """
    known = set(map(id, stored))
    others = [one for one in messages if id(one) not in known]
    return [one for one in convert_to_messages(others) if _is_human(one)] if others else []


def digest_message(message: BaseMessage, seal: Seal) -> str:
    """Return the digest of a message: of its kind, its id and its content."""
    content = message.content
    # `!r` delimits the id, which a client chooses, from the content.
    form, text = ("text", content) if isinstance(content, str) else ("json", _as_json(content))
    return seal(f"said {message.type} {form} {message.id!r} {text}")


def _is_human(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage | ChatMessage)


def _digest_messages(messages: Iterable[BaseMessage], seal: Seal) -> dict[int, str]:
    """Return the digests of user messages, by position."""
    return {at: digest_message(one, seal) for at, one in enumerate(messages) if _is_human(one)}


def _withhold_message(message: BaseMessage, result: CheckResult) -> HumanMessage:
    """Return the placeholder for a refused message, so that no model reads it."""
    return HumanMessage(
        f"[withheld: {result.envelope['code']}]",
        id=message.id,
        response_metadata={"refusal": result.envelope},
    )
