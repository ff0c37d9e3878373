"""What people said: which of it nobody has ruled on yet, and what stands for what was refused.

A client may choose the ids of its messages, replace one that stands in the thread already, and
put words into the model's mouth. So what was ruled on is known by its content, too.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    convert_to_messages,
)

from demur.enforce.enforcer import CallContext
from demur.enforce.ruling import CheckResult
from demur.integrations.langchain.asking import EnforcerCheck, HookSteps
from demur.integrations.langchain.messages import build_refusal_answer, content_text
from demur.integrations.langchain.notes import Seal

__all__ = [
    "CheckedMessages",
    "digest_message",
    "check_new_messages",
    "select_new_input",
    "read_added_messages",
]

_as_json = json.JSONEncoder(sort_keys=True, default=str).encode


class CheckedMessages(NamedTuple):
    """User messages after a check.

    The digests identify checked messages. After a refusal, `withheld` are the placeholders for
    the refused messages, and `answer` is the reply to them.
    """

    digests: list[str]
    withheld: list[HumanMessage]
    answer: AIMessage | None = None


def check_new_messages(
    messages: Sequence[BaseMessage],
    checked: Collection[str],
    context: CallContext,
    seal: Seal,
    others: Sequence[BaseMessage] = (),
) -> HookSteps[CheckedMessages | None]:
    """Check user messages except those already `checked`; None if there are no others.

    `others` are messages that a model reads beside the thread; they are checked, too. If
    nothing in the thread is new, nothing in it is withheld.
    """
    known = frozenset(checked)
    digests = _digest_messages(messages, seal)
    added = {digest_message(one, seal): one for one in others}
    for digest in digests.values():
        added.pop(digest, None)
    read = digests | dict(enumerate(added, start=len(messages))) if added else digests
    said = _find_new(messages, read, known)
    if not said:
        return None
    whole = [*messages, *added.values()]
    ruling = yield EnforcerCheck(
        "prompt", ("\n".join(content_text(whole[one].content) for one in said), context)
    )
    if ruling.allowed:
        return CheckedMessages(list(read.values()), [])
    said = [] if known.issuperset(digests.values()) else said
    instead = {one: _withhold_message(whole[one], ruling) for one in said if one < len(messages)}
    left = _digest_messages([instead.get(place, one) for place, one in enumerate(messages)], seal)
    return CheckedMessages(
        list(left.values()), list(instead.values()), build_refusal_answer(ruling)
    )


def select_new_input(
    messages: Sequence[BaseMessage], checked: Collection[str], seal: Seal
) -> list[BaseMessage]:
    """Return the unchecked user messages, and all user messages since the last answer.

    Several user messages in a row are read as one turn. Without new messages the list is empty.
    """
    return [
        messages[one]
        for one in _find_new(messages, _digest_messages(messages, seal), frozenset(checked))
    ]


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
    form, said = ("text", content) if isinstance(content, str) else ("json", _as_json(content))
    return seal(f"said {message.type} {form} {message.id!r} {said}")


def _is_human(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage | ChatMessage)


def _digest_messages(messages: Iterable[BaseMessage], seal: Seal) -> dict[int, str]:
    """Return the digests of user messages, by position."""
    return {at: digest_message(one, seal) for at, one in enumerate(messages) if _is_human(one)}


def _find_new(
    messages: Sequence[BaseMessage], digests: dict[int, str], checked: frozenset[str]
) -> list[int]:
    """Return the positions of unchecked user messages, and of all since the last answer."""
    if checked.issuperset(digests.values()):
        return []
    spoke = _last_answer_index(messages)
    return [at for at, one in digests.items() if at > spoke or one not in checked]


def _withhold_message(message: BaseMessage, result: CheckResult) -> HumanMessage:
    """Return the placeholder for a refused message, so that no model reads it."""
    return HumanMessage(
        f"[withheld: {result.envelope['code']}]",
        id=message.id,
        response_metadata={"refusal": result.envelope},
    )


def _last_answer_index(messages: Sequence[BaseMessage]) -> int:
    """Return the position of the last answer; trailing AI messages are prefill, not answers."""
    end = len(messages)
    while end and isinstance(messages[end - 1], AIMessage):
        end -= 1
    return max((at for at in range(end) if isinstance(messages[at], AIMessage)), default=-1)
